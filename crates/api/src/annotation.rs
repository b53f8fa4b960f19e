//! Annotations, and the finalizer.

/// On a NodeSet with a scheduled update: its reservation in Slurm goes before it.
pub const RESERVATION_FINALIZER: &str = "nodeset.slinky.slurm.net/reservation";

/// Which container `kubectl logs` and `kubectl exec` take.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Where `kubectl apply` keeps a copy of the manifest; never inherited, or each edit would look like a new pod template.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Slurm topology of a worker, e.g. `topo-switch:s2,topo-block:b2`.
pub const TOPOLOGY: &str = "topology.slinky.slurm.net/spec";
/// On a worker pod: exactly `"true"` drains its Slurm node.
pub const POD_CORDON: &str = "nodeset.slinky.slurm.net/pod-cordon";
/// On a worker pod: a number; the lower, the sooner it leaves when the NodeSet shrinks.
pub const POD_DELETION_COST: &str = "nodeset.slinky.slurm.net/pod-deletion-cost";
/// On a worker pod: when the last of its jobs ends, as RFC 3339 writes it.
pub const POD_DEADLINE: &str = "nodeset.slinky.slurm.net/pod-deadline";
/// On a Kubernetes node: the reason to drain with while it is cordoned.
pub const NODE_CORDON_REASON: &str = "nodeset.slinky.slurm.net/node-cordon-reason";
/// On a Kubernetes node: the Slurm node name of the worker on it, in DaemonSet mode.
pub const HOSTNAME_OVERRIDE: &str = "nodeset.slinky.slurm.net/hostname-override";
/// On a Kubernetes node: features, separated by commas, that its Slurm node gets with [`crate::slurm_node::FEATURE_PREFIX`].
pub const FEATURES: &str = "features.slinky.slurm.net/spec";
/// SHA-256 of the auth/slurm Secret, on pod templates: a new key restarts the daemon.
pub const SLURM_KEY_HASH: &str = "slinky.slurm.net/slurm-key-hash";
/// SHA-256 of the auth/jwt Secret, likewise.
pub const JWT_KEY_HASH: &str = "slinky.slurm.net/jwt-key-hash";
/// SHA-256 of the generated configuration, likewise.
pub const SLURM_CONFIG_HASH: &str = "slinky.slurm.net/slurm-config-hash";
/// SHA-256 of slurmdbd's configuration, likewise.
pub const SLURMDBD_CONF_HASH: &str = "slinky.slurm.net/slurmdbd-conf-hash";
/// SHA-256 of sshd_config, on pods that run sshd.
pub const SSHD_CONF_HASH: &str = "slinky.slurm.net/sshd-conf-hash";
/// SHA-256 of sssd.conf, likewise.
pub const SSSD_CONF_HASH: &str = "slinky.slurm.net/sssd-conf-hash";
/// SHA-256 of the host keys of login nodes, likewise.
pub const SSH_HOST_KEYS_HASH: &str = "slinky.slurm.net/ssh-host-keys-hash";
/// SHA-256 of the user's configuration files, likewise.
pub const CONFIG_FILES_HASH: &str = "slipway.dev/config-files-hash";
/// SHA-256 of a child as it was last rendered. A field that we stop rendering changes nothing else that a look at the live object could
/// show, so this is what makes us apply again and so removes it.
pub const RENDERED_HASH: &str = "slipway.dev/rendered-hash";
