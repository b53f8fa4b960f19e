//! A RestApi becomes a Service and a Deployment.

mod deployment;
mod service;

use slipway_api::{RestApi, SlurmController, child::Child};

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

/// The Service, which needs nothing but the RestApi itself.
pub fn service(restapi: &RestApi) -> Child {
    service::service(restapi)
}

/// The Deployment.
pub fn deployment(restapi: &RestApi, references: &References) -> Result<Child, Invalid> {
    deployment::deployment(restapi, references)
}

#[cfg(test)]
mod tests;
