//! What the process counts about itself. No label is ever an object's name.

use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

/// Labels of a pass.
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

/// Labels of an answer to the API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Review {
    pub kind: &'static str,
    /// `allowed`, `warned`, `refused` or `unjudged`.
    pub answer: &'static str,
}

/// All counters; cheap to clone, all clones count together.
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
}

impl Metrics {
    /// The counters, and the registry that prints them.
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
        (metrics, registry)
    }
}

/// The registry in the OpenMetrics text form.
pub fn text(registry: &Registry) -> String {
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _ = encode(&mut text, registry);
    text
}
