//! Constraints between one key of slurmdbd.conf and another, or between a key and slurmdbd's pod.

use std::collections::BTreeMap;

use super::file::ConfFile;
use super::rule::check_keys_of_tokens;
use super::surroundings::Surroundings;
use super::{Findings, Severity, value};
use crate::name::excerpt;

pub(super) fn check(findings: &mut Findings<'_>, file: &ConfFile, files: &BTreeMap<String, String>, around: &Surroundings) {
    check_pod(findings, file, around);
    check_storage(findings, file, around);
    check_authentication(findings, file, files, around);
    check_paths(findings, file, around);
    if let Some((line, range)) = file.last("MaxQueryTimeRange").filter(|(_, range)| !value::is_time(range)) {
        let message = format!("MaxQueryTimeRange is `{}`, which is no time: write minutes, or days-hours:minutes:seconds", excerpt(range));
        findings.add(Severity::Silent, line, "MaxQueryTimeRange", message);
    }
}

/// Checks the identity of this slurmdbd: the mode of its file, its user, host and port.
fn check_pod(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    let pod = &around.slurmdbd;
    if let Some(mode) = pod.mode.filter(|mode| ![0o600, 0o640].contains(mode)) {
        let message = format!("the file's mode is {mode:o}, and slurmdbd takes no other than 600 and 640: mount it with one of these");
        findings.add(Severity::Fatal, 0, None, message);
    }
    if let Some(ours) = around.slurm_user.as_deref() {
        let (line, user) = file.last("SlurmUser").unwrap_or((0, "root"));
        if user != ours {
            let message = match line {
                0 => format!("SlurmUser is missing, which means root, and slurmdbd runs as `{ours}`: set it to that"),
                _ => format!("SlurmUser is `{}`, and slurmdbd runs as `{ours}`: use that", excerpt(user)),
            };
            findings.add(Severity::Fatal, line, "SlurmUser", message);
        }
    }
    match (file.last("DbdHost"), pod.host.as_deref()) {
        (None, _) => findings.add(Severity::Error, 0, "DbdHost", "DbdHost is missing, and localhost is used: set it"),
        (Some((line, host)), Some(ours)) if host != ours && host != "localhost" => {
            let standby = file.last("DbdBackupHost").is_some_and(|(_, backup)| backup == ours);
            let (severity, problem) = if standby {
                (Severity::Hangs, "this slurmdbd, which is its backup, waits for it")
            } else {
                (Severity::Fatal, "no slurmdbd runs there")
            };
            findings.add(severity, line, "DbdHost", format!("DbdHost names `{}`, and {problem}: use {ours}", excerpt(host)));
        }
        _ => {}
    }
    if let (Some((line, port)), Some(ours)) = (file.last("DbdPort"), pod.port)
        && port.parse::<u16>().is_ok_and(|port| port != ours)
    {
        let message = format!("DbdPort is {}, and its Service and probes use {ours}: use that", excerpt(port));
        findings.add(Severity::Hangs, line, "DbdPort", message);
    }
}

/// Checks the database settings. Only the database knows if it accepts the user and the password.
fn check_storage(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    match file.last("StorageType") {
        None => {
            findings.add(Severity::Fatal, 0, "StorageType", "StorageType is missing: set it to accounting_storage/mysql");
        }
        Some((_, "accounting_storage/mysql")) => {}
        Some((line, other)) => {
            let message = format!("StorageType is `{}`, which is no database: use accounting_storage/mysql", excerpt(other));
            findings.add(Severity::Fatal, line, "StorageType", message);
        }
    }
    for key in ["StorageHost", "StorageBackupHost"] {
        if let Some((line, host)) = file.last(key).filter(|(_, host)| !around.resolves(host)) {
            let message = format!("{key} is `{}`, which does not resolve, and slurmdbd waits for it: correct it", excerpt(host));
            findings.add(Severity::Hangs, line, key, message);
        }
    }
    if let Some((line, options)) = file.last("StorageParameters") {
        for (name, path) in options.split(',').filter_map(|option| option.split_once('=')) {
            if path.starts_with('/') && !around.has(path) {
                let message = format!("StorageParameters has {}=`{}`, which the pod does not have: mount it", excerpt(name), excerpt(path));
                findings.add(Severity::Hangs, line, "StorageParameters", message);
            }
        }
    }
}

fn check_authentication(findings: &mut Findings<'_>, file: &ConfFile, files: &BTreeMap<String, String>, around: &Surroundings) {
    if file.last("AuthType").is_none() {
        let message = "AuthType is missing, which means auth/munge, and no munged runs in the pods: set it to auth/slurm";
        findings.add(Severity::Fatal, 0, "AuthType", message);
    }
    let jwt = file.last("AuthAltTypes").filter(|(_, types)| types.split(',').any(|name| name == "auth/jwt"));
    if let Some((line, _)) = jwt {
        let has_key = |options: &str| options.split(',').any(|option| option.starts_with("jwt_key=") || option.starts_with("jwks="));
        match file.last("AuthAltParameters") {
            Some((_, options)) if has_key(options) => {}
            parameters => {
                let line = parameters.map_or(line, |(line, _)| line);
                let message = "AuthAltTypes has auth/jwt, and AuthAltParameters gives it no key: add jwt_key= or jwks=";
                findings.add(Severity::Fatal, line, "AuthAltParameters", message);
            }
        }
    }
    check_keys_of_tokens(findings, file, files, around);
}

fn check_paths(findings: &mut Findings<'_>, file: &ConfFile, around: &Surroundings) {
    for key in ["ArchiveDir", "ArchiveScript", "StoragePassScript", "PluginDir"] {
        if let Some((line, path)) = file.last(key).filter(|(_, path)| !around.has(path)) {
            let message = format!("{key} is `{}`, which the pod does not have: mount it", excerpt(path));
            findings.add(Severity::Fatal, line, key, message);
        }
    }
    for key in ["LogFile", "PidFile"] {
        let folder = |path: &str| path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned());
        if let Some((line, path)) = file.last(key).filter(|(_, path)| !around.has(&folder(path))) {
            let message = format!("{key} is `{}`, whose folder the pod does not have: correct it", excerpt(path));
            findings.add(Severity::Error, line, key, message);
        }
    }
}
