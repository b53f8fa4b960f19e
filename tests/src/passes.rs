//! How often the operator looked at things, by its own count.

use std::collections::BTreeMap;

use crate::cluster::Cluster;

/// How often the operator's process has looked at each kind, by its own count.
pub fn passes(cluster: &Cluster) -> Result<BTreeMap<String, f64>, String> {
    let mut sums = BTreeMap::new();
    for line in metrics(cluster)?.lines().filter(|line| line.starts_with("slipway_reconcile_total{")) {
        let controller = line.split("controller=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        *sums.entry(controller.to_owned()).or_default() += count(line);
    }
    Ok(sums)
}

/// What the operator's process counts.
fn metrics(cluster: &Cluster) -> Result<String, String> {
    let ready = "--output=jsonpath={range .items[?(@.status.containerStatuses[0].ready)]}{.metadata.name}{end}";
    let pods = cluster.kubectl().args(["get", "pods", "--namespace=slipway-system", ready]).output();
    let pod = pods.map_err(|failure| failure.to_string())?;
    let path = format!("/api/v1/namespaces/slipway-system/pods/{}:8080/proxy/metrics", pod.trim());
    cluster.kubectl().args(["get", "--raw", &path]).output().map_err(|failure| failure.to_string())
}

fn count(line: &str) -> f64 {
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
