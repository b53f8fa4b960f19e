//! Environment variables, which images and scripts of others read.

/// slurmd: the pod's topology annotation.
pub const TOPOLOGY: &str = "SLINKY_TOPOLOGY";
/// slurmd: limit of processors, rounded up; `0` for none.
pub const POD_CPUS: &str = "POD_CPUS";
/// slurmd: limit of memory in MiB; `0` for none.
pub const POD_MEMORY: &str = "POD_MEMORY";
/// login: options of sackd.
pub const SACKD_OPTIONS: &str = "SACKD_OPTIONS";
/// slurmrestd: makes it expect tokens of its callers.
pub const SLURM_JWT: &str = "SLURM_JWT";
/// The value of [`SLURM_JWT`].
pub const SLURM_JWT_VALUE: &str = "daemon";
/// slurmrestd: what a container does not let it do anyway.
pub const SLURMRESTD_SECURITY: &str = "SLURMRESTD_SECURITY";
/// The value of [`SLURMRESTD_SECURITY`].
pub const SLURMRESTD_SECURITY_VALUE: &str = "disable_unshare_files,disable_unshare_sysv";
/// Log sidecar: the FIFO to print.
pub const SOCKET: &str = "SOCKET";
/// Reconfigure sidecar: the folder of the configuration.
pub const CONFIG_DIR: &str = "CONFIG_DIR";
/// Reconfigure sidecar: the file that remembers which configuration slurmctld runs.
pub const APPLIED_FILE: &str = "APPLIED_FILE";
/// Reconfigure sidecar: host and port of the slurmctld beside it, with `/` between, set where there are several.
pub const SLURMCTLD: &str = "SLURMCTLD";
/// initconf: the user that files are made for.
pub const SLURM_USER: &str = "SLURM_USER";
