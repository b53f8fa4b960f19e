//! Images of a bed: the set of them, their names, and how they are built from the folder `images/`.

mod archive;
mod base;
mod build;
mod contained;
mod golden;
mod recipe;
mod store;

#[cfg(test)]
mod slurmd_options;

use std::fmt::{self, Display};

pub use archive::Archive;
pub use build::{Inputs, build};
pub use golden::golden;

/// Folder with the Containerfile and the files it copies.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../images");

/// A Slurm release that a suite of the distribution packages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Release {
    #[default]
    Slurm26_05,
    /// For upgrade tests.
    Slurm24_11,
}

impl Release {
    fn tag(self) -> &'static str {
        match self {
            Self::Slurm26_05 => "26.05",
            Self::Slurm24_11 => "24.11",
        }
    }

    fn suite(self) -> Suite {
        match self {
            Self::Slurm26_05 => Suite("forky"),
            Self::Slurm24_11 => Suite("trixie"),
        }
    }
}

/// A suite of the distribution, by its name on the mirrors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Suite(&'static str);

/// A component that runs in the pods of a Slurm cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Daemon {
    Slurmctld,
    Slurmd,
    Slurmdbd,
    Slurmrestd,
    Login,
}

impl Daemon {
    /// Every daemon.
    pub const ALL: [Self; 5] = [Self::Slurmctld, Self::Slurmd, Self::Slurmdbd, Self::Slurmrestd, Self::Login];
}

/// One image; it corresponds to one target of the Containerfile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Image {
    Pause,
    CoreDns,
    Slurm(Daemon, Release),
    Mariadb,
    Operator,
}

impl Image {
    /// The operator and every daemon of the Slurm clusters it creates.
    pub fn of_slurm() -> Vec<Self> {
        let daemons = Daemon::ALL.map(|daemon| Self::Slurm(daemon, Release::default()));
        [Self::Operator].into_iter().chain(daemons).collect()
    }

    /// Name used in a pod's spec. It starts with `localhost`, so it is never looked up in a registry.
    pub fn reference(self) -> String {
        format!("localhost/slipway/{}:{}", self.target(), self.tag())
    }

    /// Its target in the Containerfile.
    fn target(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::CoreDns => "coredns",
            Self::Slurm(Daemon::Slurmctld, _) => "slurmctld",
            Self::Slurm(Daemon::Slurmd, _) => "slurmd",
            Self::Slurm(Daemon::Slurmdbd, _) => "slurmdbd",
            Self::Slurm(Daemon::Slurmrestd, _) => "slurmrestd",
            Self::Slurm(Daemon::Login, _) => "login",
            Self::Mariadb => "mariadb",
            Self::Operator => "operator",
        }
    }

    fn tag(self) -> &'static str {
        match self {
            Self::Pause => "1",
            Self::CoreDns => "1.14.7",
            Self::Slurm(_, release) => release.tag(),
            Self::Mariadb => "11.8",
            Self::Operator => "dev",
        }
    }

    /// Suite that it is built on, if its target has a base.
    fn suite(self) -> Suite {
        match self {
            Self::Slurm(_, release) => release.suite(),
            // The newest C library runs programs linked against any older one.
            Self::Pause | Self::CoreDns | Self::Mariadb | Self::Operator => Release::default().suite(),
        }
    }
}

/// Short form, such as `slurmctld:26.05`.
impl Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.target(), self.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_stay_on_this_machine_and_name_the_version() {
        assert_eq!(Image::Slurm(Daemon::Slurmctld, Release::Slurm26_05).reference(), "localhost/slipway/slurmctld:26.05");
        assert_eq!(Image::Slurm(Daemon::Login, Release::Slurm24_11).reference(), "localhost/slipway/login:24.11");
        assert_eq!(Image::Operator.reference(), "localhost/slipway/operator:dev");
    }

    #[test]
    fn the_tag_of_coredns_is_the_version_that_is_built() {
        let manifest = include_str!("../../go/coredns/go.mod");
        let wanted = format!("require github.com/coredns/coredns v{}", Image::CoreDns.tag());
        assert!(manifest.lines().any(|line| line == wanted), "go.mod does not say `{wanted}`");
    }
}
