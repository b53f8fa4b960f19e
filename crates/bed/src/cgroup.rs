//! Control groups of a bed: one of its own in each mounted hierarchy, so that limits are enforced and nothing is left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::failure::{Context, Failure};
use crate::patience::Patience;

const ROOT: &str = "/sys/fs/cgroup";

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Folder name below `/sys/fs/cgroup`.
    pub name: String,
    /// `cgroup` or `cgroup2`.
    pub kind: String,
}

impl Hierarchy {
    fn path(&self) -> PathBuf {
        Path::new(ROOT).join(&self.name)
    }

    fn mount_data(&self) -> Option<std::ffi::CString> {
        let data = match (self.kind.as_str(), self.name.as_str()) {
            ("cgroup2", _) => return None,
            (_, "systemd") => "none,name=systemd",
            (_, controllers) => controllers,
        };
        std::ffi::CString::new(data).ok()
    }

    fn mount(&self) -> Result<(), Failure> {
        let path = self.path();
        fs::create_dir_all(&path).context(|| format!("could not make {}", path.display()))?;
        mount(self.kind.as_str(), &path, self.kind.as_str(), MountFlags::empty(), self.mount_data().as_deref())
            .context(|| format!("could not mount the control groups {}", path.display()))
    }
}

/// The hierarchies mounted below `/sys/fs/cgroup`, from the text of `/proc/self/mounts`.
pub fn parse_mounts(mounts: &str) -> Vec<Hierarchy> {
    mounts
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').skip(1);
            let (target, kind) = (words.next()?, words.next()?);
            let name = target.strip_prefix(ROOT)?.strip_prefix('/')?;
            matches!(kind, "cgroup" | "cgroup2").then(|| Hierarchy { name: name.to_owned(), kind: kind.to_owned() })
        })
        .collect()
}

pub fn mounted() -> Result<Vec<Hierarchy>, Failure> {
    let mounts = fs::read_to_string("/proc/self/mounts").context(|| "could not read /proc/self/mounts".to_owned())?;
    Ok(parse_mounts(&mounts))
}

/// Creates the group `name` in every hierarchy and moves this process into it.
pub fn enter(name: &str) -> Result<(), Failure> {
    for hierarchy in mounted()? {
        let group = hierarchy.path().join(name);
        fs::create_dir_all(&group).context(|| format!("could not make the control group {}", group.display()))?;
        if hierarchy.name == "cpuset" {
            // A new cpuset is empty and accepts no process. Its children inherit the values copied here.
            for file in ["cpuset.cpus", "cpuset.mems"] {
                copy_text(&hierarchy.path().join(file), &group.join(file))?;
            }
            write(&group.join("cgroup.clone_children"), "1")?;
        }
        // Zero means the writing process.
        write(&group.join("cgroup.procs"), "0")?;
    }
    Ok(())
}

/// Remounts every hierarchy, so that a new cgroup namespace shows only its own groups.
pub fn remount(hierarchies: &[Hierarchy]) -> Result<(), Failure> {
    for hierarchy in hierarchies {
        unmount(hierarchy.path(), UnmountFlags::DETACH).context(|| format!("could not unmount {}", hierarchy.path().display()))?;
        hierarchy.mount()?;
    }
    Ok(())
}

/// Mounts the hierarchies into a `/sys` that has none yet.
pub fn mount_all(hierarchies: &[Hierarchy]) -> Result<(), Failure> {
    mount("tmpfs", ROOT, "tmpfs", MountFlags::empty(), None).context(|| format!("could not mount a tmpfs on {ROOT}"))?;
    hierarchies.iter().try_for_each(Hierarchy::mount)
}

/// Freezes or thaws every process of the group `name`, including those of its pods.
pub fn freeze(name: &str, frozen: bool) -> Result<(), Failure> {
    let state = Path::new(ROOT).join("freezer").join(name).join("freezer.state");
    write(&state, if frozen { "FROZEN" } else { "THAWED" })
}

/// Memory charged to the group `name` in bytes, or `None` if it cannot be read.
pub fn memory(name: &str) -> Option<u64> {
    let file = Path::new(ROOT).join("memory").join(name).join("memory.usage_in_bytes");
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

/// Removes the group `name` and its subgroups from every hierarchy; waits until their last processes are gone.
pub fn remove(name: &str) -> Result<(), Failure> {
    let mut patience = Patience::start();
    // A frozen process does not die, not even from SIGKILL, until it is thawed.
    thaw_tree(&Path::new(ROOT).join("freezer").join(name));
    for hierarchy in mounted()? {
        let group = hierarchy.path().join(name);
        while group.exists() {
            if remove_tree(&group) {
                break;
            }
            if patience.is_exhausted() {
                return Err(Failure::new(format!("the control group {} still holds processes", group.display()))
                    .advise(format!("look at them with `cat {}/cgroup.procs`", group.display())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(())
}

fn thaw_tree(group: &Path) {
    // A group without this file has no process to thaw.
    let _ = fs::write(group.join("freezer.state"), "THAWED");
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            thaw_tree(&entry.path());
        }
    }
}

fn remove_tree(group: &Path) -> bool {
    let Ok(entries) = fs::read_dir(group) else { return true };
    let mut gone = true;
    for entry in entries.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            gone &= remove_tree(&entry.path());
        }
    }
    gone && fs::remove_dir(group).is_ok()
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text).context(|| format!("could not write {text} to {}", path.display()))
}

/// Copies the text of a cgroup file. `fs::copy` would copy nothing, because the size of these files reads as zero.
fn copy_text(from: &Path, to: &Path) -> Result<(), Failure> {
    let text = fs::read_to_string(from).context(|| format!("could not read {}", from.display()))?;
    write(to, text.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_a_hybrid_machine_are_found() {
        let text = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
                    cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                    cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n\
                    cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                    cgroup2 /elsewhere cgroup2 rw 0 0\n";
        let names: Vec<_> = parse_mounts(text).into_iter().map(|h| format!("{}:{}", h.kind, h.name)).collect();
        assert_eq!(names, ["cgroup:cpu", "cgroup:systemd", "cgroup2:unified"]);
    }

    #[test]
    fn a_machine_with_one_unified_hierarchy_has_none_of_ours() {
        assert!(parse_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n").is_empty());
    }
}
