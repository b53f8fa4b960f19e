//! Writes of ours that the caches do not show yet.
//!
//! Right after a write the cache is often stale. Without this, a second reconcile in that moment would repeat every write.

use std::{collections::BTreeMap, mem::Discriminant, sync::Arc, time::Duration};

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_api::child::ChildKey;
use slipway_plan::{
    Marks,
    drift::Accepted,
    finding::Finding,
    nodeset::{Hold, Keeper, NodeAttribute, ReplacementBackoff, Revision, Slot},
};
use slipway_slurm::registration::Inputs;

use super::map::Map;

/// After this time a write that the cache does not show counts as undone.
pub(crate) const BELIEVED_FOR: Duration = Duration::from_secs(30);

/// Writes and observations of this process.
#[derive(Default)]
pub(crate) struct Memory {
    /// Children, with the server's response to our last apply.
    pub(crate) children: Map<ChildKey, Accepted>,
    /// Statuses, by `kind/namespace/name`.
    pub(crate) statuses: Map<String, SentStatus>,
    /// Latest findings about objects, by `kind/namespace/name`. A reconcile that fails later still reports them.
    pub(crate) findings: Map<String, Vec<Finding>>,
    /// Created worker pods, by the UID of their NodeSet and their name.
    pub(crate) created: Map<(String, String), Created>,
    /// Size of the next batch of creations, by the UID of the NodeSet, and when the last one succeeded.
    pub(crate) batches: Map<String, (usize, Timestamp)>,
    /// Deleted pods, by UID.
    pub(crate) deleted: Map<String, Timestamp>,
    /// Adopted pods, by UID, with the UID of their NodeSet.
    pub(crate) adopted: Map<String, (String, Timestamp)>,
    /// Claims that were given an owner, by UID, with that owner.
    pub(crate) kept: Map<String, Sent<Keeper>>,
    /// Claims without our labels that were found terminating, by namespace and name.
    pub(crate) going_claims: Map<(String, String), Timestamp>,
    /// Claims that were reported as controlled by someone else, by UID.
    pub(crate) conflicts: Map<String, ()>,
    /// Labels and annotations that were written to pods, by UID.
    pub(crate) marked: Map<String, Sent<Marks>>,
    /// Conditions that were written to pods, by UID.
    pub(crate) conditions: Map<String, Sent<BTreeMap<String, PodCondition>>>,
    /// Pods about to be marked as busy, by UID, and since when: the budget counts them before they are marked.
    pub(crate) protected: Map<String, Timestamp>,
    /// Locks for counting a Controller's busy pods and writing that number to the budget, by `namespace/name`.
    pub(crate) budgets: Map<String, Arc<tokio::sync::Mutex<()>>>,
    /// Comments that were set on Slurm nodes, by `namespace/controller/node`.
    pub(crate) described: Map<String, (String, Timestamp)>,
    /// Topology and features that were set on Slurm nodes, by `namespace/controller/node` and kind of attribute.
    pub(crate) attributes_set: Map<(String, Discriminant<NodeAttribute>), (NodeAttribute, Timestamp)>,
    /// Reconfigures of Slurm that move nodes to other partitions, counted by `namespace/controller` and by `namespace/controller/nodeset`.
    pub(crate) moves: Map<String, Repeats>,
    /// Since when a node has responded to slurmctld or not, by `namespace/controller/node`. A node that was never seen unresponsive is absent.
    pub(crate) responses: Map<String, Response>,
    /// Since when a job has been completing on a node, by `namespace/controller/node`.
    pub(crate) completing: Map<String, Timestamp>,
    /// Time of the last request to delete node records from Slurm, by the UID of their NodeSet.
    pub(crate) forgotten: Map<String, Timestamp>,
    /// Last state commands for Slurm nodes, by `namespace/controller/node`.
    pub(crate) told: Map<String, Told>,
    /// Inputs with which the last pod of a node registered, by `namespace/controller/node`.
    pub(crate) inputs: Map<String, Inputs>,
    /// Number of workers with lost jobs that the metric counts, by the UID of their NodeSet.
    pub(crate) with_lost_jobs: Map<String, i64>,
    /// Backoff of worker replacements, by the UID of the NodeSet.
    pub(crate) backoff: Map<String, ReplacementBackoff>,
    /// The revision that was last stored, by the UID of its NodeSet.
    pub(crate) stored: Map<String, (Revision, Timestamp)>,
    /// Desired configuration of each Controller, by `namespace/name`.
    pub(crate) wanted: Map<String, Wanted>,
    /// Check results of the published configuration, by `namespace/name`. They do not change, and the check takes time.
    pub(crate) checked: Map<String, Checked>,
    /// Number of times that a configuration was sent to workers again, by the Controller's `namespace/name`.
    pub(crate) repeats: Map<String, Repeats>,
    /// Number of times that slurmctld's pods were notified again of a configuration, by the Controller's `namespace/name`.
    pub(crate) nudges: Map<String, Repeats>,
    /// The last published configuration and its time of publication, by the Controller's `namespace/name`.
    pub(crate) published: Map<String, (String, Timestamp)>,
}

/// A created worker pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Created {
    pub(crate) slot: Slot,
    pub(crate) hostname: String,
    pub(crate) at: Timestamp,
}

/// A write to an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sent<T> {
    pub(crate) what: T,
    /// Version of the object after the write.
    pub(crate) version: Option<String>,
    pub(crate) at: Timestamp,
}

impl<T> Sent<T> {
    /// True if a cache that shows version `cached` of the object is older than this write. Versions are increasing numbers.
    pub(crate) fn is_unseen(&self, cached: Option<&str>, now: Timestamp) -> bool {
        let number = |version: Option<&str>| version?.parse::<u64>().ok();
        let is_seen = number(cached).zip(number(self.version.as_deref())).is_some_and(|(cached, made)| cached >= made);
        !is_seen && is_recent(self.at, now)
    }
}

impl<T: Clone> Map<String, Sent<T>> {
    /// The last write to an object, or `None` if a cache that shows version `cached` includes it or the write is no longer recent.
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

/// A pod condition with status `True`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodCondition {
    pub(crate) message: String,
    pub(crate) since: Timestamp,
}

impl PodCondition {
    /// The condition as JSON for the API server.
    pub(crate) fn body(&self, type_: &str) -> Value {
        let mut body = json!({ "type": type_, "status": "True", "lastTransitionTime": self.since.to_string() });
        if !self.message.is_empty() {
            body["message"] = self.message.as_str().into();
        }
        body
    }
}

/// Response state of a node to slurmctld.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub(crate) responds: bool,
    pub(crate) since: Timestamp,
}

impl Map<String, Response> {
    /// Since when the node has been in its current state; `None` if it responds and was never seen unresponsive.
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

/// The last state command for a Slurm node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) hold: Hold,
    /// Reason of a drain, without our prefix.
    pub(crate) reason: Option<String>,
    pub(crate) at: Timestamp,
}

/// Check result of one configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Checked {
    pub(crate) hash: String,
    pub(crate) doubts: Vec<String>,
}

/// A desired configuration, and since when it has been desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) hash: String,
    pub(crate) since: Timestamp,
    /// Since when the desired configuration has differed from the published one.
    pub(crate) differs_since: Timestamp,
}

impl Wanted {
    /// The desired configuration now, given the one `before`.
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

    /// The repetitions of `hash`, or `None` if there were none.
    pub(crate) fn of(&self, key: &str, hash: &str) -> Option<Repeats> {
        self.get(&key.to_owned()).filter(|repeats| repeats.hash == hash)
    }
}

/// A status that was sent.
#[derive(Clone)]
pub(crate) struct SentStatus {
    /// Version of the object that the cache showed when we wrote.
    pub(crate) before: Option<String>,
    pub(crate) status: Value,
    pub(crate) at: Timestamp,
}

/// True if a write at `at` may not be in the cache yet.
pub(crate) fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.duration_since(at).unsigned_abs() < BELIEVED_FOR
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
