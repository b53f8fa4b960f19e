//! Constraints between one key and another, or between a key and the pods.

use std::collections::{BTreeMap, BTreeSet};

use super::file::ConfFile;
use super::surroundings::Surroundings;
use super::{Findings, Severity};
use crate::name::{ClusterName, excerpt};

pub(super) fn check(
    findings: &mut Findings<'_>,
    file: &ConfFile,
    files: &BTreeMap<String, String>,
    topologies: &BTreeSet<String>,
    around: &Surroundings,
) {
    check_identity(findings, file, around);
    check_port(findings, file, around);
    check_paths(findings, file, files, around);
    check_ranges(findings, file);
    check_preemption(findings, file);
    check_accounting(findings, file, around);
    check_qualities(findings, file, around);
    check_plugins(findings, file, files);
    check_topologies(findings, file, files, topologies);
}

/// True if the value is `none`, with or without a plug-in type.
fn is_none(value: &str) -> bool {
    value.rsplit('/').next().is_some_and(|name| name.eq_ignore_ascii_case("none"))
}

/// Checks the identity of this slurmctld: cluster, host, user.
fn check_identity(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    match file.last("ClusterName") {
        None => findings.add(Severity::Fatal, 0, "ClusterName", "ClusterName is missing: set it"),
        Some((line, name)) => {
            if let Some(state) = around.cluster_name.as_deref().filter(|state| !state.eq_ignore_ascii_case(name)) {
                let message = format!("ClusterName is `{}`, and the state on disk belongs to `{state}`: keep that name", excerpt(name));
                findings.add(Severity::Fatal, line, "ClusterName", message);
            } else if let Err(why) = ClusterName::parse(name) {
                findings.add(Severity::Silent, line, "ClusterName", format!("ClusterName: {why}"));
            }
        }
    }
    let mut hosts = file.all("SlurmctldHost").peekable();
    if hosts.peek().is_none() && file.last("ControlMachine").is_none() {
        findings.add(Severity::Fatal, 0, "SlurmctldHost", "SlurmctldHost is missing: name the host of slurmctld");
    }
    let listed: Vec<(usize, &str)> = hosts.map(|entry| (entry.line, entry.head().value.split('(').next().unwrap_or_default())).collect();
    let is_ours = |host: &str| around.controllers.is_empty() || around.controllers.iter().any(|ours| ours == host);
    let severity = if listed.iter().any(|(_, host)| is_ours(host)) { Severity::Error } else { Severity::Fatal };
    for (line, host) in listed.iter().filter(|(_, host)| !is_ours(host)) {
        let message =
            format!("SlurmctldHost names `{}`, and no slurmctld runs there: use {}", excerpt(host), around.controllers.join(", "));
        findings.add(severity, *line, "SlurmctldHost", message);
    }
    if let (Some((line, user)), Some(ours)) = (file.last("SlurmUser"), around.slurm_user.as_deref())
        && user != ours
    {
        let message = format!("SlurmUser is `{}`, and the daemons run as `{ours}`: use that", excerpt(user));
        findings.add(Severity::Fatal, line, "SlurmUser", message);
    }
}

fn check_port(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    let Some((line, value)) = file.last("SlurmctldPort") else { return };
    let port: Option<u64> = value.parse().ok().filter(|port| *port > 0);
    if let (Some(port), Some(ours)) = (port, around.slurmctld_port)
        && port != u64::from(ours)
    {
        let message = format!("SlurmctldPort is {port}, and its Service and probes use {ours}: use that");
        findings.add(Severity::Hangs, line, "SlurmctldPort", message);
    }
}

fn check_paths(findings: &mut Findings<'_>, file: &ConfFile, files: &BTreeMap<String, String>, around: &Surroundings) {
    if let (Some((line, path)), Some(folder)) = (file.last("StateSaveLocation"), around.state_folder.as_deref())
        && path.strip_prefix(folder).is_none_or(|rest| !rest.is_empty() && !rest.starts_with('/'))
    {
        let message = format!("StateSaveLocation is `{}`, where slurmctld may not write: use a folder in {folder}", excerpt(path));
        findings.add(Severity::Fatal, line, "StateSaveLocation", message);
    }
    for (key, severity, end) in [
        ("PrologSlurmctld", Severity::Fatal, "mount it"),
        ("EpilogSlurmctld", Severity::Fatal, "mount it"),
        ("SuspendProgram", Severity::Error, "mount it or take the key out"),
        ("ResumeProgram", Severity::Error, "mount it or take the key out"),
        ("MailProg", Severity::Error, "mount it or take the key out"),
        ("Prolog", Severity::Silent, "no job starts without it: mount it"),
        ("Epilog", Severity::Silent, "nodes drain without it: mount it"),
    ] {
        for entry in file.all(key) {
            let path = entry.head().value.as_str();
            if path.starts_with('/') && !is_beside(files, path) && !around.has(path) {
                let message = format!("{key} is `{}`, which the pods do not have: {end}", excerpt(path));
                findings.add(severity, entry.line, key, message);
            }
        }
    }
    check_keys_of_tokens(findings, file, files, around);
    for key in ["SlurmdSpoolDir", "TmpFS"] {
        if let Some((line, path)) = file.last(key).filter(|(_, path)| !path.starts_with('/')) {
            let message = format!("{key} is `{}`, which depends on where a daemon was started: write it from `/`", excerpt(path));
            findings.add(Severity::Silent, line, key, message);
        }
    }
}

/// Checks that the keys which sign and verify tokens exist. The content of a JWKS among `files` is checked separately.
pub(super) fn check_keys_of_tokens(findings: &mut Findings<'_>, file: &ConfFile, files: &BTreeMap<String, String>, around: &Surroundings) {
    let Some((line, value)) = file.last("AuthAltParameters") else { return };
    for (name, path) in value.split(',').filter_map(|option| option.split_once('=')) {
        let is_key = ["jwt_key", "jwks"].iter().any(|known| known.eq_ignore_ascii_case(name));
        if is_key && !is_beside(files, path) && !around.has(path) {
            let message = format!("AuthAltParameters has {name}=`{}`, which the pods do not have: mount it", excerpt(path));
            findings.add(Severity::Fatal, line, "AuthAltParameters", message);
        }
    }
}

/// Name and text of the file among `files` that `jwks=` names, or `None`.
pub(super) fn jwks<'a>(file: &ConfFile, files: &'a BTreeMap<String, String>) -> Option<(&'a str, &'a str)> {
    let (_, value) = file.last("AuthAltParameters")?;
    let (_, path) = value.split(',').filter_map(|option| option.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("jwks"))?;
    let (name, text) = files.get_key_value(path.rsplit('/').next()?)?;
    Some((name.as_str(), text.as_str()))
}

/// True if the file at this path is mounted with the configuration.
fn is_beside(files: &BTreeMap<String, String>, path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| files.contains_key(name))
}

/// Checks numbers that parse and are still wrong.
fn check_ranges(findings: &mut Findings<'_>, file: &ConfFile) {
    let number = |key: &str| file.last(key).and_then(|(line, value)| Some((line, value.parse::<u64>().ok()?)));
    if let Some((line, _)) = number("MaxJobCount").filter(|(_, count)| *count == 0) {
        findings.add(Severity::Fatal, line, "MaxJobCount", "MaxJobCount is 0, which permits no job: raise it");
    }
    for (key, least, most) in [("TreeWidth", 1, u64::MAX), ("MinJobAge", 2, u64::MAX), ("MaxArraySize", 0, 4_000_001)] {
        if let Some((line, value)) = number(key).filter(|(_, value)| *value < least || *value > most) {
            let bounds = if most == u64::MAX { format!("at least {least}") } else { format!("at most {most}") };
            findings.add(Severity::Error, line, key, format!("{key} is {value}: use {bounds}"));
        }
    }
    if let Some((line, value)) = number("ReturnToService").filter(|(_, value)| *value > 2) {
        findings.add(Severity::Silent, line, "ReturnToService", format!("ReturnToService is {value}, which means nothing: use 0, 1 or 2"));
    }
    for key in ["JobRequeue", "JobFileAppend", "KillOnBadExit"] {
        if let Some((line, value)) = number(key).filter(|(_, value)| *value > 1) {
            findings.add(Severity::Silent, line, key, format!("{key} is {value}, which means nothing: use 0 or 1"));
        }
    }
    if let (Some((line, timeout)), Some((_, interval))) = (number("HealthCheckTimeout"), number("HealthCheckInterval"))
        && timeout >= interval
    {
        let message = format!("HealthCheckTimeout is {timeout}, and the check starts again after {interval}: make it shorter");
        findings.add(Severity::Error, line, "HealthCheckTimeout", message);
    }
    if let Some((line, value)) = file.last("AuthInfo")
        && let Some(expire) = value.split(',').find_map(|option| option.strip_prefix("cred_expire="))
        && expire.parse::<u64>().unwrap_or_default() == 0
    {
        findings.add(Severity::Error, line, "AuthInfo", format!("AuthInfo has cred_expire=`{}`: use a number of seconds", excerpt(expire)));
    }
    if let Some((line, value)) = file.last("SrunPortRange") {
        let ports = value.split_once('-').and_then(|(low, high)| Some((low.parse::<u16>().ok()?, high.parse::<u16>().ok()?)));
        if ports.is_none_or(|(low, high)| low > high) {
            findings.add(
                Severity::Silent,
                line,
                "SrunPortRange",
                format!("SrunPortRange is `{}`: write it as 60001-63000", excerpt(value)),
            );
        }
    }
    if let Some((line, value)) = file.last("SuspendTime")
        && value.parse::<i32>().is_err()
        && !["infinite", "unlimited"].contains(&value.to_ascii_lowercase().as_str())
    {
        findings.add(
            Severity::Silent,
            line,
            "SuspendTime",
            format!("SuspendTime is `{}`: use a number of seconds or INFINITE", excerpt(value)),
        );
    }
    check_licenses(findings, file);
}

fn check_licenses(findings: &mut Findings<'_>, file: &ConfFile) {
    let Some((line, value)) = file.last("Licenses") else { return };
    for license in value.split([',', ';']).filter(|license| !license.is_empty()) {
        let (name, count) = license.split_once([':', '=']).unwrap_or((license, "1"));
        if name.is_empty() || count.parse::<u32>().is_err() {
            let message = format!("Licenses has `{}`: write it as name:count", excerpt(license));
            findings.add(Severity::Fatal, line, "Licenses", message);
        }
    }
}

fn check_preemption(findings: &mut Findings<'_>, file: &ConfFile) {
    let kind = file.last("PreemptType").filter(|(_, value)| !is_none(value));
    let mode = file.last("PreemptMode");
    let words: Vec<String> = mode.map(|(_, value)| value.to_ascii_uppercase().split(',').map(str::to_owned).collect()).unwrap_or_default();
    let has = |word: &str| words.iter().any(|known| known == word);
    let preempts = ["CANCEL", "REQUEUE", "SUSPEND", "WITHIN", "PRIORITY"].iter().any(|word| has(word));
    let line = mode.map_or(0, |(line, _)| line);
    if has("SUSPEND") && !has("GANG") {
        findings.add(Severity::Fatal, line, "PreemptMode", "PreemptMode has SUSPEND, which needs GANG beside it: add it");
    }
    match kind {
        Some((line, _)) if !preempts => {
            findings.add(
                Severity::Fatal,
                line,
                "PreemptType",
                "PreemptType is set, and PreemptMode does not say how to preempt: set it, for example to REQUEUE",
            );
        }
        None if preempts => {
            findings.add(
                Severity::Fatal,
                line,
                "PreemptMode",
                "PreemptMode is set, and PreemptType is not: set it, or take PreemptMode out",
            );
        }
        _ => {}
    }
    for entry in file.all("PartitionName") {
        if let Some(mode) = entry.get("PreemptMode")
            && mode
                .split(',')
                .any(|word| !["OFF", "CANCEL", "REQUEUE", "SUSPEND", "WITHIN", "PRIORITY"].contains(&word.to_ascii_uppercase().as_str()))
        {
            let message =
                format!("PreemptMode of a partition is `{}`, which is ignored: use OFF, CANCEL, REQUEUE or SUSPEND", excerpt(mode));
            findings.add(Severity::Error, entry.line, "PreemptMode", message);
        }
    }
    let flags = file.last("PrologFlags").map(|(line, value)| (line, value.to_ascii_lowercase()));
    if let Some((line, flags)) = flags {
        let has = |word: &str| flags.split(',').any(|flag| flag == word);
        if has("nohold") && (has("contain") || has("x11")) {
            findings.add(Severity::Fatal, line, "PrologFlags", "PrologFlags has NoHold beside Contain or X11: take one out");
        }
        let cgroup = file.last("ProctrackType").is_none_or(|(_, value)| value.eq_ignore_ascii_case("proctrack/cgroup"));
        if has("contain") && !has("nohold") && !cgroup {
            let message = "PrologFlags has Contain, with which pam_slurm_adopt confines logins only under proctrack/cgroup: use that";
            findings.add(Severity::Error, line, "PrologFlags", message);
        }
        let linuxproc = file.last("ProctrackType").is_some_and(|(_, value)| value.eq_ignore_ascii_case("proctrack/linuxproc"));
        if has("x11") && linuxproc {
            findings.add(
                Severity::Fatal,
                line,
                "PrologFlags",
                "PrologFlags has X11, which does not work with proctrack/linuxproc: take one out",
            );
        }
    }
}

fn check_accounting(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    let storage = file.last("AccountingStorageType").filter(|(_, value)| !is_none(value));
    if storage.is_some() {
        let host = file.last("AccountingStorageHost").map_or("localhost", |(_, host)| host);
        if !around.resolves(host) {
            let line = file.last("AccountingStorageHost").or(storage).map_or(0, |(line, _)| line);
            let message = format!("AccountingStorageHost is `{}`, which does not resolve: slurmctld waits for it", excerpt(host));
            findings.add(Severity::Hangs, line, "AccountingStorageHost", message);
        }
        return;
    }
    if let Some((line, _)) = file.last("AccountingStorageEnforce").filter(|(_, value)| !value.is_empty()) {
        findings.add(
            Severity::Error,
            line,
            "AccountingStorageEnforce",
            "AccountingStorageEnforce needs accounting, and there is none: take it out",
        );
    }
    if let Some((line, _)) = file.last("AccountingStorageTRES").filter(|(_, value)| value.contains('/')) {
        let message = "AccountingStorageTRES names more than the usual resources, which needs slurmdbd: take it out";
        findings.add(Severity::Fatal, line, "AccountingStorageTRES", message);
    }
    for key in ["PriorityWeightAge", "PriorityWeightAssoc", "PriorityWeightFairshare", "PriorityWeightQOS"] {
        if let Some((line, _)) = file.last(key).filter(|(_, value)| value.parse::<u64>().is_ok_and(|weight| weight > 0)) {
            findings.add(Severity::Error, line, key, format!("{key} needs accounting, and there is none: take it out"));
        }
    }
}

/// Checks the QOS that partitions name. slurmctld gets them from slurmdbd and knows none without it.
fn check_qualities(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    let accounting = file.last("AccountingStorageType").is_some_and(|(_, value)| !is_none(value));
    for entry in file.all("PartitionName") {
        for key in ["QOS", "AllowQOS", "DenyQOS"] {
            let is_every = |name: &str| key == "AllowQOS" && name.eq_ignore_ascii_case("all");
            let names = entry.get(key).into_iter().flat_map(|names| names.split(','));
            for name in names.filter(|name| !name.is_empty() && !is_every(name)) {
                let message = if !accounting {
                    format!("a partition has {key} `{}`, which needs accounting, and there is none: take it out", excerpt(name))
                } else if around.qualities.as_ref().is_some_and(|known| !known.contains(name)) {
                    format!("a partition has {key} `{}`, which accounting does not know: add it there first", excerpt(name))
                } else {
                    continue;
                };
                findings.add(Severity::Fatal, entry.line, key, message);
            }
        }
    }
}

fn check_plugins(findings: &mut Findings<'_>, file: &ConfFile, files: &BTreeMap<String, String>) {
    let cons_tres = file.last("SelectType").is_none_or(|(_, value)| value.eq_ignore_ascii_case("select/cons_tres"));
    if let (Some((line, _)), false) = (file.last("MaxNodeCount"), cons_tres) {
        findings.add(Severity::Fatal, line, "MaxNodeCount", "MaxNodeCount works only with SelectType=select/cons_tres: use that");
    }
    if let Some((line, value)) = file.last("JobSubmitPlugins")
        && value.split(',').any(|plugin| plugin.rsplit('/').next() == Some("lua"))
        && !files.contains_key("job_submit.lua")
    {
        let message = "JobSubmitPlugins has lua, and there is no job_submit.lua beside slurm.conf: add the file";
        findings.add(Severity::Fatal, line, "JobSubmitPlugins", message);
    }
    if let (Some((line, value)), None) = (file.last("MCSParameters"), file.last("MCSPlugin")) {
        let message = format!("MCSParameters is `{}` without MCSPlugin: set that, or take it out", excerpt(value));
        findings.add(Severity::Fatal, line, "MCSParameters", message);
    }
    if let Some((line, value)) = file.last("TaskPluginParam") {
        let cgroup = file.last("TaskPlugin").is_some_and(|(_, plugins)| plugins.to_ascii_lowercase().contains("cgroup"));
        let needs = value.split(',').any(|word| ["slurmdspecoverride", "oomkillstep"].contains(&word.to_ascii_lowercase().as_str()));
        if needs && !cgroup {
            let message = "TaskPluginParam has a word that needs task/cgroup: add that to TaskPlugin";
            findings.add(Severity::Fatal, line, "TaskPluginParam", message);
        }
    }
}

fn check_topologies(findings: &mut Findings<'_>, file: &ConfFile, files: &BTreeMap<String, String>, known: &BTreeSet<String>) {
    let without_file = !files.contains_key("topology.yaml");
    for entry in file.all("PartitionName") {
        if let Some(name) = entry.get("Topology").filter(|name| !(known.contains(*name) || (without_file && name.is_empty()))) {
            let message = format!("a partition has Topology `{}`, which topology.yaml does not have: define it there", excerpt(name));
            findings.add(Severity::Fatal, entry.line, "Topology", message);
        }
    }
}
