//! Kubernetes' own timers, shorter than by default where tests wait for them and what they mean stays the same. Each with its default and its reason.

/// Default 40 s. How long a kubelet may be silent before its node counts as lost: tests of dead nodes wait for it. Four times the kubelet's own
/// period, as by default, so that a busy machine loses no node.
pub(crate) const NODE_MONITOR_GRACE: &str = "20s";
/// Default 10 s. How often a kubelet looks at its node, and reports what changed.
pub(crate) const NODE_STATUS_UPDATE: &str = "5s";
/// Default 40. A kubelet renews its lease four times in this.
pub(crate) const NODE_LEASE_SECONDS: u32 = 20;
/// Default 1 min. How often a kubelet looks at each pod again: a changed ConfigMap or Secret is in its pods after at most this.
pub(crate) const KUBELET_SYNC: &str = "5s";
/// Default 5 min. The longest pause before an ended container is started again: tests kill daemons several times in a row. Not shorter, or nobody
/// could see a container that waits for its start.
pub(crate) const CRASH_LOOP_BACK_OFF: &str = "5s";
