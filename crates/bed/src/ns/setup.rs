//! Setup steps shared by the first process of a bed and of a node.

use std::path::Path;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};

use crate::failure::{Context, Failure};
use crate::program::Program;

/// Mounts a private `/proc` and an empty `/run`, invisible outside, and sets the host name.
pub(super) fn private_root(hostname: &str) -> Result<(), Failure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .context(|| "could not make the mounts private".to_owned())?;
    mount_fresh("proc", "/proc")?;
    mount_fresh("tmpfs", "/run")?;
    rustix::system::sethostname(hostname.as_bytes()).context(|| "could not set the host name".to_owned())
}

pub(super) fn mount_fresh(kind: &str, target: &str) -> Result<(), Failure> {
    mount(kind, target, kind, MountFlags::empty(), None).context(|| format!("could not mount {kind} on {target}"))
}

/// Propagates mounts from here into the namespaces below, as containers expect.
pub(super) fn share_mounts() -> Result<(), Failure> {
    mount_change("/", MountPropagationFlags::SHARED | MountPropagationFlags::REC).context(|| "could not share the mounts".to_owned())
}

/// Runs `ip` with arguments split at whitespace.
pub(super) fn ip(words: &str) -> Result<(), Failure> {
    Program::new("ip").args(words.split_whitespace()).output().map(drop)
}

/// Sets a sysctl that belongs to this network namespace alone.
pub(super) fn net_sysctl(name: &str, value: &str) -> Result<(), Failure> {
    let path = Path::new("/proc/sys/net").join(name);
    std::fs::write(&path, value).context(|| format!("could not write {}", path.display()))
}
