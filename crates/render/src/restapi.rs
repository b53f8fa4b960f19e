//! Renders a RestApi as a Service and a Deployment.

mod deployment;
pub(crate) mod published;
mod service;

use slipway_api::{RestApi, SlurmController, child::Child, image, name};

use crate::Invalid;

pub use published::Published;

/// Resolved references of a RestApi.
#[derive(Clone, Debug)]
pub struct References {
    pub controller: SlurmController,
    /// Hash of the auth/slurm key.
    pub slurm_key_hash: String,
    /// Hash of slurm.conf.
    pub config_hash: String,
    /// True if slurm.conf names a slurmdbd.
    pub has_accounting: bool,
}

/// The Service, which needs only the RestApi itself. Fails if the RestApi's name is unfit for the names of its children.
pub fn service(restapi: &RestApi) -> Result<Child, Invalid> {
    name::check_restapi(crate::identity(&restapi.metadata).1).map_err(|unfit| Invalid::name("metadata.name", &unfit))?;
    Ok(service::service(restapi))
}

/// The Deployment.
pub fn deployment(restapi: &RestApi, references: &References) -> Result<Child, Invalid> {
    deployment::deployment(restapi, references)
}

/// The port of the Service at which slurmrestd is reached.
pub fn port(restapi: &RestApi) -> i32 {
    crate::service::number(restapi.spec.service.as_ref(), image::SLURMRESTD_PORT)
}

#[cfg(test)]
mod tests;
