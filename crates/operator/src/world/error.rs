use slipway_runtime::failure::{Class, Classify, ServerError};

/// Failure of a reconcile.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("could not read {what}")]
    Read { what: String, source: ServerError },
    #[error("could not {what}")]
    Write { what: String, source: ServerError },
    #[error("pod `{0}` exists and belongs to someone else: delete or rename it")]
    ForeignPod(String),
    #[error("could not render {0}")]
    Render(String, #[source] slipway_render::Invalid),
}

impl Error {
    pub(crate) fn read(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        |source| Self::Read { what, source: source.into() }
    }

    pub(crate) fn write(what: impl Into<String>) -> impl FnOnce(kube::Error) -> Self {
        let what = what.into();
        |source| Self::Write { what, source: source.into() }
    }
}

impl Classify for Error {
    fn class(&self) -> Class {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => source.class(),
            Self::ForeignPod(_) | Self::Render(..) => Class::Permanent,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Self::Read { .. } => "ReadFailed",
            Self::Write { .. } => "WriteFailed",
            Self::ForeignPod(_) => "ForeignPod",
            Self::Render(..) => "RenderFailed",
        }
    }
}
