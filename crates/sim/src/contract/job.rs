//! Promises about jobs.

use std::time::Duration;

use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::model::{Cancelled, Job, JobState, JobSubmit, JobUpdate, NodeState, NodeUpdate, Number};
use slipway_slurm::rest::transport::Later;
use slipway_slurm::rest::{RestError, Version};
use tokio::time::Instant;

use super::bench::{Bench, fine, holds, not_found, refused};

/// A job of `seconds` seconds on the second worker.
pub(super) fn job(bench: &Bench, seconds: u32) -> JobSubmit {
    JobSubmit {
        name: "contract".to_owned(),
        partition: Some(bench.target.partition.clone()),
        script: format!("#!/bin/sh\nsleep {seconds}\n"),
        current_working_directory: "/tmp".to_owned(),
        environment: vec!["PATH=/usr/bin:/bin".to_owned()],
        required_nodes: vec![bench.target.workers[1].clone()],
        time_limit: Some(Number::Set(5)),
        ..JobSubmit::default()
    }
}

pub(super) async fn a_job_holds_its_node_until_cancelled(bench: &Bench) -> Result<(), String> {
    let id = fine(bench.client.submit(&job(bench, 120)).await)?.job_id;
    let running = bench.until_job(id, "the job to run", |job| job.job_state.has(&JobState::Running)).await?;
    holds(running.nodes == bench.target.workers[1], || format!("it runs on {}", running.nodes))?;
    let (start, end) = (running.start_time.get().unwrap_or_default(), running.end_time.get().unwrap_or_default());
    holds(end == start + 300, || format!("it started at {start}, its limit is 5 minutes, its end {end}"))?;
    // Only the state is promised: 26.05.5 was observed to count no CPU of a running job for as long as it ran.
    let node = bench.node(1).await?;
    holds(node.state.is_busy(), || format!("{node:?}"))?;
    let worker = bench.worker(1)?;
    refused(bench.client.delete_node(&worker).await, Errno::NODES_BUSY)?;
    fine(bench.client.update_node(&worker, &NodeUpdate::drain("contract")).await)?;
    let node = bench.node(1).await?;
    holds(node.state.has(&NodeState::Drain) && node.state.is_busy() && !node.state.is_drained(), || format!("{node:?}"))?;
    refused(bench.client.delete_node(&worker).await, Errno::NODES_BUSY)?;
    let first = fine(bench.client.cancel(id).await)?;
    holds(first == Cancelled::Now, || format!("{first:?}"))?;
    bench.until_job(id, "the job to have ended", |job| job.job_state.is_terminal()).await?;
    let second = fine(bench.client.cancel(id).await)?;
    holds(second == Cancelled::AlreadyEnded, || format!("{second:?}"))?;
    bench.until_node(1, "the node to be drained", |node| node.state.is_drained()).await.map(drop)
}

pub(super) async fn a_job_ends_by_itself_and_its_node_is_drained_then(bench: &Bench) -> Result<(), String> {
    let id = fine(bench.client.submit(&job(bench, 3)).await)?.job_id;
    bench.until_job(id, "the job to run", |job| job.job_state.has(&JobState::Running)).await?;
    fine(bench.client.update_node(&bench.worker(1)?, &NodeUpdate::drain("contract")).await)?;
    let ended = bench.until_job(id, "the job to end", |job| job.job_state.is_terminal()).await?;
    holds(ended.job_state.has(&JobState::Completed), || format!("it is {}", ended.job_state))?;
    bench.until_node(1, "the node to be drained", |node| node.state.is_drained() && node.alloc_cpus == 0).await?;
    let briefs = fine(bench.client.job_states(&[id, 999_999]).await)?;
    holds(briefs.len() == 1 && briefs[0].job_id == id.to_string() && briefs[0].state.is_terminal(), || format!("{briefs:?}"))
}

pub(super) async fn a_held_job_is_taken_and_waits(bench: &Bench) -> Result<(), String> {
    let id = fine(bench.client.submit(&JobSubmit { hold: Some(true), ..job(bench, 1) }).await)?.job_id;
    let held = fine(bench.client.job(id).await)?;
    let is_held = held.job_state.has(&JobState::Pending) && held.hold && held.state_reason == "JobHeldUser" && held.nodes.is_empty();
    holds(is_held, || format!("{held:?}"))?;
    holds(held.required_nodes == bench.target.workers[1], || format!("it requires {}", held.required_nodes))
}

/// Time that the processes of a stubborn job take to exit.
const STUBBORN_FOR: Duration = Duration::from_secs(3);

/// A check of one job.
type Check = for<'a> fn(&'a Bench, u64) -> Later<'a, Result<(), String>>;

/// Checks a promise about a job whose processes take long to exit. A shell that gets the signal before it has read its first line exits at once,
/// which proves nothing about the promise. Then the next job gets more seconds to start.
async fn with_stubborn(bench: &Bench, check: Check) -> Result<(), String> {
    let mut checked = Ok(());
    for seconds in [2, 5, 15] {
        let id = start_stubborn(bench, seconds).await?;
        let since = Instant::now();
        checked = check(bench, id).await;
        if checked.is_ok() {
            break;
        }
        bench.until_job(id, "the job to leave its node", |job| !job.job_state.holds_nodes()).await?;
        if since.elapsed() >= STUBBORN_FOR {
            break;
        }
    }
    checked
}

/// Starts a job whose processes take long to exit, and lets it run for `seconds` seconds.
async fn start_stubborn(bench: &Bench, seconds: i64) -> Result<u64, String> {
    let script = format!("#!/bin/sh\ntrap \"sleep {}\" TERM\nsleep 120\n", STUBBORN_FOR.as_secs());
    let id = fine(bench.client.submit(&JobSubmit { script, ..job(bench, 0) }).await)?.job_id;
    let runs = |job: &Job| {
        let started = job.start_time.moment().filter(|_| job.job_state.has(&JobState::Running));
        started.is_some_and(|started| bench.now().as_second() >= started.as_second() + seconds)
    };
    bench.until_job(id, "the job to run for a while", runs).await.map(|_| id)
}

pub(super) async fn a_job_that_leaves_still_holds_its_node(bench: &Bench) -> Result<(), String> {
    with_stubborn(bench, |bench, id| Box::pin(leaves_slowly(bench, id))).await
}

async fn leaves_slowly(bench: &Bench, id: u64) -> Result<(), String> {
    fine(bench.client.cancel(id).await)?;
    let leaving = fine(bench.client.job(id).await)?;
    let is_leaving = leaving.job_state.has(&JobState::Completing) && leaving.job_state.has(&JobState::Cancelled);
    holds(is_leaving && !leaving.job_state.is_terminal() && leaving.nodes == bench.target.workers[1], || format!("{leaving:?}"))?;
    let node = bench.node(1).await?;
    holds(node.state.has(&NodeState::Completing) && node.state.is_busy(), || format!("{node:?}"))?;
    refused(bench.client.delete_node(&bench.worker(1)?).await, Errno::NODES_BUSY)?;
    bench.until_job(id, "the job to be gone", |job| job.job_state.is_terminal()).await?;
    bench.until_node(1, "the node to be free", |node| !node.state.is_busy()).await.map(drop)
}

pub(super) async fn a_held_job_is_changed_and_released(bench: &Bench) -> Result<(), String> {
    let id = fine(bench.client.submit(&JobSubmit { hold: Some(true), ..job(bench, 1) }).await)?.job_id;
    let update = JobUpdate { time_limit: Some(Number::Set(3)), comment: Some("changed".to_owned()), ..JobUpdate::default() };
    fine(bench.client.update_job(id, &update).await)?;
    let changed = fine(bench.client.job(id).await)?;
    holds(changed.time_limit == Number::Set(3) && changed.comment == "changed" && changed.hold, || format!("{changed:?}"))?;
    let elsewhere = JobUpdate { partition: Some("nowhere".to_owned()), ..JobUpdate::default() };
    refused(bench.client.update_job(id, &elsewhere).await, Errno::INVALID_PARTITION)?;
    fine(bench.client.update_job(id, &JobUpdate { hold: Some(false), ..JobUpdate::default() }).await)?;
    bench.until_job(id, "the job to have ended", |job| job.job_state.is_terminal()).await?;
    refused(bench.client.update_job(id, &update).await, Errno::JOB_FINISHED)?;
    not_found(bench.client.update_job(999_999, &update).await)
}

pub(super) async fn a_job_is_put_back_into_the_queue(bench: &Bench) -> Result<(), String> {
    if bench.version < Version::V45 {
        let answer = bench.client.requeue(1, false).await;
        return holds(matches!(answer, Err(RestError::Unsupported { .. })), || format!("{answer:?}"));
    }
    with_stubborn(bench, |bench, id| Box::pin(requeues_slowly(bench, id))).await?;
    not_found(bench.client.requeue(999_999, false).await)
}

async fn requeues_slowly(bench: &Bench, id: u64) -> Result<(), String> {
    fine(bench.client.requeue(id, true).await)?;
    // The job is already pending, but stays on the node until its processes are gone.
    let leaving = fine(bench.client.job(id).await)?;
    let is_leaving = leaving.job_state.has(&JobState::Pending) && leaving.job_state.has(&JobState::Completing);
    holds(is_leaving && leaving.job_state.holds_nodes() && leaving.nodes == bench.target.workers[1], || format!("{leaving:?}"))?;
    let waits = bench.until_job(id, "the job to wait", |job| !job.job_state.holds_nodes()).await?;
    let is_held = waits.job_state.has(&JobState::Pending) && waits.hold && waits.state_reason == "JobHeldUser" && waits.nodes.is_empty();
    holds(is_held, || format!("{waits:?}"))?;
    refused(bench.client.requeue(id, true).await, Errno::JOB_PENDING)
}

pub(super) async fn bad_jobs_are_refused(bench: &Bench) -> Result<(), String> {
    let elsewhere = JobSubmit { partition: Some("nowhere".to_owned()), ..job(bench, 1) };
    refused(bench.client.submit(&elsewhere).await, Errno::INVALID_PARTITION)?;
    refused(bench.client.submit(&JobSubmit { script: String::new(), ..job(bench, 1) }).await, Errno(2009))
}

pub(super) async fn a_missing_job_is_told_apart(bench: &Bench) -> Result<(), String> {
    not_found(bench.client.job(999_999).await)?;
    not_found(bench.client.cancel(999_999).await)
}
