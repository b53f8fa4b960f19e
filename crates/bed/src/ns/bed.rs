//! First process of a bed: sets up its network and runs the control plane's parts and the nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use rustix::process::Pid;

use super::setup::{ip, net_sysctl, private_root, share_mounts};
use super::stage::stage_command;
use super::supervisor::Supervisor;
use crate::cgroup;
use crate::control::Request;
use crate::failure::{Context, Failure};
use crate::layout::{CONTROL_PLANE, Layout, SERVICE_RANGE, node_address, node_name, pod_range};
use crate::patience::Patience;

/// Sets up the namespaces and supervises; returns only on failure.
pub fn run(layout: &Layout) -> Failure {
    match set_up(layout) {
        Ok(supervisor) => {
            let mut nodes = BTreeSet::new();
            supervisor.run(|supervisor, request| match request {
                Request::AddNode(index) => add_node(supervisor, layout, *index, &mut nodes),
                _ => Err(Failure::new("this request is not for a bed")),
            })
        }
        Err(failure) => failure,
    }
}

fn set_up(layout: &Layout) -> Result<Supervisor, Failure> {
    let hierarchies = cgroup::mounted()?;
    private_root(&format!("bed-{}", layout.name))?;
    cgroup::remount(&hierarchies)?;
    share_mounts()?;
    ip("link set lo up")?;
    ip("link add br0 type bridge")?;
    ip(&format!("addr add {CONTROL_PLANE}/24 dev br0"))?;
    ip("link set br0 up")?;
    net_sysctl("ipv4/ip_forward", "1")?;
    // Nodes reach each other's pods through this namespace; without this the kernel would redirect them to a shorter route.
    net_sysctl("ipv4/conf/all/send_redirects", "0")?;
    net_sysctl("ipv4/conf/br0/send_redirects", "0")?;
    Supervisor::listen(&layout.control())
}

fn add_node(supervisor: &mut Supervisor, layout: &Layout, index: u8, nodes: &mut BTreeSet<u8>) -> Result<(), Failure> {
    let name = node_name(index);
    if supervisor.is_running(&name) {
        return Err(Failure::new(format!("node {name} runs already")));
    }
    let inner = ["node".to_owned(), layout.root.display().to_string(), index.to_string()];
    let node = layout.node(index);
    std::fs::create_dir_all(node.log_folder()).context(|| format!("could not make {}", node.log_folder().display()))?;
    let pid = supervisor.spawn(&name, stage_command(&name, &inner)?, &node.log("init"))?;
    wait_for_own_network(pid, &name)?;
    if nodes.contains(&index) {
        // The link of a former node of this name. The kernel removes it some time after the node's last process has ended, so it may be gone already.
        let _ = ip(&format!("link delete v{name}"));
    }
    ip(&format!("link add v{name} type veth peer name eth0 netns {}", pid.as_raw_nonzero()))?;
    ip(&format!("link set v{name} master br0 up"))?;
    ip(&format!("route replace {} via {}", pod_range(index), node_address(index)))?;
    nodes.insert(index);
    // This namespace reaches Services through the kube-proxy of a running node.
    if let Some(gate) = nodes.iter().find(|index| supervisor.is_running(&node_name(**index))) {
        ip(&format!("route replace {SERVICE_RANGE} via {}", node_address(*gate)))?;
    }
    Ok(())
}

/// Waits until the node's `unshare` has left our network namespace. Its link can be created only then.
fn wait_for_own_network(pid: Pid, name: &str) -> Result<(), Failure> {
    let ours = std::fs::read_link("/proc/self/ns/net").context(|| "could not read our network namespace".to_owned())?;
    let mut patience = Patience::start();
    while !patience.is_exhausted() {
        match std::fs::read_link(format!("/proc/{}/ns/net", pid.as_raw_nonzero())) {
            Ok(theirs) if theirs != ours => return Ok(()),
            Ok(_) => std::thread::sleep(Duration::from_millis(10)),
            Err(_) => break,
        }
    }
    Err(Failure::new(format!("node {name} got no network namespace of its own")))
}
