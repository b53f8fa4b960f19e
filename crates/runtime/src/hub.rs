//! One watch per kind, shared by the whole process.
//!
//! kube's own shared streams drop deletions and can stall forever (kube-rs issue 1590), and no stream of kube reports the objects that were deleted
//! while a watch was down. So each kind has a hub: it owns the watch, keeps the cache, and notifies every route of each change.

use std::{collections::HashMap, fmt::Debug, hash::Hash, pin::pin, sync::Arc, time::Duration};

use futures::{
    Stream, StreamExt,
    channel::mpsc::{UnboundedReceiver, unbounded},
};
use kube::{
    Resource,
    runtime::{
        reflector::{ObjectRef, Store, store::Writer},
        watcher::{self, Event},
    },
};
use tokio::{sync::watch, time::sleep};

use crate::{
    failure::{chain, server_words},
    health::Gate,
    metrics::{Metrics, Watch},
};

/// Backoff while a watch fails.
const FIRST_RETRY: Duration = Duration::from_millis(200);
const LAST_RETRY: Duration = Duration::from_secs(5);

type Route<K> = Box<dyn Fn(&K) + Send + Sync>;

/// Owner of the only watch of kind `K` in its scope.
pub struct Hub<K>
where
    K: Resource + Clone + 'static,
    K::DynamicType: Eq + Hash + Clone,
{
    dyntype: K::DynamicType,
    writer: Writer<K>,
    reader: Store<K>,
    routes: Vec<Route<K>>,
    gate: Gate,
    metrics: Metrics,
    watch: Watch,
    is_filled: watch::Sender<bool>,
}

/// Signals that a hub's cache was filled for the first time.
///
/// kube's own `Store::wait_until_ready` wakes only one of several waiters.
#[derive(Clone)]
pub struct Filled(watch::Receiver<bool>);

impl Filled {
    /// True if the cache was filled.
    pub fn is_filled(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the cache is filled; forever if the hub ended before.
    pub async fn wait(mut self) {
        if self.0.wait_for(|is_filled| *is_filled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl<K> Hub<K>
where
    K: Resource + Clone + Debug + Send + Sync + 'static,
    K::DynamicType: Eq + Hash + Clone + Debug + Unpin + Send + Sync,
{
    /// `gate` opens when the first list is complete; until then it shows the server's error.
    pub fn new(dyntype: K::DynamicType, gate: Gate, metrics: Metrics) -> Self {
        let writer = Writer::new(dyntype.clone());
        let reader = writer.as_reader();
        let watch = Watch { kind: K::kind(&dyntype).into_owned() };
        Self { dyntype, writer, reader, routes: Vec::new(), gate, metrics, watch, is_filled: watch::Sender::new(false) }
    }

    /// The cache.
    pub fn store(&self) -> Store<K> {
        self.reader.clone()
    }

    /// Signals that the cache was filled.
    pub fn filled(&self) -> Filled {
        Filled(self.is_filled.subscribe())
    }

    /// Enqueues the `R` to reconcile for each `K` that changed or was deleted.
    ///
    /// Unbounded: the reader drops duplicates, so it holds no more than there are `R`; and a slow reader must not block the watch.
    pub fn route<R: Resource<DynamicType = ()> + 'static>(
        &mut self,
        map: impl Fn(&K) -> Vec<ObjectRef<R>> + Send + Sync + 'static,
    ) -> UnboundedReceiver<ObjectRef<R>> {
        let (sender, receiver) = unbounded();
        self.routes.push(Box::new(move |object| {
            for root in map(object) {
                // The receiver is gone only while the process shuts down.
                let _ = sender.unbounded_send(root);
            }
        }));
        receiver
    }

    /// Processes `events` until they end.
    pub async fn run(mut self, events: impl Stream<Item = watcher::Result<Event<K>>>) {
        let mut events = pin!(events);
        let mut retry = FIRST_RETRY;
        let mut last_words = String::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => {
                    // Each attempt begins with an Init: it does not mean success.
                    if !matches!(event, Event::Init) {
                        retry = FIRST_RETRY;
                        last_words.clear();
                    }
                    self.take(&event);
                }
                Err(error) => {
                    let why = words(&error);
                    if why != last_words {
                        tracing::warn!(kind = %self.watch.kind, %why, "watch failed, trying again");
                        last_words.clone_from(&why);
                    }
                    self.metrics.hub_errors.get_or_create(&self.watch).inc();
                    if !*self.is_filled.borrow() {
                        self.gate.waits(why);
                    }
                    sleep(retry).await;
                    retry = (retry * 2).min(LAST_RETRY);
                }
            }
        }
    }

    fn take(&mut self, event: &Event<K>) {
        self.metrics.hub_events.get_or_create(&self.watch).inc();
        match event {
            Event::Apply(object) | Event::Delete(object) => {
                self.writer.apply_watcher_event(event);
                self.notify(object);
            }
            Event::InitDone => {
                // No event reports deletions while the watch was down, so the caches before and after are compared.
                let mut before = self.by_key();
                self.writer.apply_watcher_event(event);
                for object in self.reader.state() {
                    let known = before.remove(&self.key(&object));
                    if known.is_none_or(|known| known.meta().resource_version != object.meta().resource_version) {
                        self.notify(&object);
                    }
                }
                for vanished in before.into_values() {
                    self.notify(&vanished);
                }
                self.metrics.hub_relists.get_or_create(&self.watch).inc();
                self.is_filled.send_replace(true);
                self.gate.open();
            }
            Event::Init | Event::InitApply(_) => self.writer.apply_watcher_event(event),
        }
        self.metrics.hub_objects.get_or_create(&self.watch).set(i64::try_from(self.reader.len()).unwrap_or(i64::MAX));
    }

    fn by_key(&self) -> HashMap<ObjectRef<K>, Arc<K>> {
        self.reader.state().into_iter().map(|object| (self.key(&object), object)).collect()
    }

    fn key(&self, object: &K) -> ObjectRef<K> {
        ObjectRef::from_obj_with(object, self.dyntype.clone())
    }

    fn notify(&self, object: &K) {
        self.routes.iter().for_each(|route| route(object));
    }
}

/// Reason why a watch fails, for people.
fn words(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status)) if status.code == 404 => {
            "the API server does not know this kind: install its CustomResourceDefinition".to_owned()
        }
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => server_words(error),
        other => chain(other),
    }
}

#[cfg(test)]
mod tests;
