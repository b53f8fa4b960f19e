//! What the container images expect: ports, users, paths, environment.

/// Port of slurmctld.
pub const SLURMCTLD_PORT: i32 = 6817;
/// Port of slurmd.
pub const SLURMD_PORT: i32 = 6818;
/// Port of slurmrestd.
pub const SLURMRESTD_PORT: i32 = 6820;

/// The user and group that slurmctld runs as.
pub const SLURM_USER: &str = "slurm";
/// Its uid and gid.
pub const SLURM_UID: i64 = 401;
/// uid and gid of slurmrestd, which refuses to run as root or as the Slurm user.
pub const NOBODY_UID: i64 = 65534;

/// Where the daemons look for configuration and keys.
pub const CONFIG_DIR: &str = "/etc/slurm";
/// File name of the auth/slurm key in [`CONFIG_DIR`].
pub const SLURM_KEY_FILE: &str = "slurm.key";
/// File name of the auth/jwt key in [`CONFIG_DIR`].
pub const JWT_KEY_FILE: &str = "jwt.key";
/// File name of the main configuration, and its key in the generated ConfigMap.
pub const SLURM_CONF: &str = "slurm.conf";
/// File name of the cgroup configuration, and its key in a ConfigMap.
pub const CGROUP_CONF: &str = "cgroup.conf";
/// Where log FIFOs lie.
pub const LOG_DIR: &str = "/var/log/slurm";
/// slurmctld's log FIFO.
pub const SLURMCTLD_LOG: &str = "/var/log/slurm/slurmctld.log";
/// slurmd's log FIFO.
pub const SLURMD_LOG: &str = "/var/log/slurm/slurmd.log";
/// Parent of the directory in which slurmctld keeps its state.
pub const STATE_DIR: &str = "/var/spool/slurmctld";
/// slurmd's working directory.
pub const SLURMD_SPOOL_DIR: &str = "/var/spool/slurmd";

/// Prefix of every reason that the operator writes on a Slurm node. Others parse it.
pub const REASON_PREFIX: &str = "slurm-operator: ";
