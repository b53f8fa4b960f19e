//! GPUs and other generic resources (GRES), as plain values from each source.

use kube::ResourceExt;
use slipway_api::{
    NodeSet,
    child::{ChildKey, ChildKind},
    condition::{ConditionStatus, ConditionUpdate, GRES_AGREES, Reason},
    image, name,
};
use slipway_plan::{
    gate::Answer,
    nodeset::{
        InSlurm, Stage, Worker,
        gres::{self as plan, Amount, Files, NodeGres, Places},
    },
};
use slipway_render::{controller::Configuration, nodeset as render};
use slipway_slurm::gres::{self as slurm, Detection, Gres, Setup};

use crate::world::context::Context;

/// State of a node whose slurmd reported less than its record has, and the text in its reason if that is about GRES.
const REFUSED: &str = "InvalidReg";
const ABOUT_GRES: &str = "gres/";

/// GRES settings in slurmctld's files. `None` if nothing uses GRES, or if slurmctld is external and reads other files.
pub(super) fn observe_setup(nodeset: &NodeSet, workers: &[Worker], context: &Context) -> Option<Setup> {
    let is_asked = !render::gres::devices(nodeset).known.is_empty() || render::gres::stated(nodeset).is_some();
    if !is_asked && workers.iter().all(|worker| worker.in_slurm.gres.is_empty()) {
        return None;
    }
    let (namespace, controller) = (nodeset.namespace()?, &nodeset.spec.controller_ref.name);
    if context.stores.controller(&namespace, controller)?.spec.external {
        return None;
    }
    // Daemons read the published configuration, even while a newer one is held back.
    let key = ChildKey::new(ChildKind::ConfigMap, &namespace, &name::controller_config(controller));
    let files = Configuration::of_config_map(&context.stores.child(&key)?).files;
    let text = |file: &str| files.get(file).map(|content| String::from_utf8_lossy(content));
    Some(Setup::read(&text(image::SLURM_CONF)?, text(image::GRES_CONF).as_deref()))
}

/// The condition, or `None` if there is nothing to report. While Slurm cannot be asked, the condition of the same spec stays: a short outage changes
/// nothing.
pub(super) fn agreement(nodeset: &NodeSet, setup: Option<&Setup>, workers: &[Worker]) -> Option<ConditionUpdate> {
    let places = places(nodeset, setup, workers);
    let condition_update = plan::agreement(&places);
    let is_certain = !places.has_unknown_nodes
        || condition_update.as_ref().is_some_and(|condition_update| condition_update.status == ConditionStatus::False);
    if is_certain { condition_update } else { said_before(nodeset).or(condition_update) }
}

fn said_before(nodeset: &NodeSet) -> Option<ConditionUpdate> {
    let mut conditions = nodeset.status.iter().flat_map(|status| &status.conditions);
    let said = conditions.find(|said| said.type_ == GRES_AGREES && said.observed_generation == nodeset.metadata.generation)?;
    let (status, reason) = match said.status.as_str() {
        "True" => (ConditionStatus::True, Reason::AllReady),
        "False" => (ConditionStatus::False, Reason::GresMismatch),
        _ => (ConditionStatus::Unknown, Reason::SlurmUnknown),
    };
    Some(ConditionUpdate { type_: GRES_AGREES, status, reason, message: said.message.clone() })
}

/// GRES from the NodeSet alone.
pub(crate) fn of_spec(nodeset: &NodeSet) -> Places {
    Places {
        devices: render::gres::devices(nodeset),
        stated: render::gres::stated(nodeset).map(|stated| stated.map(amounts).map_err(|error| error.to_string())),
        ..Places::default()
    }
}

fn places(nodeset: &NodeSet, setup: Option<&Setup>, workers: &[Worker]) -> Places {
    // Lines of gres.conf may name nodes; all nodes of a NodeSet are assumed to be alike.
    let prefix = nodeset.spec.template.as_ref().and_then(|template| template.hostname());
    let first = || name::padded_worker_hostname(&nodeset.name_any(), prefix, 0, render::padding(nodeset));
    let node = workers.first().map_or_else(first, |worker| worker.node.clone());
    let judged = || workers.iter().filter(|worker| worker.is_current && worker.stage == Stage::Ready);
    Places {
        nodes: judged().filter_map(|worker| node_gres(&worker.node, &worker.in_slurm)).collect(),
        has_unknown_nodes: judged().any(|worker| matches!(worker.in_slurm.is_registered, Answer::Unknown(_))),
        ..of_files(nodeset, setup, &node)
    }
}

/// GRES of a node from the NodeSet and slurmctld's files.
fn of_files(nodeset: &NodeSet, setup: Option<&Setup>, node: &str) -> Places {
    Places {
        derived: render::gres::derived(nodeset, setup, node).map(amount),
        files: setup.map(|setup| files(setup, &nodeset.spec.controller_ref.name, node)),
        ..of_spec(nodeset)
    }
}

fn files(setup: &Setup, controller: &str, node: &str) -> Files {
    let detection = match setup.conf.detection(node) {
        Detection::Unsaid => plan::Detection::Unsaid,
        Detection::Off => plan::Detection::Off,
        Detection::By(_) => plan::Detection::On,
    };
    Files { controller: controller.to_owned(), types: setup.types.clone(), detection, devices: amounts(setup.conf.devices(node)) }
}

/// GRES on a worker's record, or `None` if there is no record or it cannot be parsed.
fn node_gres(node: &str, in_slurm: &InSlurm) -> Option<NodeGres> {
    if in_slurm.is_registered != Answer::Yes {
        return None;
    }
    let is_refused = in_slurm.has(REFUSED) && in_slurm.reason.contains(ABOUT_GRES);
    Some(NodeGres {
        node: node.to_owned(),
        amounts: amounts(slurm::parse(&in_slurm.gres).ok()?),
        refusal: is_refused.then(|| in_slurm.reason.clone()),
    })
}

fn amounts(all: Vec<Gres>) -> Vec<Amount> {
    all.into_iter().map(amount).collect()
}

fn amount(Gres { name, kind, count }: Gres) -> Amount {
    Amount { name, kind, count }
}

#[cfg(test)]
mod tests;
