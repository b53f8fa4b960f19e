//! Slurm's error numbers: the same in all releases that serve our versions.

use std::fmt;

/// A Slurm error number. Some failures without a number have zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Errno(pub i64);

impl Errno {
    pub const AUTHENTICATION_FAILED: Self = Self(1007);
    pub const NO_CHANGE_IN_DATA: Self = Self(1900);
    pub const INVALID_PARTITION: Self = Self(2000);
    pub const ACCESS_DENIED: Self = Self(2002);
    pub const NOT_THE_OWNER: Self = Self(2010);
    pub const NODES_BUSY: Self = Self(2016);
    pub const INVALID_JOB: Self = Self(2017);
    pub const INVALID_NODE: Self = Self(2018);
    pub const JOB_ALREADY_DONE: Self = Self(2021);
    pub const JOB_PENDING: Self = Self(2024);
    pub const INVALID_NODE_STATE: Self = Self(2028);
    pub const NOT_SUPPORTED: Self = Self(2036);
    pub const INVALID_RESERVATION: Self = Self(2053);
    pub const INVALID_TIME: Self = Self(2054);
    pub const RESERVATION_IN_USE: Self = Self(2055);
    pub const PARTITION_IN_USE: Self = Self(2075);
    pub const JOB_FINISHED: Self = Self(2084);
    pub const RESERVATION_HAS_BEGUN: Self = Self(2104);
    pub const INVALID_NODE_TRANSITION: Self = Self(2180);
    pub const CREDENTIAL_INVALID: Self = Self(6000);
    pub const CREDENTIAL_EXPIRED: Self = Self(6001);
    pub const INVALID_QUERY: Self = Self(9000);
    pub const REST_AUTHENTICATION: Self = Self(9008);

    /// True if the server refuses our identity, not our request.
    pub fn is_about_the_token(self) -> bool {
        [Self::AUTHENTICATION_FAILED, Self::CREDENTIAL_INVALID, Self::CREDENTIAL_EXPIRED, Self::REST_AUTHENTICATION].contains(&self)
    }

    /// True for a number of the operating system, such as a broken connection: slurmctld stopped or restarted during slurmrestd's request.
    pub fn is_of_the_system(self) -> bool {
        (1..1000).contains(&self.0)
    }

    /// True if the named object does not exist.
    pub fn means_not_found(self) -> bool {
        [Self::INVALID_PARTITION, Self::INVALID_JOB, Self::INVALID_NODE, Self::INVALID_RESERVATION].contains(&self)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}
