//! A Controller becomes two Services, a ConfigMap and a StatefulSet.

mod config;
mod service;
mod statefulset;

use slipway_api::{NodeSet, SlurmController, child::Child, name};

use crate::Invalid;

pub use config::LAYOUT;
pub(crate) use statefulset::key_source;

/// What a Controller refers to, resolved.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// Hash of the Secret with the auth/slurm key.
    pub slurm_key_hash: String,
    /// Hash of the Secret with the auth/jwt key.
    pub jwt_key_hash: String,
    /// The user's configuration files.
    pub config_files: Vec<ConfigFiles>,
    /// NodeSets of this Controller, also those being deleted: their jobs may still run.
    pub nodesets: Vec<NodeSet>,
}

/// A ConfigMap whose keys become files.
#[derive(Clone, Debug)]
pub struct ConfigFiles {
    pub name: String,
    pub files: Vec<String>,
    pub hash: String,
}

/// The Services, which need nothing but the Controller itself.
pub fn services(controller: &SlurmController) -> Vec<Child> {
    vec![service::headless(controller), service::client(controller)]
}

/// The ConfigMap and the StatefulSet.
pub fn workload(controller: &SlurmController, references: &References) -> Result<Vec<Child>, Invalid> {
    let config = config::config_map(controller, references)?;
    let statefulset = statefulset::statefulset(controller, references, &config)?;
    Ok(vec![config, statefulset])
}

/// Slurm's ClusterName.
pub fn cluster_name(controller: &SlurmController) -> String {
    match controller.spec.cluster_name.as_deref() {
        Some(given) if !given.is_empty() => given.to_owned(),
        _ => {
            let (namespace, controller) = crate::identity(&controller.metadata);
            name::default_cluster_name(controller, namespace)
        }
    }
}

#[cfg(test)]
mod tests;
