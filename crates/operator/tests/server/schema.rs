//! The CRDs on a real API server: it accepts them, and every rule of the table gives the same answer as without a server.

#[path = "../../../api/tests/rules/table.rs"]
mod table;

use std::time::Duration;

use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::Value;
use slipway_api::{GROUP, VERSION, crd};
use slipway_bed::{
    cache::Cache,
    patience::Patience,
    turn::Turn,
    up::{Wanted, up},
};

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, VERSION, kind));
    resource.plural = format!("{}s", kind.to_lowercase());
    Api::namespaced_with(client.clone(), "default", &resource)
}

fn object(value: &Value) -> DynamicObject {
    serde_json::from_value(value.clone()).unwrap()
}

fn dry_run() -> PostParams {
    PostParams { dry_run: true, field_manager: None }
}

/// Creates every CRD and waits until it is served. The API server refuses one whose rules cost too much.
async fn define(client: &Client) {
    let definitions: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition")),
    );
    for definition in crd::definitions() {
        let name = definition["metadata"]["name"].as_str().unwrap();
        let made = definitions.create(&PostParams::default(), &object(&definition)).await;
        assert!(made.is_ok(), "{name}: {made:?}");
        let mut patience = Patience::start();
        while api(client, definition["spec"]["names"]["kind"].as_str().unwrap()).list(&kube::api::ListParams::default()).await.is_err() {
            assert!(!patience.is_exhausted(), "{name} is not served");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Creates a new object as a dry run.
async fn create(client: &Client, wanted: &Value) -> Result<(), String> {
    let api = api(client, wanted["kind"].as_str().unwrap());
    api.create(&dry_run(), &object(wanted)).await.map(drop).map_err(|error| error.to_string())
}

/// Replaces an existing object as a dry run.
#[allow(clippy::disallowed_methods, reason = "what is sent is the whole object, as `kubectl replace` sends it")]
async fn update(client: &Client, there: &DynamicObject, wanted: &Value) -> Result<(), String> {
    let mut wanted = object(wanted);
    wanted.metadata.resource_version = there.resource_version();
    let api = api(client, &there.types.as_ref().unwrap().kind);
    api.replace(&there.name_any(), &dry_run(), &wanted).await.map(drop).map_err(|error| error.to_string())
}

#[tokio::test]
async fn a_real_server_takes_the_definitions_and_answers_every_rule() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 0).await.unwrap();
    let bed = up(&cache, &Wanted::api_only(format!("schema-{}", std::process::id()).parse().unwrap())).await.unwrap();
    let client = bed.client().await.unwrap();
    define(&client).await;

    let mut wrong = Vec::new();
    for manifest in table::manifests() {
        let (kind, name) = (&manifest["kind"], &manifest["metadata"]["name"]);
        wrong.extend(create(&client, &manifest).await.err().map(|why| format!("{kind} {name} should be accepted: {why}")));
    }
    for table::Case { kind, says, from, accepted, refused } in table::cases() {
        let there = match &from {
            Some(from) => Some(api(&client, &kind).create(&PostParams::default(), &object(from)).await.unwrap()),
            None => None,
        };
        let (yes, no) = match &there {
            Some(there) => (update(&client, there, &accepted).await, update(&client, there, &refused).await),
            None => (create(&client, &accepted).await, create(&client, &refused).await),
        };
        wrong.extend(yes.err().map(|why| format!("{kind}, `{says}`: should be accepted: {why}")));
        match no {
            Ok(()) => wrong.push(format!("{kind}, `{says}`: should be refused")),
            Err(answer) if !answer.contains(&says) => wrong.push(format!("{kind}, `{says}`: refused with {answer}")),
            Err(_) => {}
        }
        if let Some(there) = there {
            api(&client, &kind).delete(&there.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
    bed.down().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
