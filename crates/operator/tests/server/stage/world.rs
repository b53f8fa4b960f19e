//! State of the objects of a test, printed to find out why it failed.

use std::fmt::Write;
use std::path::PathBuf;

use http::Request;
use kube::Client;
use serde_json::Value;
use slipway_bed::failure::tail;
use slipway_sim::Sim;

const KINDS: [&str; 6] = ["accountings", "controllers", "loginsets", "nodesets", "restapis", "tokens"];
const EVENTS: usize = 30;
/// Lines shown of each operator's log.
const LOG_LINES: usize = 40;

/// Namespaces, simulators and logs of a test.
pub struct World {
    pub namespaces: Vec<String>,
    /// Simulators of Slurm, with their namespaces.
    pub sims: Vec<(String, Sim)>,
    pub logs: Vec<PathBuf>,
}

impl World {
    /// Objects with their conditions, pods, events, Slurm's nodes and jobs, and the last log lines of the operator.
    pub async fn describe(&self, client: &Client) -> String {
        let mut out = String::new();
        for namespace in &self.namespaces {
            let _ = writeln!(out, "---- namespace {namespace} ----");
            for kind in KINDS {
                for object in list(client, &format!("/apis/slinky.slurm.net/v1beta1/namespaces/{namespace}/{kind}")).await {
                    describe_object(&mut out, kind, &object);
                }
            }
            for pod in list(client, &format!("/api/v1/namespaces/{namespace}/pods")).await {
                describe_pod(&mut out, &pod);
            }
            let events = list(client, &format!("/apis/events.k8s.io/v1/namespaces/{namespace}/events?limit=2000")).await;
            describe_events(&mut out, events);
        }
        for (namespace, sim) in &self.sims {
            let _ = writeln!(out, "---- Slurm of {namespace} ----");
            describe_slurm(&mut out, sim);
        }
        for log in &self.logs {
            let _ = writeln!(out, "---- the last lines of {} ----\n{}", log.display(), tail(log, LOG_LINES).join("\n"));
        }
        out
    }
}

/// Objects of a list; empty if it cannot be read.
pub async fn list(client: &Client, path: &str) -> Vec<Value> {
    let Ok(request) = Request::get(path).body(Vec::new()) else { return Vec::new() };
    let answer: Value = client.request(request).await.unwrap_or_default();
    answer["items"].as_array().cloned().unwrap_or_default()
}

fn describe_object(out: &mut String, kind: &str, object: &Value) {
    let meta = &object["metadata"];
    let _ = writeln!(out, "{kind}/{} generation {}{}", text(&meta["name"]), meta["generation"], leaving(meta));
    for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
        let [type_, status, reason, message] = ["type", "status", "reason", "message"].map(|field| text(&condition[field]));
        let _ = writeln!(out, "    {type_}={status} {reason}: {message}");
    }
}

fn describe_pod(out: &mut String, pod: &Value) {
    let (meta, status) = (&pod["metadata"], &pod["status"]);
    let conditions = status["conditions"].as_array().into_iter().flatten().filter(|condition| condition["status"] == "True");
    let conditions: Vec<&str> = conditions.map(|condition| text(&condition["type"])).collect();
    let (name, host, phase) = (text(&meta["name"]), text(&pod["spec"]["nodeName"]), text(&status["phase"]));
    let _ = writeln!(out, "pod/{name} on `{host}` {phase} {conditions:?}{}", leaving(meta));
}

fn describe_events(out: &mut String, mut events: Vec<Value>) {
    let when = |event: &Value| text(&event["eventTime"]).to_owned();
    events.sort_by_key(&when);
    for event in events.iter().rev().take(EVENTS).rev() {
        let about = &event["regarding"];
        let (kind, name, reason) = (text(&about["kind"]), text(&about["name"]), text(&event["reason"]));
        let _ = writeln!(out, "event {} {kind}/{name} {reason}: {}", when(event), text(&event["note"]));
    }
}

fn describe_slurm(out: &mut String, sim: &Sim) {
    sim.world(|world| {
        for node in world.nodes.values() {
            let marks = [("down", node.is_down), ("draining", node.is_draining), ("dead", node.is_dead), ("busy", node.alloc_cpus > 0)];
            let marks: Vec<&str> = marks.into_iter().filter(|(_, is_so)| *is_so).map(|(mark, _)| mark).collect();
            let _ = writeln!(out, "node {} {marks:?} `{}`", node.name, node.reason);
        }
        for job in world.jobs.values() {
            let _ = writeln!(out, "job {} of {} {} on {:?}", job.id, job.partition, job.state, job.nodes);
        }
    });
}

fn leaving(meta: &Value) -> String {
    meta["deletionTimestamp"].as_str().map(|at| format!(", deleted {at}, finalizers {}", meta["finalizers"])).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
