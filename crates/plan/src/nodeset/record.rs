//! Slurm's node records: records that are no longer wanted are deleted, and records that differ from the pod are recreated.
//!
//! An existing record keeps its values, whatever the slurmd of a later pod reports about memory, CPUs, GRES or features. So it is deleted between the
//! end of one pod and the start of the next. If someone else needs the record or has set its state, it stays, and the reason is reported.

use std::collections::BTreeSet;

use slipway_api::condition::{ConditionStatus, ConditionUpdate, RECORDS_CURRENT, Reason};

use super::{Hold, InSlurm, Layout, Observed, ReplacementBackoff, Stage, StaleNode, Update, Worker, numbers_to_come, stale_node};
use crate::{
    Action, Plan,
    gate::{Answer, Clearance, Deed, Verdict, gate},
};

/// Number of times a worker is replaced because its record differs. If that does not help, it is reported and left to the administrator.
const MOST_TRIES: u32 = 2;
/// Number of records that a message names before it counts the rest.
const NAMED: usize = 3;

/// Properties of a record beside its state.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Differences from the existing pod, or from the pod that would be created, such as `RealMemory is 1000 and not 2000`.
    pub differences: Vec<String>,
    /// True if a new record would certainly fix one of them.
    pub is_curable: bool,
    pub needed: Needed,
}

/// Use of a record by others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needed {
    ByNone,
    /// The user of the record, such as ``reservation `maintenance` names it``.
    By(String),
    /// The reason why that is unknown.
    Unknown(String),
}

impl Default for Needed {
    fn default() -> Self {
        Self::Unknown("Slurm was not queried".to_owned())
    }
}

/// Decision about a record without a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It may be deleted.
    Goes(Clearance),
    /// It is deleted as soon as this is known or over.
    Waits(String),
    /// It is kept while this is the case.
    Stays(String),
}

/// Decides if the record of a pod that is gone may be deleted. Slurm itself would delete a record that a pending job requires, and kill that job when
/// it next reads its configuration. It would also delete a record that a later reservation names.
pub(super) fn fate(stale_node: &StaleNode) -> Fate {
    fate_if(stale_node, &stale_node.record.needed)
}

/// [`fate`] with a given `needed`: it is already known, or a user has overridden it.
pub(super) fn fate_if(StaleNode { node, in_slurm, .. }: &StaleNode, needed: &Needed) -> Fate {
    if !is_ours(in_slurm) {
        return Fate::Stays(format!("it was drained or set DOWN by someone else (`{}`)", in_slurm.reason));
    }
    let needed = match needed {
        Needed::By(whom) => return Fate::Stays(whom.clone()),
        Needed::Unknown(why) => Answer::Unknown(why.clone()),
        Needed::ByNone => Answer::No,
    };
    let is_settling = in_slurm.hold == Hold::Unknown;
    let is_out_of_use = ["Down", "Drain", "NotResponding"].iter().any(|state| in_slurm.has(state));
    let ends_jobs = match () {
        () if in_slurm.is_busy != Answer::No => in_slurm.is_busy.clone(),
        () if is_settling => Answer::Unknown("a command for it was just sent to Slurm".to_owned()),
        () if !is_out_of_use => Answer::Unknown("it may still get one".to_owned()),
        () => needed,
    };
    let what = format!("delete the record of node `{node}`");
    match gate(&Deed::new(what, ends_jobs)) {
        Verdict::Allowed(clearance) => Fate::Goes(clearance),
        Verdict::Wait(why) | Verdict::Refused(why) => Fate::Waits(why),
    }
}

impl Fate {
    /// The clearance to delete the record now.
    pub(super) fn clearance(self) -> Option<Clearance> {
        match self {
            Self::Goes(clearance) => Some(clearance),
            Self::Waits(_) | Self::Stays(_) => None,
        }
    }
}

/// True if no one but us has set the state of a record. A drain without a reason also counts as someone else's.
pub(super) fn is_ours(in_slurm: &InSlurm) -> bool {
    let is_drained_by_others = in_slurm.has("Drain") && in_slurm.hold == Hold::ByOthers;
    stale_node::is_ours(in_slurm) && !is_drained_by_others
}

/// Deletes records that are no longer wanted, if the NodeSet enables it. Returns their nodes.
pub(super) fn plan_pruning(observed: &Observed<'_>, plan: &mut Plan) -> BTreeSet<String> {
    forget(unwanted(observed).into_iter().filter_map(|stale_node| Some((stale_node.node.clone(), fate(stale_node).clearance()?))), plan)
}

/// Our records that have no pod and will not get one. This is the only place that lists the wanted nodes for every scaling mode.
fn unwanted<'a>(observed: &Observed<'a>) -> Vec<&'a StaleNode> {
    if !observed.policy.prunes || observed.slurm.stale_nodes.is_empty() {
        return Vec::new();
    }
    let wanted: BTreeSet<String> = match observed.policy.layout {
        Layout::Numbered => numbers_to_come(observed).map(|(_, _, hostname)| hostname).collect(),
        Layout::PerNode(sites) => sites.iter().filter(|(_, site)| site.keeps()).map(|(_, site)| site.hostname.clone()).collect(),
        Layout::Untold => return Vec::new(),
    };
    observed.slurm.stale_nodes.iter().filter(|stale_node| !wanted.contains(&stale_node.node)).collect()
}

/// Those of `creations` whose Slurm record would match them. A record that differs is deleted first, which takes a moment. A record that has to stay
/// does not block its worker. Returns the nodes of the deleted records, too.
pub(super) fn without_outdated(creations: Vec<Action>, observed: &Observed<'_>, plan: &mut Plan) -> (Vec<Action>, BTreeSet<String>) {
    let (mut ready, mut cleared) = (Vec::new(), Vec::new());
    for creation in creations {
        let outdated = match &creation {
            Action::CreateWorker { hostname, .. } => observed
                .slurm
                .stale_nodes
                .iter()
                .find(|stale_node| stale_node.node == *hostname && !stale_node.record.differences.is_empty()),
            _ => None,
        };
        let Some(stale_node) = outdated else {
            ready.push(creation);
            continue;
        };
        match fate(stale_node) {
            Fate::Stays(_) => ready.push(creation),
            Fate::Waits(why) => plan.report.wait(Reason::WaitingForSlurm, format!("waits to create pod `{}`: it {why}", stale_node.pod)),
            Fate::Goes(clearance) => {
                let StaleNode { node, pod, record, .. } = stale_node;
                let why = format!(
                    "waits to create pod `{pod}` until Slurm has deleted the record of node `{node}`, which would not change: {}",
                    record.differences.join(", ")
                );
                plan.report.wait(Reason::WaitingForSlurm, why);
                cleared.push((node.clone(), clearance));
            }
        }
    }
    (ready, forget(cleared, plan))
}

fn forget(cleared: impl IntoIterator<Item = (String, Clearance)>, plan: &mut Plan) -> BTreeSet<String> {
    let Some((nodes, clearance)) = Clearance::for_all(cleared) else { return BTreeSet::new() };
    let forgotten = nodes.iter().cloned().collect();
    plan.actions.push(Action::Forget { nodes, clearance });
    forgotten
}

/// Marks workers as outdated if their record differs from them and a new record would help and may be created.
pub fn note_outdated(workers: &mut [Worker], backoff: &ReplacementBackoff) {
    for worker in workers {
        if matches!(record_state(worker, backoff), Some(Live::Outdated)) {
            worker.is_current = false;
        }
    }
}

/// Treatment of a live worker whose record differs from it.
enum Live {
    /// It is replaced.
    Outdated,
    /// It was replaced `MOST_TRIES` times, without effect.
    Hopeless,
    /// Its record has to stay, for this reason.
    Kept(String),
}

fn record_state(worker: &Worker, backoff: &ReplacementBackoff) -> Option<Live> {
    let Worker { stage, in_slurm, record, node, .. } = worker;
    let is_known = *stage == Stage::Ready && in_slurm.is_registered == Answer::Yes;
    if !is_known || !record.is_curable || record.differences.is_empty() {
        return None;
    }
    // A stale job queue does not matter yet: it is checked again once the pod is gone.
    match &record.needed {
        Needed::By(whom) => Some(Live::Kept(whom.clone())),
        _ if is_held_by_others(in_slurm) => Some(Live::Kept(format!("it was drained or set DOWN by someone else (`{}`)", in_slurm.reason))),
        _ if backoff.reregistered(node) >= MOST_TRIES => Some(Live::Hopeless),
        _ => Some(Live::Outdated),
    }
}

fn is_held_by_others(in_slurm: &InSlurm) -> bool {
    matches!(in_slurm.hold, Hold::ByOthers)
}

/// Sets the condition `RecordsCurrent`: records that differ or are not wanted, and why they stay. Sets nothing if there are none.
pub(super) fn plan_saying(observed: &Observed<'_>, plan: &mut Plan) {
    let mut said = Vec::new();
    for worker in observed.workers {
        let Worker { node, record, .. } = worker;
        let differs = record.differences.join(", ");
        match record_state(worker, observed.backoff) {
            Some(Live::Outdated) => {
                let when = match observed.policy.update {
                    Update::Rolling => "when its jobs have ended",
                    Update::OnDelete => "when you delete it",
                    Update::Scheduled => "in the scheduled maintenance",
                };
                said.push(format!("the Slurm record of node `{node}` differs from its pod ({differs}): both are replaced {when}"));
            }
            Some(Live::Kept(why)) => said.push(format!(
                "the Slurm record of node `{node}` differs from its pod ({differs}) and cannot be deleted now: {why}"
            )),
            Some(Live::Hopeless) => said.push(format!(
                "the Slurm record of node `{node}` differs from its pod ({differs}), and {MOST_TRIES} new ones did too: see the logs of its \
                 slurmd and of slurmctld; nothing more is done about it"
            )),
            None => {}
        }
    }
    said.extend(unwanted(observed).into_iter().filter_map(|stale_node| match fate(stale_node) {
        Fate::Stays(why) => Some(format!("record of node `{}` stays: {why}", stale_node.node)),
        Fate::Goes(_) | Fate::Waits(_) => None,
    }));
    if said.is_empty() {
        return;
    }
    let more = said.len().saturating_sub(NAMED);
    said.truncate(NAMED);
    let more = if more > 0 { format!("; and {more} more like these") } else { String::new() };
    let message = format!("{}{more}", said.join("; "));
    plan.report.condition_updates.push(ConditionUpdate {
        type_: RECORDS_CURRENT,
        status: ConditionStatus::False,
        reason: Reason::RecordsKept,
        message,
    });
}

#[cfg(test)]
mod tests;
