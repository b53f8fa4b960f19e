//! Job queue of the stand-in: jobs are submitted, start, complete and end by its clock.

use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::job::{JobRecord, duration_of, leaving_of};
use crate::node::NodeRecord;
use crate::update::{expanded, number, words};
use crate::world::World;

/// Seconds that the scheduler takes to notice a job.
const SCHEDULING: u64 = 1;
/// Seconds that a requeued job waits before it may start again.
const AFTER_REQUEUE: u64 = 120;

impl World {
    /// Starts every job that can start.
    pub(crate) fn schedule(&mut self) {
        let waiting: Vec<u64> = self.jobs.values().filter(|job| job.waits(self.now)).map(|job| job.id).collect();
        for id in waiting {
            let Some(job) = self.jobs.get(&id) else { continue };
            let Some(partition) = self.partitions.iter().find(|it| it.name == job.partition) else { continue };
            if partition.state != "UP" {
                self.set_reason(id, "PartitionDown");
                continue;
            }
            let fits = |node: &NodeRecord| {
                node.takes_jobs(self.now) && node.features.contains(&partition.node_set) && !self.is_in_maintenance(&node.name)
            };
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

    fn set_reason(&mut self, id: u64, reason: &'static str) {
        if let Some(job) = self.jobs.get_mut(&id).filter(|job| job.reason != reason) {
            job.reason = reason;
            self.changed.jobs = self.now;
        }
    }

    /// Starts a job on a node at once, past the scheduler, and returns its ID. It runs until its time limit in minutes.
    pub fn run_now(&mut self, node: &str, partition: &str, limit: u64) -> u64 {
        self.last_job += 1;
        let job = JobRecord {
            id: self.last_job,
            name: format!("job-{}", self.last_job),
            partition: partition.to_owned(),
            comment: String::new(),
            state: "RUNNING",
            reason: "None",
            is_held: false,
            node_count: 1,
            required: Vec::new(),
            nodes: vec![node.to_owned()],
            submitted_at: self.now,
            eligible_at: self.now,
            started_at: self.now,
            ended_at: 0,
            gone_at: 0,
            limit: Some(limit),
            runs_for: limit * 60,
            leaves_in: 1,
        };
        self.jobs.insert(job.id, job);
        if let Some(node) = self.nodes.get_mut(node) {
            node.alloc_cpus += 1;
            node.last_busy = self.now;
        }
        (self.changed.jobs, self.changed.nodes) = (self.now, self.now);
        self.last_job
    }

    /// Submits a job; returns its ID, and true if it is held.
    pub fn submit(&mut self, job: &Value) -> Result<(u64, bool), Refusal> {
        const WHY: &str = "Batch job submission failed";
        let text = |key: &str| job[key].as_str().unwrap_or_default().to_owned();
        match job["script"].as_str() {
            None => return Err(Refusal::new(9000, "Populated \"script\" field is required for job submission")),
            Some("") => return Err(Refusal::new(2009, "Batch job script empty or missing")),
            Some(_) => {}
        }
        let named = Some(text("partition")).filter(|name| !name.is_empty());
        let partition = match named {
            Some(name) => self.partitions.iter().find(|it| it.name == name),
            None => self.partitions.first(),
        };
        let Some(partition) = partition else { return Err(Refusal::new(2000, WHY)) };
        if matches!(partition.state.as_str(), "DRAIN" | "INACTIVE") {
            return Err(Refusal::new(2070, WHY));
        }
        let partition = partition.name.clone();
        let required = expanded(&words(&job["required_nodes"]).unwrap_or_default(), WHY)?;
        if required.iter().any(|name| !self.nodes.contains_key(name)) {
            return Err(Refusal::new(2018, WHY));
        }
        let is_held = job["hold"].as_bool().unwrap_or_default();
        self.last_job += 1;
        let id = self.last_job;
        let record = JobRecord {
            id,
            name: text("name"),
            partition,
            comment: text("comment"),
            state: "PENDING",
            reason: if is_held { "JobHeldUser" } else { "None" },
            is_held,
            node_count: number(&job["minimum_nodes"]).unwrap_or(1).max(required.len() as u64),
            required,
            nodes: Vec::new(),
            submitted_at: self.now,
            eligible_at: self.now + SCHEDULING,
            started_at: 0,
            ended_at: 0,
            gone_at: 0,
            limit: number(&job["time_limit"]),
            runs_for: duration_of(&text("script")),
            leaves_in: leaving_of(&text("script")),
        };
        self.jobs.insert(id, record);
        self.changed.jobs = self.now;
        Ok((id, is_held))
    }

    /// Cancels a job and returns the entries of `status`: none if the job was cancelled now.
    pub fn cancel(&mut self, id: u64) -> Vec<Value> {
        let status = |number: i64, known: bool| {
            let words = Refusal::new(number, "").error;
            let id_shown = json!({"set": known, "infinite": false, "number": if known { id } else { 0 }});
            json!({"error": {"string": words, "code": number, "message": words}, "step_id": id.to_string(), "job_id": id_shown,
                   "federation": {"sibling": ""}})
        };
        match self.jobs.get(&id) {
            None => vec![status(2017, false)],
            Some(job) if job.has_ended() => vec![status(2021, true)],
            Some(_) => {
                self.end_job(id, "CANCELLED");
                Vec::new()
            }
        }
    }

    /// Updates a job that has not ended.
    pub fn update_job(&mut self, id: u64, body: &Value) -> Result<(), Refusal> {
        const WHY: &str = "Job update requested failed";
        let partition = body["partition"].as_str();
        let is_known = partition.is_none_or(|name| self.partitions.iter().any(|it| it.name == name));
        let now = self.now;
        let Some(job) = self.jobs.get_mut(&id) else { return Err(Refusal::new(2017, WHY)) };
        if job.has_ended() {
            return Err(Refusal::new(2084, WHY));
        }
        if !is_known {
            return Err(Refusal::new(2000, WHY));
        }
        if let Some(partition) = partition {
            partition.clone_into(&mut job.partition);
        }
        if let Some(minutes) = number(&body["time_limit"]) {
            job.limit = Some(minutes);
        }
        if let Some(comment) = body["comment"].as_str() {
            comment.clone_into(&mut job.comment);
        }
        if let Some(hold) = body["hold"].as_bool() {
            job.is_held = hold;
            job.reason = if hold { "JobHeldUser" } else { "None" };
        }
        self.changed.jobs = now;
        Ok(())
    }

    /// Requeues a job.
    pub fn requeue(&mut self, id: u64, hold: bool) -> Result<(), Refusal> {
        let why = format!("Requeue JobID={id} failed");
        let Some(job) = self.jobs.get(&id) else { return Err(Refusal::new(2017, why)) };
        if job.state == "PENDING" {
            return Err(Refusal::new(2024, why));
        }
        self.end_job(id, "PENDING");
        if let Some(job) = self.jobs.get_mut(&id) {
            job.is_held = hold;
            job.reason = if hold { "JobHeldUser" } else { "BeginTime" };
            job.eligible_at = self.now + AFTER_REQUEUE;
        }
        Ok(())
    }

    /// Ends a job now; its nodes are free once its last process is gone.
    pub fn end_job(&mut self, id: u64, how: &'static str) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.is_running() {
            job.gone_at = self.now + job.leaves_in;
            for name in &job.nodes {
                if let Some(node) = self.nodes.get_mut(name) {
                    node.alloc_cpus = node.alloc_cpus.saturating_sub(1);
                    node.last_busy = self.now;
                    node.completing_until = node.completing_until.max(job.gone_at);
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

    /// Requeues the jobs of a node that went down; none of their processes remain there.
    pub fn requeue_jobs_of(&mut self, name: &str) {
        let runs_here = |job: &&JobRecord| job.is_running() && job.nodes.iter().any(|node| node == name);
        let running: Vec<u64> = self.jobs.values().filter(runs_here).map(|job| job.id).collect();
        for id in running {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.leaves_in = 0;
            }
            // A running job can always be requeued.
            let _ = self.requeue(id, false);
        }
        self.clear_gone();
    }

    /// Clears the nodes of requeued jobs whose processes are gone.
    pub(crate) fn clear_gone(&mut self) {
        for job in self.jobs.values_mut().filter(|job| job.state == "PENDING" && job.gone_at <= self.now) {
            job.nodes.clear();
            (job.started_at, job.ended_at) = (0, 0);
        }
    }
}
