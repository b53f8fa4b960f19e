//! Maps a request to its outcome.

mod write;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use slipway_slurm::rest::Version;

use crate::answer::{Answer, Refusal};
use crate::fault::FaultKind;
use crate::node::NodeRecord;
use crate::partition::PartitionRecord;
use crate::sim::{Incoming, Outcome, Sim, State};
use crate::template::{self, Fields, Mold, Shapes};
use crate::world::World;

/// Faults that affect one request.
#[derive(Clone, Copy, Debug, Default)]
struct Ills {
    list: Option<FaultKind>,
    lying_gate: bool,
    refuse_tokens: bool,
    cut_after: bool,
}

/// One request in one version.
struct Ask<'a> {
    sim: &'a Sim,
    version: Version,
    shapes: &'a Shapes,
    query: &'a str,
    body: Value,
    ills: Ills,
    user: String,
}

/// Result of a handler: payload and warnings, or refusals.
type Payload = Result<(Map<String, Value>, Vec<String>), Vec<Refusal>>;

impl Sim {
    /// Handles one request, with any active fault.
    pub fn handle(&self, request: &Incoming) -> Outcome {
        let below = request.path.trim_matches('/').splitn(3, '/').nth(2).unwrap_or_default().to_owned();
        let mut state = self.state();
        *state.seen.entry(format!("{} {below}", request.method)).or_default() += 1;
        let mut ills = Ills::default();
        let hit: Vec<FaultKind> = state.faults.iter_mut().filter_map(|fault| fault.hits(&below).then_some(fault.kind)).collect();
        for kind in hit {
            match kind {
                FaultKind::Refuse => return Outcome::Refuse,
                FaultKind::Stall => return Outcome::Stall,
                FaultKind::ServerError => return Outcome::Answer(Answer::plain(500, "Unspecified error")),
                FaultKind::ControllerGone => return Outcome::Answer(self.controller_gone()),
                FaultKind::ResetAfterWrite => ills.cut_after = true,
                FaultKind::LyingGate => ills.lying_gate = true,
                FaultKind::RefuseTokens => ills.refuse_tokens = true,
                list => ills.list = Some(list),
            }
        }
        let answer = self.answer(request, &mut state, ills);
        state.sent += answer.body.len() as u64;
        // The answer that nothing changed begins otherwise.
        for list in ["nodes", "jobs"] {
            if below.trim_end_matches('/') == list && answer.body.starts_with(format!("{{\"{list}\":[").as_bytes()) {
                *state.whole.entry(list).or_default() += 1;
            }
        }
        if ills.cut_after { Outcome::Cut } else { Outcome::Answer(answer) }
    }

    fn controller_gone(&self) -> Answer {
        let refusal = json!({"description": "Unable to contact slurm controller", "error_number": 5004, "error": "Socket timed out on send/recv operation", "source": "stand-in"});
        let meta = self.shapes(Version::V42).map(|shapes| shapes.meta.clone());
        Answer::json(504, &json!({"errors": [refusal], "warnings": [], "meta": meta}))
    }

    fn answer(&self, request: &Incoming, state: &mut State, ills: Ills) -> Answer {
        let token = match (&request.token, &request.bearer) {
            (Some(token), None) => token.as_str(),
            (None, Some(bearer)) => bearer.strip_prefix("Bearer ").unwrap_or(bearer),
            _ => return Answer::plain(401, "Authentication failure"),
        };
        let mut parts = request.path.trim_matches('/').split('/');
        let version = match (parts.next(), parts.next().and_then(Version::parse)) {
            (Some("slurm"), Some(version)) if self.release().serves(version) => version,
            _ => return Answer::unknown_url(),
        };
        let Some(shapes) = self.shapes(version) else { return Answer::unknown_url() };
        let parts: Vec<&str> = parts.collect();
        let user = self.user_of(token, state).filter(|_| !ills.refuse_tokens);
        let mut ask = Ask { sim: self, version, shapes, query: &request.query, body: Value::Null, ills, user: String::new() };
        if (request.method.as_str(), parts.as_slice()) == ("GET", ["ping"].as_slice()) {
            let pings =
                state.world.controllers.iter().enumerate().map(|(place, controller)| controller.show(place, &shapes.ping)).collect();
            return ask.envelope(200, Map::from_iter([("pings".to_owned(), pings)]), &[], &[]);
        }
        if !is_known(&request.method, &parts, version) {
            return Answer::unknown_url();
        }
        let Some(user) = user else {
            return ask.envelope(511, Map::new(), &[Refusal::new(1007, "Failure to query")], &[]);
        };
        ask.user = user;
        if !request.body.is_empty() {
            match serde_json::from_slice(&request.body) {
                Ok(body @ Value::Object(_)) => ask.body = body,
                Ok(_) => return ask.refuse(&[Refusal::new(9209, "Rejecting list when dictionary expected")]),
                Err(_) => return Answer::plain(400, "Bad request body"),
            }
        }
        let only_reads = request.method == "GET" && !matches!(parts.as_slice(), ["reconfigure"] | [.., "requeue"]);
        if only_reads {
            ask.read(&parts, state)
        } else if ask.user != "slurm" && ask.user != "root" {
            ask.refuse(&[Refusal::new(2010, "Failure to update")])
        } else {
            match ask.write(&request.method, &parts, &mut state.world) {
                Ok((payload, warnings)) => ask.envelope(200, payload, &[], &warnings),
                Err(refusals) => ask.refuse(&refusals),
            }
        }
    }
}

/// True if the server has this URL in this version.
fn is_known(method: &str, parts: &[&str], version: Version) -> bool {
    match (method, parts) {
        (
            "GET",
            ["nodes" | "jobs" | "partitions" | "reservations" | "reconfigure" | "diag"]
            | ["node" | "partition" | "reservation", _]
            | ["jobs", "state"],
        )
        | ("POST", ["nodes"] | ["node", _] | ["job", "submit"])
        | ("DELETE", ["reservation", _]) => true,
        ("GET" | "POST" | "DELETE", ["job", id]) => id.parse::<u64>().is_ok(),
        // No hostlists in a path.
        ("DELETE", ["node", name]) => !name.contains(['[', '%']),
        ("POST", ["reservation"]) => version.writes_reservations(),
        ("POST", ["new", "node"]) => version.creates_nodes(),
        ("GET", ["conf"]) => version.tells_its_configuration(),
        ("GET", ["job", _, "requeue"]) => version.requeues_jobs(),
        ("POST", ["partitions"]) | ("DELETE", ["partition", _]) => version.writes_partitions(),
        _ => false,
    }
}

/// The configuration in force.
fn conf_of(world: &World) -> Map<String, Value> {
    let mut conf = template::conf();
    if let Some(meta) = conf.get_mut("slurm_conf_meta").and_then(Value::as_object_mut) {
        meta.insert("HashValue".to_owned(), json!(world.configuration.in_force));
        meta.insert("BOOT_TIME".to_owned(), json!(world.configuration.read_at));
        meta.insert("LastUpdate".to_owned(), json!(world.now));
    }
    conf
}

impl Ask<'_> {
    fn read(&self, parts: &[&str], state: &State) -> Answer {
        // A stale list shows an older world; a single read shows the current one.
        let listed = match (&state.stale, self.ills.list) {
            (Some(stale), Some(FaultKind::StaleList)) => stale,
            _ => &state.world,
        };
        let world = &state.world;
        match parts {
            ["nodes"] => {
                let mut mold = Mold::new(&self.shapes.node);
                let shown = listed.nodes.values().filter(|node| World::is_shown(node));
                let shown = shown.map(|node| mold.render(&Self::node_fields(listed, node)));
                self.list("nodes", shown, Some(world.changed.nodes), world.now)
            }
            ["jobs"] => {
                let mut mold = Mold::new(&self.shapes.job);
                let shown = listed.jobs.values().map(|job| mold.render(&job.fields(listed.now)));
                self.list("jobs", shown, Some(world.changed.jobs), world.now)
            }
            ["partitions"] => self.list(
                "partitions",
                listed.partitions.iter().map(|it| self.show_partition(listed, it).to_string()),
                Some(world.changed.partitions),
                world.now,
            ),
            ["reservations"] => {
                let shown = listed.reservations.values().map(|it| it.show(&self.shapes.reservation).to_string());
                self.list("reservations", shown, Some(world.changed.reservations), world.now)
            }
            ["jobs", "state"] => self.job_states(world),
            ["node", name] => match world.nodes.get(*name).filter(|node| World::is_shown(node)) {
                Some(node) => {
                    let shown = Mold::new(&self.shapes.node).render(&Self::node_fields(world, node));
                    self.list("nodes", std::iter::once(shown), None, world.now)
                }
                None => self.refuse(&[Refusal::new(0, format!("Failure to query node {name}"))]),
            },
            ["job", id] => match id.parse().ok().and_then(|id: u64| world.jobs.get(&id)) {
                Some(job) => {
                    let shown = Mold::new(&self.shapes.job).render(&job.fields(world.now));
                    self.list("jobs", std::iter::once(shown), None, world.now)
                }
                None => self.no_job(id),
            },
            ["partition", name] => match world.partitions.iter().find(|known| known.name == *name) {
                Some(it) => self.list("partitions", std::iter::once(self.show_partition(world, it).to_string()), None, world.now),
                None if self.sim.release().shrugs() => self.envelope(200, Map::new(), &[], &[format!("Unable to find partition {name}")]),
                None => self.refuse(&[Refusal { status: Some(422), ..Refusal::new(2000, "Unable to query partitions") }]),
            },
            ["diag"] => self.envelope(200, Map::from_iter([("statistics".to_owned(), self.statistics(world))]), &[], &[]),
            ["conf"] => self.envelope(200, conf_of(world), &[], &[]),
            ["reservation", name] => match world.reservations.get(*name) {
                Some(it) => self.list("reservations", std::iter::once(it.show(&self.shapes.reservation).to_string()), None, world.now),
                None if self.sim.release().shrugs() && world.reservations.is_empty() => {
                    self.refuse(&[Refusal::new(0, "Unable to query reservations")])
                }
                None if self.sim.release().shrugs() => self.refuse(&[Refusal::new(9000, format!("Unable to find reservation {name}"))]),
                None => self.refuse(&[Refusal { status: Some(422), ..Refusal::new(2053, "Unable to query reservations") }]),
            },
            _ => Answer::unknown_url(),
        }
    }

    fn node_fields(world: &World, node: &NodeRecord) -> Fields {
        let reservation = world.reservation_of(&node.name);
        let in_maintenance = reservation.is_some_and(|it| it.flags.iter().any(|flag| flag == "MAINT"));
        let partitions = world.partitions.iter().filter(|it| node.features.contains(&it.node_set)).map(|it| it.name.as_str());
        let partitions: Vec<&str> = partitions.collect();
        let states = node.states(world.now, reservation.is_some(), in_maintenance);
        node.fields(world.now, &states, &partitions, reservation.map_or("", |it| &it.name))
    }

    fn show_partition(&self, world: &World, partition: &PartitionRecord) -> Value {
        let is_member = |node: &&NodeRecord| node.features.contains(&partition.node_set);
        let members: Vec<&str> = world.nodes.values().filter(is_member).map(|node| node.name.as_str()).collect();
        partition.show(&self.shapes.partition, &members)
    }

    fn statistics(&self, world: &World) -> Value {
        let mut shown = self.shapes.statistics.clone();
        let count = |state: &str| world.jobs.values().filter(|job| job.state == state).count();
        shown.insert("jobs_submitted".to_owned(), json!(world.last_job));
        shown.insert("jobs_pending".to_owned(), json!(count("PENDING")));
        shown.insert("jobs_running".to_owned(), json!(count("RUNNING")));
        for (key, moment) in [("req_time", world.now), ("req_time_start", world.configuration.read_at)] {
            shown.insert(key.to_owned(), json!({"set": true, "infinite": false, "number": moment}));
        }
        Value::Object(shown)
    }

    fn job_states(&self, world: &World) -> Answer {
        let wanted: Vec<&str> = self.query.split('&').filter_map(|pair| pair.strip_prefix("job_id=")).collect();
        if wanted.iter().any(|id| id.parse::<u64>().is_err()) {
            return Answer::plain(500, "Unspecified error");
        }
        let wanted: Vec<u64> = wanted.iter().filter_map(|id| id.parse().ok()).collect();
        let jobs = world.jobs.values().filter(|job| wanted.is_empty() || wanted.contains(&job.id));
        let jobs: Vec<Value> = jobs.map(|job| json!({"job_id": job.id.to_string(), "state": job.states(world.now)})).collect();
        self.envelope(200, Map::from_iter([("jobs".to_owned(), Value::Array(jobs))]), &[], &[])
    }

    fn no_job(&self, id: &str) -> Answer {
        let never = json!({"set": true, "infinite": false, "number": 0});
        let payload = [("jobs", json!([])), ("last_backfill", never.clone()), ("last_update", never)];
        let payload = payload.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        self.envelope(404, payload, &[Refusal::new(2017, format!("Unable to query JobId={id}"))], &[])
    }

    /// A list, or the answer that nothing changed. `changed` is `None` if there is no gate.
    fn list(&self, key: &'static str, elements: impl Iterator<Item = String>, changed: Option<u64>, now: u64) -> Answer {
        let gate = self.query.split('&').find_map(|pair| pair.strip_prefix("update_time="));
        if let (Some(gate), Some(changed)) = (gate, changed) {
            let Ok(gate) = gate.parse::<u64>() else {
                return self.refuse(&[
                    Refusal::new(9202, format!("Parsing of {gate} for timestamp failed")),
                    Refusal::new(9000, "Rejecting request. Failure parsing query."),
                ]);
            };
            // A change in the same second as the gate counts as later.
            if changed < gate || self.ills.lying_gate {
                if key != "jobs" {
                    return Answer::unchanged();
                }
                let never = json!({"set": true, "infinite": false, "number": 0});
                let payload = [("jobs", json!([])), ("last_backfill", never.clone()), ("last_update", never)];
                let payload = payload.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
                return self.envelope(200, payload, &[], &[format!("No job changes since update_time[{gate}]")]);
            }
        }
        let faulty = changed.and(self.ills.list);
        let mut text = format!("{{\"{key}\":[");
        let mut elements: Vec<String> = if faulty == Some(FaultKind::EmptyList) { Vec::new() } else { elements.collect() };
        if faulty == Some(FaultKind::HalfList) {
            elements.truncate(elements.len() / 2);
        }
        for (index, element) in elements.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            text.push_str(element);
        }
        if faulty == Some(FaultKind::TornList) {
            text.truncate(text.len() / 2);
            return Answer { status: 200, is_json: true, body: Bytes::from(text) };
        }
        let errors =
            if faulty == Some(FaultKind::ErrorsInside) { vec![Refusal::new(0, format!("Failure to query {key}"))] } else { Vec::new() };
        let update = json!({"set": true, "infinite": false, "number": now});
        let rest = self.whole(Map::from_iter([("last_update".to_owned(), update)]), &errors, &[]).to_string();
        text.push_str("],");
        text.push_str(rest.strip_prefix('{').unwrap_or_default());
        Answer { status: 200, is_json: true, body: Bytes::from(text) }
    }

    fn refuse(&self, refusals: &[Refusal]) -> Answer {
        let status = refusals.first().and_then(|refusal| refusal.status).unwrap_or_else(|| self.sim.release().refusal());
        self.envelope(status, Map::new(), refusals, &[])
    }

    fn envelope(&self, status: u16, payload: Map<String, Value>, errors: &[Refusal], warnings: &[String]) -> Answer {
        Answer::json(status, &self.whole(payload, errors, warnings))
    }

    fn whole(&self, mut payload: Map<String, Value>, errors: &[Refusal], warnings: &[String]) -> Value {
        let [major, minor, micro, release] = self.sim.release().words();
        let mut meta = self.shapes.meta.clone();
        meta.insert(
            "slurm".to_owned(),
            json!({"version": {"major": major, "micro": micro, "minor": minor}, "release": release, "cluster": self.sim.cluster()}),
        );
        payload.insert("meta".to_owned(), Value::Object(meta));
        payload.insert("errors".to_owned(), errors.iter().map(Refusal::as_json).collect());
        payload.insert("warnings".to_owned(), warnings.iter().map(|words| json!({"description": words, "source": "stand-in"})).collect());
        debug_assert!(self.sim.release().serves(self.version));
        Value::Object(payload)
    }
}
