use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use slipway_api::condition::{Reason, ConditionUpdate};

use crate::{Action, finding::Finding};

/// What to do now, and what to say about it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub actions: Vec<Action>,
    pub report: Report,
    /// Look again after this time even if nothing is heard: for what no watch tells.
    pub wake_after: Option<Duration>,
}

impl Plan {
    /// Asks to look again after `delay`, unless that is planned for earlier already.
    pub fn wake_within(&mut self, delay: Duration) {
        self.wake_after = Some(self.wake_after.map_or(delay, |known| known.min(delay)));
    }
}

/// What a resource says about itself. It is ready when it waits for nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Unmet preconditions, the first one first.
    pub waits: Vec<Wait>,
    /// What there is to say when nothing is waited for.
    pub summary: String,
    /// What else the user should know about the object as it was written.
    pub findings: Vec<Finding>,
    /// Conditions that only this kind has.
    pub condition_updates: Vec<ConditionUpdate>,
    /// Of some of these, the moment to show where others have that of their last change.
    pub moments: BTreeMap<&'static str, Timestamp>,
}

/// Something that has to come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    pub reason: Reason,
    /// What is missing, where, and what to do about it.
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
