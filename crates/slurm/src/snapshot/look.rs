//! Looks for new jobs between full reads of a large table that changes all the time.
//!
//! A job that starts on a node that was free must be seen within seconds, or its pod could be evicted. A node with a job is protected already, so the rest
//! of the table may be older.

use std::sync::Arc;

use tokio::time::Instant;

use super::keeper::Keeper;
use crate::name::NodeName;
use crate::rest::RestError;

/// Maximum number of nodes that are read singly.
const MOST: usize = 256;

impl Keeper {
    /// True if new jobs show without reading all nodes: in a small queue, or in those nodes that can get one, if they are few.
    pub(super) fn can_look_for_jobs(&self) -> bool {
        self.queue.is_small() || self.snapshot.nodes.table.waiting().nth(MOST).is_none()
    }

    /// Makes the queue due if it is small, or reads each node that can get a job.
    pub(super) async fn look_for_jobs(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        self.due.look = started + self.pace.nodes;
        if self.queue.is_small() {
            self.due.jobs = self.due.jobs.min(self.queue.earliest(true).max(started));
            return Ok(());
        }
        let table = Arc::clone(&self.snapshot.nodes.table);
        let mut fresh = Vec::new();
        for name in table.waiting().filter_map(|node| NodeName::parse(&node.name).ok()) {
            match self.client.node(&name).await {
                Ok(node) if node.name == name.as_str() => fresh.push(node),
                // The whole table decides if it is gone.
                Ok(_) | Err(RestError::NotFound { .. }) => self.due.nodes = started,
                Err(error) => return Err(error),
            }
        }
        let looked_at = table.with(fresh, started);
        if !looked_at.changes_since(&table).is_empty() {
            self.queue.is_outdated = true;
            self.snapshot.nodes.table = Arc::new(looked_at);
        }
        Ok(())
    }
}
