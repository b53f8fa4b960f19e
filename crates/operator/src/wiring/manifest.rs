//! The manifest that runs the operator in a cluster.

use serde_json::{Value, json};

use crate::{
    admission::{PATHS_PORT, REGISTRATION, SERVICE},
    wiring::rights,
};

const NAMESPACE: &str = "slipway-system";
const NAME: &str = "slipway";
const IMAGE: &str = "localhost/slipway/operator:dev";
/// User ID of the image.
const UID: i64 = 65532;

/// Every object, in order of creation.
pub(crate) fn objects() -> Vec<Value> {
    vec![namespace(), service_account(), role(), binding(), home_role(), home_binding(), webhook_service(), registration(), deployment()]
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
        "metadata": { "name": NAME }, "rules": rights::rules(rights::RIGHTS),
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

fn home_role() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
        "metadata": { "name": NAME, "namespace": NAMESPACE }, "rules": rights::rules(rights::RIGHTS_AT_HOME),
    })
}

fn home_binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": NAME, "namespace": NAMESPACE },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": NAME },
        "subjects": [{ "kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE }],
    })
}

fn webhook_service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": { "name": SERVICE, "namespace": NAMESPACE, "labels": { "app.kubernetes.io/name": NAME } },
        "spec": {
            "selector": { "app.kubernetes.io/name": NAME },
            "ports": [{ "name": "webhook", "port": PATHS_PORT, "targetPort": "webhook", "protocol": "TCP" }],
        },
    })
}

/// An empty registration: the operator fills it in once its server responds. It is here so that it is deleted with the manifest.
fn registration() -> Value {
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": REGISTRATION, "labels": { "app.kubernetes.io/name": NAME } },
    })
}

fn deployment() -> Value {
    let labels = json!({ "app.kubernetes.io/name": NAME });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": NAME, "namespace": NAMESPACE, "labels": labels },
        "spec": {
            // Only one: two operators would undo each other's work, and there is no leader election yet.
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
                        "ports": [
                            { "name": "health", "containerPort": 8081 },
                            { "name": "metrics", "containerPort": 8080 },
                            { "name": "webhook", "containerPort": 9443 },
                        ],
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
