use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Metrics of slurmctld.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Whether slurmctld answers Prometheus on its own port.
    #[serde(default)]
    pub enabled: bool,
    /// The ServiceMonitor that tells the Prometheus operator to look there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_monitor: Option<ServiceMonitor>,
}

/// A ServiceMonitor of the Prometheus operator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitor {
    /// Whether to make it; `metrics.enabled` must be true as well.
    #[serde(default)]
    pub enabled: bool,
    /// Labels of the ServiceMonitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
    /// Annotations of the ServiceMonitor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub annotations: Option<BTreeMap<String, String>>,
    /// How often to ask, as Prometheus writes durations; Prometheus' own default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PROMETHEUS_DURATION))]
    pub interval: Option<String>,
    /// How long to wait for an answer; Prometheus' own default when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PROMETHEUS_DURATION))]
    pub scrape_timeout: Option<String>,
    /// What to ask for. Left out or empty: jobs, nodes, partitions and scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoints: Option<Vec<Endpoint>>,
}

/// One path that Prometheus asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Path of the metrics, such as `/metrics/jobs`.
    pub path: String,
    /// How often to ask for this path, if not as for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PROMETHEUS_DURATION))]
    pub interval: Option<String>,
    /// How long to wait for an answer to this path, if not as for the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = PROMETHEUS_DURATION))]
    pub scrape_timeout: Option<String>,
}

const PROMETHEUS_DURATION: &str = "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$";
