//! Events: reasons and actions that dashboards and alerts match.

/// Reasons of events, `events.k8s.io`'s `reason`.
pub mod reason {
    pub const CREATE_SUCCEEDED: &str = "CreateSucceeded";
    pub const CREATE_FAILED: &str = "CreateFailed";
    pub const PATCH_FAILED: &str = "PatchFailed";
    pub const DELETE_SUCCEEDED: &str = "DeleteSucceeded";
    pub const DELETE_FAILED: &str = "DeleteFailed";
    pub const SYNC_FAILED: &str = "SyncFailed";
    pub const SYNC_FINALIZER_FAILED: &str = "SyncFinalizerFailed";
    pub const SCALING_UP: &str = "ScalingUp";
    pub const SCALING_DOWN: &str = "ScalingDown";
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    /// With a space, unlike all others.
    pub const SCHEDULED_UPDATE: &str = "Scheduled Update";
    pub const NODE_CORDON: &str = "NodeCordon";
    pub const SLURM_NODE_NOT_REGISTERED: &str = "SlurmNodeNotRegistered";
    pub const DEFUNCT_SLURM_NODE_PRUNED: &str = "DefunctSlurmNodePruned";
    pub const CONTROLLER_REF_FAILED: &str = "ControllerRefFailed";
    pub const HOSTNAME_MISMATCH: &str = "HostnameMismatch";
    pub const FAILED_DAEMON_POD: &str = "FailedDaemonPod";
    pub const SUCCEEDED_DAEMON_POD: &str = "SucceededDaemonPod";
    pub const CONFLICTING_CONTROLLER: &str = "ConflictingController";
    pub const SUCCESSFUL_CREATE: &str = "SuccessfulCreate";
    pub const FAILED_CREATE: &str = "FailedCreate";
    pub const SUCCESSFUL_UPDATE: &str = "SuccessfulUpdate";
    pub const FAILED_UPDATE: &str = "FailedUpdate";
    pub const SUCCESSFUL_DELETE: &str = "SuccessfulDelete";
    pub const FAILED_DELETE: &str = "FailedDelete";
}

/// Actions of events, `events.k8s.io`'s `action`.
pub mod action {
    pub const CREATE: &str = "Create";
    pub const DELETE: &str = "Delete";
    pub const UPDATE: &str = "Update";
    pub const PATCH: &str = "Patch";
    pub const SYNC: &str = "Sync";
    pub const SYNC_FINALIZER: &str = "SyncFinalizer";
    pub const SCALE_UP: &str = "ScaleUp";
    pub const SCALE_DOWN: &str = "ScaleDown";
    pub const ROLLING_UPDATE: &str = "RollingUpdate";
    pub const SCHEDULED_UPDATE: &str = "ScheduledUpdate";
    pub const CORDON: &str = "Cordon";
    pub const INFO: &str = "Info";
}
