//! Events on a real API server.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod server;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use k8s_openapi::api::events::v1::Event;
use kube::api::{ListParams, PostParams};
use kube::{Api, Resource};
use slipway_bed::patience::Patience;
use slipway_runtime::clock::SystemClock;
use slipway_runtime::events::{Events, Kind, Outcome, Reporter};
use slipway_runtime::metrics::Metrics;
use tokio_util::sync::CancellationToken;

use crate::server::Server;

#[tokio::test]
async fn what_is_said_about_an_object_is_an_event_once_and_never_a_flood() {
    let server = Server::new("events").await;
    let client = server.client.clone();
    let (metrics, _registry) = Metrics::new();
    let reporter = Reporter { controller: "slipway", instance: "slipway-0".to_owned() };
    let (events, sender) = Events::new(client.clone(), Arc::new(SystemClock), reporter, metrics.events.clone());
    let stop = CancellationToken::new();
    let sending = tokio::spawn(sender.run(stop.clone()));

    let maps = Api::<ConfigMap>::namespaced(client.clone(), &server.namespace);
    let map =
        ConfigMap { metadata: kube::core::ObjectMeta { name: Some("subject".to_owned()), ..Default::default() }, ..Default::default() };
    let about: ObjectReference = maps.create(&PostParams::default(), &map).await.unwrap().object_ref(&());
    for _ in 0..3 {
        events.say(&about, Kind::Warning, "SyncFailed", "Sync", "Secret `default/keys` is missing");
    }
    events.say(&about, Kind::Normal, "CreateSucceeded", "Create", &"x".repeat(5000));
    for number in 0..50 {
        events.say(&about, Kind::Normal, "CreateSucceeded", "Create", &format!("number {number}"));
    }
    // The namespace does not exist: an event that cannot be sent must not stop the others.
    let nowhere = ObjectReference { namespace: Some("nowhere".to_owned()), uid: Some("u".to_owned()), ..about.clone() };
    events.say(&nowhere, Kind::Normal, "CreateSucceeded", "Create", "lost");

    let count = |outcome: &'static str| metrics.events.get_or_create(&Outcome { outcome }).get();
    let mut patience = Patience::start();
    while count("sent") + count("failed") < 11 {
        assert!(!patience.is_exhausted(), "{} events were sent and {} failed", count("sent"), count("failed"));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    stop.cancel();
    sending.await.unwrap();
    assert_eq!((count("sent"), count("failed"), count("limited"), count("full")), (10, 1, 42, 0));

    let stored = Api::<Event>::namespaced(client, &server.namespace).list(&ListParams::default()).await.unwrap().items;
    let about_map: Vec<_> = stored.into_iter().filter(|event| event.regarding.as_ref().is_some_and(|it| it.uid == about.uid)).collect();
    assert_eq!(about_map.len(), 10);
    let failed: Vec<_> = about_map.iter().filter(|event| event.reason.as_deref() == Some("SyncFailed")).collect();
    assert_eq!(failed.len(), 1, "the same words were sent more than once");
    let event = failed[0];
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.action.as_deref(), Some("Sync"));
    assert_eq!(event.note.as_deref(), Some("Secret `default/keys` is missing"));
    assert_eq!((event.reporting_controller.as_deref(), event.reporting_instance.as_deref()), (Some("slipway"), Some("slipway-0")));
    server.end().await;
}
