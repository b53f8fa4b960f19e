//! Annotations.

/// Which container `kubectl logs` and `kubectl exec` take.
pub const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// Where `kubectl apply` keeps a copy of the manifest; never inherited, or each edit would look like a new pod template.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Slurm topology of a worker, e.g. `topo-switch:s2,topo-block:b2`.
pub const TOPOLOGY: &str = "topology.slinky.slurm.net/spec";
/// SHA-256 of the auth/slurm Secret, on pod templates: a new key restarts the daemon.
pub const SLURM_KEY_HASH: &str = "slinky.slurm.net/slurm-key-hash";
/// SHA-256 of the auth/jwt Secret, likewise.
pub const JWT_KEY_HASH: &str = "slinky.slurm.net/jwt-key-hash";
/// SHA-256 of the generated configuration, likewise.
pub const SLURM_CONFIG_HASH: &str = "slinky.slurm.net/slurm-config-hash";
/// SHA-256 of the user's configuration files, likewise.
pub const CONFIG_FILES_HASH: &str = "slipway.dev/config-files-hash";
/// SHA-256 of a child as it was last rendered. A field that we stop rendering changes nothing else that a look at the live object could
/// show, so this is what makes us apply again and so removes it.
pub const RENDERED_HASH: &str = "slipway.dev/rendered-hash";
