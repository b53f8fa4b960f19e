//! Reachability of Slurm for a NodeSet.

use kube::ResourceExt;
use slipway_api::{
    NodeSet,
    condition::{ConditionStatus, ConditionUpdate, Reason, SLURM_REACHABLE},
};
use slipway_plan::{Report, nodeset::Reach};
use tokio::time::Instant;

use crate::{slurm::no_session, world::context::Context};

/// Reachability according to the session with the cluster.
pub(super) fn observe_reach(namespace: &str, controller: &str, context: &Context) -> Reach {
    let restapi = context.stores.restapis_of(namespace, controller).into_iter().map(|restapi| restapi.name_any()).min();
    let unknown = |cause: String, advice: String| Reach::Unknown { cause, advice };
    let Some(restapi) = restapi else {
        let (cause, advice) = no_session(namespace, controller);
        return unknown(cause, advice);
    };
    if context.stores.controller(namespace, controller).is_none() {
        return unknown(format!("Controller `{namespace}/{controller}` does not exist"), "create it".to_owned());
    }
    // A RestApi exists, so a session is about to start.
    let Some(snapshot) = context.clusters.snapshot(namespace, controller).filter(|snapshot| !snapshot.is_untried()) else {
        return Reach::Unasked;
    };
    let now = Instant::now();
    let failed = || {
        let advice = format!("look at RestApi `{namespace}/{restapi}` and its pods");
        unknown(snapshot.trouble().to_owned(), advice)
    };
    match (snapshot.fresh_nodes(now), snapshot.fresh_for(now)) {
        (Ok(nodes), Some(_)) if nodes.missing > 0 => Reach::Partial { missing: nodes.missing },
        (Ok(_), Some(_)) if snapshot.trouble().is_empty() => Reach::Answers,
        (Ok(_), Some(left)) => Reach::Fading(left),
        _ => failed(),
    }
}

/// Repeats the current condition until Slurm was asked: a freshly started operator has nothing to add.
pub(super) fn keep_saying(nodeset: &NodeSet, report: &mut Report) {
    if report.condition_updates.iter().any(|condition_update| condition_update.type_ == SLURM_REACHABLE) {
        return;
    }
    let mut conditions = nodeset.status.iter().flat_map(|status| &status.conditions);
    report.condition_updates.extend(conditions.find(|condition| condition.type_ == SLURM_REACHABLE).map(|said| {
        let is_true = said.status == ConditionStatus::True.as_str();
        let reason = if is_true { Reason::SlurmAnswers } else { Reason::SlurmUnknown };
        ConditionUpdate { type_: SLURM_REACHABLE, status: is_true.into(), reason, message: said.message.clone() }
    }));
}
