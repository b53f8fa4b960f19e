//! Dump of the cluster state when a scenario fails: objects and their conditions, events, Slurm's nodes and jobs, and the last lines of every log.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;
use slipway_bed::bed::Bed;
use slipway_bed::failure::tail;

use crate::cluster::Cluster;
use crate::slurm::OPERATOR_NAMESPACE;

const KINDS: [&str; 3] = ["controllers", "restapis", "nodesets"];
const EVENTS: usize = 30;
const LINES: usize = 12;
const OPERATOR_LINES: usize = 60;

/// State of a scenario's namespaces.
pub(crate) struct World<'a> {
    pub(crate) bed: &'a Bed,
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespaces: &'a [String],
}

impl fmt::Display for World<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for namespace in self.namespaces {
            writeln!(out, "---- namespace {namespace} ----")?;
            for kind in KINDS {
                for object in self.list(&format!("/apis/slinky.slurm.net/v1beta1/namespaces/{namespace}/{kind}")) {
                    describe(out, kind, &object)?;
                }
            }
            let pods = self.list(&format!("/api/v1/namespaces/{namespace}/pods"));
            for pod in &pods {
                describe_pod(out, pod)?;
            }
            self.events(out, namespace)?;
            self.slurm(out, namespace, &pods)?;
            self.logs(out, namespace, LINES, "")?;
        }
        writeln!(out, "---- the operator, where it names these namespaces ----")?;
        for namespace in self.namespaces {
            self.logs(out, OPERATOR_NAMESPACE, OPERATOR_LINES, namespace)?;
        }
        Ok(())
    }
}

impl World<'_> {
    fn list(&self, path: &str) -> Vec<Value> {
        self.cluster.get(path).ok().and_then(|list| list["items"].as_array().cloned()).unwrap_or_default()
    }

    fn events(&self, out: &mut fmt::Formatter<'_>, namespace: &str) -> fmt::Result {
        let mut events = self.list(&format!("/api/v1/namespaces/{namespace}/events"));
        let when = |event: &Value| {
            let times = ["lastTimestamp", "eventTime", "firstTimestamp"].map(|field| event[field].as_str().unwrap_or_default().to_owned());
            times.into_iter().max().unwrap_or_default()
        };
        events.sort_by_key(&when);
        for event in events.iter().rev().take(EVENTS).rev() {
            let about = &event["involvedObject"];
            writeln!(
                out,
                "event {} {}/{} {}: {}",
                when(event),
                text(&about["kind"]),
                text(&about["name"]),
                text(&event["reason"]),
                text(&event["message"])
            )?;
        }
        Ok(())
    }

    fn slurm(&self, out: &mut fmt::Formatter<'_>, namespace: &str, pods: &[Value]) -> fmt::Result {
        let is_slurmctld = |pod: &&Value| pod["metadata"]["labels"]["app.kubernetes.io/name"] == "slurmctld";
        for pod in pods.iter().filter(is_slurmctld) {
            let name = text(&pod["metadata"]["name"]);
            for command in [&["sinfo", "--Node", "--format=%N %T %H %E"][..], &["squeue", "--states=all", "--format=%i %P %T %N %r"]] {
                match self.cluster.exec(namespace, name, "slurmctld", command) {
                    Ok(said) => writeln!(out, "$ {} ({name})\n{}", command[0], said.trim_end())?,
                    Err(failure) => writeln!(out, "$ {} ({name})\n{failure}", command[0])?,
                }
            }
        }
        Ok(())
    }

    /// Prints the last lines that contain `word` from the newest log of each container in a namespace.
    fn logs(&self, out: &mut fmt::Formatter<'_>, namespace: &str, lines: usize, word: &str) -> fmt::Result {
        let entries = |folder: PathBuf| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        let pods = entries(self.bed.layout().root.join("nodes")).flat_map(|node| entries(node.join("log/pods")));
        let is_here = |pod: &PathBuf| pod.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&format!("{namespace}_")));
        for container in pods.filter(is_here).flat_map(entries) {
            let Some(newest) = entries(container).max() else { continue };
            writeln!(out, "---- {} ----", newest.display())?;
            let all = tail(&newest, if word.is_empty() { lines } else { 5000 });
            let chosen: Vec<&String> = all.iter().filter(|line| line.contains(word)).collect();
            for line in chosen.iter().rev().take(lines).rev() {
                writeln!(out, "{}", line.splitn(4, ' ').nth(3).unwrap_or(line))?;
            }
        }
        Ok(())
    }
}

fn describe(out: &mut fmt::Formatter<'_>, kind: &str, object: &Value) -> fmt::Result {
    let meta = &object["metadata"];
    writeln!(out, "{kind}/{} generation {} {}", text(&meta["name"]), meta["generation"], leaving(meta))?;
    for condition in object["status"]["conditions"].as_array().into_iter().flatten() {
        writeln!(
            out,
            "    {}={} {}: {}",
            text(&condition["type"]),
            text(&condition["status"]),
            text(&condition["reason"]),
            text(&condition["message"])
        )?;
    }
    Ok(())
}

fn describe_pod(out: &mut fmt::Formatter<'_>, pod: &Value) -> fmt::Result {
    let (meta, status) = (&pod["metadata"], &pod["status"]);
    write!(out, "pod/{} on {} {} {}", text(&meta["name"]), text(&pod["spec"]["nodeName"]), text(&status["phase"]), leaving(meta))?;
    for condition in status["conditions"].as_array().into_iter().flatten().filter(|condition| condition["status"] == "True") {
        write!(out, " {}", text(&condition["type"]))?;
    }
    for container in status["containerStatuses"].as_array().into_iter().flatten() {
        write!(out, " [{} restarts {} {}]", text(&container["name"]), container["restartCount"], container["state"])?;
    }
    writeln!(out)
}

fn leaving(meta: &Value) -> String {
    meta["deletionTimestamp"].as_str().map(|at| format!("deleted {at} finalizers {}", meta["finalizers"])).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
