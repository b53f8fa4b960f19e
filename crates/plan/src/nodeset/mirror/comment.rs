//! The comment on a node that names its pod.

use std::collections::BTreeMap;

use slipway_api::slurm_node::PodInfo;

use crate::{
    Action, Plan,
    gate::Answer,
    nodeset::{Observed, Stage, Worker},
};

/// All comments that differ, in one action. What a person wrote stays: nothing of ours depends on it so much that their words should be lost.
pub(super) fn plan_comments(observed: &Observed<'_>, workers: &[&Worker], plan: &mut Plan) {
    // Where two pods have one node for a moment, the one that was there first is named, and not each in turn.
    let mut first: BTreeMap<&str, &Worker> = BTreeMap::new();
    for worker in workers.iter().filter(|worker| worker.stage == Stage::Ready) {
        let known = first.entry(worker.node.as_str()).or_insert(worker);
        if (worker.created, &worker.name) < (known.created, &known.name) {
            *known = worker;
        }
    }
    let comments: BTreeMap<String, String> = first.into_values().filter_map(|worker| comment(observed, worker)).collect();
    if !comments.is_empty() {
        plan.actions.push(Action::Describe { comments });
    }
}

fn comment(observed: &Observed<'_>, worker: &Worker) -> Option<(String, String)> {
    let Worker { name, node, in_slurm, .. } = worker;
    if worker.stage != Stage::Ready || in_slurm.is_registered != Answer::Yes {
        return None;
    }
    let wanted = PodInfo {
        namespace: observed.namespace.to_owned(),
        pod_name: name.clone(),
        node: worker.host.as_ref()?.name.clone(),
        node_set_name: observed.nodeset.to_owned(),
        node_set_uid: observed.uid.to_owned(),
    }
    .to_string();
    let is_ours = in_slurm.comment.is_empty() || PodInfo::parse(&in_slurm.comment).is_some();
    (is_ours && in_slurm.comment != wanted).then(|| (node.clone(), wanted))
}
