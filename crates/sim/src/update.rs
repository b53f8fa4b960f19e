//! Writes: the effect of a request's body on the world.

use serde_json::Value;
use slipway_slurm::hostlist::Hostlist;

use crate::answer::Refusal;
use crate::node::{NodeKind, NodeRecord};
use crate::partition::PartitionRecord;
use crate::reservation::{FLAGS, ReservationRecord};
use crate::world::World;

/// Maximum number of names in one hostlist expression.
const MAX_NAMES: u128 = 65_536;

/// States that a node can be set to.
const SETTABLE: [&str; 8] = ["DRAIN", "UNDRAIN", "RESUME", "IDLE", "DOWN", "FAIL", "POWER_UP", "POWER_DOWN"];

/// A list of words, from an array or a comma-separated string; `None` for any other value.
pub fn words(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::Array(list) => Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect()),
        Value::String(text) => Some(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()),
        _ => None,
    }
}

/// A number, bare or wrapped; `None` if it is not set.
pub(crate) fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Object(wrapper) if wrapper.get("set").and_then(Value::as_bool) == Some(false) => None,
        Value::Object(wrapper) => wrapper.get("number").and_then(Value::as_u64),
        other => other.as_u64(),
    }
}

pub(crate) fn expanded(expressions: &[String], why: &str) -> Result<Vec<String>, Refusal> {
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
    /// Updates nodes. If one name is unknown, nothing is changed. A resume that does not apply to some nodes is refused, but still done to the
    /// others.
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
        let place = body["topology_str"].as_str();
        if place.is_some_and(|place| !self.has_place(place)) {
            return Err(2178);
        }
        let Some(node) = self.nodes.get_mut(name) else { return Err(2018) };
        if let Some(place) = place {
            place.clone_into(&mut node.topology);
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

    /// True if every unit of a place in the topology is configured. Always true for the empty place, which clears it.
    pub fn has_place(&self, place: &str) -> bool {
        place.split(',').filter(|part| !part.is_empty()).all(|part| {
            let mut way = part.split(':');
            let units = way.next().and_then(|topology| self.topologies.get(topology));
            units.is_some_and(|units| way.all(|unit| units.iter().any(|known| known == unit)))
        })
    }

    /// Creates or updates a partition, until the next reconfigure.
    pub fn write_partition(&mut self, body: &Value) {
        let name = body["name"].as_str().unwrap_or_default();
        let at = self.partitions.iter().position(|it| it.name == name).unwrap_or_else(|| {
            self.partitions.push(PartitionRecord { is_in_file: false, ..PartitionRecord::in_file(name) });
            self.partitions.len() - 1
        });
        if let Some(partition) = self.partitions.get_mut(at) {
            if let Some(node_set) = body["node_sets"].as_str() {
                node_set.clone_into(&mut partition.node_set);
            }
            if let Some(state) = words(&body["partition"]["state"]).and_then(|words| words.into_iter().next()) {
                partition.state = state;
            }
        }
        self.changed.partitions = self.now;
    }

    pub fn delete_partition(&mut self, name: &str) -> Result<(), Refusal> {
        const WHY: &str = "Unable to delete partition";
        if !self.partitions.iter().any(|it| it.name == name) {
            return Err(Refusal::new(2000, WHY));
        }
        if self.jobs.values().any(|job| job.partition == name && !job.has_ended()) {
            return Err(Refusal::new(2075, WHY));
        }
        self.partitions.retain(|it| it.name != name);
        self.changed.partitions = self.now;
        Ok(())
    }

    /// Creates records from a line of slurm.conf.
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

    /// Creates or updates a reservation.
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
        // Flags are added and never removed.
        for flag in words(&body["flags"]).unwrap_or_default() {
            if !FLAGS.contains(&flag.as_str()) {
                return Err(Refusal::new(9207, format!("Unknown flag \"{flag}\"")));
            }
            if !record.flags.contains(&flag) {
                record.flags.push(flag);
            }
        }
        if is_new && record.is_forced() && record.hours_apart().is_none() {
            return Err(Refusal::new(2053, "FORCE_START flag requires a reoccuring reservation. No reservation created."));
        }
        let length = record.end.saturating_sub(record.start);
        match number(&body["start_time"]) {
            Some(_) if !is_new && record.is_active(self.now) => {
                return Err(Refusal::new(2104, format!("Error updating reservation {name}")));
            }
            Some(start) => record.start = start,
            None if is_new => return Err(Refusal::new(2053, "A start time must be given.  No reservation created.")),
            None => {}
        }
        record.end = match (number(&body["end_time"]), number(&body["duration"])) {
            (Some(end), _) => end,
            (None, Some(minutes)) => record.start + minutes * 60,
            (None, None) if is_new => return Err(Refusal::new(2053, why)),
            (None, None) => record.start + length,
        };
        if is_new && record.end <= self.now {
            return Err(Refusal::new(2054, why));
        }
        let ignores_jobs = record.flags.iter().any(|flag| flag == "IGNORE_JOBS");
        if is_new && !ignores_jobs && record.nodes.iter().any(|name| self.nodes.get(name).is_some_and(|node| node.is_busy(self.now))) {
            return Err(Refusal::new(2016, why));
        }
        self.reservations.insert(name, record);
        self.changed.reservations = self.now;
        self.changed.nodes = self.now;
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

/// Clears DRAIN, or also DOWN and FAIL. After an undrain the node counts as not responding until the next ping, even if it was not drained.
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
