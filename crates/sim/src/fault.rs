//! Faults that can be injected by command.

use serde::{Deserialize, Serialize};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Connections are refused.
    Refuse,
    /// HTTP 500 with a plain-text body.
    ServerError,
    /// HTTP 504, as when slurmctld does not respond to slurmrestd.
    ControllerGone,
    /// HTTP 200 with a list and an error in the body.
    ErrorsInside,
    /// A list without elements.
    EmptyList,
    /// The first half of a list, without any sign that it is incomplete.
    HalfList,
    /// The list as it was when the fault began.
    StaleList,
    /// A list that ends in the middle of an element.
    TornList,
    /// No answer, ever.
    Stall,
    /// The request is carried out, then the connection is cut.
    ResetAfterWrite,
    /// Every request for changes since a given time is answered with "no changes".
    LyingGate,
    /// Every token is refused.
    RefuseTokens,
}

/// A kind of fault, and the requests it affects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    /// Prefix of the affected paths below the version; all paths if absent.
    #[serde(default)]
    pub path: Option<String>,
    /// Number of affected requests; unlimited if absent.
    #[serde(default)]
    pub times: Option<u32>,
}

impl Fault {
    pub fn new(kind: FaultKind) -> Self {
        Self { kind, path: None, times: None }
    }

    #[must_use]
    pub fn on(mut self, path: &str) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// True if the fault affects this request; counts it if so.
    pub(crate) fn hits(&mut self, path: &str) -> bool {
        if self.times == Some(0) || self.path.as_ref().is_some_and(|start| !path.starts_with(start.as_str())) {
            return false;
        }
        if let Some(times) = &mut self.times {
            *times -= 1;
        }
        true
    }
}
