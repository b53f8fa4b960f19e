//! Entry into new namespaces: our own program enters a control group and execs `unshare`.
//!
//! `unshare` forks the first process of the new PID namespace and stays as its parent. When the parent of `unshare` dies, `unshare` is killed too,
//! and `--kill-child` then kills the first process and with it every process of the namespace. So a SIGKILL anywhere in the chain leaves no process
//! behind. `unshare` itself is in the new namespaces (all but the PID namespace), so its PID gives access to them.

use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, set_parent_process_death_signal};

use crate::cgroup;
use crate::failure::{Context, Failure};

/// Command that runs `inner` (hidden subcommand and its arguments) of our own program as PID 1 of new namespaces.
pub fn stage_command(cgroup: &str, inner: &[String]) -> Result<Command, Failure> {
    let program = std::env::current_exe().context(|| "could not find our own program".to_owned())?;
    let mut command = Command::new(program);
    command.args(["inside", "stage", cgroup]).args(inner);
    Ok(command)
}

/// Enters the control group and execs `unshare`; returns only on failure.
pub fn enter_stage(cgroup: &str, inner: &[String]) -> Failure {
    let prepared = set_parent_process_death_signal(Some(Signal::KILL))
        .context(|| "could not tie our life to our parent's".to_owned())
        .and_then(|()| cgroup::enter(cgroup))
        .and_then(|()| std::env::current_exe().context(|| "could not find our own program".to_owned()));
    let program = match prepared {
        Ok(program) => program,
        Err(failure) => return failure,
    };
    let error = Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--uts", "--ipc", "--cgroup", "--fork", "--kill-child=SIGKILL"])
        .arg(program)
        .arg("inside")
        .args(inner)
        .exec();
    Failure::new(format!("could not run unshare: {error}")).advise("install the package util-linux")
}
