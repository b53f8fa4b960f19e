//! cgroup.conf.

/// What we write when the user brings no cgroup.conf: version 2, and no systemd, as there is none in a container.
pub fn default_text() -> String {
    "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n".to_owned()
}
