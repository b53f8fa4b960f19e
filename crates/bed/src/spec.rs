//! What a bed is asked to be.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure};
use crate::layout::{Layout, MOST_NODES};

/// How much of Kubernetes a bed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Extent {
    /// etcd and API servers; a controller manager if asked for. For tests of the API.
    ApiOnly { controllers: bool },
    /// Everything, with this many nodes.
    Cluster { nodes: u8 },
}

/// A bed as its files record it; the namespaces' first processes read it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub extent: Extent,
    /// How many API servers share the one etcd.
    pub api_servers: u8,
    /// The host's port of the first API server; zero lets the kernel choose.
    pub port: u16,
    /// Programs by the names of their daemons.
    pub programs: Programs,
    /// The template of a node's container store.
    pub golden: PathBuf,
}

/// Where the daemons' programs lie.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Programs {
    /// Links named after each Kubernetes daemon.
    pub kubernetes: PathBuf,
    /// Programs taken out of the distribution's packages: etcd and kubectl.
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

    /// Refuses what does not fit into the bed's addresses.
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
