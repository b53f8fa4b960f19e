//! A Controller becomes two Services, a ConfigMap and a StatefulSet.

mod config;
mod service;
mod statefulset;

use slipway_api::{NodeSet, SlurmController, child::Child, name};
use slipway_slurm::name::ClusterName;

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

/// The Services, which need nothing but the Controller itself. Fails where something that is named after it could not be.
pub fn services(controller: &SlurmController) -> Result<Vec<Child>, Invalid> {
    check_names(controller)?;
    Ok(vec![service::headless(controller), service::client(controller)])
}

/// The ConfigMap and the StatefulSet.
pub fn workload(controller: &SlurmController, references: &References) -> Result<Vec<Child>, Invalid> {
    check_names(controller)?;
    let config = config::config_map(controller, references)?;
    let statefulset = statefulset::statefulset(controller, references, &config)?;
    Ok(vec![config, statefulset])
}

fn check_names(controller: &SlurmController) -> Result<(), Invalid> {
    name::check_controller(crate::identity(&controller.metadata).1).map_err(|unfit| Invalid::name("metadata.name", &unfit))
}

/// Slurm's ClusterName.
pub fn cluster_name(controller: &SlurmController) -> Result<ClusterName, Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    let given = controller.spec.cluster_name.as_deref().filter(|given| !given.is_empty());
    let text = given.map_or_else(|| name::default_cluster_name(name, namespace), str::to_owned);
    ClusterName::parse(&text).map_err(|error| Invalid::name("spec.clusterName", &error))
}

#[cfg(test)]
mod tests;
