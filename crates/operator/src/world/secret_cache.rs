//! Contents of Secrets that resources refer to, as hashes.
//!
//! The operator may read a Secret by name, but neither list nor watch them: that right would reveal every Secret of the cluster. So a change is noticed by
//! reading again, from time to time and whenever a resource that names the Secret changes.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use tokio::time::Instant;

use super::secret::{Content, SecretDigest};

/// Time after which a Secret is read again. A hundred clusters with two Secrets each make 40 reads a minute.
pub(crate) const GOOD_FOR: Duration = Duration::from_mins(5);

/// Contents that were read, and the state in which those who asked were seen.
#[derive(Default)]
pub(crate) struct SecretCache(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// By namespace and name.
    contents: HashMap<(String, String), Read>,
    /// By UID.
    askers: HashMap<String, Asker>,
}

struct Read {
    at: Instant,
    content: Content,
}

struct Asker {
    edition: Edition,
    since: Instant,
    last_asked: Instant,
}

/// Parts of a resource that users change.
#[derive(PartialEq, Eq)]
struct Edition {
    generation: Option<i64>,
    annotations: Option<BTreeMap<String, String>>,
}

impl SecretCache {
    /// Content of a Secret, or `None` if it does not exist. One that lacks the key that is asked for is always read again.
    pub(crate) async fn get(
        &self,
        client: &Client,
        asker: &ObjectMeta,
        (namespace, name, key): (&str, &str, &str),
    ) -> Result<Option<Content>, kube::Error> {
        let now = Instant::now();
        if let Some(content) = self.known().content(asker, (namespace, name), now).filter(|content| content.values.contains_key(key)) {
            return Ok(Some(content));
        }
        let secrets: Api<SecretDigest> = Api::namespaced(client.clone(), namespace);
        let found = secrets.get_opt(name).await?.map(|secret| secret.content);
        self.known().keep((namespace, name), found.as_ref(), now);
        Ok(found)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    /// Content of a Secret, if it was read after the last change of the asker and is not too old.
    fn content(&mut self, asker: &ObjectMeta, (namespace, name): (&str, &str), now: Instant) -> Option<Content> {
        let edition = Edition { generation: asker.generation, annotations: asker.annotations.clone() };
        let known = self.askers.entry(asker.uid.clone().unwrap_or_default());
        let asker =
            known.or_insert_with(|| Asker { edition: Edition { generation: None, annotations: None }, since: now, last_asked: now });
        if asker.edition != edition {
            (asker.edition, asker.since) = (edition, now);
        }
        asker.last_asked = now;
        let read = self.contents.get(&(namespace.to_owned(), name.to_owned()))?;
        (read.at >= asker.since && now.duration_since(read.at) < GOOD_FOR).then(|| read.content.clone())
    }

    /// Stores the result of a read, and drops contents and askers that were not used lately.
    fn keep(&mut self, (namespace, name): (&str, &str), found: Option<&Content>, at: Instant) {
        self.contents.retain(|_, read| at.saturating_duration_since(read.at) < GOOD_FOR);
        self.askers.retain(|_, asker| at.saturating_duration_since(asker.last_asked) < GOOD_FOR);
        let place = (namespace.to_owned(), name.to_owned());
        match found {
            Some(content) => drop(self.contents.insert(place, Read { at, content: content.clone() })),
            None => drop(self.contents.remove(&place)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACE: (&str, &str) = ("slurm", "keys");

    fn asker(uid: &str, generation: i64, note: &str) -> ObjectMeta {
        let annotations = Some(BTreeMap::from([("example.org/note".to_owned(), note.to_owned())]));
        ObjectMeta { uid: Some(uid.to_owned()), generation: Some(generation), annotations, ..ObjectMeta::default() }
    }

    fn content(hash: &str) -> Content {
        Content { values: BTreeMap::new(), hash: hash.to_owned() }
    }

    #[test]
    fn a_secret_is_read_once_for_all_who_name_it_until_one_of_them_changes_or_it_is_old() {
        let (mut known, mut now) = (Known::default(), Instant::now());
        let mut asks = |known: &mut Known, asker: &ObjectMeta, later: u64| {
            now += Duration::from_secs(later);
            let is_read = known.content(asker, PLACE, now).is_none();
            if is_read {
                known.keep(PLACE, Some(&content("a")), now);
            }
            is_read
        };
        assert!(asks(&mut known, &asker("1", 1, "a"), 0), "nothing is known");
        assert!(!asks(&mut known, &asker("1", 1, "a"), 10));
        assert!(asks(&mut known, &asker("2", 1, "a"), 10), "who is new may know of a change");
        assert!(!asks(&mut known, &asker("2", 1, "a"), 10) && !asks(&mut known, &asker("1", 1, "a"), 0));
        assert!(asks(&mut known, &asker("1", 2, "a"), 10) && asks(&mut known, &asker("1", 2, "b"), 10), "it changed");
        assert!(!asks(&mut known, &asker("2", 1, "a"), 10));
        assert!(asks(&mut known, &asker("2", 1, "a"), GOOD_FOR.as_secs()), "it is old");
    }

    #[test]
    fn what_is_gone_is_not_kept_and_what_nobody_asks_for_is_forgotten() {
        let (mut known, now) = (Known::default(), Instant::now());
        known.content(&asker("1", 1, "a"), PLACE, now);
        known.keep(PLACE, Some(&content("a")), now);
        known.keep(PLACE, None, now);
        assert!(known.contents.is_empty());
        known.keep(PLACE, Some(&content("a")), now);
        known.keep(("slurm", "other"), Some(&content("a")), now + GOOD_FOR);
        assert_eq!((known.contents.len(), known.askers.len()), (1, 0));
    }
}
