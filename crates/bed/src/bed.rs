//! A running bed.

use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::time::Duration;

use kube::Client;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::cache::{Cache, CacheLock};
use crate::cgroup;
use crate::client;
use crate::control::{self, PartState, Request};
use crate::failure::{Context, Failure};
use crate::image::Archive;
use crate::keeper::{self, KeeperState};
use crate::layout::{CONTROL_PLANE, Layout, MOST_NODES, node_name};
use crate::name::BedName;
use crate::netns;
use crate::part::node::CONTAINERD_SOCKET;
use crate::patience::Patience;
use crate::pki::Pki;
use crate::program::Program;
use crate::progress::{Progress, Step};
use crate::spec::Spec;

/// Handle to a running bed. A handle from `up` owns the bed: it is taken down when the handle is dropped or its process dies. A handle from
/// [`Bed::open`] does not own it.
pub struct Bed {
    pub(crate) cache: Cache,
    pub(crate) layout: Layout,
    pub(crate) spec: Spec,
    pub(crate) state: KeeperState,
    /// Pipe to the keeper's standard input; `None` if this handle does not own the bed.
    pub(crate) leash: Option<ChildStdin>,
}

impl Bed {
    /// Opens a bed that is already up.
    pub fn open(cache: &Cache, name: &BedName) -> Result<Self, Failure> {
        let layout = Layout::new(cache, name);
        if !keeper::lives(&layout) {
            return Err(not_up(&layout));
        }
        Ok(Self { cache: cache.clone(), spec: Spec::read(&layout)?, state: KeeperState::read(&layout)?, layout, leash: None })
    }

    pub fn name(&self) -> &BedName {
        &self.layout.name
    }

    /// Paths of its files.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig()
    }

    /// Shell lines that set up `kubectl` and `slipway-bed` for this bed.
    pub fn exports(&self) -> Vec<String> {
        let own = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.to_owned())).unwrap_or_default();
        vec![
            format!("export KUBECONFIG={}", self.kubeconfig().display()),
            format!("export PATH={}:{}:$PATH", self.spec.programs.distribution.display(), own.display()),
        ]
    }

    /// A client with admin rights.
    pub async fn client(&self) -> Result<Client, Failure> {
        client::from_kubeconfig(&self.layout.kubeconfig()).await
    }

    /// A client for one of several API servers, counted from zero.
    pub async fn client_of(&self, api_server: u8) -> Result<Client, Failure> {
        let context = if api_server == 0 { "bed".to_owned() } else { format!("bed-{}", api_server + 1) };
        client::for_context(&self.layout.kubeconfig(), Some(context)).await
    }

    /// A kubectl command with admin rights.
    pub fn kubectl(&self) -> Program {
        Program::new(self.spec.programs.distribution.join("kubectl")).env("KUBECONFIG", self.layout.kubeconfig())
    }

    /// The `nsenter` prefix that runs a command inside the bed, or inside one of its nodes.
    pub fn enter(&self, node: Option<u8>) -> Result<Vec<String>, Failure> {
        let namespaces = |pid: u32| {
            let mut words: Vec<String> = ["nsenter", "--mount", "--net", "--uts", "--ipc", "--cgroup"].map(str::to_owned).to_vec();
            words.push(format!("--target={pid}"));
            // `unshare` itself stays in its parent's PID namespace; only its children are in the new one.
            words.push(format!("--pid=/proc/{pid}/ns/pid_for_children"));
            words.push("--".to_owned());
            words
        };
        let mut words = namespaces(self.state.handle);
        if let Some(index) = node {
            let parts = control::ask(&self.layout.control(), &Request::Parts)?;
            let name = node_name(index);
            let pid = parts.iter().find_map(|part| match part.life {
                control::Life::Running { pid } if part.name == name => u32::try_from(pid).ok(),
                _ => None,
            });
            words.extend(namespaces(pid.ok_or_else(|| Failure::new(format!("bed `{}` has no running node {name}", self.name())))?));
        }
        Ok(words)
    }

    /// A function that listens on the control plane's address inside the bed, once per call. Pods can reach a test's own server there.
    pub fn listener(&self, port: u16) -> impl Fn() -> Result<TcpListener, Failure> + Send + 'static {
        let handle = self.state.handle;
        move || netns::listen(handle, (CONTROL_PLANE, port).into())
    }

    /// Imports images into every running node, for a bed that was brought up before they were built.
    pub fn load_images(&self, archives: &[Archive], step: &Step) -> Result<(), Failure> {
        let nodes = self.running_nodes()?;
        for (index, archive) in nodes.iter().flat_map(|index| archives.iter().map(move |archive| (*index, archive))) {
            let words = self.enter(Some(index))?;
            let import = ["ctr", "--address", CONTAINERD_SOCKET, "--namespace", "k8s.io", "images", "import"];
            Program::new(&words[0]).args(&words[1..]).args(import).arg(&archive.path).run(step)?;
        }
        Ok(())
    }

    fn running_nodes(&self) -> Result<Vec<u8>, Failure> {
        let parts = control::ask(&self.layout.control(), &Request::Parts)?;
        let is_running = |name: &str| parts.iter().any(|part| part.name == name && matches!(part.life, control::Life::Running { .. }));
        Ok((1..=MOST_NODES).filter(|index| is_running(&node_name(*index))).collect())
    }

    /// State of every part of the bed and of its nodes.
    pub fn parts(&self) -> Result<Vec<PartState>, Failure> {
        let mut parts = control::ask(&self.layout.control(), &Request::Parts)?;
        for index in self.running_nodes()? {
            let node = self.layout.node(index);
            // A node that is just starting has no socket yet.
            if let Ok(inside) = control::ask(&node.control(), &Request::Parts) {
                parts.extend(inside.into_iter().map(|part| PartState { name: format!("{}/{}", node.name(), part.name), ..part }));
            }
        }
        Ok(parts)
    }

    /// Starts another node and returns its number. Kubernetes sees it some seconds later. Several processes may call this concurrently.
    pub fn add_node(&self) -> Result<u8, Failure> {
        let _lock = self.lock_nodes()?;
        let index = (1..=MOST_NODES)
            .find(|index| !self.layout.node(*index).root.exists())
            .ok_or_else(|| Failure::new(format!("a bed has at most {MOST_NODES} nodes")))?;
        self.start_node(index)?;
        Ok(index)
    }

    /// Starts a new node, or restarts a killed one with its disk.
    pub fn start_node(&self, index: u8) -> Result<(), Failure> {
        let pki = Pki::at(self.layout.pki());
        if !pki.cert(&node_name(index)).exists() {
            pki.create_node(index)?;
        }
        control::ask(&self.layout.control(), &Request::AddNode(index)).map(drop)
    }

    /// Kills a node as a power cut would.
    pub fn kill_node(&self, index: u8) -> Result<(), Failure> {
        control::ask(&self.layout.control(), &Request::Kill(node_name(index))).map(drop)
    }

    /// Kills a node if it is running; its files stay.
    pub fn end_node(&self, index: u8) -> Result<(), Failure> {
        if self.running_nodes()?.contains(&index) {
            self.kill_node(index)?;
        }
        Ok(())
    }

    /// Kills a node and removes its control groups and files, so that its number is free for another. The caller must delete the Kubernetes node
    /// first.
    pub fn remove_node(&self, index: u8) -> Result<(), Failure> {
        let _lock = self.lock_nodes()?;
        self.end_node(index)?;
        cgroup::remove(&format!("{}/{}", self.layout.cgroup(), node_name(index)))?;
        // The bed's first process must have reaped the node before another node can take its number.
        while self.running_nodes()?.contains(&index) {
            std::thread::sleep(Duration::from_millis(10));
        }
        remove_folder(&self.layout.node(index).root)
    }

    fn lock_nodes(&self) -> Result<CacheLock, Failure> {
        self.cache.lock(&format!("nodes-{}", self.name()), &Progress::Quiet.step("waiting for another node to start"))
    }

    /// Kills one daemon of a node (`kubelet`, `containerd`, `kube-proxy`); its pods keep running.
    pub fn kill_node_part(&self, index: u8, part: &str) -> Result<(), Failure> {
        control::ask(&self.layout.node(index).control(), &Request::Kill(part.to_owned())).map(drop)
    }

    /// Freezes every process of a node, its pods included, until the node is thawed.
    pub fn freeze_node(&self, index: u8) -> Result<(), Failure> {
        cgroup::freeze(&format!("{}/{}", self.layout.cgroup(), node_name(index)), true)
    }

    pub fn thaw_node(&self, index: u8) -> Result<(), Failure> {
        cgroup::freeze(&format!("{}/{}", self.layout.cgroup(), node_name(index)), false)
    }

    /// Memory used by all its processes in bytes, or `None` if it cannot be read.
    pub fn memory(&self) -> Option<u64> {
        cgroup::memory(&self.layout.cgroup())
    }

    /// Keeps the bed up after this handle and this process are gone.
    pub fn detach(&mut self) -> Result<(), Failure> {
        if let Some(mut leash) = self.leash.take() {
            writeln!(leash, "{}", keeper::DETACH).context(|| "could not let go of the bed".to_owned())?;
        }
        Ok(())
    }

    /// Takes the bed down and removes everything that belongs to it.
    pub fn down(mut self) -> Result<(), Failure> {
        self.leash = None;
        take_down(&self.cache, &self.layout)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        if self.leash.take().is_some()
            && let Err(failure) = take_down(&self.cache, &self.layout)
        {
            eprintln!("{failure}");
        }
    }
}

/// Kills a bed if it is running and removes its files; safe to repeat.
pub fn take_down(cache: &Cache, layout: &Layout) -> Result<(), Failure> {
    kill_keeper(layout)?;
    cgroup::remove(&layout.cgroup())?;
    remove_folder(&layout.root)?;
    // The sweeper removes the same control groups. Once it is done, no process of the bed is left.
    let _lock = cache.lock(&keeper::sweeper_lock(layout), &Progress::Quiet.step("waiting for the sweeper"))?;
    Ok(())
}

fn kill_keeper(layout: &Layout) -> Result<(), Failure> {
    if !keeper::lives(layout) {
        return Ok(());
    }
    // A keeper without a state file is still starting: it writes the file within a moment or dies.
    let mut patience = Patience::start();
    while keeper::lives(layout) {
        if let Ok(state) = KeeperState::read(layout)
            && let Some(pid) = i32::try_from(state.keeper).ok().and_then(Pid::from_raw)
            && let Ok(handle) = pidfd_open(pid, PidfdFlags::empty())
        {
            // Fails only if the process is already gone.
            let _ = pidfd_send_signal(&handle, Signal::KILL);
        }
        if patience.is_exhausted() {
            return Err(Failure::new(format!("bed `{}` does not end", layout.name))
                .advise(format!("look at the processes that hold {}", layout.keeper_lock().display())));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

fn remove_folder(root: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(root) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::new(format!("could not remove {}: {error}", root.display())))
        }
        _ => Ok(()),
    }
}

/// The reason a bed cannot be used, with a remedy.
pub fn not_up(layout: &Layout) -> Failure {
    let name = &layout.name;
    if layout.root.exists() {
        return Failure::new(format!("bed `{name}` died; its logs are in {}", layout.root.join("log").display()))
            .advise(format!("`slipway-bed up --name {name}` starts it afresh, `slipway-bed down --name {name}` removes what is left"));
    }
    Failure::new(format!("there is no bed `{name}`")).advise(format!("`slipway-bed up --name {name}`"))
}
