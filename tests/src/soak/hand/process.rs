//! Signals to processes of pods and of Kubernetes nodes, and files in them, from outside: images need no shell, and a frozen kubelet runs no command.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;

use rustix::process::{Pid, kill_process};
use slipway_bed::bed::Bed;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::program::Program;

pub(super) use rustix::process::Signal;

/// Sends a signal to the processes of this program in a container. Other programs there, such as steps of jobs, get none.
pub(super) fn signal_in(container: &str, program: &str, signal: Signal) -> Result<(), Failure> {
    for pid in processes(container, program)?.into_iter().filter_map(Pid::from_raw) {
        kill_process(pid, signal).context(|| format!("could not signal {program}"))?;
    }
    Ok(())
}

/// Fills the file system of a folder that a program in a container sees, and returns the file that takes all the space.
pub(super) fn fill_disk(container: &str, program: &str, folder: &str) -> Result<PathBuf, Failure> {
    const BLOCK: [u8; 4096] = [0; 4096];
    let pid = processes(container, program)?[0];
    let path = PathBuf::from(format!("/proc/{pid}/root{folder}/full"));
    let what = || format!("could not fill {folder}");
    let mut file = File::create(&path).context(what)?;
    loop {
        match file.write_all(&BLOCK) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => return Ok(path),
            outcome => outcome.context(what)?,
        }
    }
}

/// IDs of the processes of this program in a container; at least one.
fn processes(container: &str, program: &str) -> Result<Vec<i32>, Failure> {
    let entries = std::fs::read_dir("/proc").context(|| "could not list processes".to_owned())?;
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    // A process may end while it is looked at.
    let read = |pid: i32, file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    // The name of a process differs after a reconfigure, when slurmd executes itself again; what it was called with stays.
    let called = |pid: i32| read(pid, "cmdline").split('\0').next().and_then(|path| path.rsplit('/').next()).map(str::to_owned);
    let ours: Vec<i32> = pids.filter(|pid| called(*pid).as_deref() == Some(program) && read(*pid, "cgroup").contains(container)).collect();
    if ours.is_empty() {
        return Err(Failure::new(format!("no {program} runs in the container")));
    }
    Ok(ours)
}

/// Sends a signal to a daemon of a Kubernetes node, such as its kubelet.
pub(super) fn signal_daemon(bed: &Bed, node: &str, daemon: &str, signal: Signal) -> Result<(), Failure> {
    on_node(bed, node, &format!("kill -{} $(pidof {daemon})", signal.as_raw()))
}

/// Runs a shell command in the namespaces of a Kubernetes node.
pub(super) fn on_node(bed: &Bed, node: &str, command: &str) -> Result<(), Failure> {
    let enter = bed.enter(Some(super::index(node)?))?;
    let (program, args) = enter.split_first().context(|| "there is no way into the node".to_owned())?;
    Program::new(program).args(args).args(["sh", "-c", command]).output().map(drop)
}
