//! Renders a Controller as Services, a ConfigMap with its whole configuration, and a StatefulSet.

pub(crate) mod address;
mod configuration;
mod reconfigure;
mod service;
mod slurm_conf;
pub(crate) mod statefulset;

use std::collections::BTreeMap;

use slipway_api::{NodeSet, SlurmController, child::Child, name};
use slipway_slurm::name::ClusterName;

use crate::Invalid;

pub use address::address;
pub use configuration::Configuration;
pub use slurm_conf::LAYOUT;

/// Resolved references of a Controller.
#[derive(Clone, Debug, Default)]
pub struct References {
    /// Hash of the Secret with the auth/slurm key.
    pub slurm_key_hash: String,
    /// Hash of the Secret with the auth/jwt key.
    pub jwt_key_hash: String,
    /// The user's configuration files.
    pub config_files: Vec<ConfigFiles>,
    /// Prolog and epilog scripts.
    pub scripts: Scripts,
    /// The JSON Web Key Set.
    pub jwks: Option<String>,
    /// The slurmdbd that stores job records.
    pub accounting: Option<AccountingHost>,
    /// NodeSets of this Controller, including those being deleted: their jobs may still run.
    pub nodesets: Vec<NodeSet>,
}

/// A ConfigMap whose keys become files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigFiles {
    pub name: String,
    pub files: BTreeMap<String, Vec<u8>>,
}

/// ConfigMaps of prolog and epilog scripts, of slurmd and of slurmctld.
#[derive(Clone, Debug, Default)]
pub struct Scripts {
    pub prolog: Vec<ConfigFiles>,
    pub epilog: Vec<ConfigFiles>,
    pub prolog_slurmctld: Vec<ConfigFiles>,
    pub epilog_slurmctld: Vec<ConfigFiles>,
}

/// Host and port of slurmdbd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountingHost {
    pub host: String,
    pub port: i64,
}

/// The Services, which need only the Controller itself; none for an external slurmctld. Fails if the Controller's name is unfit for the names of
/// its children.
pub fn services(controller: &SlurmController) -> Result<Vec<Child>, Invalid> {
    check_names(controller)?;
    if controller.spec.external {
        return Ok(Vec::new());
    }
    let mut services = vec![service::headless(controller), service::client(controller)];
    if replicas(controller) > 1 {
        services.extend((0..replicas(controller)).map(|index| service::of_pod(controller, index)));
    }
    Ok(services)
}

/// All files of the configuration; for an external slurmctld, the few that its clients here need.
///
/// Fails if only the user can decide: a file that two ConfigMaps have, or a line that would separate slurmctld from its state.
pub fn configuration(controller: &SlurmController, references: &References) -> Result<Configuration, Invalid> {
    check_names(controller)?;
    if controller.spec.external {
        return configuration::external(controller, references);
    }
    configuration::full(controller, references)
}

/// The ConfigMap that carries a configuration.
pub fn config_map(controller: &SlurmController, configuration: &Configuration) -> Child {
    configuration::config_map(controller, configuration)
}

/// The StatefulSet that runs slurmctld with the configuration of this hash. Not for an external slurmctld.
pub fn statefulset(controller: &SlurmController, references: &References, config_hash: &str) -> Result<Child, Invalid> {
    check_names(controller)?;
    statefulset::statefulset(controller, references, config_hash)
}

/// Number of slurmctlds that run here: the active one and its backups; 0 if slurmctld is external.
pub fn replicas(controller: &SlurmController) -> i32 {
    match &controller.spec.ha {
        _ if controller.spec.external => 0,
        Some(ha) if ha.enabled => ha.backups.max(1).saturating_add(1),
        _ => 1,
    }
}

/// Slurm's ClusterName.
pub fn cluster_name(controller: &SlurmController) -> Result<ClusterName, Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    let given = controller.spec.cluster_name.as_deref().filter(|given| !given.is_empty());
    let text = given.map_or_else(|| name::default_cluster_name(name, namespace), str::to_owned);
    ClusterName::parse(&text).map_err(|error| Invalid::name("spec.clusterName", &error))
}

fn check_names(controller: &SlurmController) -> Result<(), Invalid> {
    name::check_controller(crate::identity(&controller.metadata).1).map_err(|unfit| Invalid::name("metadata.name", &unfit))
}

#[cfg(test)]
mod tests;
