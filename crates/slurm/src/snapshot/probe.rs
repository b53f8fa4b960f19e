//! Single reads of the nodes that can get a job, between full reads of a large table that changes all the time.
//!
//! A job that starts on a node that was free must be seen within seconds, or its pod could be evicted. A node with a job is protected already, so the rest
//! of the table may be older.

use std::sync::Arc;

use tokio::time::Instant;

use super::keeper::Keeper;
use crate::name::NodeName;
use crate::rest::RestError;

/// Maximum number of nodes that are probed. For more, the whole table is read as often instead.
const MOST: usize = 256;

impl Keeper {
    /// True if the nodes that can get a job are few enough.
    pub(super) fn can_probe(&self) -> bool {
        self.snapshot.nodes.table.waiting().nth(MOST).is_none()
    }

    /// Reads each node that can get a job.
    pub(super) async fn probe(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        self.due.probe = started + self.pace.nodes;
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
        let probed = table.with(fresh, started);
        if !probed.changes_since(&table).is_empty() {
            self.queue.is_outdated = true;
            self.snapshot.nodes.table = Arc::new(probed);
        }
        Ok(())
    }
}
