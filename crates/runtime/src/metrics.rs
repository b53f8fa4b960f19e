//! Metrics of the process. No label is ever an object's name.

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use crate::events::Outcome;

/// Labels of a reconcile.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Pass {
    pub controller: &'static str,
    /// `ok`, or the reason of the failure.
    pub result: &'static str,
}

/// Labels of a write to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Write {
    pub verb: &'static str,
    pub kind: &'static str,
}

/// Labels of a watch.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Watch {
    pub kind: String,
}

/// Labels of a controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Of {
    pub controller: &'static str,
}

/// Labels of a response to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Review {
    pub kind: &'static str,
    /// `allowed`, `warned`, `refused` or `unjudged`.
    pub answer: &'static str,
}

/// Labels of a call to a Slurm cluster. The cluster is left out: it would be an object's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SlurmCall {
    pub kind: &'static str,
    /// `ok`, `unchanged`, or the reason of the failure.
    pub outcome: &'static str,
}

/// Labels of a kind of call to Slurm clusters.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct SlurmCallKind {
    pub kind: &'static str,
}

/// All metrics; cheap to clone, all clones count together.
#[derive(Clone)]
pub struct Metrics {
    pub passes: Family<Pass, Counter>,
    pub pass_seconds: Family<Of, Histogram>,
    pub writes: Family<Write, Counter>,
    pub hub_events: Family<Watch, Counter>,
    pub hub_errors: Family<Watch, Counter>,
    pub hub_relists: Family<Watch, Counter>,
    pub hub_objects: Family<Watch, Gauge>,
    pub admission_reviews: Family<Review, Counter>,
    pub webhook_certificate_ends: Gauge,
    pub schema_differs: Family<Watch, Gauge>,
    pub events: Family<Outcome, Counter>,
    pub slurm_calls: Family<SlurmCall, Counter>,
    pub slurm_call_seconds: Family<SlurmCallKind, Histogram>,
    pub slurm_answer_bytes: Family<SlurmCallKind, Counter>,
    pub slurm_clusters: Gauge,
    pub workers_with_lost_jobs: Gauge,
}

impl Metrics {
    /// The metrics, and the registry that encodes them.
    pub fn new() -> (Self, Registry) {
        let metrics = Self {
            passes: Family::default(),
            pass_seconds: Family::new_with_constructor(|| Histogram::new([0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 30.0])),
            writes: Family::default(),
            hub_events: Family::default(),
            hub_errors: Family::default(),
            hub_relists: Family::default(),
            hub_objects: Family::default(),
            admission_reviews: Family::default(),
            webhook_certificate_ends: Gauge::default(),
            schema_differs: Family::default(),
            events: Family::default(),
            slurm_calls: Family::default(),
            slurm_call_seconds: Family::new_with_constructor(|| Histogram::new([0.005, 0.02, 0.1, 0.5, 2.0, 10.0])),
            slurm_answer_bytes: Family::default(),
            slurm_clusters: Gauge::default(),
            workers_with_lost_jobs: Gauge::default(),
        };
        let mut registry = Registry::with_prefix("slipway");
        registry.register("reconcile", "Passes over a resource, by result", metrics.passes.clone());
        registry.register("reconcile_duration_seconds", "How long passes took", metrics.pass_seconds.clone());
        registry.register("kube_writes", "Writes to the API server", metrics.writes.clone());
        registry.register("hub_events", "Events received by watches", metrics.hub_events.clone());
        registry.register("hub_errors", "Errors of watches", metrics.hub_errors.clone());
        registry.register("hub_relists", "Complete lists received by watches", metrics.hub_relists.clone());
        registry.register("hub_objects", "Objects in the caches of watches", metrics.hub_objects.clone());
        registry.register("admission_reviews", "Questions of the API server about objects, by answer", metrics.admission_reviews.clone());
        let ends = "When the webhook's certificate ends, in seconds since 1970; 0 while there is none";
        registry.register("webhook_certificate_not_after_seconds", ends, metrics.webhook_certificate_ends.clone());
        let differs = "1 while the served CustomResourceDefinition of a kind is older than this operator or foreign";
        registry.register("schema_differs", differs, metrics.schema_differs.clone());
        registry.register("kube_events", "Events about resources, by what became of them", metrics.events.clone());
        registry.register("slurm_calls", "Calls to Slurm's REST servers, by outcome", metrics.slurm_calls.clone());
        let seconds = "How long calls to Slurm's REST servers took, with the wait for a turn";
        registry.register("slurm_call_duration_seconds", seconds, metrics.slurm_call_seconds.clone());
        registry.register("slurm_answer_bytes", "Bytes of answers of Slurm's REST servers", metrics.slurm_answer_bytes.clone());
        registry.register("slurm_clusters", "Slurm clusters that are read", metrics.slurm_clusters.clone());
        let lost = "Workers that are kept because jobs of which Slurm has no record may run there: restore the state of slurmctld";
        registry.register("workers_with_lost_jobs", lost, metrics.workers_with_lost_jobs.clone());
        (metrics, registry)
    }
}

/// The registry in OpenMetrics text format.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}
