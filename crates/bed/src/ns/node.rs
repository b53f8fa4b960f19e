//! First process of a node: sets up what a separate machine would have, then starts containerd, kubelet and kube-proxy.

use std::fs;
use std::path::Path;

use rustix::mount::{MountFlags, mount, mount_bind};

use super::setup::{ip, net_sysctl, private_root, share_mounts};
use super::supervisor::{Supervisor, wait_for_file};
use crate::cgroup;
use crate::failure::{Context, Failure};
use crate::layout::{CONTROL_PLANE, Layout, NodeLayout, node_address};
use crate::part::node as part;
use crate::pki::Pki;
use crate::program::Program;
use crate::spec::Spec;

/// Files below `/proc/sys` that the kubelet sets although they belong to the whole machine, with the values it wants.
///
/// The kubelet exits if it cannot write them, and a read-only `/proc/sys` does not help. So each is covered by a small file that already holds the
/// wanted value. The kubelet finds that value and the machine keeps its own.
const MACHINE_SYSCTLS: [(&str, &str); 6] = [
    ("vm/overcommit_memory", "1"),
    ("vm/panic_on_oom", "0"),
    ("kernel/panic", "10"),
    ("kernel/panic_on_oops", "1"),
    ("kernel/keys/root_maxkeys", "1000000"),
    ("kernel/keys/root_maxbytes", "25000000"),
];

/// Sets up the namespaces, starts the node's parts and supervises them; returns only on failure.
pub fn run(layout: &Layout, index: u8) -> Failure {
    match start(layout, index) {
        Ok(supervisor) => supervisor.run(|_, _| Err(Failure::new("this request is not for a node"))),
        Err(failure) => failure,
    }
}

fn start(layout: &Layout, index: u8) -> Result<Supervisor, Failure> {
    let spec = Spec::read(layout)?;
    let node = layout.node(index);
    let hierarchies = cgroup::mounted()?;
    private_root(&node.name())?;
    // A new network namespace needs a new sysfs, which hides the control groups mounted below the old one.
    mount("sysfs", "/sys", "sysfs", MountFlags::RDONLY, None).context(|| "could not mount sysfs".to_owned())?;
    cgroup::mount_all(&hierarchies)?;
    unpack_images(&spec.golden, &node)?;
    bind(&node.lib(), "/var/lib")?;
    bind(&node.log_folder(), "/var/log")?;
    // Done this early, because the socket of an earlier run of this node must be removed before anything waits for it.
    let mut supervisor = Supervisor::listen(&node.control())?;
    share_mounts()?;
    set_up_network(index)?;
    for (name, value) in MACHINE_SYSCTLS {
        let cover = Path::new("/run/sysctl").join(name.replace('/', "."));
        write(&cover, value)?;
        bind(&cover, &format!("/proc/sys/{name}"))?;
    }
    for folder in ["/var/lib/kubelet", "/var/lib/cni", "/var/log/pods"] {
        fs::create_dir_all(folder).context(|| format!("could not make {folder}"))?;
    }
    let pki = Pki::at(layout.pki());
    write(Path::new("/run/cni/10-bed.conflist"), &part::cni_config(index))?;
    write(Path::new("/run/containerd.toml"), &part::containerd_config())?;
    write(Path::new("/run/kubelet.yaml"), &part::kubelet_config(&pki, &node.name()))?;
    write(Path::new("/run/resolv.conf"), "")?;
    supervisor.start(&part::containerd(&node))?;
    wait_for_file(Path::new(part::CONTAINERD_SOCKET))?;
    supervisor.start(&part::kubelet(&spec, &pki, &node))?;
    supervisor.start(&part::kube_proxy(&spec, &pki, &node))?;
    Ok(supervisor)
}

/// Gives the node all images at once: hard links to a root in which they are already unpacked.
///
/// Blobs and committed layers are never written in place, so they can be shared. The two databases are, so they are copied.
fn unpack_images(golden: &Path, node: &NodeLayout) -> Result<(), Failure> {
    let containerd = node.lib().join("containerd");
    if containerd.exists() {
        return Ok(());
    }
    fs::create_dir_all(node.lib()).context(|| format!("could not make {}", node.lib().display()))?;
    Program::new("cp").arg("-al").arg(golden.join("containerd")).arg(&containerd).output()?;
    for database in ["io.containerd.metadata.v1.bolt/meta.db", "io.containerd.snapshotter.v1.overlayfs/metadata.db"] {
        let (from, to) = (golden.join("containerd").join(database), containerd.join(database));
        fs::remove_file(&to).and_then(|()| fs::copy(&from, &to)).context(|| format!("could not copy {}", from.display()))?;
    }
    Ok(())
}

fn set_up_network(index: u8) -> Result<(), Failure> {
    wait_for_file(Path::new("/sys/class/net/eth0"))?;
    ip("link set lo up")?;
    ip(&format!("addr add {}/24 dev eth0", node_address(index)))?;
    ip("link set eth0 up")?;
    ip(&format!("route add default via {CONTROL_PLANE}"))?;
    net_sysctl("ipv4/ip_forward", "1")
}

fn bind(source: &Path, target: &str) -> Result<(), Failure> {
    mount_bind(source, target).context(|| format!("could not bind {} on {target}", source.display()))
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).context(|| format!("could not make {}", folder.display()))?;
    }
    fs::write(path, text).context(|| format!("could not write {}", path.display()))
}
