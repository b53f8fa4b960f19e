//! Events on resources, as in `kubectl describe` and `kubectl get events`.
//!
//! Best effort, and cheap for the caller: [`Events::say`] decides at once, never blocks and never fails. One task sends. The same event about an
//! object is sent once until a different one follows, and the API server cannot be flooded: see [`limiter`].

mod limiter;

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::{
    api::{core::v1::ObjectReference, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::{Api, Client, api::PostParams};
use prometheus_client::{encoding::EncodeLabelSet, metrics::counter::Counter, metrics::family::Family};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{clock::Clock, failure::server_words};
use limiter::{Limiter, Verdict};

/// Maximum number of queued events. More are dropped: the next reconcile sends them again if they still apply.
const WAITING: usize = 256;
/// The server refuses longer notes.
const LONGEST_NOTE: usize = 1024;
/// An object's name may be as long as the event's own, which ends with a timestamp.
const LONGEST_NAME: usize = 230;
/// Time limit for sending queued events at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Type of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    Normal,
    /// Needs attention.
    Warning,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// Labels of an event that was to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct Outcome {
    /// `sent`, `limited`, `full` or `failed`; all but the first were dropped.
    pub outcome: &'static str,
}

/// Handle to send events about resources; cheap to clone, all clones share one limiter.
#[derive(Clone)]
pub struct Events {
    to_sender: mpsc::Sender<Box<Said>>,
    limiter: Arc<Mutex<Limiter>>,
    started: Instant,
    counted: Family<Outcome, Counter>,
}

/// Sends queued events; to be run as a task.
pub struct Sender {
    said: mpsc::Receiver<Box<Said>>,
    limiter: Arc<Mutex<Limiter>>,
    client: Client,
    clock: Arc<dyn Clock>,
    reporter: Reporter,
    counted: Family<Outcome, Counter>,
}

/// Source of the events.
#[derive(Clone, Debug)]
pub struct Reporter {
    /// `reportingController`.
    pub controller: &'static str,
    /// `reportingInstance`: the name of the pod.
    pub instance: String,
}

struct Said {
    about: ObjectReference,
    kind: Kind,
    reason: String,
    action: String,
    message: String,
}

impl Events {
    /// The handle for callers, and the task that sends.
    pub fn new(client: Client, clock: Arc<dyn Clock>, reporter: Reporter, counted: Family<Outcome, Counter>) -> (Self, Sender) {
        let (to_sender, said) = mpsc::channel(WAITING);
        let limiter = Arc::new(Mutex::new(Limiter::new()));
        let sender = Sender { said, limiter: limiter.clone(), client, clock, reporter, counted: counted.clone() };
        (Self { to_sender, limiter, started: Instant::now(), counted }, sender)
    }

    /// Queues an event about an object, unless it repeats the last one or the object has had too many.
    pub fn say(&self, about: &ObjectReference, kind: Kind, reason: &str, action: &str, message: &str) {
        let object = key(about);
        let words = [kind.as_str(), reason, action, message];
        let mut limiter = self.limiter.lock().unwrap_or_else(PoisonError::into_inner);
        match limiter.judge(&object, &words, self.started.elapsed()) {
            Verdict::Repeated => {}
            Verdict::TooMany => count(&self.counted, "limited"),
            Verdict::Send => {
                let said =
                    Said { about: about.clone(), kind, reason: reason.to_owned(), action: action.to_owned(), message: message.to_owned() };
                if self.to_sender.try_send(Box::new(said)).is_err() {
                    limiter.unsay(&object);
                    count(&self.counted, "full");
                }
            }
        }
    }
}

impl Sender {
    /// Sends until `stop`, then sends queued events for a short time.
    pub async fn run(mut self, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                said = self.said.recv() => match said {
                    Some(said) => self.send(*said).await,
                    // All handles are dropped. A task that ends by itself would end the process.
                    None => return stop.cancelled().await,
                },
            }
        }
        self.said.close();
        let rest = async {
            while let Some(said) = self.said.recv().await {
                self.send(*said).await;
            }
        };
        // Events left after that are lost, as events may be.
        let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, rest).await;
    }

    async fn send(&self, said: Said) {
        let namespace = said.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
        let object = key(&said.about);
        let event = self.event(said, &namespace);
        match Api::<Event>::namespaced(self.client.clone(), &namespace).create(&PostParams::default(), &event).await {
            Ok(_) => count(&self.counted, "sent"),
            Err(error) => {
                self.limiter.lock().unwrap_or_else(PoisonError::into_inner).unsay(&object);
                count(&self.counted, "failed");
                // The namespace may be terminating, with the object. In any case the resource's conditions report the same.
                tracing::debug!(namespace, error = server_words(&error), "could not send an event");
            }
        }
    }

    fn event(&self, said: Said, namespace: &str) -> Event {
        let Said { about, kind, reason, action, message } = said;
        let now = self.clock.now();
        let name = format!("{}.{:x}", shortened(about.name.as_deref().unwrap_or_default(), LONGEST_NAME), now.as_nanosecond());
        Event {
            metadata: ObjectMeta { name: Some(name), namespace: Some(namespace.to_owned()), ..ObjectMeta::default() },
            regarding: Some(about),
            type_: Some(kind.as_str().to_owned()),
            reason: Some(reason),
            action: Some(action),
            note: Some(shortened(&message, LONGEST_NOTE)),
            event_time: Some(MicroTime(now)),
            reporting_controller: Some(self.reporter.controller.to_owned()),
            reporting_instance: Some(self.reporter.instance.clone()),
            ..Event::default()
        }
    }
}

/// Key of an object. One that was deleted and recreated under its name gets another key.
fn key(about: &ObjectReference) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    match about.uid.as_deref() {
        Some(uid) if !uid.is_empty() => uid.to_owned(),
        _ => format!("{}/{}/{}", part(&about.kind), part(&about.namespace), part(&about.name)),
    }
}

fn count(counted: &Family<Outcome, Counter>, outcome: &'static str) {
    counted.get_or_create(&Outcome { outcome }).inc();
}

/// At most `longest` bytes of a text, cut between characters.
fn shortened(text: &str, longest: usize) -> String {
    text[..text.floor_char_boundary(longest)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(shortened("abc", 5), "abc");
        assert_eq!(shortened("aßc", 2), "a");
    }
}
