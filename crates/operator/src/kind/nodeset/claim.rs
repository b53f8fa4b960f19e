//! PersistentVolumeClaims of a NodeSet's workers: observes and creates them, and sets their owners.

use std::collections::BTreeSet;

use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{Api, ResourceExt, core::ApiResource, runtime::reflector::ObjectRef};
use serde_json::Value;
use slipway_api::{GROUP, NodeSet, event, label::Component, name, owner};
use slipway_plan::{
    ClaimId,
    nodeset::{Claim, Keeper},
};
use slipway_runtime::{apply::Id, events::Kind, metrics::Write, view::ClaimView};

use crate::world::{
    context::Context,
    error::Error,
    memory::{Sent, is_recent},
};

/// Names of the NodeSet's claim templates.
pub(super) fn templates(nodeset: &NodeSet) -> Vec<String> {
    let templates = nodeset.spec.volume_claim_templates.iter().flatten();
    templates.filter_map(|template| Some(template.0.get("metadata")?["name"].as_str()?.to_owned())).collect()
}

/// Claims created from the NodeSet's templates, by name and labels. Other claims with such a name belong to the user: workers use them, and nothing
/// else is done with them.
pub(super) fn observe_claims(nodeset: &NodeSet, context: &Context) -> Vec<Claim> {
    let (name, templates, now) = (nodeset.name_any(), templates(nodeset), context.clock.now());
    if templates.is_empty() {
        return Vec::new();
    }
    let selector = Component::Worker.selector(&name);
    let is_its = |view: &ClaimView| {
        view.metadata.namespace == nodeset.metadata.namespace && selector.iter().all(|(key, value)| view.labels().get(*key) == Some(value))
    };
    // Also claims of the other scaling mode, which are kept until their workers come back.
    let claimant = |template: &String, claim: &str| {
        name::claimant(template, &name, claim).or_else(|| name::daemon_claimant(template, &name, claim)).map(str::to_owned)
    };
    let pod_of = |claim: &str| templates.iter().find_map(|template| claimant(template, claim));
    let seen = context.stores.claims.state_filter(is_its);
    let mut claims: Vec<Claim> = seen
        .iter()
        .filter_map(|view| {
            let (uid, pod) = (view.uid()?, pod_of(&view.name_any())?);
            let given = context.memory.kept.unseen(&uid, view.metadata.resource_version.as_deref(), now);
            let keeper = given.unwrap_or_else(|| keeper(view, nodeset, &pod));
            Some(Claim { name: view.name_any(), is_going: view.is_going(), uid, pod, keeper })
        })
        .collect();
    for claim in going(nodeset, context) {
        let Some(pod) = pod_of(&claim) else { continue };
        claims.push(Claim { name: claim, uid: String::new(), pod, is_going: true, keeper: Keeper::Unowned });
    }
    claims.sort_by(|one, other| one.name.cmp(&other.name));
    claims
}

/// True if a claim was found terminating that is not among the observed ones.
pub(super) fn is_one_more_going(nodeset: &NodeSet, observed: &[Claim], context: &Context) -> bool {
    going(nodeset, context).iter().any(|going| observed.iter().all(|claim| claim.name != *going))
}

/// Claims in the NodeSet's namespace that no watch shows and that were recently found terminating.
fn going(nodeset: &NodeSet, context: &Context) -> BTreeSet<String> {
    let now = context.clock.now();
    let going = context.memory.going_claims.sweep(|_, at| is_recent(*at, now));
    going.into_iter().filter(|(namespace, _)| Some(namespace) == nodeset.metadata.namespace.as_ref()).map(|(_, claim)| claim).collect()
}

/// Owner that controls a claim or with which it would be deleted.
fn keeper(claim: &ClaimView, nodeset: &NodeSet, pod: &str) -> Keeper {
    // In DaemonSet mode a claim's name does not contain that of its pod.
    let own = name::worker_generate_name(&nodeset.name_any());
    let is_worker = |owner: &str| owner == pod || (name::worker_ordinal(&nodeset.name_any(), pod).is_none() && owner.starts_with(&own));
    let read = |owner: &OwnerReference| match owner {
        _ if Some(&owner.uid) == nodeset.metadata.uid.as_ref() => Keeper::NodeSet,
        _ if owner.kind == "NodeSet" && owner.api_version.starts_with(GROUP) && owner.name == nodeset.name_any() => Keeper::Former,
        _ if owner.kind == "Pod" && owner.api_version == "v1" && is_worker(&owner.name) => Keeper::Pod(owner.uid.clone()),
        _ if owner.controller == Some(true) => Keeper::Other(format!("{} `{}`", owner.kind, owner.name)),
        _ => Keeper::Unowned,
    };
    let mut keepers = claim.owner_references().iter().map(read).filter(|keeper| *keeper != Keeper::Unowned);
    keepers.next().unwrap_or(Keeper::Unowned)
}

/// Reports once for each claim with a foreign controller that it is left alone.
pub(super) fn tell_conflicts(nodeset: &NodeSet, claims: &[Claim], context: &Context) {
    for claim in claims {
        let Keeper::Other(owner) = &claim.keeper else { continue };
        if context.memory.conflicts.get(&claim.uid).is_some() {
            continue;
        }
        let words = format!(
            "claim `{}` is controlled by {owner}: workers use it, and it is deleted neither with the NodeSet nor when that shrinks",
            claim.name
        );
        context.say(nodeset, Kind::Warning, event::reason::CONFLICTING_CONTROLLER, event::action::UPDATE, &words);
        context.memory.conflicts.insert(claim.uid.clone(), ());
    }
}

/// Creates a worker's missing claims. Existing ones are used as they are. True if all can be used, false if one is terminating.
pub(crate) async fn create_claims(namespace: &str, bodies: Vec<Value>, context: &Context) -> Result<bool, Error> {
    for body in bodies {
        let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(known) = context.stores.claims.get(&ObjectRef::new(&name).within(namespace)) {
            if known.is_going() {
                return Ok(false);
            }
            continue;
        }
        match context.writer.create(&claims(), namespace, body).await {
            Ok(()) => {
                context.metrics.writes.get_or_create(&Write { verb: "create", kind: "PersistentVolumeClaim" }).inc();
                tracing::info!(claim = %format!("{namespace}/{name}"), "created");
            }
            // The cache is stale, or the claim lacks our labels and is therefore not in the cache.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                if !is_there_to_stay(namespace, &name, context).await? {
                    context.memory.going_claims.insert((namespace.to_owned(), name), context.clock.now());
                    return Ok(false);
                }
            }
            Err(error) => return Err(Error::write(format!("create claim `{namespace}/{name}`"))(error)),
        }
    }
    Ok(true)
}

/// Creates missing claims of a worker whose pod exists.
pub(crate) async fn restore_claims(namespace: &str, bodies: Vec<Value>, context: &Context) -> Result<(), Error> {
    let mut missing = Vec::new();
    for body in bodies {
        if find(namespace, body["metadata"]["name"].as_str().unwrap_or_default(), context).await?.is_none() {
            missing.push(body);
        }
    }
    create_claims(namespace, missing, context).await.map(drop)
}

async fn is_there_to_stay(namespace: &str, name: &str, context: &Context) -> Result<bool, Error> {
    Ok(find(namespace, name, context).await?.is_some_and(|claim| !claim.is_going()))
}

async fn find(namespace: &str, name: &str, context: &Context) -> Result<Option<ClaimView>, Error> {
    let api: Api<ClaimView> = Api::namespaced(context.client.clone(), namespace);
    api.get_opt(name).await.map_err(Error::read(format!("claim `{namespace}/{name}`")))
}

/// Makes a worker pod that is about to be deleted the owner of its claims, so that they are deleted with it.
pub(crate) async fn hand_over(nodeset: &NodeSet, pod: Id<'_>, claims: &[ClaimId], context: &Context) -> Result<(), Error> {
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        name: pod.name.to_owned(),
        uid: pod.uid.to_owned(),
        controller: Some(true),
        block_owner_deletion: None,
    };
    for claim in claims {
        give(nodeset, claim, Some(&owner), None, Keeper::Pod(pod.uid.to_owned()), context).await?;
    }
    Ok(())
}

/// Makes the NodeSet the owner of a claim, or leaves the claim without an owner.
pub(crate) async fn keep(
    nodeset: &NodeSet,
    claim: &ClaimId,
    from: Option<&str>,
    with_nodeset: bool,
    context: &Context,
) -> Result<(), Error> {
    let owner = with_nodeset.then(|| owner::controller_of(nodeset));
    let keeper = if with_nodeset { Keeper::NodeSet } else { Keeper::Unowned };
    give(nodeset, claim, owner.as_ref(), from, keeper, context).await
}

async fn give(
    nodeset: &NodeSet,
    claim: &ClaimId,
    owner: Option<&OwnerReference>,
    from: Option<&str>,
    keeper: Keeper,
    context: &Context,
) -> Result<(), Error> {
    let (namespace, uid) = (nodeset.namespace().unwrap_or_default(), nodeset.uid().unwrap_or_default());
    let former = Some(uid.as_str()).filter(|_| keeper != Keeper::NodeSet);
    let without: Vec<&str> = former.into_iter().chain(from).collect();
    let object = Id { namespace: &namespace, name: &claim.name, uid: &claim.uid };
    let what = format!("give claim `{namespace}/{}` its owner", claim.name);
    let version = context.writer.own(&claims(), object, owner, &without).await.map_err(Error::write(what))?;
    context.metrics.writes.get_or_create(&Write { verb: "own", kind: "PersistentVolumeClaim" }).inc();
    context.memory.kept.insert(claim.uid.clone(), Sent { what: keeper.clone(), version, at: context.clock.now() });
    tracing::info!(claim = %format!("{namespace}/{}", claim.name), ?keeper, "has its owner");
    Ok(())
}

fn claims() -> ApiResource {
    ApiResource::erase::<PersistentVolumeClaim>(&())
}

#[cfg(test)]
mod tests;
