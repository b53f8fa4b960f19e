use std::sync::atomic::{AtomicUsize, Ordering};

use futures::channel::mpsc::unbounded;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::runtime::{reflector::store, watcher::Event};

use super::*;
use crate::failure::Class;

#[derive(Debug, thiserror::Error)]
#[error("no luck")]
struct NoLuck;

impl Classify for NoLuck {
    fn class(&self) -> Class {
        Class::Transient
    }
    fn reason(&self) -> &'static str {
        "NoLuck"
    }
}

/// Reconciler that treats each object as its name says and stops after `limit` reconciles.
struct ByName {
    passes: AtomicUsize,
    limit: usize,
    shown: std::sync::Mutex<Vec<String>>,
    stop: CancellationToken,
}

impl Reconcile<ConfigMap> for ByName {
    type Error = NoLuck;

    async fn pass(&self, object: Arc<ConfigMap>) -> Result<Next, NoLuck> {
        if self.passes.fetch_add(1, Ordering::SeqCst) + 1 >= self.limit {
            self.stop.cancel();
        }
        match object.metadata.name.as_deref() {
            Some("panics") => panic!("on purpose"),
            Some(name) if name.starts_with("hangs") => std::future::pending().await,
            Some("fails") => Err(NoLuck),
            _ => Ok(Next::OnChange),
        }
    }

    async fn report_failure(&self, object: Arc<ConfigMap>, failure: &Failure<NoLuck>) {
        self.shown.lock().unwrap().push(format!("{}: {failure}", object.metadata.name.as_deref().unwrap()));
    }
}

async fn run_over(names: &[&str], limit: usize) -> (Vec<String>, Metrics) {
    let (reader, mut writer) = store::<ConfigMap>();
    let (sender, receiver) = unbounded();
    writer.apply_watcher_event(&Event::Init);
    for name in names {
        let mut map = ConfigMap::default();
        let (namespace, name) = name.split_once('/').unwrap_or(("n", *name));
        map.metadata.name = Some(name.to_owned());
        map.metadata.namespace = Some(namespace.to_owned());
        sender.unbounded_send(ObjectRef::from_obj(&map)).unwrap();
        writer.apply_watcher_event(&Event::InitApply(map));
    }
    writer.apply_watcher_event(&Event::InitDone);
    let stop = CancellationToken::new();
    let reconciler = Arc::new(ByName { passes: AtomicUsize::new(0), limit, shown: std::sync::Mutex::default(), stop: stop.clone() });
    let (metrics, _) = Metrics::new();
    run("test", reconciler.clone(), reader, receiver, metrics.clone(), stop).await;
    let mut shown = reconciler.shown.lock().unwrap().clone();
    shown.sort_unstable();
    (shown, metrics)
}

fn count(metrics: &Metrics, result: &'static str) -> u64 {
    metrics.passes.get_or_create(&Pass { controller: "test", result }).get()
}

#[tokio::test(start_paused = true)]
async fn a_panic_a_failure_and_a_hang_are_shown_and_stop_nobody() {
    let (shown, metrics) = run_over(&["panics", "fails", "hangs", "works"], 4).await;
    assert_eq!(shown, ["fails: no luck", "hangs: the pass took longer than 30s", "panics: the pass panicked: on purpose"]);
    assert_eq!(count(&metrics, "ok"), 1);
    assert_eq!(count(&metrics, "NoLuck"), 1);
    assert_eq!(count(&metrics, "Panicked"), 1);
    assert_eq!(count(&metrics, "TookTooLong"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_tried_again() {
    let (shown, _) = run_over(&["fails"], 3).await;
    assert_eq!(shown.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_full_of_hanging_resources_keeps_no_other_waiting() {
    let hanging: Vec<String> = (0..100).map(|index| format!("bad/hangs-{index}")).collect();
    let names: Vec<&str> = hanging.iter().map(String::as_str).chain(["good/works"]).collect();
    // Four of the bad namespace run at a time, and the good one's.
    let (_, metrics) = run_over(&names, 5).await;
    assert_eq!(count(&metrics, "ok"), 1);
}
