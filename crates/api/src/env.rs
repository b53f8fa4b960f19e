//! Environment variables that images and other projects' scripts read.

/// slurmd: the pod's topology annotation.
pub const TOPOLOGY: &str = "SLINKY_TOPOLOGY";
/// slurmd: CPU limit, rounded up; `0` for none.
pub const POD_CPUS: &str = "POD_CPUS";
/// slurmd: memory limit in MiB; `0` for none.
pub const POD_MEMORY: &str = "POD_MEMORY";
/// login: options of sackd.
pub const SACKD_OPTIONS: &str = "SACKD_OPTIONS";
/// slurmrestd: makes it require tokens from its callers.
pub const SLURM_JWT: &str = "SLURM_JWT";
/// The value of [`SLURM_JWT`].
pub const SLURM_JWT_VALUE: &str = "daemon";
/// slurmrestd: disables steps that a container does not permit anyway.
pub const SLURMRESTD_SECURITY: &str = "SLURMRESTD_SECURITY";
/// The value of [`SLURMRESTD_SECURITY`].
pub const SLURMRESTD_SECURITY_VALUE: &str = "disable_unshare_files,disable_unshare_sysv";
/// Log sidecar: the FIFO to print.
pub const SOCKET: &str = "SOCKET";
/// Reconfigure sidecar: the directory of the configuration.
pub const CONFIG_DIR: &str = "CONFIG_DIR";
/// Reconfigure sidecar: the file that stores which configuration slurmctld runs.
pub const APPLIED_FILE: &str = "APPLIED_FILE";
/// Reconfigure sidecar: host and port of the slurmctld in its pod, separated by `/`; set if there are several slurmctld.
pub const SLURMCTLD: &str = "SLURMCTLD";
/// initconf: the user that files are created for.
pub const SLURM_USER: &str = "SLURM_USER";
