//! Stale nodes: records in Slurm whose pod is gone. Slurm would send jobs there that never start, and jobs that were there would never end.
//!
//! A node that is set DOWN gets no job, and its jobs are requeued. That must not happen while they still run: a pod that was deleted by force, or whose
//! Kubernetes node was deleted, is gone from the API, and its slurmd may run on. So a node is set DOWN only when slurmctld itself does not hear from it
//! any more, or when Kubernetes reports that the containers have ended. Until then it is drained. A terminating pod sets its node DOWN itself.

use std::collections::BTreeSet;

use slipway_api::{condition::Reason, slurm_node::POD_GONE};

use super::{Hold, InSlurm, Observed, Stage, StaleNode, Worker};
use crate::{
    Action, Plan,
    gate::{Answer, Clearance, Deed, gate},
};

/// Flag of a node that does not respond to slurmctld.
const NOT_RESPONDING: &str = "NotResponding";

/// Sets DOWN or drains, in one call each, the nodes that may get or have jobs although their pod is gone or has ended. Returns them.
pub(super) fn plan_stale_nodes(observed: &Observed<'_>, plan: &mut Plan) -> BTreeSet<String> {
    // A pod that has ended is deleted once Slurm reports no job there. Without this, Slurm would report the job forever.
    let ended = observed.workers.iter().filter(|worker| worker.stage == Stage::Ended && worker.in_slurm.is_busy == Answer::Yes);
    let ended = ended.map(|Worker { node, in_slurm, .. }| Stale { node, in_slurm, has_ended: true });
    let actions = take_out_of_use(observed.slurm.stale_nodes.iter().map(Stale::of).chain(ended));
    let nodes = actions.iter().flat_map(told).cloned().collect();
    plan.actions.extend(actions);
    nodes
}

/// Actions after which those of `stale_nodes` that may get or have jobs get no more.
pub(super) fn without_jobs<'a>(stale_nodes: impl Iterator<Item = &'a StaleNode>) -> Vec<Action> {
    take_out_of_use(stale_nodes.map(Stale::of))
}

/// A node without a living pod.
struct Stale<'a> {
    node: &'a String,
    in_slurm: &'a InSlurm,
    /// True if Kubernetes reports that its containers have ended.
    has_ended: bool,
}

impl<'a> Stale<'a> {
    fn of(StaleNode { node, in_slurm, .. }: &'a StaleNode) -> Self {
        Self { node, in_slurm, has_ended: false }
    }

    /// The clearance to set the node DOWN, if the gate gives it. A node that an administrator drained is left as it is, although its jobs hang: DOWN
    /// would overwrite the administrator's reason. Slurm itself sets a node DOWN that does not respond for `SlurmdTimeout`, and keeps the reason.
    fn clearance(&self) -> Option<Clearance> {
        let Self { node, in_slurm, has_ended } = self;
        if in_slurm.hold == Hold::Unknown {
            return None; // a command for it was just sent to Slurm
        }
        let ends_jobs = match in_slurm.is_busy.clone() {
            _ if *has_ended || in_slurm.has(NOT_RESPONDING) => Answer::No,
            is_busy => is_busy,
        };
        let deed = Deed::new(format!("set node `{node}` DOWN"), ends_jobs);
        gate(&Deed { is_ours: in_slurm.hold != Hold::ByOthers, ..deed }).clearance()
    }

    /// True if it is to be drained, because it may still run.
    fn is_to_drain(&self) -> bool {
        !self.has_ended && !self.in_slurm.has(NOT_RESPONDING) && matches!(self.in_slurm.hold, Hold::Open | Hold::DownByUs)
    }
}

fn take_out_of_use<'a>(stale: impl Iterator<Item = Stale<'a>>) -> Vec<Action> {
    let stale = stale.filter(|stale| may_hold_jobs(stale.in_slurm));
    let (to_drain, others): (Vec<Stale<'_>>, Vec<Stale<'_>>) = stale.partition(Stale::is_to_drain);
    let mut cleared: Vec<(String, Clearance)> = others.iter().filter_map(|stale| Some((stale.node.clone(), stale.clearance()?))).collect();
    cleared.sort_by(|(one, _), (other, _)| one.cmp(other));
    cleared.dedup_by(|(one, _), (other, _)| one == other);
    let set_down = |(nodes, clearance)| Action::SetDown { nodes, reason: POD_GONE.to_owned(), clearance };
    let mut actions: Vec<Action> = Clearance::for_all(cleared).map(set_down).into_iter().collect();
    let to_drain: BTreeSet<String> = to_drain.iter().map(|stale| stale.node.clone()).collect();
    if !to_drain.is_empty() {
        actions.push(Action::Drain { nodes: to_drain.into_iter().collect(), reason: POD_GONE.to_owned() });
    }
    actions
}

/// The nodes of a command.
fn told(action: &Action) -> &[String] {
    match action {
        Action::SetDown { nodes, .. } | Action::Drain { nodes, .. } => nodes,
        _ => &[],
    }
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
                if let Some(why) = why_it_lasts(node, in_slurm) {
                    plan.report.wait(Reason::WaitingForSlurm, format!("waits to create pod `{name}`: {why}"));
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

/// Reason why jobs hold a stale node for longer than a moment, or `None`.
fn why_it_lasts(node: &str, in_slurm: &InSlurm) -> Option<String> {
    match in_slurm.hold {
        Hold::ByOthers => Some(format!(
            "in Slurm jobs of the deleted pod still hold node `{node}`, which someone else drained (`{}`), so it is not changed; Slurm requeues \
             them after its SlurmdTimeout, or sooner if you set the node DOWN",
            in_slurm.reason
        )),
        Hold::DrainedByUs if !in_slurm.has(NOT_RESPONDING) => Some(format!(
            "in Slurm jobs of the deleted pod still hold node `{node}`, and its slurmd may still run: it is drained, and set DOWN when Slurm reports \
             that it does not respond; if you know that nothing runs there, set it DOWN (`scontrol update nodename={node} state=down reason=...`)"
        )),
        Hold::Open | Hold::DownByUs | Hold::DrainedByUs | Hold::Unknown => None,
    }
}
