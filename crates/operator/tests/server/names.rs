//! Names that the schema accepts and Slurm or Kubernetes would misread, on a real API server.

use serde_json::{Value, json};

use crate::stage::{Stage, controller, eventually, until_condition};

/// Name of a Controller whose default cluster name ends with more digits than Slurm can count.
const MANY_DIGITS: &str = "n1234567890123456789";

fn nodeset(name: &str, hostname: &str) -> Value {
    json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": name },
        "spec": {
            "controllerRef": { "name": "slurm" },
            "slurmd": { "image": "x" },
            "template": { "spec": { "hostname": hostname } },
            "partition": { "enabled": true, "config": "State=UP" },
        },
    })
}

async fn until_ready(stage: &Stage, plural: &str, name: &str, reason: &str) -> String {
    let found = until_condition(async || stage.object(plural, name).await, "Ready", |ready| ready["reason"] == reason).await;
    found["message"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_name_that_cannot_be_is_told_where_it_stands_and_harms_nobody_else() {
    let stage = Stage::new("names").await;
    let _operator = stage.operator("slipway", &[]);
    let key = "--from-literal=key=0123456789abcdef0123456789abcdef";
    stage.kubectl(&["create", "secret", "generic", "keys", "--namespace", &stage.namespace, key]);
    for name in ["slurm", MANY_DIGITS] {
        assert_eq!(stage.create("controllers", &controller(name, &json!({ "slurmctld": { "image": "x" } }))).await.code, 201);
    }
    // `Nodes=all` means every node of the cluster, so a partition of that name would not be limited to this NodeSet.
    for (name, hostname) in [("good", "good-"), ("greedy", "all-")] {
        let answer = stage.create("nodesets", &nodeset(name, hostname)).await;
        assert_eq!(answer.code, 201, "{answer:?}");
    }

    assert_eq!(
        until_ready(&stage, "nodesets", "greedy", "InvalidSpec").await,
        "spec.template.spec.hostname is wrong: `all` is no name for a partition of its own nodes: `Nodes=all` is every node of the cluster; choose another"
    );
    let message = until_ready(&stage, "controllers", MANY_DIGITS, "InvalidSpec").await;
    assert!(
        message.starts_with(&format!(
            "spec.clusterName is wrong: `{}_n1234567890123456789` is no cluster name: it ends with 19 digits",
            stage.namespace
        )),
        "{message}"
    );

    let lines = eventually("slurm.conf", async || {
        let config = stage.get(&format!("/api/v1/namespaces/{}/configmaps/slurm-config", stage.namespace)).await;
        let text = config["data"]["slurm.conf"].as_str().unwrap_or_default().to_owned();
        let lines: Vec<String> =
            text.lines().filter(|line| line.starts_with("NodeSet=") || line.starts_with("Part")).map(str::to_owned).collect();
        if lines.is_empty() { Err(text) } else { Ok(lines) }
    });
    assert_eq!(lines.await, ["NodeSet=good Feature=good", "PartitionName=good Nodes=good State=UP", "NodeSet=all Feature=all"]);
    let path = |name: &str| format!("/apis/apps/v1/namespaces/{}/statefulsets/{name}-controller", stage.namespace);
    let made = eventually("the StatefulSet", async || {
        let found = stage.get(&path("slurm")).await;
        if found["kind"] == "StatefulSet" { Ok(found) } else { Err(found.to_string()) }
    });
    made.await;
    assert_eq!(stage.get(&path(MANY_DIGITS)).await["code"], 404);
    stage.end();
}
