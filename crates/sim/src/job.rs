//! Jobs of the stand-in, which start, run and end by its clock.

use serde_json::json;

use crate::template::Fields;

/// slurmctld's record of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobRecord {
    pub id: u64,
    pub name: String,
    pub partition: String,
    pub comment: String,
    pub state: &'static str,
    pub reason: &'static str,
    pub is_held: bool,
    pub node_count: u64,
    pub required: Vec<String>,
    pub nodes: Vec<String>,
    pub submitted_at: u64,
    /// Earliest time at which it may start.
    pub eligible_at: u64,
    pub started_at: u64,
    pub ended_at: u64,
    /// Time at which its last process is gone.
    pub gone_at: u64,
    /// Time limit in minutes.
    pub limit: Option<u64>,
    /// Run time in seconds if it is not ended earlier.
    pub runs_for: u64,
    /// Seconds that its processes take to exit when it ends.
    pub leaves_in: u64,
}

impl JobRecord {
    pub fn is_running(&self) -> bool {
        self.state == "RUNNING"
    }

    /// True if it could start now.
    pub fn waits(&self, now: u64) -> bool {
        self.state == "PENDING" && !self.is_held && self.eligible_at <= now && self.gone_at <= now
    }

    /// Base state and flags.
    pub fn states(&self, now: u64) -> Vec<&'static str> {
        if self.gone_at > now { vec![self.state, "COMPLETING"] } else { vec![self.state] }
    }

    pub fn has_ended(&self) -> bool {
        !matches!(self.state, "PENDING" | "RUNNING")
    }

    /// Time at which it ends by itself, and its final state.
    pub fn end(&self) -> (u64, &'static str) {
        let done = self.started_at + self.runs_for;
        match self.limit.map(|minutes| self.started_at + minutes * 60) {
            Some(stopped) if stopped < done => (stopped, "TIMEOUT"),
            _ => (done, "COMPLETED"),
        }
    }

    /// End time as Slurm shows it. For a running job, the time at which Slurm would end it.
    fn shown_end(&self) -> u64 {
        const YEAR: u64 = 365 * 24 * 60 * 60;
        match self.state {
            "RUNNING" => self.started_at + self.limit.map_or(YEAR, |minutes| minutes * 60),
            _ => self.ended_at,
        }
    }

    /// Its own fields, whatever the version.
    pub fn fields(&self, now: u64) -> Fields {
        let number = |number: u64| json!({"set": true, "infinite": false, "number": number});
        vec![
            ("job_id", json!(self.id)),
            ("name", json!(self.name)),
            ("partition", json!(self.partition)),
            ("comment", json!(self.comment)),
            ("job_state", json!(self.states(now))),
            ("state_reason", json!(self.reason)),
            ("nodes", json!(slipway_slurm::hostlist::compress(self.nodes.iter().map(String::as_str)))),
            ("required_nodes", json!(self.required.join(","))),
            ("batch_host", json!(self.nodes.first().cloned().unwrap_or_default())),
            ("node_count", number(self.node_count)),
            ("priority", number(u64::from(!self.is_held))),
            ("hold", json!(self.is_held)),
            ("time_limit", self.limit.map_or_else(|| json!({"set": false, "infinite": true, "number": 0}), number)),
            ("submit_time", number(self.submitted_at)),
            ("start_time", number(self.started_at)),
            ("end_time", number(self.shown_end())),
            ("job_resources", json!(null)),
            ("user_name", json!("slurm")),
        ]
    }
}

/// Run time of a script in seconds: the argument of its `sleep`, or one.
pub fn duration_of(script: &str) -> u64 {
    let mut words = script.split_whitespace().skip_while(|word| *word != "sleep");
    words.nth(1).and_then(|seconds| seconds.parse().ok()).unwrap_or(1)
}

/// Seconds that a script's processes take to exit: the `sleep` in its trap of TERM, or one.
pub fn leaving_of(script: &str) -> u64 {
    let trap = script.split("trap \"sleep ").nth(1).and_then(|rest| rest.split('"').next());
    trap.and_then(|seconds| seconds.parse().ok()).unwrap_or(1)
}
