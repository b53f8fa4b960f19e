//! Loss and recovery of slurmctld's state.

use slipway_bed::failure::Failure;

use crate::eventually::eventually;
use crate::slurm::Slurm;

/// Removes slurmctld's state, with a copy beside it, kills slurmctld and waits until it answers without any.
pub async fn lose_state(slurm: &Slurm) -> Result<(), Failure> {
    with_slurmctld_stopped(slurm, "mkdir saved; cp -a !(saved) saved; rm -r !(saved)")?;
    until_slurmctld_answers(slurm).await
}

/// Puts the copy back, kills slurmctld and waits until it answers with it.
pub async fn restore_state(slurm: &Slurm) -> Result<(), Failure> {
    with_slurmctld_stopped(slurm, "rm -r !(saved); mv saved/* .; rmdir saved")?;
    until_slurmctld_answers(slurm).await
}

/// Runs a command in the folder with slurmctld's state, which is a volume, while slurmctld is stopped, and kills it.
fn with_slurmctld_stopped(slurm: &Slurm, command: &str) -> Result<(), Failure> {
    const SLURMCTLD: &str = "$(cat /proc/1/task/1/children)";
    let script = format!("set -e; kill -STOP {SLURMCTLD}; cd /var/spool/slurmctld/*/; {command}");
    slurm.on_controller(&["bash", "-O", "extglob", "-c", &script])?;
    // The shell may end with the container, before it can report success.
    let _ = slurm.on_controller(&["bash", "-c", &format!("kill -KILL {SLURMCTLD}")]);
    Ok(())
}

/// Waits until slurmctld answers.
pub(super) async fn until_slurmctld_answers(slurm: &Slurm) -> Result<(), Failure> {
    eventually("slurmctld to answer", async || slurm.on_controller(&["sinfo"]).map(drop).map_err(|failure| failure.to_string())).await
}
