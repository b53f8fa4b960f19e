use super::{
    form::{Form, Unfit, fit_all},
    worker_budget, worker_service,
};
use crate::volume;

/// StatefulSet of slurmctld, and its ServiceMonitor.
pub fn controller_workload(controller: &str) -> String {
    format!("{controller}-controller")
}

/// Service that clients of slurmctld use.
pub fn controller_service(controller: &str) -> String {
    controller_workload(controller)
}

/// Headless Service that gives each slurmctld pod a name.
pub fn controller_headless_service(controller: &str) -> String {
    format!("{controller}-controller-internal")
}

/// Pod of the slurmctld with this index.
pub fn controller_pod(controller: &str, index: i32) -> String {
    format!("{}-{index}", controller_workload(controller))
}

/// DNS name of [`controller_pod`], without the cluster's domain.
pub fn controller_pod_dns(controller: &str, index: i32, namespace: &str) -> String {
    format!("{}.{}.{namespace}", controller_pod(controller, index), controller_headless_service(controller))
}

/// Service of the slurmctld with this index, if there are several.
pub fn controller_pod_service(controller: &str, index: i32) -> String {
    controller_pod(controller, index)
}

/// DNS name of [`controller_pod_service`], without the cluster's domain.
pub fn controller_pod_service_dns(controller: &str, index: i32, namespace: &str) -> String {
    format!("{}.{namespace}", controller_pod_service(controller, index))
}

/// DNS name of [`controller_service`], without the cluster's domain.
pub fn controller_dns(controller: &str, namespace: &str) -> String {
    format!("{}.{namespace}", controller_service(controller))
}

/// Address from which slurmd and sackd fetch their configuration; `port` is that of [`controller_service`].
pub fn controller_address(controller: &str, namespace: &str, port: i32) -> String {
    format!("{}:{port}", controller_dns(controller, namespace))
}

/// ConfigMap with the generated configuration.
pub fn controller_config(controller: &str) -> String {
    format!("{controller}-config")
}

/// Claim that the StatefulSet creates for the state of the slurmctld with this index.
pub fn controller_claim(controller: &str, index: i32) -> String {
    format!("{}-{}", volume::STATESAVE, controller_pod(controller, index))
}

/// Default ClusterName, if the user sets none.
pub fn default_cluster_name(controller: &str, namespace: &str) -> String {
    format!("{namespace}_{controller}")
}

/// Checks every name derived from a Controller.
pub fn check_controller(controller: &str) -> Result<(), Unfit> {
    fit_all([
        ("label value", controller.to_owned(), Form::Labelled),
        ("StatefulSet", controller_workload(controller), Form::StatefulSet),
        ("Service", controller_service(controller), Form::Hostname),
        ("Service", controller_headless_service(controller), Form::Hostname),
        ("ConfigMap", controller_config(controller), Form::Subdomain),
        ("Service", worker_service(controller), Form::Hostname),
        ("PodDisruptionBudget", worker_budget(controller), Form::Subdomain),
    ])
}
