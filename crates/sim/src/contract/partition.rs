//! Promises about partitions.

use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::model::{JobState, PartitionState, PartitionWrite};
use slipway_slurm::rest::{RestError, Version};

use super::bench::{Bench, fine, holds, not_found, refused};
use super::job::job;

pub(super) async fn partitions_are_shut_and_opened(bench: &Bench) -> Result<(), String> {
    let name = bench.target.partition.as_str();
    let shut = bench.client.write_partition(&PartitionWrite::state(name, PartitionState::Drain)).await;
    if bench.version < Version::V45 {
        return holds(matches!(shut, Err(RestError::Unsupported { .. })), || format!("{shut:?}"));
    }
    fine(shut)?;
    let drained = fine(bench.client.partition(name).await)?;
    let submitted = bench.client.submit(&job(bench, 1)).await;
    fine(bench.client.write_partition(&PartitionWrite::state(name, PartitionState::Up)).await)?;
    let open = fine(bench.client.partition(name).await)?;
    let is_so = drained.partition.state.has(&PartitionState::Drain) && open.partition.state.has(&PartitionState::Up);
    holds(is_so && open.nodes == drained.nodes, || format!("{drained:?}, then {open:?}"))?;
    refused(submitted, Errno(2070))
}

pub(super) async fn partitions_come_and_go(bench: &Bench) -> Result<(), String> {
    if bench.version < Version::V45 {
        return Ok(());
    }
    let made = PartitionWrite { node_sets: Some(bench.target.partition.clone()), ..PartitionWrite::state("contract", PartitionState::Up) };
    fine(bench.client.write_partition(&made).await)?;
    let seen = fine(bench.client.partition("contract").await)?;
    let mut submit = job(bench, 60);
    submit.partition = Some("contract".to_owned());
    let id = fine(bench.client.submit(&submit).await)?.job_id;
    bench.until_job(id, "the job to run", |job| job.job_state.has(&JobState::Running)).await?;
    let in_use = bench.client.delete_partition("contract").await;
    fine(bench.client.cancel(id).await)?;
    bench.until_job(id, "the job to have ended", |job| job.job_state.is_terminal()).await?;
    fine(bench.client.delete_partition("contract").await)?;
    not_found(bench.client.partition("contract").await)?;
    not_found(bench.client.delete_partition("contract").await)?;
    refused(in_use, Errno::PARTITION_IN_USE)?;
    holds(seen.nodes.total == 2, || format!("{seen:?}"))
}

pub(super) async fn a_missing_partition_is_told_apart(bench: &Bench) -> Result<(), String> {
    not_found(bench.client.partition("ghost").await)?;
    let partition = fine(bench.client.partition(&bench.target.partition).await)?;
    holds(partition.nodes.total == 2 && partition.node_sets == bench.target.partition, || format!("{partition:?}"))
}
