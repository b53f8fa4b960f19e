//! What is remembered of workers that had to be replaced.

use kube::ResourceExt;
use slipway_api::{NodeSet, event};
use slipway_plan::{
    Action,
    nodeset::{Tries, Worker},
};
use slipway_runtime::events::Kind;

use crate::context::Context;

/// What is remembered of the NodeSet's workers, with what is the case now.
pub(super) fn recall(nodeset: &NodeSet, workers: &[Worker], context: &Context) -> Tries {
    let uid = nodeset.uid().unwrap_or_default();
    let before = context.memory.tries.get(&uid);
    let mut tries = before.clone().unwrap_or_default();
    tries.saw(workers, context.clock.now());
    remember(uid, before, &tries, context);
    tries
}

/// Remembers what is about to be done, and tells of workers that are deleted as Slurm does not know them.
pub(super) fn count(nodeset: &NodeSet, before: &Tries, actions: &[Action], workers: &[Worker], context: &Context) {
    let mut tries = before.clone();
    for worker in tries.count(actions, workers, context.clock.now()) {
        let message = format!("pod `{}` is deleted: it is ready, and Slurm has no node `{}`", worker.name, worker.node);
        context.say(nodeset, Kind::Warning, event::reason::SLURM_NODE_NOT_REGISTERED, event::action::DELETE, &message);
    }
    remember(nodeset.uid().unwrap_or_default(), Some(before.clone()), &tries, context);
}

fn remember(uid: String, before: Option<Tries>, tries: &Tries, context: &Context) {
    if before.unwrap_or_default() != *tries {
        context.memory.tries.insert(uid, tries.clone());
    }
}
