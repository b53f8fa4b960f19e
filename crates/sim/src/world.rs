//! State that slurmctld would hold: nodes, jobs, reservations, and how they change over time.

use std::collections::BTreeMap;

use crate::answer::Refusal;
use crate::controller::{Configuration, ControllerRecord};
use crate::job::JobRecord;
use crate::node::{NodeKind, NodeRecord};
use crate::partition::PartitionRecord;
use crate::reservation::ReservationRecord;

/// Seconds that ended jobs stay in the queue: Slurm's `MinJobAge`.
const MIN_JOB_AGE: u64 = 300;

/// Time of the last change of each table, in seconds of the stand-in's clock.
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
    pub partitions: Vec<PartitionRecord>,
    /// In configuration order.
    pub controllers: Vec<ControllerRecord>,
    pub configuration: Configuration,
    /// Topologies and their units; without any, no node can have a place in one.
    pub topologies: BTreeMap<String, Vec<String>>,
    pub changed: Changed,
    pub last_job: u64,
    /// Reservations that were active at the last tick.
    active: Vec<String>,
}

impl World {
    /// A cluster of `count` idle nodes `worker-0`, `worker-1`, ... in the partition `worker`.
    pub fn of_workers(count: u32, now: u64) -> Self {
        let mut world = Self {
            now,
            partitions: vec![PartitionRecord::in_file("worker")],
            controllers: vec![ControllerRecord::new("slurm-controller-0")],
            configuration: Configuration { in_file: 1, in_force: 1, read_at: now },
            ..Self::default()
        };
        world.changed = Changed { nodes: now, jobs: now, reservations: now, partitions: now };
        for index in 0..count {
            world.register(&format!("worker-{index}"), 2, &["worker".to_owned()]);
        }
        world
    }

    /// Registers a slurmd. An existing record keeps its values, as in Slurm.
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
        record.is_invalid = false;
        if record.is_down {
            // ReturnToService=2. A drain stays, with its reason.
            record.is_down = false;
            if !record.is_draining {
                record.reason.clear();
            }
        }
        self.changed.nodes = now;
    }

    /// Like [`Self::register`], with a place in the topology. If the place is not configured, the node is registered but not usable.
    pub fn register_at(&mut self, name: &str, cpus: u64, features: &[String], place: &str) {
        let is_new = !self.nodes.contains_key(name);
        let is_known = self.has_place(place);
        self.register(name, cpus, features);
        let Some(node) = self.nodes.get_mut(name).filter(|_| is_new) else { return };
        if is_known {
            place.clone_into(&mut node.topology);
        } else {
            node.is_draining = true;
            node.is_invalid = true;
        }
    }

    /// Advances the world to `now`.
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
            _ if job.gone_at > self.now => job.gone_at,
            "PENDING" => job.eligible_at,
            _ => job.ended_at + MIN_JOB_AGE,
        });
        let nodes = self.nodes.values().flat_map(|node| [node.silent_until, node.completing_until]);
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
        if self.nodes.values().any(|node| node.silent_until == now || node.completing_until == now) {
            self.changed.nodes = now;
        }
        if self.jobs.values().any(|job| job.gone_at == now) {
            self.changed.jobs = now;
        }
        self.clear_gone();
        let active: Vec<String> = self.reservations.values().filter(|it| it.is_active(now)).map(|it| it.name.clone()).collect();
        if active != self.active {
            self.active = active;
            self.changed.nodes = now;
            self.changed.reservations = now;
        }
        self.reservations.retain(|_, it| it.goes_on(now));
        self.schedule();
    }

    pub fn delete_node(&mut self, name: &str) -> Result<(), Refusal> {
        let why = format!("Failure to delete node {name}");
        let Some(node) = self.nodes.get(name) else { return Err(Refusal::new(2018, why)) };
        let is_reserved = self.reservations.values().any(|it| it.is_active(self.now) && it.nodes.iter().any(|node| node == name));
        if node.is_busy(self.now) || is_reserved {
            return Err(Refusal::new(2016, why));
        }
        self.nodes.remove(name);
        // A deletion by itself is no change: if no responding slurmd is left, it is not reported (observed on 26.05.5).
        if self.nodes.values().any(|node| !node.is_dead && node.started_at > 0) {
            self.changed.nodes = self.now;
        }
        Ok(())
    }

    /// Makes slurmctld and every reachable slurmd read their configuration again.
    pub fn reconfigure(&mut self) {
        for node in self.nodes.values_mut().filter(|node| !node.is_dead && node.started_at > 0) {
            node.started_at = self.now;
        }
        self.configuration = Configuration { in_force: self.configuration.in_file, read_at: self.now, ..self.configuration };
        self.partitions.retain(|partition| partition.is_in_file);
        for partition in &mut self.partitions {
            "UP".clone_into(&mut partition.state);
        }
        self.changed.nodes = self.now;
        self.changed.partitions = self.now;
    }

    /// The reservation that holds the node now, or `None`.
    pub fn reservation_of(&self, name: &str) -> Option<&ReservationRecord> {
        self.reservations.values().find(|it| it.is_active(self.now) && it.nodes.iter().any(|node| node == name))
    }

    pub(crate) fn is_in_maintenance(&self, name: &str) -> bool {
        self.reservation_of(name).is_some_and(|it| it.flags.iter().any(|flag| flag == "MAINT"))
    }

    /// True if the list shows the node; FUTURE nodes are hidden.
    pub fn is_shown(node: &NodeRecord) -> bool {
        node.kind != NodeKind::Future
    }

    /// Restarts slurmctld with an empty state: it has no nodes and no jobs, and running slurmds do not register again.
    pub fn forget(&mut self) {
        self.nodes.clear();
        self.jobs.clear();
        self.reservations.clear();
        self.last_job = 0;
        self.configuration.read_at = self.now;
        self.changed = Changed { nodes: self.now, jobs: self.now, reservations: self.now, partitions: self.now };
    }
}
