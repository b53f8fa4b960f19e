/// Kinds of the API, with the fields that findings check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Accounting,
    Controller,
    LoginSet,
    NodeSet,
    RestApi,
    Token,
}

impl Kind {
    pub const ALL: [Self; 6] = [Self::Accounting, Self::Controller, Self::LoginSet, Self::NodeSet, Self::RestApi, Self::Token];

    /// `kind` in manifests.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accounting => "Accounting",
            Self::Controller => "Controller",
            Self::LoginSet => "LoginSet",
            Self::NodeSet => "NodeSet",
            Self::RestApi => "RestApi",
            Self::Token => "Token",
        }
    }

    /// The kind in lowercase, as in paths and webhook names.
    pub fn singular(self) -> &'static str {
        match self {
            Self::Accounting => "accounting",
            Self::Controller => "controller",
            Self::LoginSet => "loginset",
            Self::NodeSet => "nodeset",
            Self::RestApi => "restapi",
            Self::Token => "token",
        }
    }

    /// Plural name in URLs and roles.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Accounting => "accountings",
            Self::Controller => "controllers",
            Self::LoginSet => "loginsets",
            Self::NodeSet => "nodesets",
            Self::RestApi => "restapis",
            Self::Token => "tokens",
        }
    }

    /// Fields of the spec that hold a Kubernetes container.
    pub(super) fn containers(self) -> &'static [&'static str] {
        match self {
            Self::Accounting => &["slurmdbd"],
            Self::Controller => &["slurmctld", "reconfigure", "logfile"],
            Self::LoginSet => &["login", "initconf"],
            Self::NodeSet => &["slurmd", "logfile"],
            Self::RestApi => &["slurmrestd"],
            Self::Token => &[],
        }
    }

    /// True if `spec.service` holds the user's part of a Service.
    pub(super) fn has_service(self) -> bool {
        !matches!(self, Self::NodeSet | Self::Token)
    }
}
