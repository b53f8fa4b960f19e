//! Host and port of slurmctld.

use slipway_api::{SlurmController, name};
use slipway_slurm::name::HostName;

use super::service;
use crate::Invalid;

/// Host and port at which daemons of the cluster fetch their configuration.
pub fn address(controller: &SlurmController) -> Result<String, Invalid> {
    let (namespace, name) = crate::identity(&controller.metadata);
    if controller.spec.external {
        let (host, port) = external_host(controller)?;
        return Ok(host.with_port(port));
    }
    Ok(name::controller_address(name, namespace, service::port(controller)))
}

/// Host and port of an external slurmctld.
pub(super) fn external_host(controller: &SlurmController) -> Result<(HostName, u16), Invalid> {
    let field = "spec.externalConfig";
    let Some(external) = &controller.spec.external_config else {
        return Err(Invalid::new(field, "is not set: say where the slurmctld outside listens"));
    };
    host_and_port(&external.host, external.port, "")
}

/// Parses `spec.externalConfig`; `whose` follows the field name if it is not the Controller's.
pub(super) fn host_and_port(host: &str, port: i64, whose: &str) -> Result<(HostName, u16), Invalid> {
    let field = |field: &str| format!("spec.externalConfig.{field}{whose}");
    let host = HostName::parse(host).map_err(|error| Invalid::name(&field("host"), &error))?;
    match u16::try_from(port) {
        Ok(port) if port > 0 => Ok((host, port)),
        _ => Err(Invalid::new(&field("port"), format!("is {port}, and a port is a number from 1 to 65535: correct it"))),
    }
}
