//! Memory of workers that had to be replaced.

use kube::ResourceExt;
use slipway_api::{NodeSet, event};
use slipway_plan::{
    Action,
    nodeset::{ReplacementBackoff, Worker},
};
use slipway_runtime::events::Kind;

use crate::world::context::Context;

/// The remembered backoff of the NodeSet, updated with its current workers.
pub(super) fn recall(nodeset: &NodeSet, workers: &[Worker], context: &Context) -> ReplacementBackoff {
    let uid = nodeset.uid().unwrap_or_default();
    let before = context.memory.backoff.get(&uid);
    let mut backoff = before.clone().unwrap_or_default();
    backoff.saw(workers, context.clock.now());
    remember(uid, before, &backoff, context);
    backoff
}

/// Remembers planned replacements, and reports workers deleted because they are not registered in Slurm.
pub(super) fn count(nodeset: &NodeSet, before: &ReplacementBackoff, actions: &[Action], workers: &[Worker], context: &Context) {
    let mut backoff = before.clone();
    for worker in backoff.count(actions, workers, context.clock.now()) {
        let message = format!("pod `{}` is deleted: it is ready, and Slurm has no node `{}`", worker.name, worker.node);
        context.say(nodeset, Kind::Warning, event::reason::SLURM_NODE_NOT_REGISTERED, event::action::DELETE, &message);
    }
    remember(nodeset.uid().unwrap_or_default(), Some(before.clone()), &backoff, context);
}

fn remember(uid: String, before: Option<ReplacementBackoff>, backoff: &ReplacementBackoff, context: &Context) {
    if before.unwrap_or_default() != *backoff {
        context.memory.backoff.insert(uid, backoff.clone());
    }
}
