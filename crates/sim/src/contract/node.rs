//! Promises about node records.

use slipway_slurm::name::NodeName;
use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::list::Hosts;
use slipway_slurm::rest::model::{Node, NodeState, NodeUpdate};
use slipway_slurm::rest::{RestError, Version};

use super::bench::{Bench, fine, holds, not_found, refused};

/// Fields of a node that the client reads, and the first version that has each.
const FIELDS: &[(&str, Version)] = &[
    ("name", Version::V42),
    ("hostname", Version::V42),
    ("address", Version::V42),
    ("state", Version::V42),
    ("next_state_after_reboot", Version::V42),
    ("reason", Version::V42),
    ("reason_changed_at", Version::V42),
    ("reason_set_by_user", Version::V42),
    ("comment", Version::V42),
    ("extra", Version::V42),
    ("features", Version::V42),
    ("active_features", Version::V42),
    ("partitions", Version::V42),
    ("cpus", Version::V42),
    ("alloc_cpus", Version::V42),
    ("real_memory", Version::V42),
    ("alloc_memory", Version::V42),
    ("gres", Version::V42),
    ("gres_used", Version::V42),
    ("reservation", Version::V42),
    ("instance_id", Version::V42),
    ("topology", Version::V43),
    ("version", Version::V42),
    ("weight", Version::V42),
    ("boot_time", Version::V42),
    ("slurmd_start_time", Version::V42),
    ("last_busy", Version::V42),
    ("resume_after", Version::V42),
];

fn ghost() -> Result<NodeName, String> {
    NodeName::parse("ghost").map_err(|error| error.to_string())
}

async fn listed(bench: &Bench) -> Result<Vec<Node>, String> {
    let mut nodes = Vec::new();
    fine(bench.client.nodes(None, |node| nodes.push(node)).await)?;
    Ok(nodes)
}

pub(super) async fn both_workers_are_listed_idle_and_registered(bench: &Bench) -> Result<(), String> {
    let nodes = listed(bench).await?;
    for name in &bench.target.workers {
        let node = nodes.iter().find(|node| node.name == *name).ok_or_else(|| format!("`{name}` is not in the list"))?;
        let is_as_expected = node.state.has(&NodeState::Idle)
            && node.state.has(&NodeState::DynamicNorm)
            && node.slurmd_start_time.moment().is_some()
            && node.features == [bench.target.partition.clone()]
            && node.partitions == [bench.target.partition.clone()]
            && node.cpus > 0;
        holds(is_as_expected, || format!("{node:?}"))?;
    }
    Ok(())
}

pub(super) async fn one_node_reads_as_in_the_list(bench: &Bench) -> Result<(), String> {
    let nodes = listed(bench).await?;
    let alone = bench.node(0).await?;
    holds(nodes.contains(&alone), || format!("{alone:?} is not in {nodes:?}"))
}

pub(super) async fn every_field_that_is_read_is_there(bench: &Bench) -> Result<(), String> {
    let (_, _, body) = bench.raw("GET", "nodes/", &[bench.token_header()?]).await?;
    let node = body["nodes"][0].as_object().cloned().unwrap_or_default();
    let expected = FIELDS.iter().filter(|(_, since)| *since <= bench.version);
    let missing: Vec<_> = expected.filter(|(field, _)| !node.contains_key(*field)).collect();
    holds(missing.is_empty(), || format!("a node has no {missing:?}"))
}

pub(super) async fn a_missing_node_is_told_apart(bench: &Bench) -> Result<(), String> {
    let ghost = ghost()?;
    not_found(bench.client.node(&ghost).await)?;
    not_found(bench.client.update_node(&ghost, &NodeUpdate::comment("x")).await)?;
    not_found(bench.client.delete_node(&ghost).await)
}

pub(super) async fn an_unknown_name_in_a_batch_changes_nothing(bench: &Bench) -> Result<(), String> {
    let names = [bench.worker(0)?, ghost()?];
    let hosts = Hosts::of(&names).ok_or("no hosts")?;
    refused(bench.client.update_nodes(&hosts, &NodeUpdate::drain("contract")).await, Errno::INVALID_NODE)?;
    let node = bench.node(0).await?;
    holds(!node.state.has(&NodeState::Drain), || format!("it is {}", node.state))
}

pub(super) async fn a_batch_drains_and_undrains(bench: &Bench) -> Result<(), String> {
    fine(bench.client.update_nodes(&bench.both()?, &NodeUpdate::drain("contract: ü and\nlines")).await)?;
    for index in 0..2 {
        let node = bench.node(index).await?;
        let is_drained = node.state.is_drained() && node.reason == "contract: ü and\nlines" && node.reason_set_by_user == "slurm";
        holds(is_drained && node.reason_changed_at.moment().is_some(), || format!("{node:?}"))?;
    }
    fine(bench.client.update_nodes(&bench.both()?, &NodeUpdate::drain("another")).await)?;
    holds(bench.node(0).await?.reason == "another", || "the second reason is not taken".to_owned())?;
    fine(bench.client.update_nodes(&bench.both()?, &NodeUpdate::undrain()).await)?;
    for index in 0..2 {
        let node = bench.until_node(index, "a usable node", |node| node.state.is_usable()).await?;
        holds(node.reason.is_empty(), || format!("the reason stays: {}", node.reason))?;
    }
    // An undrain of a node that is not drained is not a failure.
    fine(bench.client.update_nodes(&bench.both()?, &NodeUpdate::undrain()).await)
}

pub(super) async fn a_resume_that_does_not_apply_is_refused_but_done_to_the_others(bench: &Bench) -> Result<(), String> {
    refused(bench.client.update_node(&bench.worker(0)?, &NodeUpdate::resume()).await, Errno::INVALID_NODE_TRANSITION)?;
    fine(bench.client.update_node(&bench.worker(1)?, &NodeUpdate::drain("contract")).await)?;
    let partly = bench.client.update_nodes(&bench.both()?, &NodeUpdate::resume()).await;
    holds(partly.as_ref().is_err_and(RestError::may_have_been_applied), || format!("{partly:?}"))?;
    refused(partly, Errno::INVALID_NODE_TRANSITION)?;
    bench.until_node(1, "the drained node to be resumed", |node| !node.state.has(&NodeState::Drain)).await.map(drop)
}

/// Number of attempts; a slurmd does not register this often by chance between two requests.
const LIFTED_BY_CHANCE: usize = 3;

pub(super) async fn a_node_set_down_comes_back(bench: &Bench) -> Result<(), String> {
    let worker = bench.worker(0)?;
    // A slurmd that registers clears DOWN too. That can happen by chance once; an undrain that clears DOWN does so each time.
    let mut is_down = false;
    for _ in 0..LIFTED_BY_CHANCE {
        fine(bench.client.update_node(&worker, &NodeUpdate::down("contract")).await)?;
        let node = bench.node(0).await?;
        let is_set = node.state.has(&NodeState::Down) && node.reason == "contract";
        fine(bench.client.update_node(&worker, &NodeUpdate::undrain()).await)?;
        is_down = is_set && bench.node(0).await?.state.has(&NodeState::Down);
        if is_down {
            break;
        }
    }
    holds(is_down, || "an undrain lifted a DOWN, or it was never set".to_owned())?;
    let resumed = bench.client.update_node(&worker, &NodeUpdate::resume()).await;
    // Its slurmd may have registered just now, which clears DOWN too; then there is nothing to resume.
    if resumed.is_err() {
        refused(resumed, Errno::INVALID_NODE_TRANSITION)?;
        let node = bench.node(0).await?;
        holds(!node.state.has(&NodeState::Down), || format!("it is not resumed and still down: {node:?}"))?;
    }
    bench.until_node(0, "the node to be usable again", |node| node.state.is_usable()).await.map(drop)
}

pub(super) async fn comments_are_kept_and_healthy_nodes_have_no_reason(bench: &Bench) -> Result<(), String> {
    let update = NodeUpdate { extra: Some("e".to_owned()), reason: Some("none".to_owned()), ..NodeUpdate::comment("{\"a\":1}") };
    fine(bench.client.update_node(&bench.worker(0)?, &update).await)?;
    let node = bench.node(0).await?;
    let is_kept = node.comment == "{\"a\":1}" && node.extra == "e" && node.reason.is_empty();
    let empty = NodeUpdate { extra: Some(String::new()), ..NodeUpdate::comment("") };
    fine(bench.client.update_node(&bench.worker(0)?, &empty).await)?;
    let cleared = bench.node(0).await?;
    holds(is_kept && cleared.comment.is_empty() && cleared.extra.is_empty(), || format!("{node:?}, then {cleared:?}"))
}

pub(super) async fn an_active_feature_leaves_only_with_the_available_one(bench: &Bench) -> Result<(), String> {
    let (worker, own) = (bench.worker(0)?, bench.target.partition.clone());
    let alone = NodeUpdate { features: Some(vec!["other".to_owned()]), ..NodeUpdate::default() };
    refused(bench.client.update_node(&worker, &alone).await, Errno(2031))?;
    // Not one with the prefix `k8s/`: an operator that looks after this cluster would remove it.
    fine(bench.client.update_node(&worker, &NodeUpdate::features(&[own.clone(), "lab/zone=a".to_owned()])).await)?;
    let node = bench.node(0).await?;
    fine(bench.client.update_node(&worker, &NodeUpdate::features(&[own])).await)?;
    let back = bench.node(0).await?;
    let has_both = node.features.len() == 2 && node.active_features.iter().any(|feature| feature == "lab/zone=a");
    holds(has_both && back.features.len() == 1, || format!("{:?}, then {:?}", node.features, back.features))
}

pub(super) async fn an_unknown_place_in_the_topology_is_refused(bench: &Bench) -> Result<(), String> {
    if bench.version < Version::V43 {
        return Ok(()); // the field is unknown there and ignored with a warning
    }
    refused(bench.client.update_node(&bench.worker(0)?, &NodeUpdate::topology("nowhere:s1")).await, Errno(2178))
}

pub(super) async fn records_are_made_and_deleted(bench: &Bench) -> Result<(), String> {
    let made = bench.client.create_node("NodeName=contract-e State=EXTERNAL CPUs=4 Feature=x").await;
    if bench.version < Version::V44 {
        return holds(matches!(made, Err(RestError::Unsupported { .. })), || format!("{made:?}"));
    }
    fine(made)?;
    let external = NodeName::parse("contract-e").map_err(|error| error.to_string())?;
    let node = fine(bench.client.node(&external).await)?;
    holds(node.state.has(&NodeState::External) && node.cpus == 4 && node.features == ["x"], || format!("{node:?}"))?;
    refused(bench.client.create_node("NodeName=contract-e State=EXTERNAL CPUs=4").await, Errno(2168))?;
    refused(bench.client.create_node("NodeName=contract-i State=IDLE CPUs=4").await, Errno::INVALID_NODE_STATE)?;
    fine(bench.client.create_node("NodeName=contract-f[1-2] State=FUTURE CPUs=4").await)?;
    let shown: Vec<String> = listed(bench).await?.into_iter().map(|node| node.name).filter(|name| name.starts_with("contract-f")).collect();
    for name in ["contract-e", "contract-f1", "contract-f2"] {
        let name = NodeName::parse(name).map_err(|error| error.to_string())?;
        fine(bench.client.delete_node(&name).await)?;
        not_found(bench.client.delete_node(&name).await)?;
    }
    holds(shown.is_empty(), || format!("future nodes are shown: {shown:?}"))
}

pub(super) async fn unknown_urls_are_plain_404s(bench: &Bench) -> Result<(), String> {
    for (method, path) in [("GET", "nonsense"), ("POST", "reconfigure/"), ("DELETE", "node/worker-[0-1]")] {
        let (status, kind, _) = bench.raw(method, path, &[bench.token_header()?]).await?;
        holds(status == 404 && kind.starts_with("text/plain"), || format!("{method} {path}: {status} {kind}"))?;
    }
    Ok(())
}
