//! The one process of a bed that runs outside its namespaces. It is their parent, forwards client connections into them and provisions volumes.
//!
//! It lives as long as the bed: the bed is up while the keeper holds its lock. When the keeper dies for any reason, the namespaces die with it (see
//! `ns::stage`), and a sweeper that it started earlier removes the empty control groups.

use std::fs::{File, TryLockError};
use std::io::{BufRead, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::cache::Cache;
use crate::cgroup;
use crate::client;
use crate::failure::{Context, Failure};
use crate::layout::{API_PORT, CONTROL_PLANE, Layout};
use crate::netns::Connector;
use crate::ns;
use crate::patience::Patience;
use crate::pki::Pki;
use crate::progress::{Progress, seconds};
use crate::provision;
use crate::spec::{Extent, Spec};

/// Line sent over the leash if the bed is to outlive the process that brought it up.
pub const DETACH: &str = "detach";
/// Line that the keeper prints once the namespaces are set up.
pub const STANDING: &str = "standing";

/// State of a running bed, for other processes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct KeeperState {
    pub keeper: u32,
    /// Process whose PID gives access to the bed's namespaces.
    pub handle: u32,
    /// Host port of each API server.
    pub ports: Vec<u16>,
}

impl KeeperState {
    pub fn read(layout: &Layout) -> Result<Self, Failure> {
        let path = layout.keeper_state();
        let what = || format!("could not read {}", path.display());
        let text = std::fs::read_to_string(&path).context(what)?;
        serde_json::from_str(&text).context(what)
    }
}

/// True if a keeper of this bed is alive.
pub fn lives(layout: &Layout) -> bool {
    let Ok(file) = File::open(layout.keeper_lock()) else { return false };
    matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
}

/// Runs a bed until it dies or its leash is cut. The leash is standard input; the process that brings the bed up holds the other end.
pub fn keep(cache: &Cache, layout: &Layout) -> Result<(), Failure> {
    let lock = File::create(layout.keeper_lock()).context(|| format!("could not open {}", layout.keeper_lock().display()))?;
    if lock.try_lock().is_err() {
        return Err(Failure::new(format!("bed `{}` is already up", layout.name)));
    }
    let spec = Spec::read(layout)?;
    start_sweeper(cache, layout)?;
    let inner = ["bed".to_owned(), layout.root.display().to_string()];
    // Spawned from the main thread, which lives as long as this process: the child is killed when the thread that created it ends.
    let mut child = ns::stage_command(&layout.cgroup(), &inner)?
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .context(|| "could not start the bed's namespaces".to_owned())?;
    wait_for_namespaces(layout, &mut child)?;
    let connector = Connector::enter(child.id())?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context(|| "could not start the keeper's runtime".to_owned())?;
    let outcome = runtime.block_on(serve(layout, &spec, connector, child.id(), wait_for_end(child)));
    // Threads may still wait for the leash or the child; they and the bed end with the process.
    runtime.shutdown_background();
    drop(lock);
    outcome
}

async fn serve(
    layout: &Layout,
    spec: &Spec,
    connector: Connector,
    handle: u32,
    end: tokio::sync::oneshot::Receiver<String>,
) -> Result<(), Failure> {
    let mut ports = Vec::new();
    for index in 0..spec.api_servers {
        let wanted = if spec.port == 0 { 0 } else { spec.port + u16::from(index) };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, wanted)).await.map_err(|error| {
            Failure::new(format!("port {wanted} of this machine cannot be used: {error}"))
                .advise("another --port, or none, and a free one is chosen")
        })?;
        let address = listener.local_addr().context(|| "could not read our own address".to_owned())?;
        ports.push(address.port());
        let inside = SocketAddr::from((CONTROL_PLANE, API_PORT + u16::from(index)));
        tokio::spawn(forward(listener, connector.clone(), inside));
    }
    let servers: Vec<_> = ports.iter().map(|port| format!("https://127.0.0.1:{port}")).collect();
    Pki::at(layout.pki()).write_kubeconfig("admin", &layout.kubeconfig(), &servers)?;
    let state = KeeperState { keeper: std::process::id(), handle, ports };
    let text = serde_json::to_string(&state).context(|| "could not write the keeper's state".to_owned())?;
    std::fs::write(layout.keeper_state(), text).context(|| format!("could not write {}", layout.keeper_state().display()))?;
    announce();
    let provision = async {
        match spec.extent {
            Extent::Cluster { .. } => provision::run(client::from_kubeconfig(&layout.kubeconfig()).await?, layout.volumes()).await,
            // Without nodes, no pod can use a volume.
            Extent::ApiOnly { .. } => std::future::pending().await,
        }
        Ok(())
    };
    tokio::select! {
        outcome = provision => outcome,
        how = end => Err(Failure::new(format!("the bed's namespaces ended: {}", how.unwrap_or_default()))),
        () = leash_cut() => Ok(()),
    }
}

/// Forwards connections from a port of the machine into the bed.
async fn forward(listener: TcpListener, connector: Connector, inside: SocketAddr) {
    loop {
        let Ok((mut outer, _)) = listener.accept().await else { continue };
        let connector = connector.clone();
        tokio::spawn(async move {
            // If this fails, the client sees its connection closed, as with any server that is not up yet.
            if let Ok(mut inner) = connector.connect(inside).await {
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            }
        });
    }
}

fn announce() {
    let mut out = std::io::stdout();
    let _ = writeln!(out, "{STANDING}").and_then(|()| out.flush());
}

fn wait_for_namespaces(layout: &Layout, child: &mut Child) -> Result<(), Failure> {
    let mut patience = Patience::start();
    while !layout.control().exists() {
        if let Ok(Some(status)) = child.try_wait() {
            return Err(Failure::new(format!("the bed's first process ended ({status})")));
        }
        if patience.is_exhausted() {
            return Err(Failure::new(format!("the bed's namespaces did not stand within {}", seconds(patience.elapsed()))));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn wait_for_end(mut child: Child) -> tokio::sync::oneshot::Receiver<String> {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let how = child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let _ = sender.send(how);
    });
    receiver
}

/// Resolves when the holder of the leash is gone without having detached.
async fn leash_cut() {
    let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
    std::thread::spawn(move || {
        let detached = std::io::stdin().lock().lines().map_while(Result::ok).any(|line| line == DETACH);
        if detached {
            // Detached: keep the sender forever, so that the receiver never resolves.
            loop {
                std::thread::park();
            }
        }
        drop(sender);
    });
    let _ = receiver.await;
}

fn start_sweeper(cache: &Cache, layout: &Layout) -> Result<(), Failure> {
    let program = std::env::current_exe().context(|| "could not find our own program".to_owned())?;
    Command::new(program)
        .args(["inside", "sweep"])
        .arg(cache.root())
        .arg(layout.name.as_str())
        .arg(std::process::id().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        // Own process group: a signal to the keeper's group must not kill the process that cleans up after it.
        .process_group(0)
        .spawn()
        .context(|| "could not start the sweeper".to_owned())?;
    Ok(())
}

/// Waits until the keeper is dead, then removes the control groups that its processes leave behind.
pub fn sweep(cache: &Cache, layout: &Layout, keeper: i32) -> Result<(), Failure> {
    let _lock = cache.lock(&sweeper_lock(layout), &Progress::Quiet.step("sweeping"))?;
    // If there is no such process, there is nothing to wait for.
    if let Some(pid) = Pid::from_raw(keeper)
        && let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
    {
        let mut fds = [PollFd::new(&handle, PollFlags::IN)];
        while let Err(rustix::io::Errno::INTR) = poll(&mut fds, None) {}
    }
    cgroup::remove(&layout.cgroup())
}

/// Name of the lock that a bed's sweeper holds from start to end. The next bed of that name waits for it.
pub fn sweeper_lock(layout: &Layout) -> String {
    format!("sweep-{}", layout.name)
}
