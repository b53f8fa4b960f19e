//! Slurm's nodes, by name.

use std::sync::Arc;

use tokio::time::Instant;

use crate::rest::model::Node;

/// Slurm's nodes.
#[derive(Clone, Debug, Default)]
pub struct Nodes {
    /// Sorted by name.
    list: Vec<Entry>,
    /// Nodes that disappeared from the list without confirmation.
    pub missing: usize,
}

#[derive(Clone, Debug)]
struct Entry {
    node: Arc<Node>,
    /// First read that showed it free after one that did not; `None` if it was always free.
    free_since: Option<Instant>,
}

impl Entry {
    /// The entry after another read. An unchanged record stays the same object, so that comparing two tables is cheap.
    fn next(before: Option<&Self>, node: Node, read_at: Instant) -> Self {
        match before {
            Some(before) if *before.node == node => before.clone(),
            Some(before) => {
                let was_free = is_free(&before.node);
                Self { node: Arc::new(node), free_since: if was_free { before.free_since } else { Some(read_at) } }
            }
            None => Self { node: Arc::new(node), free_since: None },
        }
    }
}

impl Nodes {
    /// A table with a new list.
    pub(super) fn updated(&self, fresh: Vec<Node>, read_at: Instant) -> Self {
        let mut list: Vec<Entry> = fresh.into_iter().map(|node| Entry::next(self.entry(&node.name), node, read_at)).collect();
        list.sort_by(|one, other| one.node.name.cmp(&other.node.name));
        list.dedup_by(|one, other| one.node.name == other.node.name);
        Self { list, missing: 0 }
    }

    /// A table with some records replaced or added.
    pub(super) fn with(&self, fresh: Vec<Node>, read_at: Instant) -> Self {
        let mut list = self.list.clone();
        for node in fresh {
            match list.binary_search_by(|known| known.node.name.cmp(&node.name)) {
                Ok(at) => list[at] = Entry::next(Some(&list[at]), node, read_at),
                Err(at) => list.insert(at, Entry::next(None, node, read_at)),
            }
        }
        Self { list, missing: self.missing }
    }

    pub fn get(&self, name: &str) -> Option<&Node> {
        self.entry(name).map(|entry| &*entry.node)
    }

    /// First read that showed the node free after one that did not; `None` if it was always free.
    pub(super) fn free_since(&self, name: &str) -> Option<Instant> {
        self.entry(name)?.free_since
    }

    fn entry(&self, name: &str) -> Option<&Entry> {
        self.list.binary_search_by(|entry| entry.node.name.as_str().cmp(name)).ok().map(|at| &self.list[at])
    }

    pub fn iter(&self) -> impl Iterator<Item = &Node> {
        self.list.iter().map(|entry| &*entry.node)
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// True if a job is on any node.
    pub(super) fn is_any_busy(&self) -> bool {
        self.iter().any(has_job)
    }

    /// Nodes without a job that can get one now.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Node> {
        self.iter().filter(|node| node.state.is_usable() && is_free(node))
    }

    /// Names of nodes that were added, removed or changed since the other table, sorted.
    pub fn changes_since(&self, before: &Self) -> Vec<String> {
        let (mut old, mut new) = (before.list.iter().peekable(), self.list.iter().peekable());
        let mut changed = Vec::new();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return changed,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(old), Some(new)) => old.node.name.cmp(&new.node.name),
            };
            let gone = if order.is_le() { old.next() } else { None };
            let come = if order.is_ge() { new.next() } else { None };
            match (gone, come) {
                (Some(one), Some(other)) if Arc::ptr_eq(&one.node, &other.node) || one.node == other.node => {}
                (Some(entry), _) | (None, Some(entry)) => changed.push(entry.node.name.clone()),
                (None, None) => return changed,
            }
        }
    }
}

/// True if the record shows a job.
pub(super) fn has_job(node: &Node) -> bool {
    node.state.is_busy() || node.alloc_cpus > 0
}

/// True if the record shows that no job runs. A suspended one does not show.
fn is_free(node: &Node) -> bool {
    node.state.is_clear() && !has_job(node)
}
