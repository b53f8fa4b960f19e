//! Reconciles NodeSets.

mod act;
mod adopt;
mod claim;
mod cordon;
mod count;
mod deletion;
pub(crate) mod gres;
mod maintenance;
mod node_attributes;
mod picture;
mod pin;
mod protect;
mod reach;
mod record;
mod replacement_backoff;
mod revision;
mod shown;
mod site;
mod slurm;
mod ssh;
mod stale_node;
mod termination;
mod worker;

use std::{sync::Arc, time::Duration};

use slipway_api::{NodeSet, NodeSetStatus, condition::Reason};
use slipway_plan::{Action, Report, finding::Kind, nodeset as plan};
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::world::{context::Context, error::Error, memory::BELIEVED_FOR, observe::findings_of, obstacle::report_obstacle, status};

use self::{
    act::{Workers, act, create_workers, is_written_on_a_pod, write_on_pods},
    adopt::without_owning_if_going,
    count::{count, keep_counts},
    picture::Picture,
    stale_node::confirm_gone,
    worker::is_unseen,
};

/// Requeue interval without events. A safety net: everything a NodeSet depends on, except Secrets, is watched.
const LOOK_AGAIN: Duration = Duration::from_mins(10);

/// Short requeue interval, for example if a planned action no longer applies.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// Requeue interval after a command to Slurm. A command that shows no effect by then had none.
const SETTLED: Duration = Duration::from_secs(11);

/// Reconciler of NodeSets.
pub(crate) struct NodeSets(pub(crate) Arc<Context>);

impl Reconcile<NodeSet> for NodeSets {
    type Error = Error;

    async fn pass(&self, nodeset: Arc<NodeSet>) -> Result<Next, Error> {
        let context = self.0.as_ref();
        if nodeset.metadata.deletion_timestamp.is_some() {
            return deletion::pass(&nodeset, context).await;
        }
        let findings = findings_of(Kind::NodeSet, nodeset.as_ref());
        status::note_findings(nodeset.as_ref(), &findings, context);
        if report_obstacle(nodeset.as_ref(), Kind::NodeSet, &findings, context).await? {
            return Ok(Next::OnChange);
        }
        if !deletion::hold(&nodeset, context).await? {
            return Ok(Next::After(LOOK_SOON));
        }
        let (picture, turn) = Picture::observe(&nodeset, context).await;
        claim::tell_conflicts(&nodeset, &picture.claims, context);
        count_lost_jobs(&nodeset, &picture.workers, context);
        let mut plan = picture.plan();
        plan.actions.extend(ssh::plan_end(&nodeset, &picture.workers, context));
        plan.report.findings = findings.into_iter().chain(picture.findings.iter().cloned()).collect();
        say(&picture, &mut plan.report);
        // The budget must count busy pods before they get the label.
        let shared: Vec<Action> = plan.actions.extract_if(.., |action| matches!(action, Action::Apply(_))).collect();
        crate::world::act::act(&shared, context).await?;
        drop(turn);

        let is_unconfirmed = confirm(&picture, &mut plan.actions).await?;
        carry_out(&picture, plan.actions, &plan.report).await?;
        let look = if is_unconfirmed { LOOK_SOON } else { next_look(&picture) };
        Ok(Next::After(plan.wake_after.map_or(look, |wake| wake.min(look))))
    }

    async fn report_failure(&self, nodeset: Arc<NodeSet>, failure: &Failure<Error>) {
        status::report_failure(nodeset.as_ref(), failure, &self.0).await;
    }
}

/// Counts workers with lost jobs in the metric of all NodeSets.
fn count_lost_jobs(nodeset: &NodeSet, workers: &[plan::Worker], context: &Context) {
    let (uid, lost) = (nodeset.metadata.uid.clone().unwrap_or_default(), workers.iter().filter(|worker| worker.is_lost).count());
    let (before, now) = (context.memory.with_lost_jobs.get(&uid).unwrap_or_default(), i64::try_from(lost).unwrap_or(i64::MAX));
    if now != before {
        context.metrics.workers_with_lost_jobs.inc_by(now - before);
        context.memory.with_lost_jobs.insert(uid, now);
    }
}

/// Adds conditions that the planner does not report.
fn say(picture: &Picture<'_>, report: &mut Report) {
    let Picture { nodeset, workers, cluster, .. } = picture;
    report.condition_updates.extend(gres::agreement(nodeset, picture.gres.as_ref(), workers));
    report.condition_updates.extend(node_attributes::applied(nodeset, workers));
    reach::keep_saying(nodeset, report);
    record::keep_saying(nodeset, cluster, report);
}

/// Checks the plan with Slurm and the API server, and drops actions that no longer apply. True if one of them did not confirm an action.
async fn confirm(picture: &Picture<'_>, actions: &mut Vec<Action>) -> Result<bool, Error> {
    let Picture { nodeset, workers, stale_nodes, cluster, namespace, context, .. } = picture;
    let is_unconfirmed = cluster.confirm(actions, workers).await | confirm_gone(actions, stale_nodes, workers, namespace, context).await;
    plan::without_idle_handovers(actions);
    without_owning_if_going(nodeset, actions, context).await?;
    Ok(is_unconfirmed)
}

/// Executes the plan and updates the status. If a pod cannot be created, existing pods still get their Slurm commands, labels and conditions. If
/// another write fails, the plan is not what it was meant to be, and Slurm gets only commands that are safe without the rest.
async fn carry_out(picture: &Picture<'_>, mut actions: Vec<Action>, report: &Report) -> Result<(), Error> {
    let Picture { nodeset, workers, stale_nodes, cluster, context, .. } = picture;
    replacement_backoff::count(nodeset, &picture.backoff, &actions, workers, context);
    let on_pods: Vec<Action> = actions.extract_if(.., |action| is_written_on_a_pod(action)).collect();
    let render = |slot: &plan::Slot, hostname: &str| picture.pod(slot, hostname);
    let owner = Workers { nodeset, namespace: picture.namespace, owner_uid: picture.uid, render: &render };
    let done = act(&actions, &owner, context).await;
    let new: Vec<Action> = actions.extract_if(.., |action| done.is_ok() && matches!(action, Action::CreateWorker { .. })).collect();
    actions.retain(|action| done.is_ok() || action.is_cautious());
    termination::report(nodeset, picture.places.layout(), &actions, workers, context);
    record::tell_pruned(nodeset, &actions, stale_nodes, context);
    node_attributes::remember_move(nodeset, &actions, workers, context);
    for action in &actions {
        cluster.tell(action);
    }
    maintenance::announce(nodeset, &actions, context);
    // Side by side: in a cluster that grows, each takes seconds.
    let (created, shown) = tokio::join!(create_workers(&new, &owner, context), write_on_pods(&on_pods, context));
    done.and(created)?;
    status::report(*nodeset, report, |status| fill(picture, status), context).await?;
    shown
}

/// Fills in the counts, names and hash of the status.
fn fill(picture: &Picture<'_>, status: &mut NodeSetStatus) {
    let before = status.clone();
    count(status, &picture.workers, i32::try_from(picture.places.wanted()).unwrap_or(i32::MAX), picture.context.clock.now());
    let hash = picture.revisions.current();
    status.collision_count = (hash.collisions > 0).then_some(hash.collisions).or(status.collision_count);
    status.node_set_hash = hash.text;
    if picture.is_unasked() {
        keep_counts(&before, status);
    }
    picture.pinning.report(status, &picture.workers);
}

/// Requeue interval if no event comes first.
fn next_look(picture: &Picture<'_>) -> Duration {
    let Picture { nodeset, workers, claims, cluster, context, .. } = picture;
    // Secrets are not watched.
    let is_secret_missing = picture.references.as_ref().is_err_and(|wait| wait.reason == Reason::SecretMissing);
    match () {
        () if is_secret_missing || claim::is_one_more_going(nodeset, claims, context) => LOOK_SOON,
        () if cluster.is_settling(picture.nodes()) => SETTLED,
        // A pod deleted before the cache ever showed it counts as existing for this long.
        () if workers.iter().any(is_unseen) => BELIEVED_FOR,
        () => LOOK_AGAIN,
    }
}
