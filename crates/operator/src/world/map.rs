//! A map behind a lock that drops unused entries.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// An entry that was neither written nor read for so long belongs to an object that is gone: reconciles read those of all others.
const UNUSED: Duration = Duration::from_mins(30);
/// Number of entries up to which nothing is forgotten.
const FEW: usize = 1_000;

/// Entries by key. Its size is bounded by the objects of the last half hour, however many there are.
pub(crate) struct Map<K, V>(Mutex<Inner<K, V>>);

struct Inner<K, V> {
    entries: HashMap<K, Entry<V>>,
    /// Number of entries at which the next look for unused ones is due.
    look_at: usize,
}

struct Entry<V> {
    value: V,
    used: Instant,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Mutex::new(Inner { entries: HashMap::new(), look_at: FEW }))
    }
}

impl<K: Eq + Hash, V> Inner<K, V> {
    /// Forgets unused entries, each time their number has doubled.
    fn make_room(&mut self, now: Instant) {
        if self.entries.len() >= self.look_at {
            self.entries.retain(|_, entry| now.duration_since(entry.used) < UNUSED);
            self.entries.shrink_to_fit();
            self.look_at = FEW.max(self.entries.len() * 2);
        }
    }
}

impl<K: Eq + Hash + Clone, V: Clone> Map<K, V> {
    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let mut map = self.lock();
        let entry = map.entries.get_mut(key)?;
        entry.used = Instant::now();
        Some(entry.value.clone())
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        let (mut map, used) = (self.lock(), Instant::now());
        map.make_room(used);
        map.entries.insert(key, Entry { value, used });
    }

    /// The value of a key. Inserts the default if there is none.
    pub(crate) fn get_or_default(&self, key: &K) -> V
    where
        V: Default,
    {
        let (mut map, used) = (self.lock(), Instant::now());
        map.make_room(used);
        let entry = map.entries.entry(key.clone()).or_insert_with(|| Entry { value: V::default(), used });
        entry.used = used;
        entry.value.clone()
    }

    pub(crate) fn remove(&self, key: &K) {
        self.lock().entries.remove(key);
    }

    /// Drops the entries that `keep` rejects. Returns the keys of the others.
    pub(crate) fn sweep(&self, mut keep: impl FnMut(&K, &V) -> bool) -> Vec<K> {
        let mut map = self.lock();
        map.entries.retain(|key, entry| keep(key, &entry.value));
        map.entries.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_used_stays_however_much_there_is_and_the_rest_is_forgotten() {
        let map: Map<usize, usize> = Map::default();
        (0..50_000).for_each(|key| map.insert(key, key));
        assert!((0..50_000).all(|key| map.get(&key) == Some(key)), "all of them are used");
        tokio::time::advance(UNUSED / 2).await;
        assert!((0..10).all(|key| map.get(&key).is_some()));
        tokio::time::advance(UNUSED / 2).await;
        (50_000..100_000).for_each(|key| map.insert(key, key));
        assert!((0..10).all(|key| map.get(&key).is_some()), "these are used");
        assert!(map.get(&10).is_none() && map.sweep(|_, _| true).len() == 50_010, "the others are not");
    }
}
