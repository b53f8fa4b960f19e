//! Writes: what a request's body does to the world.

use serde_json::{Value, json};
use slipway_slurm::hostlist::Hostlist;

use crate::answer::Refusal;
use crate::job::{JobRecord, duration_of};
use crate::node::{NodeKind, NodeRecord};
use crate::reservation::ReservationRecord;
use crate::world::World;

/// The most names one expression may stand for.
const MAX_NAMES: u128 = 65_536;

/// The words that a node's state can be set to.
const SETTABLE: [&str; 8] = ["DRAIN", "UNDRAIN", "RESUME", "IDLE", "DOWN", "FAIL", "POWER_UP", "POWER_DOWN"];

/// A list of words: an array, or one string with commas.
pub fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        Value::String(text) => Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()),
        _ => None,
    }
}

/// A number, bare or wrapped.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Object(wrapper) if wrapper.get("set").and_then(Value::as_bool) == Some(false) => None,
        Value::Object(wrapper) => wrapper.get("number").and_then(Value::as_u64),
        other => other.as_u64(),
    }
}

fn expanded(expressions: &[String], why: &str) -> Result<Vec<String>, Refusal> {
    let mut names = Vec::new();
    for expression in expressions {
        let list = Hostlist::parse(expression).map_err(|_| Refusal::new(2018, why))?;
        if list.count() > MAX_NAMES {
            return Err(Refusal::new(2018, why));
        }
        names.extend(list.names());
    }
    Ok(names)
}

impl World {
    /// Updates nodes: all known or nothing happens. A resume that does not apply to some is refused and yet done to the others.
    pub fn update_nodes(&mut self, expressions: &[String], body: &Value, user: &str) -> Result<(), Vec<Refusal>> {
        let why = format!("Failure to update node {}", expressions.join(","));
        let names = expanded(expressions, &why).map_err(|refusal| vec![refusal])?;
        if names.is_empty() || names.iter().any(|name| !self.nodes.contains_key(name)) {
            return Err(vec![Refusal::new(2018, why)]);
        }
        let states: Vec<String> = words(&body["state"]).unwrap_or_default().iter().map(|word| word.to_ascii_uppercase()).collect();
        if let Some(unknown) = states.iter().find(|word| !SETTABLE.contains(&word.as_str())) {
            return Err(vec![Refusal::new(9207, format!("Unknown flag \"{unknown}\"")), Refusal::new(2180, why)]);
        }
        let mut refused = None;
        for name in &names {
            if let Err(number) = self.update_node(name, &states, body, user) {
                refused = Some(Refusal::new(number, why.clone()));
            }
        }
        self.changed.nodes = self.now;
        refused.map_or(Ok(()), |refusal| Err(vec![refusal]))
    }

    fn update_node(&mut self, name: &str, states: &[String], body: &Value, user: &str) -> Result<(), i64> {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(name) else { return Err(2018) };
        if let Some(topology) = body["topology_str"].as_str() {
            if !topology.is_empty() {
                return Err(2178); // no topology is configured here
            }
            node.topology.clear();
        }
        let features = words(&body["features"]).filter(|list| !list.is_empty());
        let active = words(&body["features_act"]).filter(|list| !list.is_empty());
        if features.is_some() || active.is_some() {
            let available = features.unwrap_or_else(|| node.features.clone());
            let active = active.unwrap_or_else(|| node.active_features.clone());
            if active.iter().any(|feature| !available.contains(feature)) {
                return Err(2031);
            }
            (node.features, node.active_features) = (available, active);
        }
        for (key, place) in [("comment", &mut node.comment), ("extra", &mut node.extra)] {
            if let Some(text) = body[key].as_str() {
                text.clone_into(place);
            }
        }
        let mut goes_down = false;
        for state in states {
            match state.as_str() {
                "DRAIN" => {
                    node.is_draining = true;
                    node.reason.clear();
                }
                "FAIL" => node.is_failing = true,
                "DOWN" => {
                    node.is_down = true;
                    goes_down = true;
                }
                "UNDRAIN" => lift(node, now, false),
                "IDLE" => lift(node, now, true),
                "RESUME" if node.is_down || node.is_draining || node.is_failing => lift(node, now, true),
                "RESUME" => return Err(2180),
                _ => {}
            }
        }
        let is_healthy = !node.is_down && !node.is_draining && !node.is_failing;
        if let Some(reason) = body["reason"].as_str().filter(|_| !is_healthy) {
            reason.clone_into(&mut node.reason);
            node.reason_at = now;
            user.clone_into(&mut node.reason_by);
        }
        if goes_down {
            self.requeue_jobs_of(name);
        }
        Ok(())
    }

    /// Makes records from a line of slurm.conf.
    pub fn create_nodes(&mut self, line: &str) -> Result<(), Refusal> {
        const WHY: &str = "Failure to create node";
        let field = |key: &str| {
            line.split_whitespace().find_map(|word| {
                let (name, value) = word.split_once('=')?;
                name.eq_ignore_ascii_case(key).then(|| value.to_owned())
            })
        };
        let kind = match field("State").unwrap_or_default().to_ascii_uppercase().as_str() {
            "FUTURE" => NodeKind::Future,
            "CLOUD" => NodeKind::Cloud,
            "EXTERNAL" => NodeKind::External,
            _ => return Err(Refusal::new(2028, WHY)),
        };
        let names = expanded(&[field("NodeName").unwrap_or_default()], WHY)?;
        if names.iter().any(|name| self.nodes.contains_key(name)) {
            return Err(Refusal::new(2168, WHY));
        }
        for name in names {
            let mut node = NodeRecord::new(&name, kind, self.now);
            node.cpus = field("CPUs").and_then(|count| count.parse().ok()).unwrap_or(1);
            node.features = field("Feature").map(|list| list.split(',').map(str::to_owned).collect()).unwrap_or_default();
            node.active_features.clone_from(&node.features);
            self.nodes.insert(name, node);
        }
        self.changed.nodes = self.now;
        Ok(())
    }

    /// Takes a job; the second part says whether it is held.
    pub fn submit(&mut self, job: &Value) -> Result<(u64, bool), Refusal> {
        const WHY: &str = "Batch job submission failed";
        let text = |key: &str| job[key].as_str().unwrap_or_default().to_owned();
        match job["script"].as_str() {
            None => return Err(Refusal::new(9000, "Populated \"script\" field is required for job submission")),
            Some("") => return Err(Refusal::new(2009, "Batch job script empty or missing")),
            Some(_) => {}
        }
        let partition =
            Some(text("partition")).filter(|name| !name.is_empty()).or_else(|| self.partitions.first().cloned()).unwrap_or_default();
        if !self.partitions.contains(&partition) {
            return Err(Refusal::new(2000, WHY));
        }
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
            started_at: 0,
            ended_at: 0,
            limit: number(&job["time_limit"]),
            runs_for: duration_of(&text("script")),
        };
        self.jobs.insert(id, record);
        self.changed.jobs = self.now;
        Ok((id, is_held))
    }

    /// The entries of `status`: none when the job was cancelled now.
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

    /// Creates a reservation or changes the one of that name.
    pub fn write_reservation(&mut self, body: &Value) -> Result<(), Refusal> {
        let name = body["name"].as_str().unwrap_or_default().to_owned();
        let why = format!("Error creating reservation {name}");
        let existing = self.reservations.get(&name).cloned();
        let is_new = existing.is_none();
        let mut record =
            existing.unwrap_or_else(|| ReservationRecord { name: name.clone(), start: self.now, ..ReservationRecord::default() });
        if let Some(users) = words(&body["users"]) {
            record.users = users;
        }
        if record.users.is_empty() || name.is_empty() {
            return Err(Refusal::new(
                2053,
                "Either Users/Groups, AllowedPartitions, QOS and/or Accounts must be specified.  No reservation created.",
            ));
        }
        if let Some(list) = words(&body["node_list"]).filter(|list| !list.is_empty()) {
            record.nodes = expanded(&list, &why)?;
        }
        if record.nodes.iter().any(|node| !self.nodes.contains_key(node)) {
            return Err(Refusal::new(2018, why));
        }
        if let Some(flags) = words(&body["flags"]).filter(|list| !list.is_empty()) {
            record.flags = flags;
        }
        let length = record.end.saturating_sub(record.start);
        if let Some(start) = number(&body["start_time"]) {
            record.start = start;
        }
        record.end = match (number(&body["end_time"]), number(&body["duration"])) {
            (Some(end), _) => end,
            (None, Some(minutes)) => record.start + minutes * 60,
            (None, None) if is_new => return Err(Refusal::new(2053, why)),
            (None, None) => record.start + length,
        };
        let ignores_jobs = record.flags.iter().any(|flag| flag == "IGNORE_JOBS");
        if is_new && !ignores_jobs && record.nodes.iter().any(|name| self.nodes.get(name).is_some_and(NodeRecord::is_busy)) {
            return Err(Refusal::new(2016, why));
        }
        self.reservations.insert(name, record);
        self.changed.reservations = self.now;
        Ok(())
    }

    pub fn delete_reservation(&mut self, name: &str) -> Result<(), Refusal> {
        if self.reservations.remove(name).is_none() {
            return Err(Refusal::new(2053, format!("Error deleting reservation {name}")));
        }
        self.changed.reservations = self.now;
        self.changed.nodes = self.now;
        Ok(())
    }
}

/// Lifts a drain, or everything. After an undrain the node counts as silent until it was pinged again, even if it was not drained.
fn lift(node: &mut NodeRecord, now: u64, everything: bool) {
    node.is_draining = false;
    if everything {
        node.is_down = false;
        node.is_failing = false;
    } else {
        node.silent_until = now + 1;
    }
    if !node.is_down && !node.is_failing {
        node.reason.clear();
    }
}
