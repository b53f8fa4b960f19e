//! What can go wrong, by command.

use serde::{Deserialize, Serialize};

/// A way of failing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultKind {
    /// Nobody listens.
    Refuse,
    /// HTTP 500 in plain words.
    ServerError,
    /// HTTP 504, as when slurmctld does not answer slurmrestd.
    ControllerGone,
    /// HTTP 200 with a list and an error inside.
    ErrorsInside,
    /// A list without elements.
    EmptyList,
    /// The first half of a list, without a word about it.
    HalfList,
    /// The list as it was when the fault began.
    StaleList,
    /// A list that breaks off in the middle of an element.
    TornList,
    /// No answer ever.
    Stall,
    /// The request is carried out, then the connection is cut.
    ResetAfterWrite,
    /// Whoever asks for changes since a moment hears that there are none.
    LyingGate,
    /// Every token is refused.
    RefuseTokens,
}

/// A way of failing, and what it hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: FaultKind,
    /// Only paths below the version that start so; all when absent.
    #[serde(default)]
    pub path: Option<String>,
    /// So many requests, then it is over; for ever when absent.
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

    /// Whether this request is hit; counts if so.
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
