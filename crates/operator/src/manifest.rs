//! The manifest that runs the operator in a cluster.

use serde_json::{Value, json};

use crate::rights;

const NAMESPACE: &str = "slipway-system";
const NAME: &str = "slipway";
const IMAGE: &str = "localhost/slipway/operator:dev";
/// The user of the image.
const UID: i64 = 65532;

/// Every object, in the order in which they are to be created.
pub(crate) fn objects() -> Vec<Value> {
    vec![namespace(), service_account(), role(), binding(), deployment()]
}

fn namespace() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": { "name": NAMESPACE, "labels": { "pod-security.kubernetes.io/enforce": "restricted" } },
    })
}

fn service_account() -> Value {
    json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": { "name": NAME, "namespace": NAMESPACE } })
}

fn role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": NAME }, "rules": rights::rules(),
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": NAME },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME },
        "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE }],
    })
}

fn deployment() -> Value {
    let labels = json!({ "app.kubernetes.io/name": NAME });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            // One at a time: two operators would undo each other's work, and there is no election between them yet.
            "replicas": 1,
            "strategy": { "type": "Recreate" },
            "selector": { "matchLabels": labels },
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "serviceAccountName": NAME,
                    "securityContext": {
                        "runAsNonRoot": true, "runAsUser": UID, "runAsGroup": UID, "seccompProfile": { "type": "RuntimeDefault" },
                    },
                    "containers": [{
                        "name": "operator",
                        "image": IMAGE,
                        "imagePullPolicy": "IfNotPresent",
                        "ports": [{ "name": "health", "containerPort": 8081 }, { "name": "metrics", "containerPort": 8080 }],
                        "startupProbe": { "httpGet": { "path": "/livez", "port": "health" }, "periodSeconds": 1, "failureThreshold": 30 },
                        "livenessProbe": { "httpGet": { "path": "/livez", "port": "health" }, "periodSeconds": 10 },
                        "readinessProbe": { "httpGet": { "path": "/readyz", "port": "health" }, "periodSeconds": 2 },
                        "resources": { "requests": { "cpu": "50m", "memory": "64Mi" }, "limits": { "memory": "512Mi" } },
                        "securityContext": {
                            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": { "drop": ["ALL"] },
                        },
                    }],
                },
            },
        },
    })
}
