//! Requested configuration of a bed.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};
use crate::layout::{Layout, MOST_NODES};

/// Part of Kubernetes that a bed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// etcd and API servers, and a controller manager if requested. For tests of the API.
    ApiOnly { controllers: bool },
    /// All of Kubernetes, with this many nodes.
    Cluster { nodes: u8 },
}

/// A bed as its files record it; the first processes of its namespaces read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub extent: Extent,
    /// Number of API servers on the one etcd.
    pub api_servers: u8,
    /// Host port of the first API server; zero lets the kernel choose.
    pub port: u16,
    /// Location of the daemons' programs.
    pub programs: Programs,
    /// Template of a node's containerd root.
    pub golden: PathBuf,
}

/// Folders of the daemons' programs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Programs {
    /// Folder with a link named after each Kubernetes daemon.
    pub kubernetes: PathBuf,
    /// Folder with programs from the distribution's packages: etcd and kubectl.
    pub distribution: PathBuf,
}

impl Extent {
    pub fn nodes(self) -> u8 {
        match self {
            Self::ApiOnly { .. } => 0,
            Self::Cluster { nodes } => nodes,
        }
    }

    pub fn has_controllers(self) -> bool {
        match self {
            Self::ApiOnly { controllers } => controllers,
            Self::Cluster { .. } => true,
        }
    }

    /// Rejects a node count that does not fit into the bed's addresses.
    pub fn check(self) -> Result<Self, Failure> {
        match self {
            Self::Cluster { nodes } if nodes == 0 || nodes > MOST_NODES => {
                Err(Failure::new(format!("a bed cannot have {nodes} nodes"))
                    .advise(format!("1 to {MOST_NODES} nodes, or --api-only for none")))
            }
            extent => Ok(extent),
        }
    }
}

impl Spec {
    pub fn read(layout: &Layout) -> Result<Self, Failure> {
        let path = layout.spec();
        let what = || format!("could not read what the bed is from {}", path.display());
        let text = std::fs::read_to_string(&path).context(what)?;
        serde_json::from_str(&text).context(what)
    }

    pub fn write(&self, layout: &Layout) -> Result<(), Failure> {
        let path = layout.spec();
        let what = || format!("could not write {}", path.display());
        let text = serde_json::to_string_pretty(self).context(what)?;
        std::fs::write(&path, text).context(what)
    }
}
