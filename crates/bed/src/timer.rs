//! Kubernetes' own timers, shorter than the defaults if tests wait for them and their meaning stays the same. Each with its default and its reason.

/// Time without a heartbeat from a kubelet before its node counts as lost; default 40 s. Tests of dead nodes wait for it. Four times the kubelet's
/// own period, as by default, so that a busy machine loses no node.
pub(crate) const NODE_MONITOR_GRACE: &str = "20s";
/// Interval at which a kubelet checks its node and reports changes; default 10 s.
pub(crate) const NODE_STATUS_UPDATE: &str = "5s";
/// Lease duration of a kubelet; default 40. The kubelet renews it four times in this time.
pub(crate) const NODE_LEASE_SECONDS: u32 = 20;
/// Interval at which a kubelet syncs each pod; default 1 min. A changed ConfigMap or Secret reaches its pods within this time.
pub(crate) const KUBELET_SYNC: &str = "5s";
/// Longest backoff before an ended container is restarted; default 5 min. Tests kill daemons several times in a row. Not shorter, or a container in
/// backoff could not be observed.
pub(crate) const CRASH_LOOP_BACK_OFF: &str = "5s";
