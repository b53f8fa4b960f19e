//! Lost jobs, found only by polling Slurm's own table.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use serde_json::Value;

/// A job in one poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub id: u64,
    /// The base state, such as `RUNNING`.
    pub state: String,
    pub restarts: u64,
    pub submitted: u64,
    /// Start time in seconds since 1970; zero or in the future while the job is pending.
    pub started: u64,
    pub name: String,
    /// Index in its array; 0 if it is in none.
    pub element: u64,
    /// The nodes that it has or had, as Slurm writes them.
    pub nodes: String,
}

/// A start of a job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Start {
    pub job: String,
    pub element: u64,
    /// In seconds since 1970.
    pub at: u64,
    nodes: String,
}

impl Start {
    pub fn new(job: &str, element: u64, at: u64, nodes: &str) -> Self {
        Self { job: job.to_owned(), element, at, nodes: nodes.to_owned() }
    }

    /// True if the node is one of its own. Only lists such as `worker-[0,2-4],other` are understood.
    pub fn is_on(&self, node: &str) -> bool {
        let mut depth = 0;
        let mut elements = self.nodes.split(|symbol| {
            depth += i32::from(symbol == '[') - i32::from(symbol == ']');
            symbol == ',' && depth == 0
        });
        elements.any(|element| match element.strip_suffix(']').and_then(|element| element.split_once('[')) {
            None => element == node,
            Some((prefix, ranges)) => {
                let number: Option<u64> = node.strip_prefix(prefix).and_then(|number| number.parse().ok());
                number.is_some_and(|number| ranges.split(',').any(|range| contains(range, number)))
            }
        })
    }
}

fn contains(range: &str, number: u64) -> bool {
    let (low, high) = range.split_once('-').unwrap_or((range, range));
    low.parse().is_ok_and(|low: u64| low <= number) && high.parse().is_ok_and(|high: u64| number <= high)
}

/// A job, and what happened to it without being requested.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Loss {
    pub job: u64,
    pub what: String,
}

/// Every job that was ever seen or announced.
#[derive(Debug, Default)]
pub struct Ledger {
    last: BTreeMap<u64, Seen>,
    announced: BTreeMap<u64, Instant>,
    excused: BTreeSet<u64>,
    losses: BTreeSet<Loss>,
    starts: BTreeSet<Start>,
}

impl Ledger {
    /// Announces a submitted job: every poll that starts from now on must find it.
    pub fn announce(&mut self, job: u64, now: Instant) {
        self.announced.insert(job, now);
    }

    /// Excuses a job: whatever happens to it from now on is intended.
    pub fn excuse(&mut self, job: u64) {
        self.excused.insert(job);
    }

    /// Records the whole table, as requested at `began`.
    pub fn look(&mut self, table: Vec<Seen>, began: Instant) {
        let now: BTreeMap<u64, Seen> = table.into_iter().map(|job| (job.id, job)).collect();
        let announced = self.announced.iter().filter(|(_, since)| **since < began).map(|(job, _)| *job);
        let mut found: Vec<Loss> = Vec::new();
        let mut lost = |job: u64, what: String| found.push(Loss { job, what });
        for job in announced.filter(|job| !now.contains_key(job) && !self.last.contains_key(job)) {
            lost(job, "was submitted and is not in Slurm's table".to_owned());
        }
        for before in self.last.values() {
            match now.get(&before.id) {
                None if !is_ended(&before.state) => lost(before.id, format!("vanished from Slurm's table while it was {}", before.state)),
                Some(after) if after.submitted != before.submitted => {
                    lost(before.id, "was forgotten: another job has its number".to_owned());
                }
                Some(after) if before.state == "RUNNING" && after.state == "PENDING" => {
                    lost(before.id, "went back from RUNNING to PENDING".to_owned());
                }
                Some(after) if before.state == "RUNNING" && after.state == "RUNNING" && after.started != before.started => {
                    lost(before.id, "was restarted".to_owned());
                }
                _ => {}
            }
        }
        for job in now.values() {
            if job.restarts > 0 {
                lost(job.id, "was requeued".to_owned());
            }
            if is_ended(&job.state) && job.state != "COMPLETED" {
                lost(job.id, format!("ended {}", job.state));
            }
        }
        found.retain(|loss| !self.excused.contains(&loss.job));
        self.losses.extend(found);
        let started = now.values().filter(|job| job.state != "PENDING" && !job.nodes.is_empty());
        self.starts.extend(started.map(|Seen { name, element, started, nodes, .. }| Start::new(name, *element, *started, nodes)));
        // Slurm purges records of ended jobs after a while; their last state is worth keeping.
        self.last.extend(now);
    }

    pub fn losses(&self) -> Vec<Loss> {
        self.losses.iter().cloned().collect()
    }

    /// Every start that a poll saw.
    pub fn starts(&self) -> Vec<Start> {
        self.starts.iter().cloned().collect()
    }

    /// The job in the last poll that contained it, or `None` if no poll did.
    pub fn job(&self, id: u64) -> Option<&Seen> {
        self.last.get(&id)
    }
}

fn is_ended(state: &str) -> bool {
    !matches!(state, "PENDING" | "RUNNING" | "SUSPENDED" | "COMPLETING" | "CONFIGURING")
}

/// The jobs in a response of slurmrestd, or `None` if it is an error or not the whole table.
pub fn parse(answer: &Value) -> Option<Vec<Seen>> {
    if answer["errors"].as_array().is_none_or(|errors| !errors.is_empty()) {
        return None;
    }
    answer["jobs"].as_array()?.iter().map(parse_job).collect()
}

fn parse_job(job: &Value) -> Option<Seen> {
    let number = |value: &Value| value["number"].as_u64().or_else(|| value.as_u64());
    Some(Seen {
        id: job["job_id"].as_u64()?,
        state: job["job_state"][0].as_str()?.to_owned(),
        restarts: number(&job["restart_cnt"])?,
        submitted: number(&job["submit_time"])?,
        started: number(&job["start_time"])?,
        name: job["name"].as_str()?.to_owned(),
        element: number(&job["array_task_id"]).unwrap_or_default(),
        nodes: job["nodes"].as_str().unwrap_or_default().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    fn seen(state: &str) -> Seen {
        let (name, nodes) = ("j7".to_owned(), "w-0".to_owned());
        Seen { id: 7, state: state.to_owned(), restarts: 0, submitted: 100, started: 110, name, element: 0, nodes }
    }

    #[test]
    fn starts_are_kept_with_their_nodes() {
        let mut ledger = Ledger::default();
        ledger.look(vec![seen("PENDING")], Instant::now());
        assert_eq!(ledger.starts(), []);
        for _ in 0..2 {
            ledger.look(vec![Seen { nodes: "w-[0,3-12],v".to_owned(), ..seen("RUNNING") }], Instant::now());
        }
        let starts = ledger.starts();
        assert_eq!(starts.len(), 1);
        let on = ["w-0", "w-3", "w-12", "v", "w-1", "w-13", "w-", "u", "w-[0"].map(|node| starts[0].is_on(node));
        assert_eq!(on, [true, true, true, true, false, false, false, false, false]);
    }

    /// Losses that a sequence of polls of one job shows; an empty poll has no job.
    fn losses(looks: &[Option<Seen>]) -> Vec<String> {
        let mut ledger = Ledger::default();
        for look in looks {
            ledger.look(look.iter().cloned().collect(), Instant::now());
        }
        ledger.losses().into_iter().map(|loss| loss.what).collect()
    }

    #[test]
    fn a_job_that_waits_runs_ends_and_is_purged_is_not_lost() {
        let waits = Seen { started: 0, ..seen("PENDING") };
        let looks = [Some(waits), Some(seen("RUNNING")), Some(seen("RUNNING")), Some(seen("COMPLETED")), None];
        assert_eq!(losses(&looks), Vec::<String>::new());
    }

    #[test]
    fn every_way_to_lose_a_job_is_told() {
        assert_eq!(losses(&[Some(seen("RUNNING")), None]), ["vanished from Slurm's table while it was RUNNING"]);
        assert_eq!(losses(&[Some(seen("PENDING")), None]), ["vanished from Slurm's table while it was PENDING"]);
        assert_eq!(losses(&[Some(seen("RUNNING")), Some(seen("PENDING"))]), ["went back from RUNNING to PENDING"]);
        assert_eq!(losses(&[Some(seen("RUNNING")), Some(Seen { started: 200, ..seen("RUNNING") })]), ["was restarted"]);
        assert_eq!(losses(&[Some(seen("RUNNING")), Some(seen("NODE_FAIL"))]), ["ended NODE_FAIL"]);
        assert_eq!(losses(&[Some(seen("CANCELLED"))]), ["ended CANCELLED"]);
        assert_eq!(losses(&[Some(Seen { restarts: 1, ..seen("COMPLETED") })]), ["was requeued"]);
        let another = Seen { submitted: 300, ..seen("PENDING") };
        assert_eq!(losses(&[Some(seen("RUNNING")), Some(another)]), ["was forgotten: another job has its number"]);
    }

    #[test]
    fn an_announced_job_must_be_in_every_later_look() {
        let mut ledger = Ledger::default();
        let before = Instant::now();
        let announced = before + Duration::from_secs(1);
        ledger.announce(7, announced);
        ledger.look(Vec::new(), before);
        assert_eq!(ledger.losses(), [], "the look began before the job was there");
        ledger.look(Vec::new(), announced + Duration::from_secs(1));
        assert_eq!(ledger.losses().len(), 1);
    }

    #[test]
    fn an_excused_job_may_end_as_it_likes() {
        let mut ledger = Ledger::default();
        ledger.excuse(7);
        ledger.look(vec![seen("CANCELLED")], Instant::now());
        assert_eq!(ledger.losses(), []);
    }

    #[test]
    fn an_answer_with_errors_is_no_table() {
        let job = json!({"job_id": 7, "name": "j7", "nodes": "w-0", "job_state": ["RUNNING", "COMPLETING"], "restart_cnt": 0,
                         "array_task_id": {"set": false, "number": 0}, "submit_time": {"number": 100}, "start_time": {"number": 110}});
        assert_eq!(parse(&json!({"errors": [], "jobs": [job]})), Some(vec![seen("RUNNING")]));
        assert_eq!(parse(&json!({"errors": [{"error": "no"}], "jobs": []})), None);
        assert_eq!(parse(&json!({})), None);
    }
}
