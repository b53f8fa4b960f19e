//! Where the files of one bed lie, and the addresses inside it. Every path and address is written here once.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use crate::cache::Cache;
use crate::name::BedName;

/// The API server's first port inside the bed; a second API server takes the next one.
pub const API_PORT: u16 = 6443;
/// The range of cluster addresses of Services.
pub const SERVICE_RANGE: &str = "10.96.0.0/16";
/// The cluster address of the API server's own Service, always the first of the range.
pub const KUBERNETES_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// The cluster address of DNS.
pub const DNS_SERVICE: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 10);
/// The range of all pods.
pub const POD_RANGE: &str = "10.244.0.0/16";
/// The address of the control plane on the bridge between the nodes.
pub const CONTROL_PLANE: Ipv4Addr = Ipv4Addr::new(172, 30, 0, 1);
/// How many nodes fit into the address plan.
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

    /// One line of JSON for each write that reached an API server.
    pub fn audit_log(&self) -> PathBuf {
        self.log("audit")
    }

    /// The socket of pid 1 of the bed.
    pub fn control(&self) -> PathBuf {
        self.root.join("control.sock")
    }

    /// Locked by the keeper as long as it lives: whoever can lock it knows the bed is dead.
    pub fn keeper_lock(&self) -> PathBuf {
        self.root.join("keeper.lock")
    }

    /// What the keeper knows once the bed's namespaces stand.
    pub fn keeper_state(&self) -> PathBuf {
        self.root.join("keeper.json")
    }

    /// Written when the bed is complete.
    pub fn up_marker(&self) -> PathBuf {
        self.root.join("up")
    }

    /// For clients on the machine.
    pub fn kubeconfig(&self) -> PathBuf {
        self.root.join("kubeconfig")
    }

    /// Volumes of the default storage class.
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

    /// Becomes the node's `/var/lib`.
    pub fn lib(&self) -> PathBuf {
        self.root.join("lib")
    }

    /// Becomes the node's `/var/log`.
    pub fn log_folder(&self) -> PathBuf {
        self.root.join("log")
    }

    pub fn log(&self, part: &str) -> PathBuf {
        self.log_folder().join(format!("{part}.log"))
    }

    /// The socket of pid 1 of the node.
    pub fn control(&self) -> PathBuf {
        self.root.join("control.sock")
    }
}

pub fn node_name(index: u8) -> String {
    format!("n{index}")
}

/// A node's address on the bridge.
pub fn node_address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(172, 30, 0, 10 + index)
}

/// The addresses of the pods on a node.
pub fn pod_range(index: u8) -> String {
    format!("10.244.{index}.0/24")
}
