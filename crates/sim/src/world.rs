//! What slurmctld would know: nodes, jobs, reservations, and how they change with time.

use std::collections::BTreeMap;

use crate::answer::Refusal;
use crate::job::JobRecord;
use crate::node::{NodeKind, NodeRecord};
use crate::reservation::ReservationRecord;

/// How long ended jobs stay in the queue: Slurm's `MinJobAge`.
const MIN_JOB_AGE: u64 = 300;
/// How long the scheduler takes to notice a job.
const SCHEDULING: u64 = 1;

/// When each table last changed, in seconds of the stand-in's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    pub nodes: u64,
    pub jobs: u64,
    pub reservations: u64,
    pub partitions: u64,
}

/// The state of one cluster.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub now: u64,
    pub nodes: BTreeMap<String, NodeRecord>,
    pub jobs: BTreeMap<u64, JobRecord>,
    pub reservations: BTreeMap<String, ReservationRecord>,
    /// A partition has all nodes with the feature of its name.
    pub partitions: Vec<String>,
    pub changed: Changed,
    pub last_job: u64,
    /// Reservations whose start or end has been seen.
    active: Vec<String>,
}

impl World {
    /// A cluster of `count` idle nodes `worker-0`, `worker-1`, ... in the partition `worker`.
    pub fn of_workers(count: u32, now: u64) -> Self {
        let mut world = Self { now, partitions: vec!["worker".to_owned()], ..Self::default() };
        world.changed = Changed { nodes: now, jobs: now, reservations: now, partitions: now };
        for index in 0..count {
            world.register(&format!("worker-{index}"), 2, &["worker".to_owned()]);
        }
        world
    }

    /// A slurmd registers itself. An existing record keeps what it has, as in Slurm.
    pub fn register(&mut self, name: &str, cpus: u64, features: &[String]) {
        let now = self.now;
        let record = self.nodes.entry(name.to_owned()).or_insert_with(|| NodeRecord {
            cpus,
            features: features.to_vec(),
            active_features: features.to_vec(),
            ..NodeRecord::new(name, NodeKind::Dynamic, now)
        });
        record.kind = NodeKind::Dynamic;
        record.started_at = now;
        record.is_dead = false;
        record.silent_until = 0;
        if record.is_down {
            // ReturnToService=2
            record.is_down = false;
            record.reason.clear();
        }
        self.changed.nodes = now;
    }

    /// Brings the world to the present.
    pub fn advance_to(&mut self, now: u64) {
        // One event after the other, since an end frees what the next job waits for.
        while self.now < now {
            let next = self.next_event().unwrap_or(now).clamp(self.now + 1, now);
            self.now = next;
            self.tick();
        }
        self.tick();
    }

    fn next_event(&self) -> Option<u64> {
        let jobs = self.jobs.values().map(|job| match job.state {
            "RUNNING" => job.end().0,
            "PENDING" => job.submitted_at + SCHEDULING,
            _ => job.ended_at + MIN_JOB_AGE,
        });
        let nodes = self.nodes.values().map(|node| node.silent_until);
        let reservations = self.reservations.values().flat_map(|reservation| [reservation.start, reservation.end]);
        jobs.chain(nodes).chain(reservations).filter(|at| *at > self.now).min()
    }

    fn tick(&mut self) {
        let now = self.now;
        let ended: Vec<_> =
            self.jobs.values().filter(|job| job.is_running() && job.end().0 <= now).map(|job| (job.id, job.end().1)).collect();
        for (id, how) in ended {
            self.end_job(id, how);
        }
        let before = self.jobs.len();
        self.jobs.retain(|_, job| !job.has_ended() || job.ended_at + MIN_JOB_AGE > now);
        if self.jobs.len() < before {
            self.changed.jobs = now;
        }
        if self.nodes.values().any(|node| node.silent_until == now) {
            self.changed.nodes = now;
        }
        let active: Vec<String> = self.reservations.values().filter(|it| it.is_active(now)).map(|it| it.name.clone()).collect();
        if active != self.active {
            self.active = active;
            self.changed.nodes = now;
            self.changed.reservations = now;
        }
        self.reservations.retain(|_, it| it.end > now);
        self.schedule();
    }

    fn schedule(&mut self) {
        let waiting: Vec<u64> = self.jobs.values().filter(|job| job.state == "PENDING" && !job.is_held).map(|job| job.id).collect();
        for id in waiting {
            let Some(job) = self.jobs.get(&id) else { continue };
            if job.submitted_at + SCHEDULING > self.now {
                continue;
            }
            let fits =
                |node: &NodeRecord| node.takes_jobs() && node.features.contains(&job.partition) && !self.is_in_maintenance(&node.name);
            let mut chosen: Vec<String> = job.required.clone();
            let required_fit = chosen.iter().all(|name| self.nodes.get(name).is_some_and(fits));
            let wanted = usize::try_from(job.node_count).unwrap_or(usize::MAX);
            let others = self.nodes.values().filter(|node| !job.required.contains(&node.name) && fits(node));
            chosen.extend(others.take(wanted.saturating_sub(job.required.len())).map(|node| node.name.clone()));
            if !required_fit || chosen.len() < wanted {
                continue;
            }
            for name in &chosen {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.alloc_cpus += 1;
                    node.last_busy = self.now;
                }
            }
            if let Some(job) = self.jobs.get_mut(&id) {
                job.state = "RUNNING";
                job.reason = "None";
                job.started_at = self.now;
                job.nodes = chosen;
            }
            self.changed.jobs = self.now;
            self.changed.nodes = self.now;
        }
    }

    /// Ends a job now; its nodes are free.
    pub fn end_job(&mut self, id: u64, how: &'static str) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.is_running() {
            for name in &job.nodes {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.alloc_cpus = node.alloc_cpus.saturating_sub(1);
                    node.last_busy = self.now;
                }
            }
            self.changed.nodes = self.now;
        } else {
            job.started_at = self.now;
        }
        job.state = how;
        job.ended_at = self.now;
        self.changed.jobs = self.now;
    }

    /// Takes the jobs off a node that went down; they wait again.
    pub fn requeue_jobs_of(&mut self, name: &str) {
        let running: Vec<u64> =
            self.jobs.values().filter(|job| job.is_running() && job.nodes.iter().any(|node| node == name)).map(|job| job.id).collect();
        for id in running {
            self.end_job(id, "PENDING");
            if let Some(job) = self.jobs.get_mut(&id) {
                job.nodes.clear();
                (job.started_at, job.ended_at) = (0, 0);
                job.submitted_at = self.now;
                job.reason = "BeginTime";
            }
        }
    }

    pub fn delete_node(&mut self, name: &str) -> Result<(), Refusal> {
        let why = format!("Failure to delete node {name}");
        let Some(node) = self.nodes.get(name) else { return Err(Refusal::new(2018, why)) };
        let is_reserved = self.reservations.values().any(|it| it.is_active(self.now) && it.nodes.iter().any(|node| node == name));
        if node.is_busy() || is_reserved {
            return Err(Refusal::new(2016, why));
        }
        self.nodes.remove(name);
        self.changed.nodes = self.now;
        Ok(())
    }

    /// The reservation that has the node now.
    pub fn reservation_of(&self, name: &str) -> Option<&ReservationRecord> {
        self.reservations.values().find(|it| it.is_active(self.now) && it.nodes.iter().any(|node| node == name))
    }

    fn is_in_maintenance(&self, name: &str) -> bool {
        self.reservation_of(name).is_some_and(|it| it.flags.iter().any(|flag| flag == "MAINT"))
    }

    /// Names that the list shows: records of nodes yet to come are hidden.
    pub fn is_shown(node: &NodeRecord) -> bool {
        node.kind != NodeKind::Future
    }

    /// slurmctld comes back with an empty state: it knows no node and no job, and running slurmds do not tell it.
    pub fn forget(&mut self) {
        self.nodes.clear();
        self.jobs.clear();
        self.reservations.clear();
        self.last_job = 0;
        self.changed = Changed { nodes: self.now, jobs: self.now, reservations: self.now, partitions: self.now };
    }
}
