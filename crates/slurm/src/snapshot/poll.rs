//! Reads of each table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::jobs::Jobs;
use super::keeper::Keeper;
use super::queue::Ended;
use crate::name::NodeName;
use crate::rest::RestError;
use crate::rest::kept::Kept;
use crate::rest::list::Gated;
use crate::rest::model::Node;

/// Maximum number of nodes that are read singly at a time.
const SINGLY: usize = 16;
/// Gates that missed a change are not used for ten minutes, twice as long each time, up to this many doublings: most of a day.
const MAX_DOUBLINGS: u32 = 7;
impl Keeper {
    /// Reads the nodes, fully only if something changed.
    pub(super) async fn read_nodes(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let since = self.gates.nodes.filter(|_| self.gates.are_trusted());
        let mut kept = Kept::default();
        let gated = self.client.nodes(since, |node| kept.push(node)).await?;
        let fresh = kept.finish()?;
        self.due.nodes = started + self.pace.nodes.saturating_sub(self.nodes_took).max(self.pace.nodes / 4);
        self.due.look = self.due.nodes;
        let Gated::Whole { gate, bytes } = gated else {
            self.snapshot.nodes.at = Some(started);
            return if self.due.audit <= started { self.audit_gate().await } else { Ok(()) };
        };
        self.nodes_took = started.elapsed();
        let before = Arc::clone(&self.snapshot.nodes.table);
        self.take_nodes(fresh, started).await?;
        // While nodes are missing, the next read must be a full one.
        self.gates.nodes = gate.filter(|_| self.snapshot.nodes.table.missing == 0);
        let allowed_after = self.allowance.spend(bytes, started);
        self.due.nodes = started + self.wait_for_nodes(allowed_after);
        self.due.look = started + self.pace.nodes;
        // Where no node is busy and none was, no job has started or ended.
        self.queue.is_outdated |= before.is_any_busy() || self.snapshot.nodes.table.is_any_busy();
        self.due.audit = self.due.audit.min(started + self.pace.share_of(self.nodes_took).max(self.pace.confirm));
        Ok(())
    }

    /// Wait after a full read of the nodes. A new job must be seen soon, so a large table is read often while it changes, unless new jobs can be looked
    /// for in another way; but rarely while gates cannot be trusted and each read is a full one, unless nodes are missing, because nothing can be decided
    /// then.
    fn wait_for_nodes(&self, allowed_after: Duration) -> Duration {
        let (took, pace) = (self.nodes_took, self.pace.nodes);
        let is_urgent = self.snapshot.nodes.table.missing > 0;
        if self.gates.are_trusted() || is_urgent {
            let soon = pace.saturating_sub(took).max(took * 2);
            if self.can_look_for_jobs() && !is_urgent { soon.max(allowed_after) } else { soon }
        } else {
            self.pace.without_gates.max(self.pace.share_of(took))
        }
    }

    /// Stores a list, after checking if the nodes missing from it are really gone.
    async fn take_nodes(&mut self, fresh: Vec<Node>, read_at: Instant) -> Result<(), RestError> {
        let mut nodes = self.snapshot.nodes.table.updated(fresh, read_at);
        let listed: BTreeSet<String> = nodes.iter().map(|node| node.name.clone()).collect();
        let mut gone: Vec<String> = self.known.difference(&listed).cloned().collect();
        self.known.extend(listed);
        if gone.is_empty() {
            self.loss_since = None;
        } else if gone.len() <= SINGLY {
            for name in std::mem::take(&mut gone) {
                match self.look_again(&name).await {
                    Ok(None) => drop(self.known.remove(&name)),
                    Ok(Some(node)) => {
                        // Slurm has it, so the list was incomplete: nodes that we never knew may be missing too.
                        nodes = nodes.with(vec![node], read_at);
                        gone.push(name);
                    }
                    Err(error) => {
                        gone.push(name);
                        tracing::debug!(%error, "cannot query a missing node");
                    }
                }
            }
        } else {
            let since = *self.loss_since.get_or_insert(read_at);
            if read_at.duration_since(since) >= self.pace.believe_loss && self.are_lost(&gone).await? {
                tracing::warn!(count = gone.len(), "nodes disappeared from Slurm");
                for name in gone.drain(..) {
                    self.known.remove(&name);
                }
                self.loss_since = None;
            }
        }
        nodes.missing = gone.len();
        if nodes.missing > 0 {
            tracing::warn!(missing = nodes.missing, listed = nodes.len(), "nodes are missing in Slurm's list");
        }
        self.snapshot.nodes.at = Some(read_at);
        let same = nodes.missing == self.snapshot.nodes.table.missing && nodes.changes_since(&self.snapshot.nodes.table).is_empty();
        if !same {
            self.snapshot.nodes.table = Arc::new(nodes);
        }
        Ok(())
    }

    /// Reads one node, or `None` if Slurm has no record of it.
    async fn look_again(&self, name: &str) -> Result<Option<Node>, RestError> {
        let Ok(name) = NodeName::parse(name) else { return Ok(None) };
        match self.client.node(&name).await {
            Ok(node) => Ok(Some(node)),
            Err(RestError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// True if Slurm has no record of any node in a sample.
    async fn are_lost(&self, names: &[String]) -> Result<bool, RestError> {
        let step = names.len().div_ceil(SINGLY);
        for name in names.iter().step_by(step.max(1)) {
            if self.look_again(name).await?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Checks the server's report that nothing changed.
    async fn audit_gate(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let mut kept = Kept::default();
        let whole = self.client.nodes(None, |node| kept.push(node)).await?;
        let fresh = kept.finish()?;
        self.due.audit = started + self.pace.audit;
        let told = |node: &Node| (node.name.clone(), node.state.clone(), node.reason.clone(), node.comment.clone());
        // A missing node proves nothing about the gate: Slurm does not always count a deletion as a change.
        let table = Arc::clone(&self.snapshot.nodes.table);
        let differs = fresh.iter().any(|node| table.get(&node.name).map(told) != Some(told(node)));
        if differs {
            // It may have changed between the two requests. Then the gate reports it now.
            let again = self.client.nodes(self.gates.nodes, |_| ()).await?;
            if again == Gated::Unchanged {
                let pause = self.pace.audit * 2 * (1 << self.gates.untruths.min(MAX_DOUBLINGS));
                tracing::warn!(
                    ?pause,
                    "slurmrestd says that nothing changed although something did: everything is read each time for a while"
                );
                self.gates.untruths += 1;
                self.gates.distrusted_until = Some(started + pause);
                self.due.audit = started + pause;
            }
        }
        if let Gated::Whole { gate, .. } = whole {
            self.take_nodes(fresh, started).await?;
            self.gates.nodes = gate.filter(|_| self.snapshot.nodes.table.missing == 0);
        }
        // The queue has the same weakness and no audit of its own.
        self.gates.jobs = None;
        self.queue.read_again();
        Ok(())
    }

    /// Makes the queue due if its nodes changed.
    pub(super) fn note_outdated_queue(&mut self) {
        if self.queue.is_outdated && !self.queue.is_being_read() {
            let earliest = self.queue.earliest(self.snapshot.is_queue_needed());
            self.due.jobs = self.due.jobs.min(earliest.max(Instant::now()));
        }
    }

    pub(super) fn begin_queue(&mut self) {
        let since = self.gates.jobs.filter(|_| self.gates.are_trusted());
        self.due.jobs = Instant::now() + self.pace.jobs;
        self.queue.begin(Arc::clone(&self.client), since);
    }

    /// Stores what a read brought.
    pub(super) fn take_queue(&mut self, ended: Ended) {
        let Ended { started, took, outcome } = ended;
        let bytes = outcome.as_ref().ok().and_then(|(gated, _)| gated.bytes());
        self.queue.note_cost(started, took, bytes, &self.pace);
        self.due.jobs = self.due.jobs.max(self.queue.earliest(false));
        self.snapshot.queue_good_for = self.pace.good_for + self.queue.interval() * 2;
        let outcome = outcome.map(|(gated, jobs)| {
            self.snapshot.jobs.at = Some(started);
            if let Gated::Whole { gate, .. } = gated {
                self.gates.jobs = gate;
                if !jobs.iter().eq(self.snapshot.jobs.table.iter()) {
                    self.snapshot.jobs.table = Arc::new(Jobs::of(jobs));
                }
            }
        });
        if let Some(later) = self.queue.failing.note(outcome, started, &self.pace) {
            self.due.jobs = later;
            self.queue.put_off(later);
        }
        self.note_trouble();
    }

    pub(super) async fn read_reservations(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let since = self.gates.reservations.filter(|_| self.gates.are_trusted());
        let mut kept = Kept::default();
        let gated = self.client.reservations(since, |reservation| kept.push(reservation)).await?;
        let reservations = kept.finish()?;
        self.due.reservations = started + self.pace.reservations;
        self.snapshot.reservations.at = Some(started);
        if let Gated::Whole { gate, .. } = gated {
            self.gates.reservations = gate;
            if reservations != *self.snapshot.reservations.table {
                self.snapshot.reservations.table = Arc::new(reservations);
            }
        }
        Ok(())
    }
}
