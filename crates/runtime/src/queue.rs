//! Reconciles the resources of one kind.
//!
//! Reconciles of one resource never run concurrently. Each has a deadline. A panic is caught, counted, reported on the resource and retried, like any
//! other failure. A failing resource never stops another.

use std::{
    any::Any,
    convert::Infallible,
    fmt::Debug,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{FutureExt, Stream, StreamExt, future::BoxFuture};
use kube::{
    Resource,
    runtime::{
        Config, applier,
        controller::{Action, Error},
        reflector::{ObjectRef, Store},
    },
};
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::{
    backoff::Backoff,
    failure::{Class, Classify, Failure, chain},
    metrics::{Metrics, Of, Pass},
    turns::Turns,
};

/// No limit here: [`Turns`] limits reconciles, and shares turns between namespaces.
const CONCURRENCY: u16 = 0;
/// Time limit for a reconcile. Longer work is a state that several reconciles see, not a long wait.
const DEADLINE: Duration = Duration::from_secs(30);
/// Backoff of deleted objects is dropped on each failure while there are fewer objects than this, so that it is cheap.
const CHEAP_SWEEP: usize = 1000;

/// Reconciles of this process so far: the `id` in the log lines of one reconcile.
static RECONCILES: AtomicU64 = AtomicU64::new(1);

/// Time of the next reconcile if nothing changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    OnChange,
    After(Duration),
}

/// Reconciler of resources of kind `K`.
pub trait Reconcile<K>: Send + Sync + 'static {
    type Error: Classify;

    /// Does what can be done now. It must not matter why it was called.
    fn pass(&self, object: Arc<K>) -> impl Future<Output = Result<Next, Self::Error>> + Send;

    /// Reports on the resource that the last reconcile failed.
    fn report_failure(&self, object: Arc<K>, failure: &Failure<Self::Error>) -> impl Future<Output = ()> + Send;
}

/// Reconciles what `queue` names, until `stop`. Every cache that a reconcile reads must be filled by now.
pub async fn run<K, R>(
    name: &'static str,
    reconciler: Arc<R>,
    roots: Store<K>,
    queue: impl Stream<Item = ObjectRef<K>> + Send + 'static,
    metrics: Metrics,
    stop: CancellationToken,
) where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    R: Reconcile<K>,
{
    let backoff = Arc::new(Backoff::<ObjectRef<K>>::new());
    let context = Arc::new(Passes { name, reconciler, backoff, roots: roots.clone(), metrics, turns: Turns::new() });
    let queue = queue.map(Ok::<_, Infallible>).take_until(stop.cancelled_owned());
    let config = Config::default().concurrency(CONCURRENCY);
    applier(Passes::start, Passes::retry, context, roots, queue, config)
        .for_each(|outcome| {
            if let Err(Error::ObjectNotFound(object)) = outcome {
                tracing::debug!(%object, "deleted before its reconcile");
            }
            std::future::ready(())
        })
        .await;
}

struct Passes<K: Resource<DynamicType = ()> + Clone + 'static, R> {
    name: &'static str,
    reconciler: Arc<R>,
    backoff: Arc<Backoff<ObjectRef<K>>>,
    roots: Store<K>,
    metrics: Metrics,
    turns: Turns,
}

impl<K, R> Passes<K, R>
where
    K: Resource<DynamicType = ()> + Clone + Debug + Send + Sync + 'static,
    R: Reconcile<K>,
{
    /// Reconciles in a separate task, so that reconciles use all processors.
    fn start(object: Arc<K>, context: Arc<Self>) -> BoxFuture<'static, Result<Action, Failure<R::Error>>> {
        // A span of its own: a spawned task does not inherit the caller's.
        let id = RECONCILES.fetch_add(1, Ordering::Relaxed);
        let span = tracing::info_span!("reconcile", controller = context.name, object = %ObjectRef::from_obj(object.as_ref()), id);
        let task = tokio::spawn(context.pass(object).instrument(span));
        async move { task.await.unwrap_or_else(|error| Err(Failure::Panicked(error.to_string()))) }.boxed()
    }

    async fn pass(self: Arc<Self>, object: Arc<K>) -> Result<Action, Failure<R::Error>> {
        let _turn = self.turns.take(object.meta().namespace.as_deref().unwrap_or_default()).await;
        let started = Instant::now();
        let guarded = std::panic::AssertUnwindSafe(self.reconciler.pass(object.clone())).catch_unwind();
        let outcome = match timeout(DEADLINE, guarded).await {
            Ok(Ok(outcome)) => outcome.map_err(Failure::Failed),
            Ok(Err(panic)) => Err(Failure::Panicked(panic_words(panic.as_ref()))),
            Err(_) => Err(Failure::TookTooLong(DEADLINE)),
        };
        let result = outcome.as_ref().map_or_else(Classify::reason, |_| "ok");
        self.metrics.passes.get_or_create(&Pass { controller: self.name, result }).inc();
        self.metrics.pass_seconds.get_or_create(&Of { controller: self.name }).observe(started.elapsed().as_secs_f64());
        match outcome {
            Ok(next) => {
                self.backoff.succeeded(&ObjectRef::from_obj(object.as_ref()));
                Ok(match next {
                    Next::OnChange => Action::await_change(),
                    Next::After(delay) => Action::requeue(delay),
                })
            }
            Err(failure) if failure.class() == Class::Moot => Err(failure),
            Err(failure) => {
                tracing::warn!(error = chain(&failure), "reconcile failed");
                // Best effort, and never longer than a reconcile itself: the cause of the failure may affect this too.
                let shown = std::panic::AssertUnwindSafe(self.reconciler.report_failure(object, &failure)).catch_unwind();
                let _ = timeout(DEADLINE, shown).await;
                Err(failure)
            }
        }
    }

    #[allow(clippy::needless_pass_by_value)] // the library defines the signature
    fn retry(object: Arc<K>, failure: &Failure<R::Error>, context: Arc<Self>) -> Action {
        if context.roots.len() < CHEAP_SWEEP {
            context.backoff.retain(|key| context.roots.get(key).is_some());
        }
        Action::requeue(context.backoff.failed(&ObjectRef::from_obj(object.as_ref()), failure.class()))
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
