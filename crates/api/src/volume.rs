//! Names of volumes, which users mount into their own containers, and the mount paths in ours.

/// Configuration and keys, at [`crate::image::CONFIG_DIR`].
pub const ETC: &str = "slurm-etc";
/// The generated configuration for the reconfigure sidecar.
pub const CONFIG: &str = "slurm-config";
/// Mount path of [`CONFIG`].
pub const CONFIG_PATH: &str = "/mnt/slurm";
/// Run-time files.
pub const RUN: &str = "run";
/// Mount path of [`RUN`].
pub const RUN_PATH: &str = "/run";
/// Log FIFOs, at [`crate::image::LOG_DIR`].
pub const LOGFILE: &str = "slurm-logfile";
/// slurmctld's credential socket.
pub const AUTH_SOCKET: &str = "slurm-authsocket";
/// Mount path of [`AUTH_SOCKET`].
pub const AUTH_SOCKET_PATH: &str = "/run/slurmctld";
/// State of the reconfigure sidecar.
pub const APPLIED: &str = "slurm-applied";
/// Mount path of [`APPLIED`].
pub const APPLIED_PATH: &str = "/mnt/slurm-applied";
/// slurmctld's state; also the name of the claim template.
pub const STATESAVE: &str = "statesave";
/// sackd's credential socket.
pub const SACKD: &str = "sackd-dir";
/// Mount path of [`SACKD`].
pub const SACKD_PATH: &str = "/run/slurm";
/// sshd_config.
pub const SSH_CONFIG: &str = "ssh-config";
/// Host keys of sshd.
pub const SSH_HOST_KEYS: &str = "ssh-host-keys";
/// sssd.conf.
pub const SSSD_CONF: &str = "sssd-conf";
