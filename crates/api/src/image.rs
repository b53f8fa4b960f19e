//! Ports, users and paths that the container images expect.

/// Port of slurmctld.
pub const SLURMCTLD_PORT: i32 = 6817;
/// Port of slurmd.
pub const SLURMD_PORT: i32 = 6818;
/// Port of slurmdbd.
pub const SLURMDBD_PORT: i32 = 6819;
/// Port of slurmrestd.
pub const SLURMRESTD_PORT: i32 = 6820;
/// Port of sshd, on login nodes and workers.
pub const SSH_PORT: i32 = 22;
/// Name of sshd's port on workers; on login nodes the port is named after its component.
pub const WORKER_SSH_PORT_NAME: &str = "ssh";
/// Ports of the operator itself: `/livez` and `/readyz`, `/metrics`, and the webhook.
pub const HEALTH_PORT: i32 = 8081;
pub const METRICS_PORT: i32 = 8080;
pub const WEBHOOK_PORT: i32 = 9443;

/// The user and group that slurmctld runs as.
pub const SLURM_USER: &str = "slurm";
/// Uid and gid of [`SLURM_USER`].
pub const SLURM_UID: i64 = 401;
/// Uid and gid of slurmrestd, which refuses to run as root or as the Slurm user.
pub const NOBODY_UID: i64 = 65534;

/// Directory of the daemons' configuration and keys.
pub const CONFIG_DIR: &str = "/etc/slurm";
/// File name of the auth/slurm key in [`CONFIG_DIR`].
pub const SLURM_KEY_FILE: &str = "slurm.key";
/// File name of the auth/jwt key in [`CONFIG_DIR`].
pub const JWT_KEY_FILE: &str = "jwt.key";
/// File name of the JWKS in [`CONFIG_DIR`].
pub const JWKS_FILE: &str = "jwks.json";
/// File name of the main configuration, and its key in the generated ConfigMap.
pub const SLURM_CONF: &str = "slurm.conf";
/// File name of slurmdbd's configuration.
pub const SLURMDBD_CONF: &str = "slurmdbd.conf";
/// File name of the cgroup configuration, and its key in a ConfigMap.
pub const CGROUP_CONF: &str = "cgroup.conf";
/// File name of the list of devices on nodes; a user may provide it.
pub const GRES_CONF: &str = "gres.conf";
/// sshd's configuration: its key in a ConfigMap, and the path that sshd reads.
pub const SSHD_CONFIG: &str = "sshd_config";
pub const SSHD_CONFIG_PATH: &str = "/etc/ssh/sshd_config";
/// sssd's configuration: its name in a pod's volume, and the path that sssd reads.
pub const SSSD_CONF: &str = "sssd.conf";
pub const SSSD_CONF_PATH: &str = "/etc/sssd/sssd.conf";
/// Directory of the log FIFOs.
pub const LOG_DIR: &str = "/var/log/slurm";
/// slurmctld's log FIFO.
pub const SLURMCTLD_LOG: &str = "/var/log/slurm/slurmctld.log";
/// slurmd's log FIFO.
pub const SLURMD_LOG: &str = "/var/log/slurm/slurmd.log";
/// Parent of slurmctld's state directory.
pub const STATE_DIR: &str = "/var/spool/slurmctld";
/// slurmd's working directory.
pub const SLURMD_SPOOL_DIR: &str = "/var/spool/slurmd";
/// Socket from which a login node's tools get credentials.
pub const SACK_SOCKET: &str = "/run/slurm/sack.socket";

/// Advice for a user who provides a file that only the operator writes, or `None` for every other file.
pub fn instead_of_bringing(file: &str) -> Option<&'static str> {
    match file {
        SLURM_CONF | SLURMDBD_CONF => Some("put your lines into spec.extraConf"),
        SLURM_KEY_FILE => Some("point spec.slurmKeyRef at the Secret that holds it"),
        JWT_KEY_FILE => Some("point spec.jwtKeyRef at the Secret that holds it"),
        JWKS_FILE => Some("point spec.jwksKeyRef at it"),
        _ => None,
    }
}
