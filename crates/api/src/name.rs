//! Every derived name, in one place. Children are found by name: renaming one breaks clusters that run.

use crate::image;

/// StatefulSet of slurmctld.
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

/// DNS name of that pod, without the cluster's domain.
pub fn controller_pod_dns(controller: &str, index: i32, namespace: &str) -> String {
    format!("{}.{}.{namespace}", controller_pod(controller, index), controller_headless_service(controller))
}

/// DNS name of [`controller_service`], without the cluster's domain.
pub fn controller_dns(controller: &str, namespace: &str) -> String {
    format!("{}.{namespace}", controller_service(controller))
}

/// Where slurmd fetches its configuration.
pub fn controller_address(controller: &str, namespace: &str) -> String {
    format!("{}:{}", controller_dns(controller, namespace), image::SLURMCTLD_PORT)
}

/// ConfigMap with the generated configuration.
pub fn controller_config(controller: &str) -> String {
    format!("{controller}-config")
}

/// Slurm's ClusterName when the user gives none.
pub fn default_cluster_name(controller: &str, namespace: &str) -> String {
    format!("{namespace}_{controller}")
}

/// Deployment and Service of slurmrestd.
pub fn restapi_workload(restapi: &str) -> String {
    format!("{restapi}-restapi")
}

/// Headless Service shared by all workers of a Controller.
pub fn worker_service(controller: &str) -> String {
    format!("slurm-workers-{controller}")
}

/// Disruption budget shared by all workers of a Controller.
pub fn worker_budget(controller: &str) -> String {
    format!("slurm-workers-pdb-{controller}")
}

/// Worker pod with this ordinal.
pub fn worker_pod(nodeset: &str, ordinal: u32) -> String {
    format!("{nodeset}-{ordinal}")
}

/// The ordinal in a worker pod's name, if it is one that [`worker_pod`] gives.
pub fn worker_ordinal(nodeset: &str, pod: &str) -> Option<u32> {
    let ordinal = pod.strip_prefix(nodeset)?.strip_prefix('-')?.parse().ok()?;
    (worker_pod(nodeset, ordinal) == pod).then_some(ordinal)
}

/// Hostname of a worker, which is also its Slurm node name.
pub fn worker_hostname(nodeset: &str, template_hostname: Option<&str>, ordinal: u32) -> String {
    match template_hostname {
        Some(prefix) => format!("{prefix}{ordinal}"),
        None => worker_pod(nodeset, ordinal),
    }
}

/// Slurm's name for the nodes of a NodeSet: its node set, its baseline feature and its partition.
pub fn slurm_nodeset(nodeset: &str, template_hostname: Option<&str>) -> String {
    template_hostname.map(|prefix| prefix.trim_matches('-')).filter(|name| !name.is_empty()).unwrap_or(nodeset).to_owned()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("w-0", Some(0))]
    #[case("w-12", Some(12))]
    #[case::padded("w-012", None)]
    #[case::signed("w-+1", None)]
    #[case::of_another_set("wide-1", None)]
    #[case::no_number("w-a", None)]
    fn an_ordinal_is_read_only_from_a_name_we_would_give(#[case] pod: &str, #[case] ordinal: Option<u32>) {
        assert_eq!(worker_ordinal("w", pod), ordinal);
    }

    #[rstest]
    #[case(None, "w-3", "w")]
    #[case(Some("gpu-"), "gpu-3", "gpu")]
    #[case(Some("-"), "-3", "w")]
    fn a_template_hostname_names_node_and_node_set(#[case] prefix: Option<&str>, #[case] host: &str, #[case] set: &str) {
        assert_eq!(worker_hostname("w", prefix, 3), host);
        assert_eq!(slurm_nodeset("w", prefix), set);
    }
}
