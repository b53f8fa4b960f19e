//! Queries about a cluster. Unknown is a separate answer.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    time::Duration,
};

use jiff::Timestamp;
use slipway_plan::{controller::Behind, gate::Answer};
use slipway_slurm::{
    hostlist::{HostSet, Hostlist},
    rest::model::{Node, NodeState, QueuedJob},
    snapshot::{Jobs, Snapshot},
};
use tokio::time::Instant;

/// Maximum age of the queue for ruling out jobs. An older queue may lack a recent job: it shows that there are jobs, not that there are none.
pub(super) const FRESH: Duration = Duration::from_secs(2);
/// Maximum number of nodes in one list: as many as Slurm supports.
pub(super) const MAX_HOSTS: usize = 1 << 16;
/// Cause of an unknown answer without a session.
const NO_SESSION: &str = "there is no RestApi by which Slurm could be asked";

/// Answers if an unfinished job names any of these partitions: pending, alone or among others, running, suspended or completing.
///
/// *No* requires a fresh queue: call [`super::Clusters::read_soon`] first.
pub fn partitions_have_jobs(snapshot: Option<&Snapshot>, partitions: &[String], now: Instant) -> Answer {
    let Some(snapshot) = snapshot else { return Answer::Unknown(NO_SESSION.to_owned()) };
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
            Answer::Unknown("jobs may have been submitted since the queue was read; it is read again".to_owned())
        }
        None => Answer::No,
    }
}

/// Unfinished jobs that name the partition, alone or among others, or hold or require one of the nodes; or why they are not known.
///
/// An empty list requires a fresh queue: call [`super::Clusters::read_soon`] first.
pub fn jobs_naming(snapshot: Option<&Snapshot>, partition: &str, nodes: &[&str], now: Instant) -> Result<Vec<String>, String> {
    let snapshot = snapshot.ok_or_else(|| NO_SESSION.to_owned())?;
    let jobs = snapshot.fresh_jobs(now).map_err(|why| why.to_string())?;
    let nodes: HashSet<&str> = nodes.iter().copied().collect();
    let mut found = Vec::new();
    let users: BTreeSet<u64> = users(jobs, &nodes)?.into_values().flatten().collect();
    for job in jobs.iter() {
        let names_partition = job.partition.is_empty() || job.partition.split(',').any(|named| named.trim() == partition);
        if names_partition || users.contains(&job.job_id) {
            found.push(job.job_id.to_string());
        }
    }
    if found.is_empty() && snapshot.queue_age(now).is_none_or(|age| age > FRESH) {
        return Err("jobs may have been submitted since the queue was read; it is read again".to_owned());
    }
    Ok(found)
}

/// Those of `nodes` that a host list names, or the parse error.
fn named<'n>(text: &str, nodes: &HashSet<&'n str>) -> Result<BTreeSet<&'n str>, String> {
    if text.trim().is_empty() {
        return Ok(BTreeSet::new());
    }
    let set = Hostlist::parse(text).and_then(|hosts| hosts.to_set(MAX_HOSTS)).map_err(|error| error.to_string())?;
    Ok(set.names().filter_map(|host| nodes.get(host.as_str()).copied()).collect())
}

/// Jobs that hold or require each of `nodes`, without nodes that have none.
fn users<'n>(jobs: &Jobs, nodes: &HashSet<&'n str>) -> Result<BTreeMap<&'n str, BTreeSet<u64>>, String> {
    let mut found: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for node in nodes {
        match jobs.on(node) {
            (_, true) => return Err("a running job has a list of nodes that cannot be read".to_owned()),
            (holders, false) if holders.is_empty() => {}
            (holders, false) => found.entry(*node).or_default().extend(holders.iter().map(|job| job.job_id)),
        }
    }
    for QueuedJob { job_id, required_nodes, .. } in jobs.iter().filter(|job| !job.required_nodes.is_empty()) {
        for node in named(required_nodes, nodes).map_err(|error| format!("job {job_id}: {error}"))? {
            found.entry(node).or_default().insert(*job_id);
        }
    }
    Ok(found)
}

/// Reason why each of these nodes' records is needed, by node: a current or later reservation names it, or a job holds or requires it. Nodes that
/// nothing needs are left out. The reservation called `own` does not count.
///
/// The bool is true if it is certain that nothing else needs them: queue and reservations are fresh. Fails if nothing is known.
pub fn needs(snapshot: Option<&Snapshot>, nodes: &[&str], own: &str, now: Instant) -> Result<(BTreeMap<String, String>, bool), String> {
    let snapshot = snapshot.ok_or_else(|| NO_SESSION.to_owned())?;
    let jobs = snapshot.fresh_jobs(now).map_err(|why| why.to_string())?;
    let nodes: HashSet<&str> = nodes.iter().copied().collect();
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    // Our own maintenance reservation follows the records, and releases one that is to be deleted.
    for reservation in snapshot.reservations().iter().filter(|reservation| reservation.name != own) {
        let name = &reservation.name;
        for node in named(&reservation.node_list, &nodes).map_err(|error| format!("reservation `{name}`: {error}"))? {
            found.entry(node.to_owned()).or_insert_with(|| format!("reservation `{name}` names it"));
        }
    }
    for (node, jobs) in users(jobs, &nodes)? {
        found.entry(node.to_owned()).or_insert_with(|| match jobs.first() {
            Some(one) if jobs.len() == 1 => format!("job {one} requires it"),
            Some(first) => format!("{} jobs require it, such as {first}", jobs.len()),
            None => String::new(),
        });
    }
    let is_fresh = |age: Option<Duration>| age.is_some_and(|age| age <= FRESH);
    Ok((found, is_fresh(snapshot.queue_age(now)) && is_fresh(snapshot.reservations_age(now))))
}

/// Number of workers, and those that last read their configuration before `since`; or why that is not known.
///
/// Times are whole seconds of the workers' own clocks, and slurmctld notifies its workers after it has read its own.
pub fn workers_behind(snapshot: Option<&Snapshot>, since: Timestamp, now: Instant) -> Result<(usize, Vec<Behind>), String> {
    let snapshot = snapshot.ok_or_else(|| NO_SESSION.to_owned())?;
    let nodes = snapshot.fresh_nodes(now).map_err(|why| why.to_string())?;
    if nodes.missing > 0 {
        return Err(format!("Slurm's list lacks {} nodes that were there before", nodes.missing));
    }
    let workers: Vec<&Node> = nodes.iter().filter(|node| has_slurmd(node)).collect();
    let behind = workers.iter().filter_map(|node| {
        let started_at = node.slurmd_start_time.moment();
        let is_behind = started_at.is_none_or(|at| at.as_second() < since.as_second());
        // A node that is back and has not reported its start time is not notified again yet.
        let answers = started_at.is_some() && !node.state.has_any(&[NodeState::NotResponding, NodeState::Down]);
        is_behind.then(|| Behind { node: node.name.clone(), answers })
    });
    let behind = behind.collect();
    Ok((workers.len(), behind))
}

/// Nodes that registered themselves, from the last reading however old; empty if there was none.
pub fn registered_nodes(snapshot: Option<&Snapshot>) -> HostSet {
    let nodes = snapshot.into_iter().flat_map(|snapshot| snapshot.nodes().iter());
    nodes.filter(|node| node.state.has(&NodeState::DynamicNorm)).map(|node| node.name.as_str()).collect()
}

/// True if a slurmd should be running for the record.
fn has_slurmd(node: &Node) -> bool {
    const WITHOUT: &[NodeState] =
        &[NodeState::Future, NodeState::External, NodeState::PoweredDown, NodeState::PoweringDown, NodeState::PoweringUp];
    !node.state.has_any(WITHOUT)
}

#[cfg(test)]
mod tests;
