//! Brings a bed up: namespaces, control plane, nodes, DNS; each step is timed.

use std::fs;
use std::future::Future;
use std::io::BufRead;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::bed::{Bed, take_down};
use crate::cache::Cache;
use crate::control::{self, Request, first_dead};
use crate::doctor;
use crate::failure::{Context, Failure};
use crate::image::{self, Archive, Image, Inputs};
use crate::keeper::{self, KeeperState};
use crate::layout::{DNS_SERVICE, Layout};
use crate::name::BedName;
use crate::netns;
use crate::part::control_plane;
use crate::patience::Patience;
use crate::pki::Pki;
use crate::progress::{Progress, Step, seconds};
use crate::spec::{Extent, Programs, Spec};
use crate::tool;

const POLL: Duration = Duration::from_millis(50);

/// A requested bed.
#[derive(Clone, Debug)]
pub struct Wanted {
    pub name: BedName,
    pub extent: Extent,
    /// Number of API servers on the one etcd.
    pub api_servers: u8,
    /// Host port of the first API server; zero lets the kernel choose.
    pub port: u16,
    /// Images that every node has from the start, besides those of the cluster itself.
    pub images: Vec<Image>,
    pub progress: Progress,
}

impl Wanted {
    pub fn cluster(name: BedName, nodes: u8) -> Self {
        Self { name, extent: Extent::Cluster { nodes }, api_servers: 1, port: 0, images: Vec::new(), progress: Progress::Quiet }
    }

    pub fn api_only(name: BedName) -> Self {
        Self { extent: Extent::ApiOnly { controllers: false }, ..Self::cluster(name, 0) }
    }
}

/// Programs and images that a bed needs to start.
#[derive(Debug)]
pub struct Prepared {
    pub programs: Programs,
    /// Template of a node's containerd root; empty if there are no nodes.
    pub golden: PathBuf,
}

/// Installs and builds everything a bed needs; takes a fraction of a second if nothing is missing.
pub fn prepare(cache: &Cache, wanted: &Wanted) -> Result<Prepared, Failure> {
    wanted.extent.check()?;
    doctor::check(cache)?;
    let programs = tool::ensure(cache, wanted.progress)?;
    let golden = match wanted.extent {
        Extent::Cluster { .. } => {
            let images: Vec<_> = [Image::Pause, Image::CoreDns].into_iter().chain(wanted.images.iter().copied()).collect();
            image::golden(cache, wanted.progress, &build_images(cache, wanted.progress, &images)?)?
        }
        Extent::ApiOnly { .. } => PathBuf::new(),
    };
    Ok(Prepared { programs, golden })
}

/// Builds the missing ones of these images and returns all of them.
pub fn build_images(cache: &Cache, progress: Progress, images: &[Image]) -> Result<Vec<Archive>, Failure> {
    let coredns = if images.contains(&Image::CoreDns) { Some(tool::go::ensure_coredns(cache, progress)?) } else { None };
    // Built by cargo into the same folder as the bed's own program.
    let operator = if images.contains(&Image::Operator) { Some(program()?.with_file_name("slipway")) } else { None };
    image::build(cache, progress, images, &Inputs { coredns, operator })
}

/// Brings a bed up; the returned handle owns it.
pub async fn up(cache: &Cache, wanted: &Wanted) -> Result<Bed, Failure> {
    let Prepared { programs, golden } = prepare(cache, wanted)?;
    let layout = Layout::new(cache, &wanted.name);
    // Two concurrent `up` of one name: the second waits here, then finds the first one's bed.
    let waiting = wanted.progress.step("waiting for an earlier bed of this name");
    let _lock = cache.lock(&format!("up-{}", wanted.name), &waiting)?;
    if keeper::lives(&layout) {
        return Err(already_up(cache, wanted));
    }
    let swept = cache.lock(&keeper::sweeper_lock(&layout), &waiting)?;
    take_remains_down(&layout)?;
    drop(swept);
    waiting.nothing_to_do();

    let spec = Spec { extent: wanted.extent, api_servers: wanted.api_servers.max(1), port: wanted.port, programs, golden };
    let step = wanted.progress.step("bed: namespaces and certificates");
    let pki = prepare_folder(&layout, &spec)?;
    let mut bed = start_keeper(cache, &layout, &spec, &step)?;
    step.done();
    let outcome = bring_up(&mut bed, &pki, wanted.progress).await;
    match outcome {
        Ok(()) => Ok(bed),
        Err(failure) => {
            // The logs are needed now, so only the processes are killed.
            bed.leash = None;
            Err(failure)
        }
    }
}

async fn bring_up(bed: &mut Bed, pki: &Pki, progress: Progress) -> Result<(), Failure> {
    let (layout, spec) = (&bed.layout, &bed.spec);
    let socket = layout.control();
    let step = progress.step("bed: etcd and API server");
    control::ask(&socket, &Request::Start(control_plane::etcd(layout, spec)))?;
    for index in 0..spec.api_servers {
        control::ask(&socket, &Request::Start(control_plane::apiserver(layout, spec, pki, index)))?;
    }
    // Nodes start right away: everything on them retries until the API server responds.
    for index in 1..=spec.extent.nodes() {
        bed.start_node(index)?;
    }
    for index in 0..spec.api_servers {
        let client = bed.client_of(index).await?;
        step.waits_for(format!("/readyz of API server {}", index + 1));
        eventually(bed, "the API server to be ready", || is_ready(&client)).await?;
    }
    if spec.extent.has_controllers() {
        control::ask(&socket, &Request::Start(control_plane::controller_manager(layout, spec, pki)))?;
    }
    step.done();
    if let Extent::Cluster { nodes } = spec.extent {
        control::ask(&socket, &Request::Start(control_plane::scheduler(layout, spec, pki)))?;
        cluster(bed, nodes, progress).await?;
    }
    fs::write(layout.up_marker(), "").context(|| format!("could not write {}", layout.up_marker().display()))
}

async fn cluster(bed: &Bed, nodes: u8, progress: Progress) -> Result<(), Failure> {
    let step = progress.step(format!("bed: {nodes} nodes Ready"));
    let manifest = include_str!("../manifests/cluster.yaml").replace("@COREDNS_IMAGE@", &Image::CoreDns.reference());
    bed.kubectl().args(["apply", "--server-side", "--filename=-"]).feed(&manifest)?;
    let client = bed.client().await?;
    step.waits_for("kubelets to report their nodes Ready");
    eventually(bed, "all nodes to be Ready", || ready_nodes_are(&client, usize::from(nodes))).await?;
    step.done();
    let step = progress.step("bed: DNS answers");
    step.waits_for("CoreDNS");
    eventually(bed, "DNS to answer", async || netns::resolves(bed.state.handle, DNS_SERVICE, "kubernetes.default.svc.cluster.local"))
        .await?;
    step.done();
    Ok(())
}

/// Polls until the answer is true. If a part ended by itself, fails at once with that part's log.
async fn eventually<F: Future<Output = Result<bool, Failure>>>(bed: &Bed, what: &str, ask: impl Fn() -> F) -> Result<(), Failure> {
    let mut patience = Patience::start();
    while !ask().await? {
        if !keeper::lives(&bed.layout) {
            return Err(Failure::new(format!("the bed died while it waited for {what}")).with_log(&bed.layout.log("keeper")));
        }
        if let Some(dead) = first_dead(&bed.parts()?) {
            return Err(dead.advise("`slipway-bed doctor`; the whole log says more"));
        }
        if patience.is_exhausted() {
            return Err(Failure::new(format!("waited {} for {what}, in vain", seconds(patience.elapsed())))
                .with_log(&bed.layout.log("kube-apiserver"))
                .advise(format!("the logs in {}", bed.layout.root.join("log").display())));
        }
        tokio::time::sleep(POLL).await;
    }
    Ok(())
}

async fn is_ready(client: &Client) -> Result<bool, Failure> {
    let request = http::Request::get("/readyz").body(Vec::new()).context(|| "could not ask for /readyz".to_owned())?;
    // Refused connections and failing checks are normal during the start.
    Ok(client.request_text(request).await.is_ok())
}

async fn ready_nodes_are(client: &Client, wanted: usize) -> Result<bool, Failure> {
    let nodes = Api::<Node>::all(client.clone()).list(&ListParams::default()).await.context(|| "could not list nodes".to_owned())?;
    let is_ready = |node: &&Node| {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        conditions.is_some_and(|list| list.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
    };
    Ok(nodes.items.iter().filter(is_ready).count() == wanted)
}

fn prepare_folder(layout: &Layout, spec: &Spec) -> Result<Pki, Failure> {
    let make = |path: PathBuf| fs::create_dir_all(&path).context(|| format!("could not make {}", path.display()));
    make(layout.root.join("log"))?;
    make(layout.volumes())?;
    spec.write(layout)?;
    let policy = layout.root.join("audit-policy.yaml");
    fs::write(&policy, control_plane::AUDIT_POLICY).context(|| format!("could not write {}", policy.display()))?;
    let pki = Pki::at(layout.pki());
    pki.create()?;
    Ok(pki)
}

fn start_keeper(cache: &Cache, layout: &Layout, spec: &Spec, step: &Step) -> Result<Bed, Failure> {
    let log = layout.log("keeper");
    let errors = fs::File::create(&log).context(|| format!("could not write {}", log.display()))?;
    let mut child: Child = Command::new(copy_program(layout)?)
        .args(["inside", "keep"])
        .arg(cache.root())
        .arg(layout.name.as_str())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        // Own process group, so that the terminal's Ctrl-C does not reach it: only the leash ends it.
        .process_group(0)
        .spawn()
        .context(|| "could not start the bed's keeper".to_owned())?;
    let leash = child.stdin.take();
    step.waits_for("the bed's namespaces");
    let mut word = String::new();
    if let Some(out) = child.stdout.take() {
        std::io::BufReader::new(out).read_line(&mut word).context(|| "could not hear the bed's keeper".to_owned())?;
    }
    if word.trim() != keeper::STANDING {
        return Err(Failure::new("the bed's keeper ended before the namespaces stood").with_log(&log).advise("`slipway-bed doctor`"));
    }
    // This child is not waited for: a keeper outlives this process or is killed by it, and init reaps it.
    drop(child);
    let state = KeeperState::read(layout)?;
    Ok(Bed { cache: cache.clone(), layout: layout.clone(), spec: spec.clone(), state, leash })
}

/// Copies the bed's own program into its folder. The bed's processes start further ones from it while the bed lives, and cargo may replace the
/// original in the meantime.
fn copy_program(layout: &Layout) -> Result<PathBuf, Failure> {
    let copy = layout.root.join("slipway-bed");
    fs::copy(program()?, &copy).context(|| format!("could not write {}", copy.display()))?;
    Ok(copy)
}

/// The bed's own program: in the folder of this process's program, or one level above, because tests are built into `deps`.
fn program() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe().context(|| "could not find our own program".to_owned())?;
    own.ancestors()
        .skip(1)
        .take(2)
        .map(|folder| folder.join("slipway-bed"))
        .find(|path| path.exists())
        .ok_or_else(|| Failure::new("the program slipway-bed is not built").advise("`cargo build --package slipway-bed`"))
}

/// Removes the leftovers of a dead bed.
fn take_remains_down(layout: &Layout) -> Result<(), Failure> {
    crate::cgroup::remove(&layout.cgroup())?;
    if layout.root.exists() {
        fs::remove_dir_all(&layout.root).context(|| format!("could not remove the remains of an earlier bed {}", layout.root.display()))?;
    }
    Ok(())
}

fn already_up(cache: &Cache, wanted: &Wanted) -> Failure {
    let name = &wanted.name;
    let size = match Bed::open(cache, name).map(|bed| bed.spec.extent) {
        Ok(Extent::Cluster { nodes }) => format!(" with {nodes} nodes"),
        Ok(Extent::ApiOnly { .. }) => " with API servers only".to_owned(),
        Err(_) => String::new(),
    };
    Failure::new(format!("bed `{name}` is already up{size}"))
        .advise(format!("use it, or take it down first: `slipway-bed down --name {name}`"))
}

/// Takes a bed down by name; returns true if there was one.
pub fn down(cache: &Cache, name: &BedName) -> Result<bool, Failure> {
    let layout = Layout::new(cache, name);
    let existed = layout.root.exists();
    take_down(cache, &layout)?;
    Ok(existed)
}
