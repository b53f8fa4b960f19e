//! Turns of reconciles: so many at a time, shared fairly between namespaces.
//!
//! A namespace that has many resources, or whose Slurm makes each reconcile wait, gets only its share: the reconciles of others do not queue behind it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Reconciles of one kind that run concurrently, in all and in one namespace.
const IN_ALL: usize = 16;
const IN_ONE: usize = 4;

/// The turns of one kind.
pub(crate) struct Turns {
    all: Arc<Semaphore>,
    by_namespace: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A turn; the next one follows when it is dropped.
pub(crate) struct Turn {
    _of_all: Option<OwnedSemaphorePermit>,
    _of_namespace: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { all: Arc::new(Semaphore::new(IN_ALL)), by_namespace: Mutex::default() }
    }

    /// Waits for a turn, first behind others of the namespace, then behind those of all namespaces.
    pub(crate) async fn take(&self, namespace: &str) -> Turn {
        // Neither semaphore is ever closed, so there is always a permit eventually.
        let of_namespace = self.of_namespace(namespace).acquire_owned().await.ok();
        let of_all = Arc::clone(&self.all).acquire_owned().await.ok();
        Turn { _of_all: of_all, _of_namespace: of_namespace }
    }

    fn of_namespace(&self, namespace: &str) -> Arc<Semaphore> {
        let mut known = self.by_namespace.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = known.get(namespace) {
            return Arc::clone(turns);
        }
        // Permits and those who wait for one hold a reference.
        known.retain(|_, turns| Arc::strong_count(turns) > 1);
        Arc::clone(known.entry(namespace.to_owned()).or_insert_with(|| Arc::new(Semaphore::new(IN_ONE))))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_namespace_has_its_share_and_all_together_theirs() {
        let turns = Turns::new();
        let mut taken = Vec::new();
        for _ in 0..IN_ONE {
            taken.push(turns.take("greedy").await);
        }
        assert!(turns.take("greedy").now_or_never().is_none());
        for index in 0..IN_ALL - IN_ONE {
            taken.push(turns.take(&format!("n{index}")).now_or_never().unwrap());
        }
        assert!(turns.take("late").now_or_never().is_none());
        taken.clear();
        assert!(turns.take("greedy").now_or_never().is_some() && turns.take("late").now_or_never().is_some());
        assert!(turns.take("another").now_or_never().is_some());
        assert_eq!(turns.by_namespace.lock().unwrap().len(), 1, "idle namespaces are forgotten");
    }
}
