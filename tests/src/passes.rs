//! The operator's own count of its reconciles, and other metrics.

use std::collections::BTreeMap;

use crate::cluster::Cluster;

/// Number of reconciles of the operator's process for each kind, from its metrics.
pub fn passes(cluster: &Cluster) -> Result<BTreeMap<String, f64>, String> {
    let mut sums = BTreeMap::new();
    for line in metrics(cluster)?.lines().filter(|line| line.starts_with("slipway_reconcile_total{")) {
        let controller = line.split("controller=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
        *sums.entry(controller.to_owned()).or_default() += count(line);
    }
    Ok(sums)
}

/// Value of one of the operator's metrics that has no labels.
pub fn metric(cluster: &Cluster, name: &str) -> Result<f64, String> {
    let metrics = metrics(cluster)?;
    let line = metrics.lines().find(|line| line.split(' ').next() == Some(name));
    line.map(count).ok_or_else(|| format!("there is no metric {name}"))
}

/// Metrics of the operator's process.
fn metrics(cluster: &Cluster) -> Result<String, String> {
    let pods = cluster.get("/api/v1/namespaces/slipway-system/pods").map_err(|failure| failure.to_string())?;
    let ready = pods["items"].as_array().and_then(|pods| pods.iter().find(|pod| pod["status"]["containerStatuses"][0]["ready"] == true));
    let pod = ready.and_then(|pod| pod["metadata"]["name"].as_str()).ok_or("the operator is not ready")?;
    let path = format!("/api/v1/namespaces/slipway-system/pods/{pod}:8080/proxy/metrics");
    cluster.kubectl().args(["get", "--raw", &path]).output().map_err(|failure| failure.to_string())
}

fn count(line: &str) -> f64 {
    line.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}
