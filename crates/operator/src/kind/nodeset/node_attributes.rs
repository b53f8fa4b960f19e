//! Topology and features of Kubernetes nodes, and nodes that are not in the partitions that their features select.

use std::{
    collections::BTreeSet,
    hash::{DefaultHasher, Hash, Hasher},
    time::Duration,
};

use jiff::Timestamp;
use kube::ResourceExt;
use slipway_api::{
    NodeSet, annotation,
    child::{ChildKey, ChildKind},
    condition::{CONFIGURATION_APPLIED, ConditionStatus, ConditionUpdate, NODE_ANNOTATIONS_APPLIED, Reason},
    image, name,
    slurm_node::FEATURE_PREFIX,
};
use slipway_plan::{
    Action,
    nodeset::{Moves, Worker, annotations_applied},
};
use slipway_render::controller::Configuration;
use slipway_runtime::{events, view::NodeView};
use slipway_slurm::{conf_check::member::Members, name::Feature, topology::Topology};

use crate::world::{context::Context, memory::Repeats};

/// Maximum length of a feature: users type it after `-C`, and listings repeat it for every node.
const LONGEST: usize = 64;

/// Minimum interval between reconfigures, so that successive changes share one.
const APART: Duration = Duration::from_secs(10);
/// Retry interval and maximum number of reconfigures if no node moves.
const REPEATED_AFTER: Duration = Duration::from_mins(1);
const MOST_REPEATED: u32 = 3;

/// Topology in the annotation of a Kubernetes node, or the error in it. Empty text is no topology.
pub(super) fn topology(host: &NodeView) -> Option<Result<String, String>> {
    let text = host.annotations().get(annotation::TOPOLOGY)?.trim();
    if text.is_empty() {
        return Some(Ok(String::new()));
    }
    Some(Topology::parse(text).map(|topology| topology.to_string()).map_err(|wrong| in_words(annotation::TOPOLOGY, &wrong.to_string())))
}

/// Features in the annotation of a Kubernetes node, with our prefix, or the error in it.
pub(super) fn features(host: &NodeView) -> Result<BTreeSet<String>, String> {
    let text = host.annotations().get(annotation::FEATURES).map(String::as_str).unwrap_or_default();
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words.map(|word| feature(word).map_err(|wrong| in_words(annotation::FEATURES, &wrong))).collect()
}

fn feature(word: &str) -> Result<String, String> {
    let feature = Feature::parse(word).map_err(|wrong| wrong.to_string())?;
    match feature.as_str().len() {
        length if length > LONGEST => Err(format!("`{feature}` is no feature: it has {length} characters; use at most {LONGEST}")),
        _ => Ok(format!("{FEATURE_PREFIX}{feature}")),
    }
}

fn in_words(annotation: &str, wrong: &str) -> String {
    format!("annotation `{annotation}` is wrong: {wrong}")
}

/// The condition, or `None` if there is nothing to report. A failure is reported until it is known to be resolved.
pub(super) fn applied(nodeset: &NodeSet, workers: &[Worker]) -> Option<ConditionUpdate> {
    let (condition_update, is_settled) = annotations_applied(workers);
    if is_settled || condition_update.as_ref().is_some_and(|condition_update| condition_update.status == ConditionStatus::False) {
        return condition_update;
    }
    let mut said = nodeset.status.iter().flat_map(|status| &status.conditions);
    let refused = said.find(|said| said.type_ == NODE_ANNOTATIONS_APPLIED && said.status == ConditionStatus::False.as_str());
    let again = refused.map(|said| ConditionUpdate {
        type_: NODE_ANNOTATIONS_APPLIED,
        status: ConditionStatus::False,
        reason: Reason::NodeAnnotationRefused,
        message: said.message.clone(),
    });
    again.or(condition_update)
}

/// Partitions that select nodes by our features. `None` for an external slurmctld: it is not ours to reconfigure.
pub(super) fn observe_members(namespace: &str, controller: &str, context: &Context) -> Option<Members> {
    if context.stores.controller(namespace, controller)?.spec.external {
        return None;
    }
    // The published configuration was checked, and slurmctld reads it.
    let key = ChildKey::new(ChildKind::ConfigMap, namespace, &name::controller_config(controller));
    let files = Configuration::of_config_map(&context.stores.child(&key)?).files;
    let text = String::from_utf8_lossy(files.get(image::SLURM_CONF)?).into_owned();
    text.contains(FEATURE_PREFIX).then(|| Members::read(&text, FEATURE_PREFIX))
}

/// Permission to reconfigure Slurm for nodes that are not in the partitions that their features select.
pub(super) fn observe_moves(nodeset: &NodeSet, workers: &[Worker], context: &Context) -> Moves {
    let Some(cause) = cause(workers) else { return Moves::Never };
    let (cluster, own) = keys(nodeset);
    let (namespace, controller) = (nodeset.namespace().unwrap_or_default(), &nodeset.spec.controller_ref.name);
    let is_pending = context.stores.controller(&namespace, controller).is_some_and(|found| {
        let mut conditions = found.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|said| said.type_ == CONFIGURATION_APPLIED && said.reason == Reason::ConfigurationPending.as_str())
    });
    if is_pending {
        return Moves::After(APART); // slurmctld is about to read a new configuration anyway
    }
    let moves = &context.memory.moves;
    turn(moves.of(&cluster, "").map(|any| any.last), moves.of(&own, &cause).as_ref(), context.clock.now())
}

/// Time of the next reconfigure: not right after another one, and not forever if it does not help.
fn turn(any: Option<Timestamp>, for_this: Option<&Repeats>, now: Timestamp) -> Moves {
    let left = |since: Timestamp, time: Duration| time.saturating_sub(now.duration_since(since).unsigned_abs());
    let waits =
        any.map_or(Duration::ZERO, |any| left(any, APART)).max(for_this.map_or(Duration::ZERO, |before| left(before.last, REPEATED_AFTER)));
    match () {
        () if for_this.is_some_and(|before| before.count >= MOST_REPEATED) => Moves::Never,
        () if waits.is_zero() => Moves::Now,
        () => Moves::After(waits),
    }
}

/// Remembers a reconfigure and reports it as an event.
pub(super) fn remember_move(nodeset: &NodeSet, actions: &[Action], workers: &[Worker], context: &Context) {
    let why = actions.iter().find_map(|action| match action {
        Action::Reconfigure { why, .. } => Some(why),
        _ => None,
    });
    let Some((why, cause)) = why.zip(cause(workers)) else { return };
    let ((cluster, own), now) = (keys(nodeset), context.clock.now());
    context.memory.moves.count(&cluster, "", now);
    context.memory.moves.count(&own, &cause, now);
    context.say(nodeset, events::Kind::Normal, "Reconfigured", "Update", why);
}

/// Keys of the cluster, and of the NodeSet in it.
fn keys(nodeset: &NodeSet) -> (String, String) {
    let cluster = format!("{}/{}", nodeset.namespace().unwrap_or_default(), nodeset.spec.controller_ref.name);
    let own = format!("{cluster}/{}", nodeset.name_any());
    (cluster, own)
}

/// Hash of the misplaced nodes and their features, or `None` if there are none.
fn cause(workers: &[Worker]) -> Option<String> {
    let mut misplaced = workers.iter().filter(|worker| worker.in_slurm.is_misplaced).peekable();
    misplaced.peek()?;
    let mut hasher = DefaultHasher::new();
    misplaced.for_each(|worker| (&worker.node, &worker.in_slurm.features).hash(&mut hasher));
    Some(hasher.finish().to_string())
}

#[cfg(test)]
mod tests;
