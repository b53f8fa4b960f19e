//! cgroup.conf.

/// Content if the user provides no cgroup.conf: version 2, and no systemd, because a container has none.
pub fn default_text() -> String {
    "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n".to_owned()
}
