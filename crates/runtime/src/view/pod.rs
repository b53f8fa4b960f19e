//! Pods.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Affinity, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::Resource;
use serde::{Deserialize, Deserializer, Serialize};
use slipway_api::{annotation, env, label::Component};

/// Annotations that are read; all others are dropped.
const ANNOTATIONS: [&str; 8] = [
    annotation::CONFIG_HASH,
    annotation::CONFIG_SINCE,
    annotation::POD_CORDON,
    annotation::POD_DEADLINE,
    annotation::POD_DELETION_COST,
    annotation::TOPOLOGY,
    annotation::DRAIN_DEADLINE,
    annotation::FORCE_DELETE,
];
/// Bytes of a container's termination message that are kept.
const LONGEST_LAST_WORDS: usize = 200;

/// A pod, reduced to what the operator reads.
#[derive(Resource, Clone, Debug, Default, Serialize, Deserialize)]
#[resource(inherit = Pod)]
pub struct PodView {
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    #[serde(default)]
    pub spec: PodSpecView,
    #[serde(default)]
    pub status: PodStatusView,
}

/// The spec of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSpecView {
    #[serde(default)]
    pub node_name: Option<String>,
    /// True if the pod has the network and the hostname of its node.
    #[serde(default)]
    pub host_network: bool,
    /// The only node that the pod may run on, if it is bound to one by name.
    #[serde(default, rename = "affinity", deserialize_with = "only_node", skip_serializing)]
    pub only_node: Option<String>,
    /// Only slurmd: arguments and variables about its node.
    #[serde(default, deserialize_with = "told_to_slurmd")]
    pub containers: Vec<CommandView>,
}

/// Command of a container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CommandView {
    pub name: String,
    /// Only those from the one about its node on.
    #[serde(default)]
    pub args: Vec<String>,
    /// Only the limits that images read.
    #[serde(default)]
    pub env: Vec<EnvView>,
}

/// A variable of a container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct EnvView {
    pub name: String,
    #[serde(default)]
    pub value: String,
}

/// The status of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodStatusView {
    #[serde(default)]
    pub phase: String,
    #[serde(default, rename = "podIP")]
    pub pod_ip: Option<String>,
    #[serde(default)]
    pub conditions: Vec<PodConditionView>,
    #[serde(default)]
    pub init_container_statuses: Vec<ContainerView>,
    #[serde(default)]
    pub container_statuses: Vec<ContainerView>,
}

/// A condition of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodConditionView {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: String,
    #[serde(default)]
    pub message: Option<String>,
    /// Time of the last change of the status.
    #[serde(default)]
    pub last_transition_time: Option<Time>,
}

/// A container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContainerView {
    pub name: String,
    #[serde(default)]
    pub ready: bool,
    #[serde(default)]
    pub state: ContainerStateView,
    /// End of its previous run, if there was one.
    #[serde(default)]
    pub last_state: ContainerStateView,
}

/// State of a container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ContainerStateView {
    #[serde(default)]
    pub waiting: Option<WaitingView>,
    #[serde(default)]
    pub running: Option<RunningView>,
    #[serde(default)]
    pub terminated: Option<TerminatedView>,
}

/// Start of a container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunningView {
    #[serde(default)]
    pub started_at: Option<Time>,
}

/// Reason why a container of a [`PodView`] waits.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WaitingView {
    #[serde(default)]
    pub reason: Option<String>,
    #[serde(default)]
    pub message: Option<String>,
}

/// End of a container of a [`PodView`].
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TerminatedView {
    #[serde(default)]
    pub exit_code: i32,
    /// The most informative line of its termination message.
    #[serde(default, rename = "message", deserialize_with = "telling_line")]
    pub last_words: Option<String>,
}

impl PodView {
    pub fn is_ready(&self) -> bool {
        self.status.phase == "Running" && self.condition("Ready").is_some_and(|condition| condition.status == "True")
    }

    /// Since when the pod has been ready; `None` if it is not, or if the kubelet reports no time.
    pub fn ready_since(&self) -> Option<Timestamp> {
        let ready = self.condition("Ready").filter(|_| self.is_ready())?;
        ready.last_transition_time.as_ref().map(|time| time.0)
    }

    /// The Kubernetes node that the pod is on, or `None` if it is not scheduled.
    pub fn node_name(&self) -> Option<&str> {
        self.spec.node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The Kubernetes node that the pod is on, or else the only one that it can be scheduled to.
    pub fn target_node(&self) -> Option<&str> {
        self.node_name().or(self.spec.only_node.as_deref())
    }

    /// True if its containers ended and will not restart.
    pub fn is_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Failed" | "Succeeded")
    }

    pub fn is_going(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// End of the termination grace period, or `None` if the pod is not terminating.
    pub fn gone_by(&self) -> Option<Timestamp> {
        self.metadata.deletion_timestamp.as_ref().map(|time| time.0)
    }

    /// The reason why the pod does not run, if one is reported: why it has no node, or why a container waits.
    pub fn trouble(&self) -> Option<String> {
        let unscheduled = self.condition("PodScheduled").filter(|condition| condition.status == "False");
        if let Some(condition) = unscheduled {
            return Some(condition.message.clone().unwrap_or_else(|| "no node was found for it".to_owned()));
        }
        let mut containers = self.status.init_container_statuses.iter().chain(&self.status.container_statuses);
        containers.find_map(ContainerView::trouble)
    }

    /// True if this container runs, was ready since it started, and is so no more.
    pub fn is_hung(&self, container: &str) -> bool {
        let started = self.status.container_statuses.iter().find(|status| status.name == container && !status.ready);
        let started = started.and_then(|status| status.state.running.as_ref()?.started_at.as_ref());
        // The condition is false from before the start of the containers. If it became false later, it was true in between.
        let lost = self.condition("ContainersReady").filter(|condition| condition.status == "False");
        let lost = lost.and_then(|condition| condition.last_transition_time.as_ref());
        started.zip(lost).is_some_and(|(started, lost)| lost.0 > started.0)
    }

    /// The condition of this type, if there is one.
    pub fn condition(&self, type_: &str) -> Option<&PodConditionView> {
        self.status.conditions.iter().find(|condition| condition.type_ == type_)
    }
}

impl ContainerView {
    fn trouble(&self) -> Option<String> {
        let WaitingView { reason, message } = self.state.waiting.as_ref()?;
        let reason = reason.as_deref().filter(|reason| !matches!(*reason, "ContainerCreating" | "PodInitializing"))?;
        let detail = match &self.last_state.terminated {
            // The kubelet's own message contains the growing delay, so it would change again and again.
            Some(ended) if reason == "CrashLoopBackOff" => format!(", {}", ended.in_words()),
            _ => message.as_deref().map(|message| format!(": {message}")).unwrap_or_default(),
        };
        Some(format!("container {} waits: {reason}{detail}", self.name))
    }
}

impl TerminatedView {
    fn in_words(&self) -> String {
        let words = self.last_words.as_deref().map(|words| format!(": {words}")).unwrap_or_default();
        format!("it ended with code {}{words}", self.exit_code)
    }
}

/// The line of a termination message that reports the last fatal error, else the last error, else the last line; without timestamp and shortened.
fn telling_line<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(input)?.unwrap_or_default();
    let last = |word: &str| text.lines().rev().find(|line| line.contains(word));
    let line = last("fatal").or_else(|| last("error")).or_else(|| text.lines().rev().find(|line| !line.trim().is_empty()));
    let line = line.map(|line| match line.strip_prefix('[').and_then(|rest| rest.split_once("] ")) {
        Some((_, rest)) => rest.trim(),
        None => line.trim(),
    });
    Ok(line.map(|line| match line.floor_char_boundary(LONGEST_LAST_WORDS) {
        end if end < line.len() => format!("{}...", &line[..end]),
        _ => line.to_owned(),
    }))
}

/// The node that a pod's affinity requires by name, or `None` if others are possible.
fn only_node<'de, D: Deserializer<'de>>(input: D) -> Result<Option<String>, D::Error> {
    let affinity = Option::<Affinity>::deserialize(input)?;
    let required = affinity.and_then(|affinity| affinity.node_affinity?.required_during_scheduling_ignored_during_execution);
    let Some([term]) = required.as_ref().map(|required| required.node_selector_terms.as_slice()) else { return Ok(None) };
    let by_name = term.match_fields.iter().flatten().find(|field| field.key == "metadata.name" && field.operator == "In");
    Ok(match by_name.and_then(|field| field.values.as_deref()) {
        Some([node]) => Some(node.clone()),
        _ => None,
    })
}

fn told_to_slurmd<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<CommandView>, D::Error> {
    let mut containers = Option::<Vec<CommandView>>::deserialize(input)?.unwrap_or_default();
    containers.retain(|container| container.name == Component::Worker.daemon());
    for container in &mut containers {
        let told = std::mem::take(&mut container.args);
        let is_about_its_node = |arg: &String| arg.starts_with("--conf") && !arg.starts_with("--conf-server");
        container.args = match told.iter().position(is_about_its_node) {
            Some(at) => told[at..].to_vec(),
            None => Vec::new(),
        };
        container.env.retain(|variable| [env::POD_CPUS, env::POD_MEMORY].contains(&variable.name.as_str()));
        container.env.shrink_to_fit();
    }
    containers.shrink_to_fit();
    Ok(containers)
}

fn slim<'de, D: Deserializer<'de>>(input: D) -> Result<ObjectMeta, D::Error> {
    super::slim(input, &ANNOTATIONS)
}

#[cfg(test)]
mod tests;
