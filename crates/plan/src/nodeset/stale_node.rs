//! Records in Slurm whose pod is gone: jobs would be sent there and wait for nobody, and those that were there would never end.
//!
//! Set down, such a node gets no job and gives its jobs back to the queue. That ends none: nothing can run where there is no pod. A pod that says
//! termination does it itself; this is for those that could not.

use std::collections::BTreeSet;

use slipway_api::{condition::Reason, slurm_node::POD_GONE};

use super::{StaleNode, Hold, InSlurm, Observed, Stage, Worker};
use crate::{
    Action, Plan,
    gate::{Answer, Deed, Room, Verdict, gate},
};

/// Sets down, in one call, the nodes that wait for a pod that is gone or has ended.
pub(super) fn plan_stale_nodes(observed: &Observed<'_>, plan: &mut Plan) {
    let stale_nodes = observed.stale_nodes.iter().filter(|stale_node| haunts(&stale_node.in_slurm)).map(|stale_node| (&stale_node.node, &stale_node.in_slurm));
    // One that has ended is deleted as soon as Slurm sees no job there, which it never would.
    let ended = observed.workers.iter().filter(|worker| worker.stage == Stage::Ended && worker.in_slurm.is_busy == Answer::Yes);
    let ended = ended.filter(|worker| haunts(&worker.in_slurm)).map(|Worker { node, in_slurm, .. }| (node, in_slurm));
    plan.actions.extend(down(stale_nodes.chain(ended)));
}

/// Has those of `stale_nodes` set down that wait for a pod.
pub(super) fn set_down<'a>(stale_nodes: impl Iterator<Item = &'a StaleNode>) -> Option<Action> {
    down(stale_nodes.filter(|stale_node| haunts(&stale_node.in_slurm)).map(|stale_node| (&stale_node.node, &stale_node.in_slurm)))
}

fn down<'a>(nodes: impl Iterator<Item = (&'a String, &'a InSlurm)>) -> Option<Action> {
    let nodes: BTreeSet<String> = nodes.filter(|(node, in_slurm)| may_set_down(node, in_slurm)).map(|(node, _)| node.clone()).collect();
    (!nodes.is_empty()).then(|| Action::SetDown { nodes: nodes.into_iter().collect(), reason: POD_GONE.to_owned() })
}

/// Whether nobody but us says anything about a record: one that Slurm set down because it does not answer says only that.
pub(super) fn is_ours(in_slurm: &InSlurm) -> bool {
    in_slurm.reason.is_empty() || in_slurm.our_reason().is_some() || in_slurm.reason.to_lowercase().contains("not responding")
}

/// Of these new workers, those whose node in Slurm waits for nobody. A job of the pod that was there before would count as running on the new one for
/// ever, so its node is down first; that takes a moment, and only what takes longer is reported.
pub(super) fn without_haunted(creations: Vec<Action>, observed: &Observed<'_>, plan: &mut Plan) -> Vec<Action> {
    let mut free = Vec::new();
    for creation in creations {
        let haunted_by = |pod: &String, node: &String| {
            observed.stale_nodes.iter().find(|stale_node| (stale_node.pod == *pod || stale_node.node == *node) && haunts(&stale_node.in_slurm))
        };
        match &creation {
            Action::CreateWorker { name, hostname, .. } if let Some(StaleNode { node, in_slurm, .. }) = haunted_by(name, hostname) => {
                if in_slurm.hold == Hold::ByOthers {
                    plan.report.wait(Reason::WaitingForSlurm, format!("waits to create pod `{name}`: {}", why_it_lasts(node, in_slurm)));
                }
            }
            _ => free.push(creation),
        }
    }
    free
}

/// Whether jobs may be sent there, or are there, and would never end. One that is drained and empty harms nobody, by whomever it was drained.
fn haunts(in_slurm: &InSlurm) -> bool {
    let is_up = in_slurm.is_registered == Answer::Yes && !in_slurm.has("Down");
    is_up
        && match in_slurm.hold {
            Hold::Open | Hold::DownByUs | Hold::Unknown => true,
            Hold::DrainedByUs | Hold::ByOthers => in_slurm.is_busy == Answer::Yes,
        }
}

/// What an administrator drained stays as it is, although its jobs hang: DOWN would come with words of ours over theirs. Slurm itself sets a node down,
/// and keeps the words, that does not answer for `SlurmdTimeout`.
fn may_set_down(node: &str, in_slurm: &InSlurm) -> bool {
    if in_slurm.hold == Hold::Unknown {
        return false; // Slurm was just told
    }
    let deed = Deed {
        what: format!("set node `{node}` down"),
        is_ours: in_slurm.hold != Hold::ByOthers,
        ends_jobs: Answer::No,
        may_end_jobs: false,
        costs_a_worker: false,
    };
    gate(&deed, Room { available: 0, floor: 0 }) == Verdict::Allowed
}

fn why_it_lasts(node: &str, in_slurm: &InSlurm) -> String {
    format!(
        "in Slurm jobs of the pod that is gone still hold node `{node}`, and somebody drained it (`{}`), so it is left alone; Slurm lets go of them \
         after its SlurmdTimeout, or sooner if you set the node down",
        in_slurm.reason
    )
}
