//! From a request to what becomes of it.

use bytes::Bytes;
use serde_json::{Map, Value, json};
use slipway_slurm::rest::Version;

use crate::answer::{Answer, Refusal};
use crate::fault::FaultKind;
use crate::sim::{Incoming, Outcome, Sim, State};
use crate::template::Shapes;
use crate::update::words;
use crate::world::World;

/// What goes wrong with one request.
#[derive(Clone, Copy, Debug, Default)]
struct Ills {
    list: Option<FaultKind>,
    lying_gate: bool,
    refuse_tokens: bool,
    cut_after: bool,
}

/// One request within a version.
struct Ask<'a> {
    sim: &'a Sim,
    version: Version,
    shapes: &'a Shapes,
    query: &'a str,
    body: Value,
    ills: Ills,
    user: String,
}

/// What a handler gives: payload and warnings, or refusals.
type Payload = Result<(Map<String, Value>, Vec<String>), Vec<Refusal>>;

impl Sim {
    /// Answers one request, with whatever fault is on.
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
            let pings = Value::Array(vec![Value::Object(shapes.ping.clone())]);
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
        if request.method == "GET" && parts != ["reconfigure"] {
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

/// Whether the server has such a URL in this version.
fn is_known(method: &str, parts: &[&str], version: Version) -> bool {
    match (method, parts) {
        (
            "GET",
            ["nodes" | "jobs" | "partitions" | "reservations" | "reconfigure"]
            | ["node" | "partition" | "reservation", _]
            | ["jobs", "state"],
        )
        | ("POST", ["nodes"] | ["node", _] | ["job", "submit"])
        | ("DELETE", ["reservation", _]) => true,
        ("GET" | "DELETE", ["job", id]) => id.parse::<u64>().is_ok(),
        // No host lists in a path.
        ("DELETE", ["node", name]) => !name.contains(['[', '%']),
        ("POST", ["reservation"]) => version.writes_reservations(),
        ("POST", ["new", "node"]) => version.creates_nodes(),
        _ => false,
    }
}

impl Ask<'_> {
    fn read(&self, parts: &[&str], state: &State) -> Answer {
        // A stale list is that of another world; what is asked singly is of this one.
        let listed = match (&state.stale, self.ills.list) {
            (Some(stale), Some(FaultKind::StaleList)) => stale,
            _ => &state.world,
        };
        let world = &state.world;
        match parts {
            ["nodes"] => {
                let shown = listed.nodes.values().filter(|node| World::is_shown(node)).map(|node| self.show_node(listed, &node.name));
                self.list("nodes", shown, Some(world.changed.nodes), world.now)
            }
            ["jobs"] => self.list("jobs", listed.jobs.values().map(|job| job.show(&self.shapes.job)), Some(world.changed.jobs), world.now),
            ["partitions"] => self.list(
                "partitions",
                listed.partitions.iter().map(|name| self.show_partition(listed, name)),
                Some(world.changed.partitions),
                world.now,
            ),
            ["reservations"] => {
                let shown = listed.reservations.values().map(|it| it.show(&self.shapes.reservation));
                self.list("reservations", shown, Some(world.changed.reservations), world.now)
            }
            ["jobs", "state"] => self.job_states(world),
            ["node", name] if world.nodes.get(*name).is_some_and(World::is_shown) => {
                self.list("nodes", std::iter::once(self.show_node(world, name)), None, world.now)
            }
            ["node", name] => self.refuse(&[Refusal::new(0, format!("Failure to query node {name}"))]),
            ["job", id] => match id.parse().ok().and_then(|id: u64| world.jobs.get(&id)) {
                Some(job) => self.list("jobs", std::iter::once(job.show(&self.shapes.job)), None, world.now),
                None => self.no_job(id),
            },
            ["partition", name] if world.partitions.iter().any(|known| known == name) => {
                self.list("partitions", std::iter::once(self.show_partition(world, name)), None, world.now)
            }
            ["partition", name] if self.sim.release().shrugs() => {
                self.envelope(200, Map::new(), &[], &[format!("Unable to find partition {name}")])
            }
            ["partition", _] => self.refuse(&[Refusal { status: Some(422), ..Refusal::new(2000, "Unable to query partitions") }]),
            ["reservation", name] => match world.reservations.get(*name) {
                Some(it) => self.list("reservations", std::iter::once(it.show(&self.shapes.reservation)), None, world.now),
                None if self.sim.release().shrugs() && world.reservations.is_empty() => {
                    self.refuse(&[Refusal::new(0, "Unable to query reservations")])
                }
                None if self.sim.release().shrugs() => self.refuse(&[Refusal::new(9000, format!("Unable to find reservation {name}"))]),
                None => self.refuse(&[Refusal { status: Some(422), ..Refusal::new(2053, "Unable to query reservations") }]),
            },
            _ => Answer::unknown_url(),
        }
    }

    fn write(&self, method: &str, parts: &[&str], world: &mut World) -> Payload {
        let nothing = || Ok((Map::new(), Vec::new()));
        let once = |done: Result<(), Refusal>| done.map(|()| (Map::new(), Vec::new())).map_err(|refusal| vec![refusal]);
        match (method, parts) {
            ("GET", ["reconfigure"]) => {
                for node in world.nodes.values_mut().filter(|node| !node.is_dead && node.started_at > 0) {
                    node.started_at = world.now;
                }
                world.changed.nodes = world.now;
                nothing()
            }
            ("POST", ["nodes"]) => {
                world.update_nodes(&words(&self.body["name"]).unwrap_or_default(), &self.body, &self.user).and_then(|()| nothing())
            }
            ("POST", ["node", name]) => world.update_nodes(&[(*name).to_owned()], &self.body, &self.user).and_then(|()| nothing()),
            ("POST", ["new", "node"]) => once(world.create_nodes(self.body["node_conf"].as_str().unwrap_or_default())),
            ("DELETE", ["node", name]) => once(world.delete_node(name)),
            ("POST", ["job", "submit"]) => {
                let (id, is_held) = world.submit(&self.body["job"]).map_err(|refusal| vec![refusal])?;
                let held = "Job is in held state, pending scheduler release".to_owned();
                let warnings =
                    if is_held { vec![format!("Job submission resulted in non-zero return code: {held}"), held] } else { Vec::new() };
                let payload = [("job_id", json!(id)), ("step_id", json!("batch")), ("job_submit_user_msg", json!(""))];
                Ok((payload.map(|(key, value)| (key.to_owned(), value)).into_iter().collect(), warnings))
            }
            ("DELETE", ["job", id]) => {
                let status = world.cancel(id.parse().unwrap_or_default());
                Ok((Map::from_iter([("status".to_owned(), Value::Array(status))]), Vec::new()))
            }
            ("POST", ["reservation"]) => {
                world.write_reservation(&self.body).map_err(|refusal| vec![refusal])?;
                let warning = "Slurm accounting storage is disabled. Could not query the following: [TRES].".to_owned();
                Ok((Map::from_iter([("reservations".to_owned(), json!([self.body]))]), vec![warning.clone(), warning]))
            }
            ("DELETE", ["reservation", name]) => once(world.delete_reservation(name)),
            _ => Err(Vec::new()),
        }
    }

    fn show_node(&self, world: &World, name: &str) -> Value {
        let Some(node) = world.nodes.get(name) else { return Value::Null };
        let reservation = world.reservation_of(name);
        let in_maintenance = reservation.is_some_and(|it| it.flags.iter().any(|flag| flag == "MAINT"));
        let partitions: Vec<&str> = world.partitions.iter().filter(|name| node.features.contains(name)).map(String::as_str).collect();
        let states = node.states(world.now, reservation.is_some(), in_maintenance);
        node.show(world.now, &self.shapes.node, &states, &partitions, reservation.map_or("", |it| &it.name))
    }

    fn show_partition(&self, world: &World, name: &str) -> Value {
        let mut shown = self.shapes.partition.clone();
        let members: Vec<&str> =
            world.nodes.values().filter(|node| node.features.iter().any(|it| it == name)).map(|node| node.name.as_str()).collect();
        let nodes = json!({"allowed_allocation": "", "configured": slipway_slurm::hostlist::compress(members.iter().copied()), "total": members.len()});
        shown.insert("name".to_owned(), json!(name));
        shown.insert("node_sets".to_owned(), json!(name));
        shown.insert("nodes".to_owned(), nodes);
        Value::Object(shown)
    }

    fn job_states(&self, world: &World) -> Answer {
        let wanted: Vec<&str> = self.query.split('&').filter_map(|pair| pair.strip_prefix("job_id=")).collect();
        if wanted.iter().any(|id| id.parse::<u64>().is_err()) {
            return Answer::plain(500, "Unspecified error");
        }
        let wanted: Vec<u64> = wanted.iter().filter_map(|id| id.parse().ok()).collect();
        let jobs = world.jobs.values().filter(|job| wanted.is_empty() || wanted.contains(&job.id));
        let jobs: Vec<Value> = jobs.map(|job| json!({"job_id": job.id.to_string(), "state": [job.state]})).collect();
        self.envelope(200, Map::from_iter([("jobs".to_owned(), Value::Array(jobs))]), &[], &[])
    }

    fn no_job(&self, id: &str) -> Answer {
        let never = json!({"set": true, "infinite": false, "number": 0});
        let payload = [("jobs", json!([])), ("last_backfill", never.clone()), ("last_update", never)];
        let payload = payload.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        self.envelope(404, payload, &[Refusal::new(2017, format!("Unable to query JobId={id}"))], &[])
    }

    /// A list, or the word that nothing changed. `changed` is absent where there is no gate.
    fn list(&self, key: &'static str, elements: impl Iterator<Item = Value>, changed: Option<u64>, now: u64) -> Answer {
        let gate = self.query.split('&').find_map(|pair| pair.strip_prefix("update_time="));
        if let (Some(gate), Some(changed)) = (gate, changed) {
            let Ok(gate) = gate.parse::<u64>() else {
                return self.refuse(&[
                    Refusal::new(9202, format!("Parsing of {gate} for timestamp failed")),
                    Refusal::new(9000, "Rejecting request. Failure parsing query."),
                ]);
            };
            // A change within the second of the gate counts as one after it.
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
        let mut elements: Vec<Value> = if faulty == Some(FaultKind::EmptyList) { Vec::new() } else { elements.collect() };
        if faulty == Some(FaultKind::HalfList) {
            elements.truncate(elements.len() / 2);
        }
        for (index, element) in elements.iter().enumerate() {
            text.push_str(if index == 0 { "" } else { "," });
            text.push_str(&element.to_string());
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
            json!({"version": {"major": major, "micro": micro, "minor": minor}, "release": release, "cluster": "demo"}),
        );
        payload.insert("meta".to_owned(), Value::Object(meta));
        payload.insert("errors".to_owned(), errors.iter().map(Refusal::as_json).collect());
        payload.insert("warnings".to_owned(), warnings.iter().map(|words| json!({"description": words, "source": "stand-in"})).collect());
        debug_assert!(self.sim.release().serves(self.version));
        Value::Object(payload)
    }
}
