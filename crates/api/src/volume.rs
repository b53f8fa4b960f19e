//! Names of volumes, which users mount into containers of their own, and where ours are mounted.

/// Configuration and keys, at [`crate::image::CONFIG_DIR`].
pub const ETC: &str = "slurm-etc";
/// The generated configuration for the reconfigure sidecar.
pub const CONFIG: &str = "slurm-config";
/// Where [`CONFIG`] is mounted.
pub const CONFIG_PATH: &str = "/mnt/slurm";
/// Run-time files.
pub const RUN: &str = "run";
/// Where [`RUN`] is mounted.
pub const RUN_PATH: &str = "/run";
/// Log FIFOs, at [`crate::image::LOG_DIR`].
pub const LOGFILE: &str = "slurm-logfile";
/// slurmctld's credential socket.
pub const AUTH_SOCKET: &str = "slurm-authsocket";
/// Where [`AUTH_SOCKET`] is mounted.
pub const AUTH_SOCKET_PATH: &str = "/run/slurmctld";
/// What the reconfigure sidecar remembers.
pub const APPLIED: &str = "slurm-applied";
/// Where [`APPLIED`] is mounted.
pub const APPLIED_PATH: &str = "/mnt/slurm-applied";
/// slurmctld's state; also the name of the claim template.
pub const STATESAVE: &str = "statesave";
/// sackd's credential socket.
pub const SACKD: &str = "sackd-dir";
/// Where [`SACKD`] is mounted.
pub const SACKD_PATH: &str = "/run/slurm";
/// sshd_config.
pub const SSH_CONFIG: &str = "ssh-config";
/// Host keys of sshd.
pub const SSH_HOST_KEYS: &str = "ssh-host-keys";
/// sssd.conf.
pub const SSSD_CONF: &str = "sssd-conf";
