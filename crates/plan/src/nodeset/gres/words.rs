//! The message for each mismatch: both places with their values, the consequence and the remedy.

use std::fmt;

use super::{Amount, Files};

/// Number of nodes a message names before it counts the rest.
const MOST_NAMES: usize = 3;

impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, kind, count } = self;
        match kind {
            Some(kind) => write!(out, "{name}:{kind}:{count}"),
            None => write!(out, "{name}:{count}"),
        }
    }
}

pub(super) fn list(amounts: &[Amount]) -> String {
    amounts.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn or_nothing(amounts: &[Amount]) -> String {
    if amounts.is_empty() { "nothing".to_owned() } else { format!("`{}`", list(amounts)) }
}

/// A list such as ``nodes `w-0`, `w-1`, `w-2` and 4 more``.
fn names(nodes: &[&str]) -> String {
    let shown = nodes.iter().take(MOST_NAMES).map(|node| format!("`{node}`")).collect::<Vec<_>>().join(", ");
    let noun = if nodes.len() == 1 { "node" } else { "nodes" };
    match nodes.len().saturating_sub(MOST_NAMES) {
        0 => format!("{noun} {shown}"),
        rest => format!("{noun} {shown} and {rest} more"),
    }
}

pub(super) fn counts_differ(limit: u64, limits: &str, stated: u64, amounts: &[Amount]) -> String {
    let so = if stated > limit { "slurmd finds fewer than that, and Slurm drains the node" } else { "jobs cannot have the rest" };
    format!(
        "spec.extraConf says `Gres={}` and spec.slurmd.resources.limits `{limits}`: {so}; make the two the same number, {stated} or {limit}",
        list(amounts)
    )
}

pub(super) fn no_limit(stated: u64, amounts: &[Amount]) -> String {
    format!(
        "spec.extraConf says `Gres={}` and spec.slurmd.resources.limits has no GPU: Kubernetes gives the container no device, and may give \
         those that it sees to other pods; add a limit such as `nvidia.com/gpu: {stated}`, or take the Gres out",
        list(amounts)
    )
}

pub(super) fn no_type(name: &str, limit: Option<&(u64, String)>, stated: &[Amount], files: &Files) -> String {
    let place = match (stated, limit) {
        (_, Some((_, limits))) if stated.is_empty() => format!("spec.slurmd.resources.limits has `{limits}`"),
        _ => format!("spec.extraConf says `Gres={}`", list(stated)),
    };
    let types = if files.types.is_empty() {
        "slurm.conf has no GresTypes".to_owned()
    } else {
        format!("GresTypes in slurm.conf is `{}`", files.types.join(","))
    };
    let line: Vec<&str> = files.types.iter().map(String::as_str).chain([name]).collect();
    format!(
        "{place} and {types}, so that Slurm ignores `{name}`: put `GresTypes={}` into spec.extraConf of Controller `{}`; then drain each node \
         that has no job any more, run `scontrol delete nodename=NODE` and delete its pod, as a record that is there stays as it is",
        line.join(","),
        files.controller
    )
}

pub(super) fn lines_without_gres(count: u64, limits: &str, named: u64, files: &Files) -> String {
    format!(
        "spec.slurmd.resources.limits has `{limits}`, gres.conf of Controller `{}` names {named} of them, and spec.extraConf has no Gres: \
         with devices in gres.conf slurmd takes only what Gres says; let gres.conf name {count} device files and put `Gres=gpu:{count}` into \
         spec.extraConf, or take the lines out of gres.conf, so that slurmd finds the devices by itself",
        files.controller
    )
}

pub(super) fn detection_is_off(count: u64, limits: &str, files: &Files) -> String {
    format!(
        "spec.slurmd.resources.limits has `{limits}`, and gres.conf of Controller `{}` says AutoDetect=off and names no device: the nodes have \
         none; take AutoDetect=off out, or name {count} device files, such as `Name=gpu File=/dev/nvidia[0-{}]`",
        files.controller,
        count.saturating_sub(1)
    )
}

pub(super) fn too_few_devices(wanted: &Amount, named: u64, detector: &str, files: &Files) -> String {
    let says = match (named, &wanted.kind) {
        (0, Some(kind)) => format!("names no device of type `{kind}`"),
        (0, None) => "names no device".to_owned(),
        (_, Some(kind)) => format!("names {named} of type `{kind}`"),
        (_, None) => format!("names {named}"),
    };
    format!(
        "the nodes say `Gres={wanted}`, and gres.conf of Controller `{}` {says} and does not have slurmd look for them: slurmd then reports \
         {named}, and Slurm drains the node; put a gres.conf with `AutoDetect={detector}`, or with {} device files, into a ConfigMap of \
         spec.configFileRefs there, or take the Gres out of spec.extraConf, so that slurmd finds the devices by itself",
        files.controller, wanted.count
    )
}

pub(super) fn too_many_devices(count: u64, limits: &str, named: u64, detector: &str, files: &Files) -> String {
    format!(
        "spec.slurmd.resources.limits has `{limits}` and gres.conf of Controller `{}` names {named} device files for these nodes: slurmd waits \
         for files that its container does not have; let it name {count}, in a line with NodeName= where other nodes have more, or use \
         `AutoDetect={detector}`",
        files.controller
    )
}

pub(super) fn refused(refusal: &str, nodes: &[&str]) -> String {
    format!(
        "Slurm did not take what slurmd reported on {}: \"{refusal}\"; slurmd finds fewer devices than its record says: see its log, and when \
         it is put right, resume the node",
        names(nodes)
    )
}

pub(super) fn older_record(told: &[Amount], has: &[Amount], nodes: &[&str]) -> String {
    format!(
        "the pods say `Gres={}` and Slurm has {} on {}: a record that is there stays as it is, whatever a new pod says; when no job is on the \
         node, run `scontrol delete nodename=NODE` and delete its pod",
        list(told),
        or_nothing(has),
        names(nodes)
    )
}

pub(super) fn sees_more(limit: u64, limits: &str, has: &[Amount], detector: &str, nodes: &[&str]) -> String {
    format!(
        "spec.slurmd.resources.limits has `{limits}` and Slurm has {} on {}: a privileged container sees every device of its host, also those \
         of other pods; put `Gres=gpu:{limit}` into spec.extraConf and a gres.conf with `AutoDetect={detector}` at the Controller, or raise the limit",
        or_nothing(has),
        names(nodes)
    )
}

pub(super) fn sees_fewer(limits: &str, has: &[Amount], nodes: &[&str]) -> String {
    format!(
        "spec.slurmd.resources.limits has `{limits}` and Slurm has {} on {}: slurmd found no more, or the record is older than the limit; see \
         the log of slurmd, and when no job is on the node, run `scontrol delete nodename=NODE` and delete its pod",
        or_nothing(has),
        names(nodes)
    )
}

pub(super) fn unasked(has: &[Amount], nodes: &[&str]) -> String {
    format!(
        "Slurm has {} on {} and spec.slurmd.resources.limits no GPU: Kubernetes may give the same devices to other pods; add a limit such as \
         `nvidia.com/gpu`, or `Gres=gpu:0` to spec.extraConf if jobs are not to have them",
        or_nothing(has),
        names(nodes)
    )
}
