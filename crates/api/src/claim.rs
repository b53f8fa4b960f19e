//! Schema of a claim's spec among our own fields.

use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

const QUANTITY: &str = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$";

/// The fields of a PersistentVolumeClaim's spec. Newer fields than those listed are kept as well.
pub(crate) fn spec(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": true,
        "properties": {
            "accessModes": strings("How the volume may be mounted, such as `ReadWriteOnce`."),
            "dataSource": source("A claim or a snapshot of the same namespace to fill the volume from.", false),
            "dataSourceRef": source("What to fill the volume from, of any kind that has a populator.", true),
            "resources": {
                "type": "object",
                "description": "How much storage to ask for.",
                "properties": {
                    "limits": quantities("The most that is wanted, by resource."),
                    "requests": quantities("The least that is needed, by resource; `storage` is the size of the volume."),
                },
            },
            "selector": selector(),
            "storageClassName": text("Storage class of the volume. Left out, the cluster's default is used; empty, no volume is made for the claim."),
            "volumeAttributesClassName": text("VolumeAttributesClass of the volume."),
            "volumeMode": text("`Filesystem` or `Block`; slurmctld needs a file system."),
            "volumeName": text("The one volume that the claim may bind to."),
        },
    })
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn strings(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "x-kubernetes-list-type": "atomic", "description": description })
}

fn quantities(description: &str) -> Value {
    json!({
        "type": "object",
        "description": description,
        "additionalProperties": { "x-kubernetes-int-or-string": true, "pattern": QUANTITY },
    })
}

fn source(description: &str, is_of_any_namespace: bool) -> Value {
    let mut source = json!({
        "type": "object",
        "description": description,
        "required": ["kind", "name"],
        "properties": {
            "apiGroup": text("API group of the source; left out for the core group."),
            "kind": text("Kind of the source."),
            "name": text("Name of the source."),
        },
    });
    if is_of_any_namespace {
        source["properties"]["namespace"] = text("Namespace of the source, where the cluster allows another than the claim's own.");
    } else {
        source["x-kubernetes-map-type"] = "atomic".into();
    }
    source
}

fn selector() -> Value {
    json!({
        "type": "object",
        "description": "Which volumes the claim may bind to, by their labels.",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchExpressions": {
                "type": "array",
                "description": "Conditions on labels; all of them must hold.",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": text("The label."),
                        "operator": text("`In`, `NotIn`, `Exists` or `DoesNotExist`."),
                        "values": strings("Values for `In` and `NotIn`."),
                    },
                },
            },
            "matchLabels": {
                "type": "object",
                "description": "Labels and the values they must have.",
                "additionalProperties": { "type": "string" },
            },
        },
    })
}
