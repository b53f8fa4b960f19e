//! The pass over a NodeSet.

pub(crate) mod adopt;
pub(crate) mod claim;
mod cordon;
mod count;
mod deletion;
mod farewell;
mod ghost;
pub(crate) mod gres;
mod maintenance;
mod pin;
mod place;
mod protect;
mod reach;
mod record;
pub(crate) mod revision;
pub(crate) mod shown;
mod site;
mod slurm;
mod ssh;
mod tries;
mod worker;

use std::{sync::Arc, time::Duration};

use kube::ResourceExt;
use slipway_api::{
    NodeSet, NodeSetStatus, PruneRecords, UpdateKind,
    child::{ChildKey, ChildKind},
    condition::Reason,
    name,
};
use slipway_plan::{Action, Wait, controller as controller_plan, finding::Kind, nodeset as plan, unmet};
use slipway_render::nodeset as render;
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::{
    act::{Workers, act, is_written_on_a_pod},
    context::Context,
    error::Error,
    memory::BELIEVED_FOR,
    observe::findings_of,
    obstacle::report_obstacle,
    status,
};

use self::{
    adopt::{observe_orphans, without_owning_if_going},
    claim::observe_claims,
    count::{count, keep_counts},
    ghost::{confirm_gone, observe_ghosts},
    maintenance::observe_maintenance,
    pin::Pinning,
    protect::Turn,
    reach::{keep_saying, observe_reach},
    revision::observe_revisions,
    site::Places,
    slurm::Cluster,
    worker::{is_unseen, observe_workers},
};

/// A net below the watches: everything a NodeSet depends on is watched.
const LOOK_AGAIN: Duration = Duration::from_mins(10);

/// What was planned and turned out to be no longer so is planned anew soon.
const LOOK_SOON: Duration = Duration::from_secs(2);
/// What Slurm was told and does not show by then had no effect.
const SETTLED: Duration = Duration::from_secs(11);

/// Brings NodeSets to where they should be.
pub(crate) struct NodeSets(pub(crate) Arc<Context>);

impl Reconcile<NodeSet> for NodeSets {
    type Error = Error;

    async fn pass(&self, nodeset: Arc<NodeSet>) -> Result<Next, Error> {
        let context = self.0.as_ref();
        if nodeset.metadata.deletion_timestamp.is_some() {
            return deletion::pass(&nodeset, context).await;
        }
        let mut findings = findings_of(Kind::NodeSet, nodeset.as_ref());
        status::note_findings(nodeset.as_ref(), &findings, context);
        if report_obstacle(nodeset.as_ref(), Kind::NodeSet, &findings, context).await? {
            return Ok(Next::OnChange);
        }
        deletion::hold(&nodeset, context).await?;
        let (namespace, name) = (nodeset.namespace().unwrap_or_default(), nodeset.name_any());
        let controller = &nodeset.spec.controller_ref.name;
        let sssd_conf_hash = ssh::observe_sssd_conf(&nodeset, context).await;
        // Before anything else of Slurm is looked at: who was not asked by now may have answered in the next moment, and not the other way round.
        let reach = observe_reach(&namespace, controller, context);
        let is_unasked = reach == plan::Reach::Unasked;
        let cluster = Cluster::new(&namespace, controller, context);
        let revisions = observe_revisions(&nodeset, context);
        let (mut workers, on_pods) = observe_workers(&nodeset, &revisions, &cluster, context);
        findings.extend(on_pods);
        findings.extend(ssh::doubt(&nodeset, context));
        let mut ghosts = observe_ghosts(&nodeset, &workers, &cluster, context);
        let orphans = observe_orphans(&nodeset, context);
        let claims = observe_claims(&nodeset, context);
        claim::tell_conflicts(&nodeset, &claims, context);
        let setup = gres::observe_setup(&nodeset, &workers, context);
        let references = observe(&nodeset, &namespace, context).and_then(|references| {
            Ok(render::References { gres: setup.clone(), sssd_conf_hash: sssd_conf_hash?, hash: revisions.current().text, ..references })
        });
        // From here on nobody else writes the budget, so what is known of it is what it is.
        let turn = Turn::begin(&namespace, controller, &workers, nodeset.spec.workload_disruption_protection, context).await;
        let seen = context.seen([
            ChildKey::new(ChildKind::Service, &namespace, &name::worker_service(controller)),
            ChildKey::new(ChildKind::PodDisruptionBudget, &namespace, &name::worker_budget(controller)),
            ssh::config_key(&nodeset),
        ]);

        let uid = nodeset.uid().unwrap_or_default();
        // The last worker has the longest name.
        let last = u32::try_from(nodeset.spec.replicas.saturating_sub(1)).unwrap_or(0);
        let (references, rendered) = match references.map(|references| (site::sample(&nodeset, &references, last), references)) {
            Ok((Ok(pod), references)) => (Ok(references), Some(pod)),
            Ok((Err(invalid), _)) => (Err(unmet::invalid(&invalid)), None),
            Err(wait) => (Err(wait), None),
        };
        let pinning = Pinning::new(&nodeset, rendered.as_ref(), context);
        let places = Places::observe(&nodeset, rendered.as_ref(), &workers, context);
        let replicas = places.wanted();
        let siblings: Vec<_> = context.stores.nodesets_of(&namespace, controller).iter().map(|nodeset| nodeset.as_ref().clone()).collect();
        let (mut shared, references) = match render::shared(&namespace, controller, &siblings, turn.protected) {
            Ok(shared) => (shared, references),
            Err(invalid) => (Vec::new(), references.and_then(|_| Err(unmet::invalid(&invalid)))),
        };
        // Before the pods that have it, and not for pods that cannot be.
        shared.extend(references.as_ref().ok().and_then(|_| render::ssh::config_map(&nodeset)));
        let prunes = nodeset.spec.prune_slurm_node_records == PruneRecords::NodeNotFound;
        record::compare_ghosts(&mut ghosts, &name, &workers, &places, &cluster, |slot, hostname| {
            site::pod(&nodeset, references.as_ref().ok()?, slot, hostname, |_| None).ok()
        });
        let maintenance = observe_maintenance(&nodeset, &cluster);
        record::observe_needs(&mut workers, &mut ghosts, prunes, &maintenance.name, &cluster);
        let tries = tries::recall(&nodeset, &workers, context);
        plan::note_outdated(&mut workers, &tries);
        let mut plan = plan::nodeset(plan::Observed {
            namespace: &namespace,
            nodeset: &name,
            uid: &uid,
            replicas,
            layout: places.layout(),
            protects: nodeset.spec.workload_disruption_protection,
            shared,
            problem: references.as_ref().err().cloned(),
            new_workers_wait: slurmctld_wait(&namespace, controller, context),
            workers: &workers,
            padding: render::padding(&nodeset),
            hostname: nodeset.spec.template.as_ref().and_then(|template| template.hostname()),
            controller,
            orphans: &orphans,
            claim_templates: &claim::templates(&nodeset),
            claims: &claims,
            retention: nodeset.spec.persistent_volume_claim_retention_policy.unwrap_or_default(),
            tries: &tries,
            max_unavailable: nodeset.spec.update_strategy.clone().unwrap_or_default().max_unavailable(replicas),
            update: update(&nodeset),
            maintenance: &maintenance,
            revisions: &revisions,
            reach,
            moves: place::observe_moves(&nodeset, &workers, context),
            prunes,
            ghosts: &ghosts,
            seen: &seen,
            now: context.clock.now(),
        });

        let render = |slot: &plan::Slot, hostname: &str| match &references {
            Ok(references) => site::pod(&nodeset, references, slot, hostname, |ordinal| pinning.node(ordinal)),
            // Without references the plan creates nothing.
            Err(wait) => Err(slipway_render::Invalid { field: "spec".to_owned(), problem: wait.why.clone() }),
        };
        plan.actions.extend(ssh::plan_end(&nodeset, &workers, context));
        // The budget counts the busy before they are marked.
        let shared: Vec<Action> = plan.actions.extract_if(.., |action| matches!(action, Action::Apply(_))).collect();
        act(&shared, None, context).await?;
        drop(turn);

        plan.report.findings = findings;
        plan.report.sayings.extend(gres::agreement(&nodeset, setup.as_ref(), &workers));
        plan.report.sayings.extend(place::applied(&nodeset, &workers));
        keep_saying(&nodeset, &mut plan.report);
        record::keep_saying(&nodeset, &cluster, &mut plan.report);
        let is_unconfirmed = cluster.confirm(&mut plan.actions, &workers).await
            | confirm_gone(&mut plan.actions, &ghosts, &workers, &namespace, context).await;
        plan::without_idle_handovers(&mut plan.actions);
        without_owning_if_going(&nodeset, &mut plan.actions, context).await?;
        tries::count(&nodeset, &tries, &plan.actions, &workers, context);
        farewell::tell(&nodeset, places.layout(), &plan.actions, &workers, context);
        let on_pods: Vec<Action> = plan.actions.extract_if(.., |action| is_written_on_a_pod(action)).collect();
        let done =
            act(&plan.actions, Some(&Workers { nodeset: &nodeset, namespace: &namespace, owner_uid: &uid, render: &render }), context)
                .await;
        record::tell_pruned(&nodeset, &plan.actions, &ghosts, context);
        place::remember_move(&nodeset, &plan.actions, &workers, context);
        // Where no pod can be made, those that are there are still told of and shown as they are.
        plan.actions.iter().for_each(|action| cluster.tell(action));
        maintenance::announce(&nodeset, &plan.actions, context);
        let shown = act(&on_pods, None, context).await;
        done?;
        let now = context.clock.now();
        let fill = |status: &mut NodeSetStatus| {
            let before = status.clone();
            count(status, &workers, i32::try_from(replicas).unwrap_or(i32::MAX), now);
            let hash = revisions.current();
            status.collision_count = (hash.collisions > 0).then_some(hash.collisions).or(status.collision_count);
            status.node_set_hash = hash.text;
            if is_unasked {
                keep_counts(&before, status);
            }
            pinning.report(status, &workers);
        };
        status::report(nodeset.as_ref(), &plan.report, fill, context).await?;
        shown?;
        // Secrets are not watched.
        let is_secret_missing = references.is_err_and(|wait| wait.reason == Reason::SecretMissing);
        let nodes = || workers.iter().map(|worker| worker.node.as_str()).chain(ghosts.iter().map(|ghost| ghost.node.as_str()));
        // A pod that was deleted before the cache ever showed it is missed only when its time is up.
        let look = match () {
            () if is_secret_missing || is_unconfirmed || claim::is_one_more_going(&nodeset, &claims, context) => LOOK_SOON,
            () if cluster.is_settling(nodes()) => SETTLED,
            () if workers.iter().any(is_unseen) => BELIEVED_FOR,
            () => LOOK_AGAIN,
        };
        Ok(Next::After(plan.wake_after.map_or(look, |wake| wake.min(look))))
    }

    async fn report_failure(&self, nodeset: Arc<NodeSet>, failure: &Failure<Error>) {
        status::report_failure(nodeset.as_ref(), failure, &self.0).await;
    }
}

/// Everything the NodeSet refers to, or the first thing that is missing.
fn observe(nodeset: &NodeSet, namespace: &str, context: &Context) -> Result<render::References, Wait> {
    let controller = &nodeset.spec.controller_ref.name;
    if controller.is_empty() {
        return Err(unmet::no_reference("spec.controllerRef"));
    }
    let found = context.stores.controller(namespace, controller).ok_or_else(|| unmet::no_controller(namespace, controller))?;
    Ok(render::References {
        controller: found.as_ref().clone(),
        cluster_domain: context.cluster_domain.clone(),
        gres: None,
        sssd_conf_hash: None,
        hash: String::new(),
    })
}

/// How workers get a changed template.
fn update(nodeset: &NodeSet) -> plan::Update {
    match nodeset.spec.update_strategy.as_ref().map(|strategy| strategy.kind).unwrap_or_default() {
        UpdateKind::RollingUpdate => plan::Update::Rolling,
        UpdateKind::OnDelete => plan::Update::OnDelete,
        UpdateKind::ScheduledUpdate => plan::Update::Scheduled,
    }
}

/// slurmd fetches its configuration from slurmctld. One that finds nobody there tries again ever more rarely, so it is not started before.
fn slurmctld_wait(namespace: &str, controller: &str, context: &Context) -> Option<Wait> {
    let is_elsewhere = context.stores.controller(namespace, controller).is_some_and(|found| found.spec.external);
    if is_elsewhere {
        return None;
    }
    let key = ChildKey::new(ChildKind::StatefulSet, namespace, &name::controller_workload(controller));
    let is_up = context.stores.child(&key).is_some_and(|live| controller_plan::has_ready_pod(&live));
    (!is_up).then(|| unmet::controller_not_ready(namespace, controller))
}
