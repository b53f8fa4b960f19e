//! What we wrote and the caches do not show yet.
//!
//! Right after a write the cache is often still older. Without this a second pass in that moment would write everything again.

use std::{
    collections::{BTreeMap, HashMap},
    hash::Hash,
    mem::Discriminant,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_api::child::ChildKey;
use slipway_plan::{
    Marks,
    drift::Accepted,
    finding::Finding,
    nodeset::{Hold, Keeper, NodeAttribute, Revision, Slot, ReplacementBackoff},
};
use slipway_slurm::registration::Inputs;

/// After this time a write that the cache does not show counts as undone.
pub(crate) const BELIEVED_FOR: Duration = Duration::from_secs(30);

/// Forgetting costs at most one needless write per object, so there is no need to keep more than this.
const MOST: usize = 20_000;

/// Writes of this process.
#[derive(Default)]
pub(crate) struct Memory {
    /// Children, and what the server made of them.
    pub(crate) children: Map<ChildKey, Accepted>,
    /// Status, by `kind/namespace/name`.
    pub(crate) statuses: Map<String, SentStatus>,
    /// What there was to say about objects at the last look, by `kind/namespace/name`. A pass that fails later still says it.
    pub(crate) findings: Map<String, Vec<Finding>>,
    /// Worker pods that were created, by the UID of their NodeSet and their name.
    pub(crate) created: Map<(String, String), Created>,
    /// Pods that were deleted, by UID.
    pub(crate) deleted: Map<String, Timestamp>,
    /// Pods that were adopted, by UID, with the UID of their NodeSet.
    pub(crate) adopted: Map<String, (String, Timestamp)>,
    /// Claims that were given an owner, by UID, with who that is.
    pub(crate) kept: Map<String, Sent<Keeper>>,
    /// Claims without our labels that were found to be on their way out, by namespace and name.
    pub(crate) going_claims: Map<(String, String), Timestamp>,
    /// Claims that were said to be somebody else's, by UID.
    pub(crate) conflicts: Map<String, ()>,
    /// Pods that were marked, by UID, and how.
    pub(crate) marked: Map<String, Sent<Marks>>,
    /// Conditions that were written on pods, by UID.
    pub(crate) conditions: Map<String, Sent<BTreeMap<String, PodCondition>>>,
    /// Pods that are about to be marked as busy, by UID, since when: the budget counts them before they are.
    pub(crate) protected: Map<String, Timestamp>,
    /// Whose turn it is to count the busy pods of a Controller and to write that number down, by `namespace/name`.
    pub(crate) budgets: Map<String, Arc<tokio::sync::Mutex<()>>>,
    /// Comments that were left for nodes, by `namespace/controller/node`.
    pub(crate) described: Map<String, (String, Timestamp)>,
    /// Where Slurm was told that nodes are, or what they have, by `namespace/controller/node` and which of the two.
    pub(crate) attributes_set: Map<(String, Discriminant<NodeAttribute>), (NodeAttribute, Timestamp)>,
    /// How often Slurm was made to read its configuration so that nodes change partitions, by `namespace/controller` and by that and the NodeSet.
    pub(crate) moves: Map<String, Repeats>,
    /// Since when a node has responded to slurmctld, or not, likewise. One that was never seen silent is not here.
    pub(crate) responses: Map<String, Response>,
    /// When Slurm was last asked to forget nodes, by the UID of their NodeSet.
    pub(crate) forgotten: Map<String, Timestamp>,
    /// What Slurm was told about nodes, by `namespace/controller/node`.
    pub(crate) told: Map<String, Told>,
    /// What the last pod of a node told slurmctld about it, likewise.
    pub(crate) inputs: Map<String, Inputs>,
    /// Workers that had to be replaced, by the UID of their NodeSet.
    pub(crate) backoff: Map<String, ReplacementBackoff>,
    /// The template that was last stored, by the UID of its NodeSet.
    pub(crate) stored: Map<String, (Revision, Timestamp)>,
    /// The configuration that each Controller wants, by `namespace/name`.
    pub(crate) wanted: Map<String, Wanted>,
    /// What was found in the configuration that is published, likewise: it is the same at every look, and looking costs time.
    pub(crate) checked: Map<String, Checked>,
    /// How often a configuration was passed on again to workers, by the Controller's `namespace/name`.
    pub(crate) repeats: Map<String, Repeats>,
    /// How often slurmctld's pods were told again of a configuration, likewise.
    pub(crate) nudges: Map<String, Repeats>,
    /// The last configuration that was published, likewise, and when.
    pub(crate) published: Map<String, (String, Timestamp)>,
}

/// A worker pod that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Created {
    pub(crate) slot: Slot,
    pub(crate) hostname: String,
    pub(crate) at: Timestamp,
}

/// What was written to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent<T> {
    pub(crate) what: T,
    /// The version of the object that this made.
    pub(crate) version: Option<String>,
    pub(crate) at: Timestamp,
}

impl<T> Sent<T> {
    /// Whether a cache that has `cached` as the object's version is older than this. Versions are numbers that only grow.
    pub(crate) fn is_unseen(&self, cached: Option<&str>, now: Timestamp) -> bool {
        let number = |version: Option<&str>| version?.parse::<u64>().ok();
        let is_seen = number(cached).zip(number(self.version.as_deref())).is_some_and(|(cached, made)| cached >= made);
        !is_seen && is_recent(self.at, now)
    }
}

impl<T: Clone> Map<String, Sent<T>> {
    /// What was written to an object, as long as a cache that has `cached` as its version is older than that.
    pub(crate) fn unseen(&self, uid: &str, cached: Option<&str>, now: Timestamp) -> Option<T> {
        let uid = uid.to_owned();
        let sent = self.get(&uid)?;
        if sent.is_unseen(cached, now) {
            return Some(sent.what);
        }
        self.remove(&uid);
        None
    }
}

/// A condition of a pod that is `True`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodCondition {
    pub(crate) message: String,
    pub(crate) since: Timestamp,
}

impl PodCondition {
    /// As the API server reads it.
    pub(crate) fn body(&self, type_: &str) -> Value {
        let mut body = json!({ "type": type_, "status": "True", "lastTransitionTime": self.since.to_string() });
        if !self.message.is_empty() {
            body["message"] = self.message.as_str().into();
        }
        body
    }
}

/// Whether a node responds to slurmctld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) responds: bool,
    pub(crate) since: Timestamp,
}

impl Map<String, Response> {
    /// Since when a node has responded, or not, as it does now; `None` where it was never seen to do otherwise.
    pub(crate) fn since(&self, node: &str, responds: bool, now: Timestamp) -> Option<Timestamp> {
        match self.get(&node.to_owned()) {
            Some(known) if known.responds == responds => Some(known.since),
            None if responds => None,
            _ => {
                self.insert(node.to_owned(), Response { responds, since: now });
                Some(now)
            }
        }
    }
}

/// What Slurm was told about a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) hold: Hold,
    /// Without our prefix, where it is a drain.
    pub(crate) reason: Option<String>,
    pub(crate) at: Timestamp,
}

/// Findings about one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) hash: String,
    pub(crate) doubts: Vec<String>,
}

/// A configuration, and since when it has been wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) hash: String,
    pub(crate) since: Timestamp,
    /// Since when something else than what is published has been wanted.
    pub(crate) differs_since: Timestamp,
}

impl Wanted {
    /// What is wanted now, after `before`.
    pub(crate) fn after(before: Option<Self>, hash: &str, published: Option<&str>, now: Timestamp) -> Self {
        let since = before.as_ref().filter(|before| before.hash == hash).map_or(now, |before| before.since);
        let differs_since = match before {
            Some(before) if published != Some(hash) => before.differs_since,
            _ => now,
        };
        Self { hash: hash.to_owned(), since, differs_since }
    }
}

/// Repetitions of one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeats {
    pub(crate) hash: String,
    pub(crate) count: u32,
    pub(crate) last: Timestamp,
}

impl Map<String, Repeats> {
    /// Counts one more repetition of `hash`.
    pub(crate) fn count(&self, key: &str, hash: &str, now: Timestamp) {
        let before = self.of(key, hash).map_or(0, |repeats| repeats.count);
        self.insert(key.to_owned(), Repeats { hash: hash.to_owned(), count: before + 1, last: now });
    }

    /// The repetitions of `hash`.
    pub(crate) fn of(&self, key: &str, hash: &str) -> Option<Repeats> {
        self.get(&key.to_owned()).filter(|repeats| repeats.hash == hash)
    }
}

/// A status that we sent.
#[derive(Clone)]
pub(crate) struct SentStatus {
    /// Version of the object that the cache showed when we wrote.
    pub(crate) before: Option<String>,
    pub(crate) status: Value,
    pub(crate) at: Timestamp,
}

/// Whether a write at `at` can still be on its way to the cache.
pub(crate) fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() < BELIEVED_FOR
}

/// A map behind a lock, of bounded size.
pub(crate) struct Map<K, V>(Mutex<HashMap<K, V>>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Mutex::new(HashMap::new()))
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Map<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        self.lock().get(key).cloned()
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let mut map = self.lock();
        if map.len() >= MOST {
            map.clear();
        }
        map.insert(key, value);
    }

    /// The value of a key; a new one where there is none.
    pub(crate) fn get_or_default(&self, key: &K) -> V
    where
        V: Default,
    {
        self.lock().entry(key.clone()).or_default().clone()
    }

    pub(crate) fn remove(&self, key: &K) {
        self.lock().remove(key);
    }

    /// The entries that `keep` wants; the others are dropped.
    pub(crate) fn sweep(&self, mut keep: impl FnMut(&K, &V) -> bool) -> Vec<K> {
        let mut map = self.lock();
        map.retain(|key, value| keep(key, value));
        map.keys().cloned().collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn after(seconds: u64) -> Timestamp {
        NOW + Duration::from_secs(seconds)
    }

    #[rstest]
    #[case::older(Some("12"), Some("9"), 1, true)]
    #[case::that_very_one(Some("12"), Some("12"), 1, false)]
    #[case::newer(Some("12"), Some("100"), 1, false)]
    #[case::older_for_too_long(Some("12"), Some("9"), 31, false)]
    #[case::no_answer(None, Some("100"), 1, true)]
    #[case::no_number(Some("a"), Some("b"), 1, true)]
    fn a_write_is_believed_until_the_cache_shows_it(
        #[case] made: Option<&str>,
        #[case] cached: Option<&str>,
        #[case] later: u64,
        #[case] unseen: bool,
    ) {
        let map: Map<String, Sent<u8>> = Map::default();
        map.insert("u".to_owned(), Sent { what: 7, version: made.map(str::to_owned), at: NOW });
        assert_eq!(map.unseen("u", cached, after(later)), unseen.then_some(7));
        assert_eq!(map.get(&"u".to_owned()).is_some(), unseen, "what was seen is forgotten");
    }

    #[test]
    fn a_node_is_silent_or_back_since_that_was_first_seen() {
        let map: Map<String, Response> = Map::default();
        assert_eq!(map.since("w", true, after(0)), None, "it was never seen silent");
        assert_eq!(map.since("w", false, after(1)), Some(after(1)));
        assert_eq!(map.since("w", false, after(2)), Some(after(1)));
        assert_eq!(map.since("w", true, after(3)), Some(after(3)));
        assert_eq!(map.since("w", true, after(9)), Some(after(3)));
    }
}
