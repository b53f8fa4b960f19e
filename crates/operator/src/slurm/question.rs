//! Questions about a cluster. Not knowing is an answer of its own.

use std::time::Duration;

use jiff::Timestamp;
use slipway_plan::{controller::Behind, gate::Answer};
use slipway_slurm::{
    hostlist::{HostSet, Hostlist},
    rest::model::{Node, NodeState},
    snapshot::Snapshot,
};
use tokio::time::Instant;

/// A queue of this age may lack a job that came since: it says that there are jobs, and not that there are none.
pub(super) const FRESH: Duration = Duration::from_secs(2);
/// The most nodes that one job's list may name: as many as Slurm can have.
const MAX_HOSTS: usize = 1 << 16;
/// Where there is no link, this is why nothing is known.
const NO_LINK: &str = "there is no RestApi by which Slurm could be asked";

/// Whether a job that has not ended names any of these partitions: one that waits, alone or among others, runs, is suspended or is still leaving.
///
/// *No* needs a queue that was read a moment ago: have it read by [`super::Clusters::read_soon`] first.
pub fn partitions_have_jobs(snapshot: Option<&Snapshot>, partitions: &[String], now: Instant) -> Answer {
    let Some(snapshot) = snapshot else { return Answer::Unknown(NO_LINK.to_owned()) };
    let jobs = match snapshot.fresh_jobs(now) {
        Ok(jobs) => jobs,
        Err(why) => return Answer::Unknown(why.to_string()),
    };
    // Ended jobs are not in the snapshot.
    let mut unclear = None;
    for job in jobs.iter() {
        if job.partition.is_empty() {
            unclear = Some(format!("Slurm names no partition of job {}", job.job_id));
        } else if job.partition.split(',').any(|named| partitions.iter().any(|partition| partition == named.trim())) {
            return Answer::Yes;
        }
    }
    match unclear {
        Some(why) => Answer::Unknown(why),
        None if snapshot.queue_age(now).is_none_or(|age| age > FRESH) => {
            Answer::Unknown("jobs may have come since Slurm's queue was read; it is read anew".to_owned())
        }
        None => Answer::No,
    }
}

/// Jobs that have not ended and name the partition, alone or among others, or hold or require one of the nodes; or why they are not known.
///
/// That there are none needs a queue that was read a moment ago: have it read by [`super::Clusters::read_soon`] first.
pub fn jobs_naming(snapshot: Option<&Snapshot>, partition: &str, nodes: &[&str], now: Instant) -> Result<Vec<String>, String> {
    let snapshot = snapshot.ok_or_else(|| NO_LINK.to_owned())?;
    let jobs = snapshot.fresh_jobs(now).map_err(|why| why.to_string())?;
    let mut found = Vec::new();
    for job in jobs.iter() {
        let hosts = |text: &str| match text.trim() {
            "" => Ok(false),
            text => {
                let set = Hostlist::parse(text).and_then(|hosts| hosts.to_set(MAX_HOSTS));
                set.map(|set| nodes.iter().any(|node| set.contains(node))).map_err(|error| format!("job {}: {error}", job.job_id))
            }
        };
        let names_partition = job.partition.is_empty() || job.partition.split(',').any(|named| named.trim() == partition);
        if names_partition || hosts(&job.nodes)? || hosts(&job.required_nodes)? {
            found.push(job.job_id.to_string());
        }
    }
    if found.is_empty() && snapshot.queue_age(now).is_none_or(|age| age > FRESH) {
        return Err("jobs may have come since Slurm's queue was read; it is read anew".to_owned());
    }
    Ok(found)
}

/// How many workers there are, and which of them last read their configuration before `since`; or why that is not known.
///
/// Times are whole seconds of the workers' own clocks, and slurmctld tells its workers when it has read its own.
pub fn workers_behind(snapshot: Option<&Snapshot>, since: Timestamp, now: Instant) -> Result<(usize, Vec<Behind>), String> {
    let snapshot = snapshot.ok_or_else(|| NO_LINK.to_owned())?;
    let nodes = snapshot.fresh_nodes(now).map_err(|why| why.to_string())?;
    if nodes.missing > 0 {
        return Err(format!("Slurm's list lacks {} nodes that were there before", nodes.missing));
    }
    let workers: Vec<&Node> = nodes.iter().filter(|node| has_slurmd(node)).collect();
    let behind = workers.iter().filter_map(|node| {
        let started_at = node.slurmd_start_time.moment();
        let is_behind = started_at.is_none_or(|at| at.as_second() < since.as_second());
        // One that is back and has not said when it started is not to be told again yet.
        let answers = started_at.is_some() && !node.state.has_any(&[NodeState::NotResponding, NodeState::Down]);
        is_behind.then(|| Behind { node: node.name.clone(), answers })
    });
    let behind = behind.collect();
    Ok((workers.len(), behind))
}

/// Nodes that registered themselves, however long ago that was read; none where it never was.
pub fn registered_nodes(snapshot: Option<&Snapshot>) -> HostSet {
    let nodes = snapshot.into_iter().flat_map(|snapshot| snapshot.nodes().iter());
    nodes.filter(|node| node.state.has(&NodeState::DynamicNorm)).map(|node| node.name.as_str()).collect()
}

/// Whether a slurmd should be running for the record.
fn has_slurmd(node: &Node) -> bool {
    const WITHOUT: &[NodeState] =
        &[NodeState::Future, NodeState::External, NodeState::PoweredDown, NodeState::PoweringDown, NodeState::PoweringUp];
    !node.state.has_any(WITHOUT)
}

#[cfg(test)]
mod tests;
