//! The comment on a Slurm node that names its pod.

use std::collections::BTreeMap;

use slipway_api::slurm_node::PodInfo;

use crate::{
    Action, Plan,
    gate::Answer,
    nodeset::{Observed, Stage, Worker},
};

/// Writes all comments that differ, in one action. A comment written by a person stays: ours is not important enough to overwrite it.
pub(super) fn plan_comments(observed: &Observed<'_>, workers: &[&Worker], plan: &mut Plan) {
    // If two pods share a node for a moment, the older one is named. Otherwise the comment would alternate between them.
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
        namespace: observed.policy.namespace.to_owned(),
        pod_name: name.clone(),
        node: worker.host.as_ref()?.name.clone(),
        node_set_name: observed.policy.nodeset.to_owned(),
        node_set_uid: observed.policy.uid.to_owned(),
    }
    .to_string();
    let is_ours = in_slurm.comment.is_empty() || PodInfo::parse(&in_slurm.comment).is_some();
    (is_ours && in_slurm.comment != wanted).then(|| (node.clone(), wanted))
}
