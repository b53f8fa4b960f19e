//! A RestApi becomes a Service and a Deployment.

mod deployment;
mod service;

use slipway_api::{RestApi, SlurmController, child::Child, name};

use crate::Invalid;

/// What a RestApi refers to, resolved.
#[derive(Clone, Debug)]
pub struct References {
    pub controller: SlurmController,
    /// Hash of the Secret with the auth/slurm key.
    pub slurm_key_hash: String,
    /// Hash of the generated configuration.
    pub config_hash: String,
}

/// The Service, which needs nothing but the RestApi itself. Fails where something that is named after it could not be.
pub fn service(restapi: &RestApi) -> Result<Child, Invalid> {
    name::check_restapi(crate::identity(&restapi.metadata).1).map_err(|unfit| Invalid::name("metadata.name", &unfit))?;
    Ok(service::service(restapi))
}

/// The Deployment.
pub fn deployment(restapi: &RestApi, references: &References) -> Result<Child, Invalid> {
    deployment::deployment(restapi, references)
}

#[cfg(test)]
mod tests;
