//! Finalizers on a real API server: a concurrent write is neither overwritten nor taken for success.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod server;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use serde_json::json;
use slipway_runtime::apply::{Id, Writer};

use crate::server::Server;

#[tokio::test]
async fn a_finalizer_is_written_to_what_was_seen_and_to_nothing_newer() {
    let server = Server::new("finalizers").await;
    let client = server.client.clone();
    let maps = Api::<ConfigMap>::namespaced(client.clone(), &server.namespace);
    let map = serde_json::from_value(json!({ "metadata": { "name": "held" } })).unwrap();
    let seen = maps.create(&PostParams::default(), &map).await.unwrap();
    let (uid, kind) = (seen.uid().unwrap(), ApiResource::erase::<ConfigMap>(&()));
    let writer = Writer::new(client, "test");
    let held = Id { namespace: &server.namespace, name: "held", uid: &uid };
    let write = async |version: &str, finalizers| writer.finalizers(&kind, held, version, &finalizers).await.unwrap();

    let others = json!({ "metadata": { "finalizers": ["example.org/others"] } });
    let newer = maps.patch("held", &PatchParams::default(), &Patch::Merge(&others)).await.unwrap();
    let ours = json!(["example.org/others", "example.org/ours"]);
    assert!(!write(&seen.resource_version().unwrap(), ours.clone()).await, "somebody else wrote in between");
    assert_eq!(maps.get("held").await.unwrap().finalizers(), ["example.org/others"]);
    assert!(write(&newer.resource_version().unwrap(), ours.clone()).await);
    let now = maps.get("held").await.unwrap();
    assert_eq!(now.finalizers(), ["example.org/others", "example.org/ours"]);
    let gone = Id { name: "gone", ..held };
    assert!(writer.finalizers(&kind, gone, &now.resource_version().unwrap(), &ours).await.unwrap(), "what is gone needs none");
    server.end().await;
}
