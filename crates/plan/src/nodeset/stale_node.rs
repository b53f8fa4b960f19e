//! Stale nodes: records in Slurm whose pod is gone. Slurm would send jobs there that never start, and jobs that were there would never end.
//!
//! A node that is set DOWN gets no job, and its jobs are requeued. That kills no job: nothing can run without a pod. A terminating pod does this
//! itself; this is for pods that could not.

use std::collections::BTreeSet;

use slipway_api::{condition::Reason, slurm_node::POD_GONE};

use super::{Hold, InSlurm, Observed, Stage, StaleNode, Worker};
use crate::{
    Action, Plan,
    gate::{Answer, Clearance, Deed, gate},
};

/// Sets DOWN, in one call, the nodes that may get or have jobs although their pod is gone or has ended. Returns them.
pub(super) fn plan_stale_nodes(observed: &Observed<'_>, plan: &mut Plan) -> BTreeSet<String> {
    let stale_nodes = observed
        .slurm
        .stale_nodes
        .iter()
        .filter(|stale_node| may_hold_jobs(&stale_node.in_slurm))
        .map(|stale_node| (&stale_node.node, &stale_node.in_slurm));
    // A pod that has ended is deleted once Slurm reports no job there. Without this, Slurm would report the job forever.
    let ended = observed.workers.iter().filter(|worker| worker.stage == Stage::Ended && worker.in_slurm.is_busy == Answer::Yes);
    let ended = ended.filter(|worker| may_hold_jobs(&worker.in_slurm)).map(|Worker { node, in_slurm, .. }| (node, in_slurm));
    let (nodes, action) = down(stale_nodes.chain(ended));
    plan.actions.extend(action);
    nodes
}

/// The action that sets those of `stale_nodes` DOWN that may get or have jobs, or `None` if there are none.
pub(super) fn set_down<'a>(stale_nodes: impl Iterator<Item = &'a StaleNode>) -> Option<Action> {
    down(stale_nodes.filter(|stale_node| may_hold_jobs(&stale_node.in_slurm)).map(|stale_node| (&stale_node.node, &stale_node.in_slurm))).1
}

fn down<'a>(nodes: impl Iterator<Item = (&'a String, &'a InSlurm)>) -> (BTreeSet<String>, Option<Action>) {
    let mut cleared: Vec<(String, Clearance)> =
        nodes.filter_map(|(node, in_slurm)| Some((node.clone(), clearance(node, in_slurm)?))).collect();
    cleared.sort_by(|(one, _), (other, _)| one.cmp(other));
    cleared.dedup_by(|(one, _), (other, _)| one == other);
    let nodes = cleared.iter().map(|(node, _)| node.clone()).collect();
    let set_down = |(nodes, clearance)| Action::SetDown { nodes, reason: POD_GONE.to_owned(), clearance };
    (nodes, Clearance::for_all(cleared).map(set_down))
}

/// True if no one but us has set the state of a record. A record that Slurm set DOWN because the node does not respond counts as ours.
pub(super) fn is_ours(in_slurm: &InSlurm) -> bool {
    in_slurm.reason.is_empty() || in_slurm.our_reason().is_some() || in_slurm.reason.to_lowercase().contains("not responding")
}

/// Those of `creations` without a stale node that may get or have jobs. A job of the former pod would count as running on the new pod forever, so the
/// node is set DOWN first. That takes a moment, and only a longer wait is reported.
pub(super) fn without_stale_nodes(creations: Vec<Action>, observed: &Observed<'_>, plan: &mut Plan) -> Vec<Action> {
    let mut free = Vec::new();
    for creation in creations {
        let stale_node_of = |pod: &String, node: &String| {
            observed
                .slurm
                .stale_nodes
                .iter()
                .find(|stale_node| (stale_node.pod == *pod || stale_node.node == *node) && may_hold_jobs(&stale_node.in_slurm))
        };
        match &creation {
            Action::CreateWorker { name, hostname, .. } if let Some(StaleNode { node, in_slurm, .. }) = stale_node_of(name, hostname) => {
                if in_slurm.hold == Hold::ByOthers {
                    plan.report.wait(Reason::WaitingForSlurm, format!("waits to create pod `{name}`: {}", why_it_lasts(node, in_slurm)));
                }
            }
            _ => free.push(creation),
        }
    }
    free
}

/// True if Slurm may start jobs there, or has jobs there that would never end. A drained and empty node does no harm, whoever drained it.
fn may_hold_jobs(in_slurm: &InSlurm) -> bool {
    let is_up = in_slurm.is_registered == Answer::Yes && !in_slurm.has("Down");
    is_up
        && match in_slurm.hold {
            Hold::Open | Hold::DownByUs | Hold::Unknown => true,
            Hold::DrainedByUs | Hold::ByOthers => in_slurm.is_busy == Answer::Yes,
        }
}

/// The clearance to set the node DOWN, if the gate gives it. A node that an administrator drained is left as it is, although its jobs hang: DOWN would overwrite the
/// administrator's reason. Slurm itself sets a node DOWN that does not respond for `SlurmdTimeout`, and keeps the reason.
fn clearance(node: &str, in_slurm: &InSlurm) -> Option<Clearance> {
    if in_slurm.hold == Hold::Unknown {
        return None; // a command for it was just sent to Slurm
    }
    let deed = Deed::new(format!("set node `{node}` down"), Answer::No);
    gate(&Deed { is_ours: in_slurm.hold != Hold::ByOthers, ..deed }).clearance()
}

fn why_it_lasts(node: &str, in_slurm: &InSlurm) -> String {
    format!(
        "in Slurm jobs of the deleted pod still hold node `{node}`, which someone else drained (`{}`), so it is not changed; Slurm requeues them \
         after its SlurmdTimeout, or sooner if you set the node DOWN",
        in_slurm.reason
    )
}
