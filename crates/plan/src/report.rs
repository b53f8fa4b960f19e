use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use slipway_api::condition::{ConditionUpdate, Reason};

use crate::{Action, finding::Finding};

/// Actions to take now, and the report about them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub report: Report,
    /// Reconcile again after this time even without an event: for changes that no watch reports.
    pub wake_after: Option<Duration>,
}

impl Plan {
    /// Reconciles again after `delay`, unless that is planned earlier already.
    pub fn wake_within(&mut self, delay: Duration) {
        self.wake_after = Some(self.wake_after.map_or(delay, |known| known.min(delay)));
    }
}

/// State of a resource, for its conditions. It is ready if it waits for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Missing preconditions; the first one sets the `Ready` condition.
    pub waits: Vec<Wait>,
    /// Message if nothing is waited for.
    pub summary: String,
    /// Findings about the object that its user should know.
    pub findings: Vec<Finding>,
    /// Conditions that only this kind has.
    pub condition_updates: Vec<ConditionUpdate>,
    /// Timestamps that some conditions show instead of their last transition, by type.
    pub moments: BTreeMap<&'static str, Timestamp>,
}

/// A missing precondition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub reason: Reason,
    /// The missing object, its location and the fix.
    pub why: String,
}

impl Wait {
    pub fn new(reason: Reason, why: impl Into<String>) -> Self {
        Self { reason, why: why.into() }
    }
}

impl Report {
    pub fn wait(&mut self, reason: Reason, why: impl Into<String>) {
        self.waits.push(Wait::new(reason, why));
    }

    pub fn is_ready(&self) -> bool {
        self.waits.is_empty()
    }

    /// Reason of the `Ready` condition.
    pub fn reason(&self) -> Reason {
        self.waits.first().map_or(Reason::AllReady, |wait| wait.reason)
    }

    /// Message of the `Ready` condition.
    pub fn message(&self) -> String {
        self.waits.first().map_or_else(|| self.summary.clone(), |wait| wait.why.clone())
    }
}
