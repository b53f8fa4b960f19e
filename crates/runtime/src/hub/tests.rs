use futures::{FutureExt, StreamExt, channel::mpsc::UnboundedReceiver, stream};
use k8s_openapi::api::core::v1::ConfigMap;

use super::*;
use crate::health::Health;

fn map(name: &str, version: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map.metadata.namespace = Some("n".to_owned());
    map.metadata.resource_version = Some(version.to_owned());
    map
}

fn hub(health: &Health) -> Hub<ConfigMap> {
    Hub::new((), health.gate("configmaps"), Metrics::new().0)
}

fn every_change(hub: &mut Hub<ConfigMap>) -> UnboundedReceiver<ObjectRef<ConfigMap>> {
    hub.route(|map: &ConfigMap| vec![ObjectRef::from_obj(map)])
}

async fn names(changes: UnboundedReceiver<ObjectRef<ConfigMap>>) -> Vec<String> {
    let mut names: Vec<_> = changes.map(|change| change.name).collect().await;
    names.sort_unstable();
    names
}

fn ok(events: Vec<Event<ConfigMap>>) -> impl Stream<Item = watcher::Result<Event<ConfigMap>>> {
    stream::iter(events.into_iter().map(Ok))
}

#[tokio::test]
async fn additions_changes_and_deletions_are_told() {
    let mut hub = hub(&Health::default());
    let changes = every_change(&mut hub);
    let listed = [Event::Init, Event::InitApply(map("a", "1")), Event::InitDone];
    let watched = [Event::Apply(map("b", "2")), Event::Delete(map("a", "1"))];
    hub.run(ok(listed.into_iter().chain(watched).collect())).await;
    assert_eq!(names(changes).await, ["a", "a", "b"]);
}

#[tokio::test]
async fn what_vanished_while_the_watch_was_down_is_told_and_what_stayed_is_not() {
    let mut hub = hub(&Health::default());
    let changes = every_change(&mut hub);
    let store = hub.store();
    let list = |maps: Vec<ConfigMap>| {
        let mut events = vec![Event::Init];
        events.extend(maps.into_iter().map(Event::InitApply));
        events.push(Event::InitDone);
        events
    };
    let mut events = list(vec![map("stays", "1"), map("changes", "1"), map("vanishes", "1")]);
    events.extend(list(vec![map("stays", "1"), map("changes", "2"), map("appears", "3")]));
    hub.run(ok(events)).await;
    assert_eq!(names(changes).await, ["appears", "changes", "changes", "stays", "vanishes", "vanishes"]);
    assert_eq!(store.len(), 3);
}

#[tokio::test]
async fn every_route_hears_everything() {
    let mut hub = hub(&Health::default());
    let (one, two) = (every_change(&mut hub), every_change(&mut hub));
    hub.run(ok((0..100).map(|i| Event::Apply(map(&i.to_string(), "1"))).collect())).await;
    assert_eq!((names(one).await.len(), names(two).await.len()), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn a_missing_kind_is_named_until_it_is_there() {
    let health = Health::default();
    let hub = hub(&health);
    let gone =
        || Err(watcher::Error::InitialListFailed(kube::Error::Api(Box::new(kube::core::Status::failure("", "NotFound").with_code(404)))));
    let health_inside = health.clone();
    let events = stream::iter([gone(), gone(), Ok(Event::Init), Ok(Event::InitDone)]).enumerate().map(move |(index, event)| {
        if index == 2 {
            let waits = health_inside.waits().unwrap();
            assert!(waits.contains("install its CustomResourceDefinition"), "{waits}");
        }
        event
    });
    hub.run(events).await;
    assert_eq!(health.waits(), None);
}

#[tokio::test]
async fn everyone_who_waits_for_the_cache_is_told() {
    let hub = hub(&Health::default());
    let waiters: Vec<_> = (0..5).map(|_| tokio::spawn(hub.filled().wait())).collect();
    tokio::task::yield_now().await;
    let late = hub.filled();
    hub.run(ok(vec![Event::Init, Event::InitDone]).chain(stream::pending())).now_or_never();
    for waiter in waiters {
        waiter.await.unwrap();
    }
    late.wait().await;
}
