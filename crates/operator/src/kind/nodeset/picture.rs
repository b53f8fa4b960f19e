//! Input of a NodeSet's reconcile. Everything is read once, in an order that matters.

use serde_json::Value;
use slipway_api::{
    NodeSet, PruneRecords, UpdateKind,
    child::{Child, ChildKey, ChildKind},
    name,
};
use slipway_plan::{
    Plan, Wait, controller as controller_plan,
    drift::SeenChildren,
    finding::Finding,
    missing,
    nodeset::{self as plan, Claim, Maintenance, Orphan, Reach, ReplacementBackoff, Revisions, Slot, StaleNode, Worker},
};
use slipway_render::{Invalid, nodeset as render};
use slipway_slurm::gres::Setup;

use super::{
    adopt::observe_orphans,
    claim::{self, observe_claims},
    gres,
    maintenance::observe_maintenance,
    node_attributes,
    pin::Pinning,
    protect::Turn,
    reach::observe_reach,
    record, replacement_backoff,
    revision::observe_revisions,
    site::{self, Places},
    slurm::Cluster,
    ssh,
    stale_node::observe_stale_nodes,
    worker::observe_workers,
};
use crate::world::context::Context;

/// A NodeSet and everything around it at one moment.
pub(super) struct Picture<'a> {
    pub(super) nodeset: &'a NodeSet,
    pub(super) context: &'a Context,
    pub(super) namespace: &'a str,
    pub(super) uid: &'a str,
    pub(super) cluster: Cluster<'a>,
    pub(super) workers: Vec<Worker>,
    pub(super) stale_nodes: Vec<StaleNode>,
    pub(super) claims: Vec<Claim>,
    pub(super) revisions: Revisions,
    pub(super) backoff: ReplacementBackoff,
    pub(super) places: Places,
    pub(super) pinning: Pinning<'a>,
    /// Input for rendering pods, or why none can be rendered.
    pub(super) references: Result<render::References, Wait>,
    /// Findings about the workers.
    pub(super) findings: Vec<Finding>,
    /// GRES settings from the cluster's files.
    pub(super) gres: Option<Setup>,
    reach: Reach,
    orphans: Vec<Orphan>,
    maintenance: Maintenance,
    shared: Vec<Child>,
    seen: SeenChildren,
}

impl<'a> Picture<'a> {
    /// Keep the turn until the objects that all NodeSets of a Controller share are written.
    pub(super) async fn observe(nodeset: &'a NodeSet, context: &'a Context) -> (Self, Turn) {
        let namespace = nodeset.metadata.namespace.as_deref().unwrap_or_default();
        let name = nodeset.metadata.name.as_deref().unwrap_or_default();
        let controller = nodeset.spec.controller_ref.name.as_str();
        let sssd_conf_hash = ssh::observe_sssd_conf(nodeset, context).await;
        // Must come before any other read of Slurm's state: Slurm may answer for the first time in between, but never the other way round.
        let reach = observe_reach(namespace, controller, context);
        let cluster = Cluster::new(namespace, controller, context);
        let revisions = observe_revisions(nodeset, context);
        let (mut workers, mut findings) = observe_workers(nodeset, &revisions, &cluster, context);
        findings.extend(ssh::doubt(nodeset, context));
        let mut stale_nodes = observe_stale_nodes(nodeset, &workers, &cluster, context);
        let orphans = observe_orphans(nodeset, context);
        let claims = observe_claims(nodeset, context);
        let gres = gres::observe_setup(nodeset, &workers, context);
        // From here on no other reconcile writes the budget, so the known value is current.
        let turn = Turn::begin(namespace, controller, &workers, nodeset.spec.workload_disruption_protection, context).await;
        let seen = context.seen([
            ChildKey::new(ChildKind::Service, namespace, &name::worker_service(controller)),
            ChildKey::new(ChildKind::PodDisruptionBudget, namespace, &name::worker_budget(controller)),
            ssh::config_key(nodeset),
        ]);

        let references = observe_references(nodeset, namespace, context).and_then(|references| {
            Ok(render::References { gres: gres.clone(), sssd_conf_hash: sssd_conf_hash?, hash: revisions.current().text, ..references })
        });
        let (references, sample) = with_sample(nodeset, references);
        let pinning = Pinning::new(nodeset, sample.as_ref(), context);
        let places = Places::observe(nodeset, sample.as_ref(), &workers, context);
        let (shared, references) = observe_shared(nodeset, namespace, references, &turn, context);
        record::compare_stale_nodes(&mut stale_nodes, name, &workers, &places, &cluster, |slot, hostname| {
            site::pod(nodeset, references.as_ref().ok()?, slot, hostname, |_| None).ok()
        });
        let maintenance = observe_maintenance(nodeset, &cluster);
        record::observe_needs(&mut workers, &mut stale_nodes, prunes(nodeset), &maintenance.name, &cluster);
        let backoff = replacement_backoff::recall(nodeset, &workers, context);
        plan::note_outdated(&mut workers, &backoff);
        let picture = Self {
            nodeset,
            context,
            namespace,
            uid: nodeset.metadata.uid.as_deref().unwrap_or_default(),
            cluster,
            workers,
            stale_nodes,
            claims,
            revisions,
            backoff,
            places,
            pinning,
            references,
            findings,
            gres,
            reach,
            orphans,
            maintenance,
            shared,
            seen,
        };
        (picture, turn)
    }

    /// Plans the actions.
    pub(super) fn plan(&self) -> Plan {
        let spec = &self.nodeset.spec;
        let replicas = self.places.wanted();
        let policy = plan::Policy {
            namespace: self.namespace,
            nodeset: self.nodeset.metadata.name.as_deref().unwrap_or_default(),
            uid: self.uid,
            controller: &spec.controller_ref.name,
            replicas,
            layout: self.places.layout(),
            padding: render::padding(self.nodeset),
            hostname: spec.template.as_ref().and_then(|template| template.hostname()),
            claim_templates: &claim::templates(self.nodeset),
            retention: spec.persistent_volume_claim_retention_policy.unwrap_or_default(),
            update: update(self.nodeset),
            max_unavailable: spec.update_strategy.clone().unwrap_or_default().max_unavailable(replicas),
            protects: spec.workload_disruption_protection,
            prunes: prunes(self.nodeset),
        };
        plan::nodeset(plan::Observed {
            policy,
            problem: self.references.as_ref().err().cloned(),
            new_workers_wait: slurmctld_wait(self.namespace, &spec.controller_ref.name, self.context),
            workers: &self.workers,
            kubernetes: plan::Kubernetes {
                shared: self.shared.clone(),
                seen: &self.seen,
                orphans: &self.orphans,
                claims: &self.claims,
                revisions: &self.revisions,
            },
            slurm: plan::Slurm {
                reach: self.reach.clone(),
                stale_nodes: &self.stale_nodes,
                maintenance: &self.maintenance,
                moves: node_attributes::observe_moves(self.nodeset, &self.workers, self.context),
            },
            backoff: &self.backoff,
            now: self.context.clock.now(),
        })
    }

    /// The pod for a slot. Without references the plan creates nothing.
    pub(super) fn pod(&self, slot: &Slot, hostname: &str) -> Result<Value, Invalid> {
        match &self.references {
            Ok(references) => site::pod(self.nodeset, references, slot, hostname, |ordinal| self.pinning.node(ordinal)),
            Err(wait) => Err(Invalid { field: "spec".to_owned(), problem: wait.why.clone() }),
        }
    }

    /// True if Slurm was not asked since this operator started: Slurm's values in the status stay.
    pub(super) fn is_unasked(&self) -> bool {
        self.reach == Reach::Unasked
    }

    /// Names of all its nodes in Slurm.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &str> {
        self.workers.iter().map(|worker| worker.node.as_str()).chain(self.stale_nodes.iter().map(|stale_node| stale_node.node.as_str()))
    }
}

/// Everything the NodeSet refers to, or the first missing item.
fn observe_references(nodeset: &NodeSet, namespace: &str, context: &Context) -> Result<render::References, Wait> {
    let controller = &nodeset.spec.controller_ref.name;
    if controller.is_empty() {
        return Err(missing::no_reference("spec.controllerRef"));
    }
    let found = context.stores.controller(namespace, controller).ok_or_else(|| missing::no_controller(namespace, controller))?;
    Ok(render::References {
        controller: found.as_ref().clone(),
        cluster_domain: context.cluster_domain.clone(),
        gres: None,
        sssd_conf_hash: None,
        hash: String::new(),
    })
}

/// Renders a sample pod from the references. If that fails, no pod can be rendered.
fn with_sample(nodeset: &NodeSet, references: Result<render::References, Wait>) -> (Result<render::References, Wait>, Option<Value>) {
    // The last worker has the longest name.
    let last = u32::try_from(nodeset.spec.replicas.saturating_sub(1)).unwrap_or(0);
    match references.map(|references| (site::sample(nodeset, &references, last), references)) {
        Ok((Ok(pod), references)) => (Ok(references), Some(pod)),
        Ok((Err(invalid), _)) => (Err(missing::invalid(&invalid)), None),
        Err(wait) => (Err(wait), None),
    }
}

/// Objects beside the pods. If they cannot be rendered, no pod can be created.
fn observe_shared(
    nodeset: &NodeSet,
    namespace: &str,
    references: Result<render::References, Wait>,
    turn: &Turn,
    context: &Context,
) -> (Vec<Child>, Result<render::References, Wait>) {
    let controller = &nodeset.spec.controller_ref.name;
    let siblings: Vec<_> = context.stores.nodesets_of(namespace, controller).iter().map(|nodeset| nodeset.as_ref().clone()).collect();
    let (mut shared, references) = match render::shared(namespace, controller, &siblings, turn.protected) {
        Ok(shared) => (shared, references),
        Err(invalid) => (Vec::new(), references.and_then(|_| Err(missing::invalid(&invalid)))),
    };
    // Applied before the pods that mount it, and only if pods can be rendered.
    shared.extend(references.as_ref().ok().and_then(|_| render::ssh::config_map(nodeset)));
    (shared, references)
}

/// True if records of workers that are gone for good are deleted.
fn prunes(nodeset: &NodeSet) -> bool {
    nodeset.spec.prune_slurm_node_records == PruneRecords::NodeNotFound
}

/// Update strategy for a changed template.
fn update(nodeset: &NodeSet) -> plan::Update {
    match nodeset.spec.update_strategy.as_ref().map(|strategy| strategy.kind).unwrap_or_default() {
        UpdateKind::RollingUpdate => plan::Update::Rolling,
        UpdateKind::OnDelete => plan::Update::OnDelete,
        UpdateKind::ScheduledUpdate => plan::Update::Scheduled,
    }
}

/// Wait for slurmctld. slurmd fetches its configuration from slurmctld and retries with growing delays if that fails, so it is not started before.
fn slurmctld_wait(namespace: &str, controller: &str, context: &Context) -> Option<Wait> {
    let is_elsewhere = context.stores.controller(namespace, controller).is_some_and(|found| found.spec.external);
    if is_elsewhere {
        return None;
    }
    let key = ChildKey::new(ChildKind::StatefulSet, namespace, &name::controller_workload(controller));
    let is_up = context.stores.child(&key).is_some_and(|live| controller_plan::has_ready_pod(&live));
    (!is_up).then(|| missing::controller_not_ready(namespace, controller))
}
