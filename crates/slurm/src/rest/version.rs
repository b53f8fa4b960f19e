//! Versions of slurmrestd's data parser, and their features.

use std::fmt;

/// A version of the data parser: the middle part of every URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// Served by Slurm 24.11 to 26.05.
    V42,
    /// Served by Slurm 25.05 to 26.11.
    V43,
    /// Served by Slurm 25.11 to 27.05.
    V44,
    /// Served since Slurm 26.05.
    V45,
}

impl Version {
    /// In order of preference: a newer version can only do more.
    pub const NEWEST_FIRST: [Self; 4] = [Self::V45, Self::V44, Self::V43, Self::V42];

    /// The version as in a URL.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V42 => "v0.0.42",
            Self::V43 => "v0.0.43",
            Self::V44 => "v0.0.44",
            Self::V45 => "v0.0.45",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        Self::NEWEST_FIRST.into_iter().find(|version| version.as_str() == text)
    }

    /// True if reservations can be created, changed and deleted, and a node's topology can be set.
    pub fn writes_reservations(self) -> bool {
        self >= Self::V43
    }

    /// True if node records can be created over REST.
    pub fn creates_nodes(self) -> bool {
        self >= Self::V44
    }

    pub fn writes_partitions(self) -> bool {
        self >= Self::V45
    }

    /// True if the running configuration can be read.
    pub fn tells_its_configuration(self) -> bool {
        self >= Self::V45
    }

    pub fn requeues_jobs(self) -> bool {
        self >= Self::V45
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}
