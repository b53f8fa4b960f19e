//! The operator outside a cluster, as its own service account: a real API server, and only the rights of its manifest.

use crate::stage::{Stage, condition, eventually};

/// Waits until the message of an object's Ready condition contains all of `words`.
async fn until_logged(stage: &Stage, plural: &str, name: &str, words: &[&str]) {
    let words: Vec<String> = words.iter().map(|words| stage.here(words)).collect();
    eventually(&format!("{plural}/{name} to say {words:?}"), async || {
        let ready = condition(&stage.object(plural, name).await, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        if words.iter().all(|part| message.contains(part.as_str())) { Ok(()) } else { Err(ready.to_string()) }
    })
    .await;
}

#[tokio::test]
async fn outside_a_cluster_and_with_no_more_than_its_rights_it_names_what_is_missing_and_goes_on_when_it_comes() {
    let stage = Stage::new("outside").await;
    let _operator = stage.operator("slipway", &[]);
    let demo = include_str!("../../../../examples/demo.yaml").replace("namespace: slurm\n", &format!("namespace: {}\n", stage.namespace));
    stage.bed.kubectl().args(["apply", "--server-side", "--filename=-"]).feed(&demo).unwrap();
    until_logged(&stage, "controllers", "slurm", &["Secret `slurm/slurm-keys`", "spec.slurmKeyRef"]).await;
    let key = "0123456789abcdef0123456789abcdef";
    let literal = format!("--from-literal=slurm.key={key}");
    stage.kubectl(&["create", "secret", "generic", "slurm-keys", &literal, "--namespace", &stage.namespace]);
    until_logged(&stage, "controllers", "slurm", &["jwt.key"]).await;
    let patch = format!(r#"{{"stringData":{{"jwt.key":"{key}"}}}}"#);
    stage.kubectl(&["patch", "secret", "slurm-keys", "--patch", &patch, "--namespace", &stage.namespace]);
    // There is no kubelet, so slurmctld never starts, and workers wait for it.
    until_logged(&stage, "controllers", "slurm", &["slurmctld: 0 of 1 pods are ready"]).await;
    until_logged(&stage, "restapis", "slurm", &["slurmrestd: 0 of 1 pods are ready"]).await;
    until_logged(&stage, "nodesets", "worker", &["slurmctld"]).await;
    stage.end();
}
