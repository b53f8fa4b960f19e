//! The queue, and the jobs on each node.

use std::collections::HashMap;

use crate::hostlist::{HostSet, Hostlist};
use crate::rest::model::QueuedJob;

/// Maximum nodes in one job's list: Slurm's limit on nodes.
const MAX_HOSTS: usize = 1 << 16;
/// Jobs on more nodes than this are not in the index: there can be only few of them at a time, and each would take much memory.
const NARROW: u64 = 64;

/// Slurm's queue: the jobs that have not ended.
#[derive(Clone, Debug, Default)]
pub struct Jobs {
    list: Vec<QueuedJob>,
    /// Places in the list of the jobs that hold a node, by node; without those on many nodes.
    narrow: HashMap<String, Vec<usize>>,
    /// Jobs on many nodes.
    wide: Vec<(usize, HostSet)>,
    /// True if the nodes of a job cannot be parsed, so that it may hold any.
    is_any_unreadable: bool,
}

impl Jobs {
    pub(super) fn of(list: Vec<QueuedJob>) -> Self {
        let mut jobs = Self::default();
        for (place, job) in list.iter().enumerate().filter(|(_, job)| job.job_state.holds_nodes()) {
            jobs.note(place, &job.nodes);
        }
        Self { list, ..jobs }
    }

    fn note(&mut self, place: usize, nodes: &str) {
        match Hostlist::parse(nodes).and_then(|hosts| hosts.to_set(MAX_HOSTS)) {
            Err(_) => self.is_any_unreadable = true,
            Ok(hosts) if hosts.len() > NARROW => self.wide.push((place, hosts)),
            Ok(hosts) => {
                for host in hosts.names() {
                    self.narrow.entry(host).or_default().push(place);
                }
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &QueuedJob> {
        self.list.iter()
    }

    /// Jobs that hold the node; the second part is true if a job's nodes cannot be parsed, so that it may hold it too.
    pub fn on<'a>(&'a self, node: &str) -> (Vec<&'a QueuedJob>, bool) {
        let narrow = self.narrow.get(node).into_iter().flatten();
        let wide = self.wide.iter().filter(|(_, hosts)| hosts.contains(node)).map(|(place, _)| place);
        (narrow.chain(wide).map(|place| &self.list[*place]).collect(), self.is_any_unreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::model::JobState;

    fn job(job_id: u64, nodes: &str, state: JobState) -> QueuedJob {
        QueuedJob { job_id, nodes: nodes.to_owned(), job_state: [state].into(), ..QueuedJob::default() }
    }

    fn on(jobs: &Jobs, node: &str) -> Vec<u64> {
        jobs.on(node).0.iter().map(|job| job.job_id).collect()
    }

    #[test]
    fn jobs_are_found_by_node_however_many_they_hold() {
        let jobs = Jobs::of(vec![
            job(1, "w-[0-3]", JobState::Running),
            job(2, "w-[2-999]", JobState::Running),
            job(3, "w-2", JobState::Suspended),
            job(4, "w-2", JobState::Pending),
        ]);
        assert_eq!((on(&jobs, "w-0"), on(&jobs, "w-2"), on(&jobs, "w-999")), (vec![1], vec![1, 3, 2], vec![2]));
        assert_eq!((on(&jobs, "w-1000"), on(&jobs, "w")), (vec![], vec![]));
        assert_eq!(jobs.iter().count(), 4);
        assert!(!jobs.on("w-0").1);
    }

    #[test]
    fn a_list_that_cannot_be_parsed_counts_for_every_node() {
        let jobs = Jobs::of(vec![job(1, "w-[0-", JobState::Running), job(2, "w-1", JobState::Running)]);
        assert_eq!((on(&jobs, "w-1"), jobs.on("w-1").1, jobs.on("other").1), (vec![2], true, true));
    }
}
