//! Slurm releases, as far as their REST servers differ.

use clap::ValueEnum;
use slipway_slurm::rest::Version;

/// A release that serves versions we support.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Release {
    #[value(name = "24.11")]
    R2411,
    #[value(name = "25.05")]
    R2505,
    #[value(name = "25.11")]
    R2511,
    #[default]
    #[value(name = "26.05")]
    R2605,
}

impl Release {
    pub fn serves(self, version: Version) -> bool {
        version
            <= match self {
                Self::R2411 => Version::V42,
                Self::R2505 => Version::V43,
                Self::R2511 => Version::V44,
                Self::R2605 => Version::V45,
            }
    }

    /// Major, minor, micro, and the full version.
    pub fn words(self) -> [&'static str; 4] {
        match self {
            Self::R2411 => ["24", "11", "6", "24.11.6"],
            Self::R2505 => ["25", "05", "8", "25.05.8"],
            Self::R2511 => ["25", "11", "7", "25.11.7"],
            Self::R2605 => ["26", "05", "5", "26.05.5"],
        }
    }

    /// HTTP status of a refusal by slurmctld that has none of its own.
    pub fn refusal(self) -> u16 {
        if self >= Self::R2605 { 422 } else { 500 }
    }

    /// True if a missing partition, or a missing reservation while there are no others, gives a 200 with a message instead of a refusal.
    pub fn shrugs(self) -> bool {
        self >= Self::R2605
    }
}
