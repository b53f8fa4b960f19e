//! Messages about missing objects: the object, its location and the fix.

use slipway_api::condition::Reason;

use crate::Wait;

pub fn no_reference(field: &str) -> Wait {
    Wait::new(Reason::InvalidSpec, format!("{field}.name is empty: name the object it refers to"))
}

pub fn no_secret(namespace: &str, secret: &str, field: &str) -> Wait {
    Wait::new(Reason::SecretMissing, format!("Secret `{namespace}/{secret}` does not exist: create it or point {field} elsewhere"))
}

pub fn no_key(namespace: &str, secret: &str, key: &str, field: &str) -> Wait {
    Wait::new(Reason::SecretMissing, format!("Secret `{namespace}/{secret}` has no key `{key}`: add it or point {field} elsewhere"))
}

pub fn unread_secret(namespace: &str, secret: &str, field: &str, error: &dyn std::error::Error) -> Wait {
    let cause = std::iter::successors(Some(error), |error| error.source()).last().map(ToString::to_string).unwrap_or_default();
    let why = format!("Secret `{namespace}/{secret}`, which {field} names, cannot be read and is tried again: {cause}");
    Wait::new(Reason::SecretMissing, why)
}

pub fn no_config_map(namespace: &str, config_map: &str, field: &str) -> Wait {
    let why = format!("ConfigMap `{namespace}/{config_map}` does not exist: create it or take it out of {field}");
    Wait::new(Reason::ConfigMapMissing, why)
}

pub fn no_config_key(namespace: &str, config_map: &str, key: &str, field: &str) -> Wait {
    let why = format!("ConfigMap `{namespace}/{config_map}` has no text under the key `{key}`: add it or point {field} elsewhere");
    Wait::new(Reason::ConfigMapMissing, why)
}

pub fn no_claim(namespace: &str, claim: &str, field: &str) -> Wait {
    let why = format!("claim `{namespace}/{claim}`, which {field} names, does not exist: create it");
    Wait::new(Reason::ClaimUnfit, why)
}

pub fn no_accounting(namespace: &str, accounting: &str) -> Wait {
    let why = format!("Accounting `{namespace}/{accounting}` does not exist: create it or take out spec.accountingRef");
    Wait::new(Reason::AccountingMissing, why)
}

pub fn no_controller(namespace: &str, controller: &str) -> Wait {
    let why = format!("Controller `{namespace}/{controller}` does not exist: create it or point spec.controllerRef elsewhere");
    Wait::new(Reason::ControllerMissing, why)
}

pub fn no_configuration(namespace: &str, controller: &str) -> Wait {
    let why = format!("Controller `{namespace}/{controller}` has no configuration yet: see its Ready condition");
    Wait::new(Reason::ControllerNotReady, why)
}

pub fn controller_not_ready(namespace: &str, controller: &str) -> Wait {
    let why = format!("slurmctld of Controller `{namespace}/{controller}` is not up yet: see its Ready condition");
    Wait::new(Reason::ControllerNotReady, why)
}

pub fn invalid(problem: &impl std::error::Error) -> Wait {
    Wait::new(Reason::InvalidSpec, problem.to_string())
}
