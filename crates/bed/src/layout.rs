//! Paths of one bed's files, and the addresses inside it. Each is defined only here.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::cache::Cache;
use crate::name::BedName;

/// Port of the first API server inside the bed; a second one uses the next port.
pub const API_PORT: u16 = 6443;
/// Cluster IP range of Services.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// Cluster IP of the API server's own Service, always the first of the range.
pub const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Cluster IP of DNS.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// IP range of all pods.
pub const POD_RANGE: &str = "10.244.0.0/16";
/// Address of the control plane on the bridge between the nodes.
pub const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);
/// Maximum number of nodes in the address plan.
pub const MOST_NODES: u8 = 200;

/// The folder of one bed.
#[derive(Clone, Debug)]
pub struct Layout {
    pub name: BedName,
    pub root: PathBuf,
}

impl Layout {
    pub fn new(cache: &Cache, name: &BedName) -> Self {
        Self { name: name.clone(), root: cache.path("beds").join(name.as_str()) }
    }

    pub fn spec(&self) -> PathBuf {
        self.root.join("spec.json")
    }

    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    pub fn log(&self, part: &str) -> PathBuf {
        self.root.join("log").join(format!("{part}.log"))
    }

    /// Audit log: one line of JSON for each write that reached an API server.
    pub fn audit_log(&self) -> PathBuf {
        self.log("audit")
    }

    /// Control socket of the bed's PID 1.
    pub fn control(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// Lock file that the keeper holds while it lives. If another process can lock it, the bed is dead.
    pub fn keeper_lock(&self) -> PathBuf {
        self.root.join("keeper.lock")
    }

    /// State file that the keeper writes once the bed's namespaces are set up.
    pub fn keeper_state(&self) -> PathBuf {
        self.root.join("keeper.json")
    }

    /// Marker file, written when the bed is complete.
    pub fn up_marker(&self) -> PathBuf {
        self.root.join("up")
    }

    /// Kubeconfig for clients on the machine.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Folder for the volumes of the default storage class.
    pub fn volumes(&self) -> PathBuf {
        self.root.join("pv")
    }

    pub fn node(&self, index: u8) -> NodeLayout {
        NodeLayout { index, root: self.root.join("nodes").join(node_name(index)) }
    }

    /// The bed's control group below the root of each hierarchy.
    pub fn cgroup(&self) -> String {
        format!("slipway-{}", self.name)
    }
}

/// The folder of one node in a bed.
#[derive(Clone, Debug)]
pub struct NodeLayout {
    pub index: u8,
    pub root: PathBuf,
}

impl NodeLayout {
    pub fn name(&self) -> String {
        node_name(self.index)
    }

    /// Mounted as the node's `/var/lib`.
    pub fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// Mounted as the node's `/var/log`.
    pub fn log_folder(&self) -> PathBuf {
        self.root.join("log")
    }

    pub fn log(&self, part: &str) -> PathBuf {
        self.log_folder().join(format!("{part}.log"))
    }

    /// Control socket of the node's PID 1.
    pub fn control(&self) -> PathBuf {
        self.root.join("control.sock")
    }
}

pub fn node_name(index: u8) -> String {
    format!("n{index}")
}

/// Address of a node on the bridge.
pub fn node_address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 30, 0, 10 + index)
}

/// IP range of the pods on a node.
pub fn pod_range(index: u8) -> String {
    format!("10.244.{index}.0/24")
}
