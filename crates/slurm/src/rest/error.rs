//! Errors of a call, as types.

use std::time::Duration;

use super::errno::Errno;
use super::token::TokenError;
use super::version::Version;

/// A call without a usable response.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// The named object does not exist. Servers report that in five different ways.
    #[error("Slurm has no {what}")]
    NotFound { what: String },
    /// Slurm refuses the request.
    #[error("Slurm refuses (HTTP {http}, error {number}): {text}")]
    Refused { http: u16, number: Errno, text: String },
    /// Slurm refuses our identity, even with a new token.
    #[error(
        "Slurm refuses the token (HTTP {http}, error {number}): {text}; the JWT key of slurmctld and the one used here must be the same bytes"
    )]
    TokenRefused { http: u16, number: Errno, text: String },
    #[error(transparent)]
    Token(#[from] TokenError),
    /// Nothing was sent: the last calls got no response, and calls pause.
    #[error("slurmrestd is left alone for {:.1} s: {trouble}", .wait.as_secs_f32())]
    Paused { wait: Duration, trouble: String },
    /// slurmrestd is up, but cannot serve now; mostly slurmctld does not respond to it.
    #[error("Slurm cannot answer now (HTTP {http}): {text}")]
    Unavailable { http: u16, text: String },
    /// No connection: nothing was sent.
    #[error("slurmrestd cannot be reached: {0}")]
    Unreachable(String),
    /// The time limit of one call has passed.
    #[error("slurmrestd gave no whole answer within {} s", .0.as_secs())]
    TimedOut(Duration),
    /// Nothing was sent: too many other calls were ahead, for the whole time limit of one call.
    #[error("the call had no turn within {} s: too much is asked of this cluster at once", .0.as_secs())]
    NoTurn(Duration),
    /// The connection broke before the response was complete.
    #[error("the connection to slurmrestd broke: {0}")]
    Broken(String),
    /// The response is malformed.
    #[error("slurmrestd's answer makes no sense: {0}")]
    Unreadable(String),
    /// The server does not know the URL: it no longer serves the negotiated version.
    #[error("slurmrestd knows no {path}")]
    UnknownUrl { path: String },
    /// The server speaks for another cluster than at first.
    #[error(
        "slurmrestd answers for the cluster `{other}` now, and before for `{first}`: nothing is done about its nodes until that is so again; if it is \
         intended, delete the RestApi and create it again"
    )]
    AnotherCluster { first: String, other: String },
    #[error("slurmrestd serves none of the versions v0.0.42 to v0.0.45; Slurm 24.11 to 26.05 do")]
    NoVersion,
    #[error("{what} needs a newer Slurm: the server's newest version is {version}")]
    Unsupported { what: &'static str, version: Version },
}

/// Appropriate reaction to a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It may pass: retry later.
    Transient,
    /// It is Slurm's decision; asking again changes nothing.
    External,
    /// Someone must change something first.
    Permanent,
}

impl RestError {
    pub fn class(&self) -> Class {
        match self {
            Self::Refused { number, .. } if number.is_of_the_system() => Class::Transient,
            Self::Unavailable { .. }
            | Self::Unreachable(_)
            | Self::TimedOut(_)
            | Self::Broken(_)
            | Self::Unreadable(_)
            | Self::Paused { .. }
            | Self::NoTurn(_)
            | Self::UnknownUrl { .. } => Class::Transient,
            Self::NotFound { .. } | Self::Refused { .. } => Class::External,
            Self::TokenRefused { .. } | Self::Token(_) | Self::AnotherCluster { .. } | Self::NoVersion | Self::Unsupported { .. } => {
                Class::Permanent
            }
        }
    }

    /// A short identifier for metrics and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "NotFound",
            Self::Refused { .. } => "Refused",
            Self::TokenRefused { .. } => "TokenRefused",
            Self::Token(_) => "NoToken",
            Self::Paused { .. } => "Paused",
            Self::Unavailable { .. } => "Unavailable",
            Self::Unreachable(_) => "Unreachable",
            Self::TimedOut(_) => "TimedOut",
            Self::NoTurn(_) => "NoTurn",
            Self::Broken(_) => "Broken",
            Self::Unreadable(_) => "Unreadable",
            Self::UnknownUrl { .. } => "UnknownUrl",
            Self::AnotherCluster { .. } => "AnotherCluster",
            Self::NoVersion => "NoVersion",
            Self::Unsupported { .. } => "Unsupported",
        }
    }

    /// The HTTP status, or `None` if there was none.
    pub fn http(&self) -> Option<u16> {
        match self {
            Self::Refused { http, .. } | Self::TokenRefused { http, .. } | Self::Unavailable { http, .. } => Some(*http),
            _ => None,
        }
    }

    /// Slurm's error number, or `None` if it gave none.
    pub fn number(&self) -> Option<Errno> {
        match self {
            Self::Refused { number, .. } | Self::TokenRefused { number, .. } => Some(*number),
            _ => None,
        }
    }

    /// True if no server responded: an immediate retry is of no use.
    pub(super) fn means_no_server(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut(_) | Self::Broken(_) => true,
            Self::Unavailable { http, .. } => matches!(http, 502..=504),
            _ => false,
        }
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// True if a failed write may have taken effect, wholly or in part. Then only a new read can show it.
    pub fn may_have_been_applied(&self) -> bool {
        match self {
            Self::TimedOut(_) | Self::Broken(_) | Self::Unreadable(_) | Self::Unavailable { .. } | Self::AnotherCluster { .. } => true,
            // A failure inside a success affects only a part.
            Self::Refused { http, number, .. } => *number == Errno::INVALID_NODE_TRANSITION || *http < 300 || number.is_of_the_system(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::a_broken_connection_to_slurmctld(104, Class::Transient)]
    #[case::slurm_s_own_word(2053, Class::External)]
    #[case::no_number(0, Class::External)]
    fn a_refusal_may_pass_or_not(#[case] number: i64, #[case] class: Class) {
        let refused = RestError::Refused { http: 500, number: Errno(number), text: "why".into() };
        assert_eq!(refused.class(), class);
        assert_eq!(refused.may_have_been_applied(), class == Class::Transient);
    }
}
