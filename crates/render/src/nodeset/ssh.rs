//! Access to workers by ssh: sshd's configuration, and what a pod needs for it. PAM in the image denies users without a job on the node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_api::{
    NodeSet, Ssh, annotation,
    child::{Child, ChildKind},
    digest, image,
    label::{self, Component},
    name, owner, volume,
};
use slipway_slurm::conf_check::file::ConfFile;

use super::References;
use crate::metadata::Marks;

/// File mode: only root reads these files, and sssd refuses other modes.
const MODE: u32 = 0o600;

/// sshd uses the first value of an option, so the user's part cannot disable PAM by mistake: PAM denies users without a job.
const GENERAL: &str = "#
### GENERAL ###
Include /etc/ssh/sshd_config.d/*.conf
UsePAM yes
Subsystem sftp internal-sftp
AuthenticationMethods publickey password
";

/// The ssh settings of a NodeSet, or `None` if ssh is disabled.
pub fn enabled(nodeset: &NodeSet) -> Option<&Ssh> {
    nodeset.spec.ssh.as_ref().filter(|ssh| ssh.enabled)
}

/// The ConfigMap with sshd's configuration, or `None` if ssh is disabled.
pub fn config_map(nodeset: &NodeSet) -> Option<Child> {
    let ssh = enabled(nodeset)?;
    let (namespace, name) = crate::identity(&nodeset.metadata);
    let marks =
        Marks::inherited(&nodeset.metadata).of(Component::Worker, name).label(label::CLUSTER, nodeset.spec.controller_ref.name.as_str());
    let body = json!({
        "metadata": marks.of_object(&[owner::controller_of(nodeset)]),
        "data": { (image::SSHD_CONFIG): sshd_config(ssh) },
    });
    Some(Child::new(ChildKind::ConfigMap, namespace, &name::worker_ssh_config(name), body))
}

/// True if jobs have a step that can adopt logins. Without one pam_slurm_adopt denies every login.
pub fn jobs_take_logins_in(slurm_conf: &str) -> bool {
    let conf = ConfFile::parse(slurm_conf);
    // X11 implies Contain.
    conf.last("PrologFlags").is_some_and(|(_, flags)| {
        flags.split(',').any(|flag| ["contain", "x11"].iter().any(|adopting| flag.trim().eq_ignore_ascii_case(adopting)))
    })
}

fn sshd_config(Ssh { extra_sshd_config, .. }: &Ssh) -> String {
    match extra_sshd_config.as_deref().map(|extra| extra.trim_end_matches('\n')).filter(|extra| !extra.is_empty()) {
        Some(extra) => format!("{GENERAL}#\n### EXTRA CONFIG ###\n{extra}\n"),
        None => GENERAL.to_owned(),
    }
}

/// Annotates a pod with the hashes of the files that its sshd and sssd start with. They replace no worker: the user's change in the NodeSet is a
/// new template anyway, and if a new sssd.conf is worth a rollout is the user's decision.
pub(super) fn marked(marks: Marks, nodeset: &NodeSet, references: &References) -> Marks {
    let Some(ssh) = enabled(nodeset) else { return marks };
    let files = BTreeMap::from([(image::SSHD_CONFIG.to_owned(), sshd_config(ssh))]);
    let marks = marks.annotation(annotation::SSHD_CONF_HASH, digest::of_map(&files));
    match &references.sssd_conf_hash {
        Some(hash) => marks.annotation(annotation::SSSD_CONF_HASH, hash.as_str()),
        None => marks,
    }
}

/// Adds the port and the files to the slurmd container.
pub(super) fn open(container: &mut Value, nodeset: &NodeSet, references: &References) {
    if enabled(nodeset).is_none() {
        return;
    }
    push(container, "ports", json!({ "name": image::WORKER_SSH_PORT_NAME, "containerPort": image::SSH_PORT, "protocol": "TCP" }));
    push(container, "volumeMounts", mount(volume::SSH_CONFIG, image::SSHD_CONFIG_PATH, image::SSHD_CONFIG));
    if references.sssd_conf_hash.is_some() {
        push(container, "volumeMounts", mount(volume::SSSD_CONF, image::SSSD_CONF_PATH, image::SSSD_CONF));
    }
}

/// Adds the volumes of these files to the pod.
pub(super) fn add_volumes(pod: &mut Value, nodeset: &NodeSet, references: &References) {
    let Some(ssh) = enabled(nodeset) else { return };
    let config_map = name::worker_ssh_config(crate::identity(&nodeset.metadata).1);
    push(pod, "volumes", json!({ "name": volume::SSH_CONFIG, "configMap": { "name": config_map, "defaultMode": MODE } }));
    if references.sssd_conf_hash.is_some() {
        let item = json!({ "key": ssh.sssd_conf_ref.key, "path": image::SSSD_CONF });
        let secret = json!({ "secretName": ssh.sssd_conf_ref.name, "items": [item], "defaultMode": MODE });
        push(pod, "volumes", json!({ "name": volume::SSSD_CONF, "secret": secret }));
    }
}

/// Mounts a single file: its folder has other files, which belong to the image.
fn mount(volume: &str, path: &str, file: &str) -> Value {
    json!({ "name": volume, "mountPath": path, "subPath": file, "readOnly": true })
}

fn push(object: &mut Value, field: &str, item: Value) {
    if let Some(items) = object[field].as_array_mut() {
        items.push(item);
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use slipway_api::SecretKeyRef;

    use super::*;
    use crate::{
        fixture,
        nodeset::{pod, revision},
    };

    fn nodeset(extra: Option<&str>) -> NodeSet {
        let mut nodeset = fixture::nodeset();
        nodeset.spec.ssh = Some(Ssh {
            enabled: true,
            extra_sshd_config: extra.map(str::to_owned),
            sssd_conf_ref: SecretKeyRef { name: "sssd".into(), key: "our.conf".into(), optional: None },
        });
        nodeset
    }

    fn references(sssd_conf_hash: Option<&str>) -> References {
        References { sssd_conf_hash: sssd_conf_hash.map(str::to_owned), ..super::super::tests::references() }
    }

    #[test]
    fn a_node_set_with_ssh_becomes_these_objects() {
        let nodeset = nodeset(Some("LoginGraceTime 30\nMatch User root\n  AllowTcpForwarding no\n\n"));
        insta::assert_yaml_snapshot!("ConfigMap_worker-ssh-config", config_map(&nodeset).unwrap().body);
        insta::assert_yaml_snapshot!("Pod_worker-1_with_ssh", pod(&nodeset, &references(Some("hash-of-sssd.conf")), 1).unwrap());
    }

    #[test]
    fn without_ssh_there_is_nothing_of_it() {
        let mut off = nodeset(None);
        off.spec.ssh.as_mut().unwrap().enabled = false;
        assert_eq!(config_map(&off), None);
        assert_eq!(pod(&off, &references(None), 0), pod(&fixture::nodeset(), &references(None), 0));
        assert_eq!(revision::hash(&off), revision::hash(&fixture::nodeset()));
    }

    /// A mount of a missing file would become a folder of that name.
    #[test]
    fn a_sssd_conf_that_may_be_missing_and_is_leaves_no_trace() {
        let text = pod(&nodeset(None), &references(None), 0).unwrap().to_string();
        assert!(text.contains("sshd_config") && !text.contains("sssd"), "{text}");
    }

    #[test]
    fn what_the_user_says_to_sshd_is_a_new_template_and_what_is_in_the_secret_is_not() {
        let (before, after) = (nodeset(None), nodeset(Some("LoginGraceTime 30")));
        assert_ne!(revision::hash(&before), revision::hash(&after));
        let hash = |nodeset: &NodeSet, sssd: &str| pod(nodeset, &references(Some(sssd)), 0).unwrap()["metadata"]["annotations"].clone();
        assert_ne!(hash(&before, "a"), hash(&before, "b"));
        assert_ne!(hash(&before, "a")[annotation::SSHD_CONF_HASH], hash(&after, "a")[annotation::SSHD_CONF_HASH]);
    }

    #[rstest]
    #[case::nothing(None, "")]
    #[case::blank(Some("\n"), "")]
    #[case::one_line(Some("UsePAM no"), "#\n### EXTRA CONFIG ###\nUsePAM no\n")]
    fn what_the_user_adds_comes_last_where_it_overrides_nothing(#[case] extra: Option<&str>, #[case] end: &str) {
        let nodeset = nodeset(extra);
        let text = sshd_config(enabled(&nodeset).unwrap());
        assert_eq!(text.strip_prefix(GENERAL), Some(end));
    }

    #[rstest]
    #[case::nothing("ClusterName=a\n", false)]
    #[case::others("PrologFlags=Alloc,Serial\n", false)]
    #[case::contain("PrologFlags=Alloc,contain\n", true)]
    #[case::x11("prologflags=X11\n", true)]
    #[case::the_last_one_counts("PrologFlags=Contain\nPrologFlags=Alloc\n", false)]
    #[case::a_comment("#PrologFlags=Contain\n", false)]
    fn jobs_take_logins_in_only_with_a_step_for_them(#[case] slurm_conf: &str, #[case] expected: bool) {
        assert_eq!(jobs_take_logins_in(slurm_conf), expected);
    }
}
