//! Failures of a reconcile, and their retries.

use std::error::Error;

/// Class of a failure; it decides when to retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Someone else wrote first: retry at once.
    Conflict,
    /// A retry may succeed.
    Transient,
    /// It cannot succeed until someone changes something; retried rarely.
    Permanent,
    /// It need not succeed: the namespace is terminating, and the resource with it. It is not reported.
    Moot,
}

/// An error with a class.
pub trait Classify: Error + Send + Sync + 'static {
    fn class(&self) -> Class;
    /// Label for metrics: one of a few fixed values.
    fn reason(&self) -> &'static str;
}

/// Reason why a reconcile failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure<E: Classify> {
    #[error(transparent)]
    Failed(#[from] E),
    #[error("the pass panicked: {0}")]
    Panicked(String),
    #[error("the pass took longer than {0:?}")]
    TookTooLong(std::time::Duration),
}

impl<E: Classify> Classify for Failure<E> {
    fn class(&self) -> Class {
        match self {
            Self::Failed(error) => error.class(),
            Self::Panicked(_) | Self::TookTooLong(_) => Class::Transient,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Failed(error) => error.reason(),
            Self::Panicked(_) => "Panicked",
            Self::TookTooLong(_) => "TookTooLong",
        }
    }
}

/// An error and all its causes, in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut words = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !words.contains(&text) {
            words = format!("{words}: {text}");
        }
        cause = inner.source();
    }
    words
}

/// A failed call to the API server, with the server's message.
#[derive(Debug)]
pub struct ServerError(pub Box<kube::Error>);

impl From<kube::Error> for ServerError {
    fn from(error: kube::Error) -> Self {
        Self(Box::new(error))
    }
}

impl std::fmt::Display for ServerError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&server_words(&self.0))
    }
}

// No source: the message above contains everything that the library's error reports.
impl Error for ServerError {}

impl ServerError {
    pub fn class(&self) -> Class {
        let kube::Error::Api(status) = self.0.as_ref() else { return Class::Transient };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        match status.code {
            403 if causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating") => Class::Moot,
            409 => Class::Conflict,
            400 | 403 | 404 | 405 | 413 | 415 | 422 => Class::Permanent,
            _ => Class::Transient,
        }
    }
}

/// The API server's message, without the library's wrapping.
pub(crate) fn server_words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("{} {}", status.code, status.reason),
        other => chain(other),
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use rstest::rstest;

    use super::*;

    fn error(code: u16, cause: &str) -> ServerError {
        let status: Status = serde_json::from_value(serde_json::json!({
            "status": "Failure", "message": "no such luck", "reason": "Unlucky", "code": code, "details": { "causes": [{ "reason": cause }] },
        }))
        .unwrap();
        kube::Error::Api(Box::new(status)).into()
    }

    #[rstest]
    #[case(409, "", Class::Conflict)]
    #[case(422, "FieldValueInvalid", Class::Permanent)]
    #[case(403, "", Class::Permanent)]
    #[case(403, "NamespaceTerminating", Class::Moot)]
    #[case(429, "", Class::Transient)]
    #[case(500, "", Class::Transient)]
    fn the_answer_decides_about_the_retry(#[case] code: u16, #[case] cause: &str, #[case] class: Class) {
        assert_eq!(error(code, cause).class(), class);
    }

    #[test]
    fn the_servers_words_are_said_once() {
        assert_eq!(chain(&error(422, "")), "no such luck");
    }
}
