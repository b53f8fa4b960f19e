//! Checks that all places agree about GPUs and other generic resources (GRES).
//!
//! There are four places: the limits of the pods, the `Gres` of the nodes in `spec.extraConf`, slurm.conf and gres.conf of the Controller, and
//! Slurm's records. Slurm's behavior for each mismatch was tested with 26.05, with and without a real GPU; docs/gres.md has the table.

use std::collections::{BTreeMap, BTreeSet};

use slipway_api::{
    condition::{ConditionStatus, ConditionUpdate, GRES_AGREES, Reason},
    device::{Devices, GPU},
};

mod words;

/// An amount of one resource: `gpu:a100:4`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Amount {
    pub name: String,
    /// Slurm's type.
    pub kind: Option<String>,
    pub count: u64,
}

/// GRES in each place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Devices that Kubernetes allocates to slurmd.
    pub devices: Devices,
    /// `Gres` in `spec.extraConf`, or its error; `None` if not set.
    pub stated: Option<Result<Vec<Amount>, String>>,
    /// `Gres` that we pass to slurmd if the user sets none.
    pub derived: Option<Amount>,
    /// slurmctld's files, if known.
    pub files: Option<Files>,
    /// Slurm's records, one for each node.
    pub nodes: Vec<NodeGres>,
    /// True if Slurm cannot be asked about some workers.
    pub has_unknown_nodes: bool,
}

/// Settings in slurm.conf and gres.conf for the nodes of a NodeSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    pub controller: String,
    /// `GresTypes`.
    pub types: Vec<String>,
    pub detection: Detection,
    /// The lines of gres.conf, each with its number of device files.
    pub devices: Vec<Amount>,
}

/// Detection of GPUs by slurmd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detection {
    /// gres.conf does not set it; slurmd then detects GPUs unless `Gres` or gres.conf names some.
    #[default]
    Unsaid,
    Off,
    On,
}

/// GRES on a worker's record in Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeGres {
    pub node: String,
    pub amounts: Vec<Amount>,
    /// Slurm's reason for rejecting the GRES that slurmd reported.
    pub refusal: Option<String>,
}

/// The NodeSet's request for one resource.
#[derive(Default)]
struct Asked {
    /// From limits: the count, and the limits as text.
    limit: Option<(u64, String)>,
    /// From `spec.extraConf`.
    stated: Vec<Amount>,
}

impl Asked {
    fn stated_count(&self) -> Option<u64> {
        (!self.stated.is_empty()).then(|| total(&self.stated))
    }
}

/// The condition `GresAgrees`, or `None` if no place mentions GRES.
pub fn agreement(places: &Places) -> Option<ConditionUpdate> {
    let say = |status, reason, message| Some(ConditionUpdate { type_: GRES_AGREES, status, reason, message });
    let found = findings(places);
    if !found.is_empty() {
        return say(ConditionStatus::False, Reason::GresMismatch, found.join("; "));
    }
    let asked = asked(places);
    let said: BTreeSet<String> = asked
        .iter()
        .map(|(name, asked)| match asked.stated_count() {
            Some(_) => words::list(&asked.stated),
            None => format!("{name}:{}", asked.limit.as_ref().map_or(0, |(count, _)| *count)),
        })
        .collect();
    if said.is_empty() {
        return None;
    }
    let said = said.into_iter().collect::<Vec<_>>().join(",");
    if places.has_unknown_nodes {
        let message = format!("{said}: the NodeSet and its Controller agree, and Slurm cannot be asked what the nodes have");
        return say(ConditionStatus::Unknown, Reason::SlurmUnknown, message);
    }
    say(ConditionStatus::True, Reason::AllReady, format!("{said}: all places agree"))
}

/// Mismatches between two places, each with its remedy.
pub fn findings(places: &Places) -> Vec<String> {
    if let Some(Err(problem)) = &places.stated {
        return vec![format!("Gres in spec.extraConf {problem}")];
    }
    let mut found = Vec::new();
    let asked = asked(places);
    for (name, asked) in &asked {
        found.extend(about_pod(name, asked, places));
        let Some(files) = &places.files else { continue };
        if !files.types.contains(name) {
            found.push(words::no_type(name, asked.limit.as_ref(), &asked.stated, files));
            continue; // without the type nothing else can match
        }
        found.extend(about_gres_conf(name, asked, places, files));
    }
    found.extend(about_refusals(&places.nodes));
    let ignored = |name: &str| places.files.as_ref().is_some_and(|files| !files.types.iter().any(|known| known == name));
    for (name, asked) in asked.iter().filter(|(name, _)| !ignored(name)) {
        found.extend(about_records(name, asked, places));
    }
    if !asked.contains_key(GPU) && !places.devices.has_others {
        found.extend(about_unasked(&places.nodes));
    }
    found
}

/// Mismatches within the NodeSet: its limits against its `Gres`. For the author of the spec.
pub fn findings_of_spec(places: &Places) -> Vec<String> {
    match &places.stated {
        Some(Err(problem)) => vec![format!("Gres in spec.extraConf {problem}")],
        _ => asked(places).iter().filter_map(|(name, asked)| about_pod(name, asked, places)).collect(),
    }
}

/// The NodeSet's requests, by Slurm's resource names.
fn asked(places: &Places) -> BTreeMap<String, Asked> {
    let mut all: BTreeMap<String, Asked> = BTreeMap::new();
    for amount in places.stated.iter().flatten().flatten() {
        all.entry(amount.name.clone()).or_default().stated.push(amount.clone());
    }
    for device in &places.devices.known {
        // Some devices have several names; prefer the one in the user's `Gres`.
        let name = device.names.iter().find(|name| all.contains_key(**name)).or_else(|| device.names.first());
        let asked = all.entry(name.map_or(GPU, |name| *name).to_owned()).or_default();
        let limit = format!("{}: {}", device.resource, device.count);
        asked.limit = Some(match asked.limit.take() {
            Some((count, limits)) => (count.saturating_add(device.count), format!("{limits} and {limit}")),
            None => (device.count, limit),
        });
    }
    // `gpu:0` without a limit requests nothing.
    all.retain(|_, asked| asked.limit.is_some() || total(&asked.stated) > 0);
    all
}

fn about_pod(name: &str, asked: &Asked, places: &Places) -> Option<String> {
    let stated = asked.stated_count()?;
    match &asked.limit {
        Some((limit, limits)) if *limit != stated && !places.devices.has_others => {
            Some(words::counts_differ(*limit, limits, stated, &asked.stated))
        }
        None if name == GPU && !places.devices.has_others => Some(words::no_limit(stated, &asked.stated)),
        _ => None,
    }
}

/// Mismatch with gres.conf. Only GPUs need devices; for other resources Slurm uses the count in `Gres`.
fn about_gres_conf(name: &str, asked: &Asked, places: &Places, files: &Files) -> Option<String> {
    if name != GPU {
        return None;
    }
    let lines: Vec<&Amount> = files.devices.iter().filter(|line| line.name == name).collect();
    let told: Vec<Amount> = if asked.stated.is_empty() { places.derived.iter().cloned().collect() } else { asked.stated.clone() };
    let limit = asked.limit.as_ref();
    if told.is_empty() {
        let (count, limits) = limit?;
        return match files.detection {
            _ if !lines.is_empty() => Some(words::lines_without_gres(*count, limits, sum(lines.iter().copied()), files)),
            Detection::Off => Some(words::detection_is_off(*count, limits, files)),
            Detection::Unsaid | Detection::On => None, // slurmd detects the devices
        };
    }
    if files.detection == Detection::On {
        return None;
    }
    for wanted in &told {
        // With a type, slurmd uses only lines of that type; without one, any line.
        let fitting = lines.iter().copied().filter(|line| wanted.kind.is_none() || line.kind == wanted.kind);
        let named = sum(fitting);
        if named < wanted.count {
            return Some(words::too_few_devices(wanted, named, detector(&places.devices), files));
        }
    }
    let (count, limits) = limit?;
    let named = sum(lines.iter().copied());
    (named > *count).then(|| words::too_many_devices(*count, limits, named, detector(&places.devices), files))
}

/// Nodes that Slurm rejects because of the devices that slurmd found.
fn about_refusals(nodes: &[NodeGres]) -> Vec<String> {
    let mut by_refusal: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        if let Some(refusal) = &node.refusal {
            by_refusal.entry(refusal).or_default().push(&node.node);
        }
    }
    by_refusal.into_iter().map(|(refusal, nodes)| words::refused(refusal, &nodes)).collect()
}

/// Records that differ from the pods.
fn about_records(name: &str, asked: &Asked, places: &Places) -> Vec<String> {
    let told: Vec<Amount> = if asked.stated.is_empty() {
        places.derived.iter().filter(|derived| derived.name == name).cloned().collect()
    } else {
        asked.stated.clone()
    };
    let mut by_amounts: BTreeMap<Vec<Amount>, Vec<&str>> = BTreeMap::new();
    for node in places.nodes.iter().filter(|node| node.refusal.is_none()) {
        let mut has: Vec<Amount> = node.amounts.iter().filter(|amount| amount.name == name).cloned().collect();
        has.sort();
        let agrees = match (&asked.limit, told.is_empty()) {
            (_, false) => is_same(&has, &told),
            (Some((limit, _)), true) => total(&has) == *limit || places.devices.has_others,
            (None, true) => true,
        };
        if !agrees {
            by_amounts.entry(has).or_default().push(&node.node);
        }
    }
    let words = |(has, nodes): (Vec<Amount>, Vec<&str>)| match (&asked.limit, told.is_empty()) {
        (Some((limit, limits)), true) if total(&has) > *limit => words::sees_more(*limit, limits, &has, detector(&places.devices), &nodes),
        (Some((_, limits)), true) => words::sees_fewer(limits, &has, &nodes),
        _ => words::older_record(&told, &has, &nodes),
    };
    by_amounts.into_iter().map(words).collect()
}

/// GPUs that slurmd found although no limit requests them.
fn about_unasked(nodes: &[NodeGres]) -> Option<String> {
    let has = |node: &&NodeGres| node.amounts.iter().any(|amount| amount.name == GPU && amount.count > 0);
    let first = nodes.iter().find(has)?;
    let amounts: Vec<Amount> = first.amounts.iter().filter(|amount| amount.name == GPU).cloned().collect();
    let nodes: Vec<&str> = nodes.iter().filter(has).map(|node| node.node.as_str()).collect();
    Some(words::unasked(&amounts, &nodes))
}

/// The `AutoDetect` value in gres.conf for devices of this vendor.
fn detector(devices: &Devices) -> &'static str {
    match devices.known.first().map_or("", |device| device.resource.split('.').next().unwrap_or_default()) {
        "amd" => "rsmi",
        "gpu" => "oneapi", // gpu.intel.com
        "aws" => "nrt",
        _ => "nvidia",
    }
}

/// True if a record matches the `Gres` given to slurmd. Slurm sets some types by itself, so types count only if both have them.
fn is_same(has: &[Amount], told: &[Amount]) -> bool {
    let have_types = [has, told].iter().all(|amounts| amounts.iter().all(|amount| amount.kind.is_some()));
    let by_kind = |amounts: &[Amount]| -> BTreeMap<Option<String>, u64> {
        amounts.iter().filter(|amount| amount.count > 0).map(|amount| (amount.kind.clone(), amount.count)).collect()
    };
    total(has) == total(told) && (!have_types || by_kind(has) == by_kind(told))
}

fn total(amounts: &[Amount]) -> u64 {
    sum(amounts)
}

fn sum<'a>(amounts: impl IntoIterator<Item = &'a Amount>) -> u64 {
    amounts.into_iter().map(|amount| amount.count).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests;
