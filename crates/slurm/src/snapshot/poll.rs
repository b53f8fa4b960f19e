//! Reads of each table.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::keeper::Keeper;
use super::table::{Jobs, Nodes};
use crate::name::NodeName;
use crate::rest::RestError;
use crate::rest::list::Gated;
use crate::rest::model::Node;

/// Maximum number of nodes that are read singly at a time.
const SINGLY: usize = 16;
/// Gates that missed a change are not used for ten minutes, twice as long each time, up to this many doublings: most of a day.
const MAX_DOUBLINGS: u32 = 7;
/// Full reads may take at most one part in this many of the time.
const SHARE: u32 = 20;

impl Keeper {
    /// Reads the nodes, fully only if something changed.
    pub(super) async fn read_nodes(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let since = self.gates.nodes.filter(|_| self.gates.are_trusted());
        let mut fresh = Vec::new();
        let gated = self.client.nodes(since, |node| fresh.push(node)).await?;
        self.due.nodes = started + self.pace.nodes;
        self.due.followed = self.due.nodes;
        let Gated::Whole { gate } = gated else {
            self.snapshot.nodes.at = Some(started);
            return if self.due.audit <= started { self.audit_gate().await } else { Ok(()) };
        };
        let took = started.elapsed();
        self.take_nodes(fresh, started).await?;
        // While nodes are missing, the next read must be a full one.
        self.gates.nodes = gate.filter(|_| self.snapshot.nodes.table.missing == 0);
        self.due.nodes = started + self.wait_after(took, self.pace.nodes);
        // Nodes change mostly because of a job.
        self.due.jobs = started;
        self.due.audit = self.due.audit.min(started + self.wait_after(took, self.pace.confirm));
        Ok(())
    }

    /// Wait after a full read, so that large tables are not read all the time. It is short while nodes are missing, because nothing can be decided
    /// then.
    fn wait_after(&self, took: Duration, pace: Duration) -> Duration {
        let is_urgent = self.snapshot.nodes.table.missing > 0;
        let pace = if self.gates.are_trusted() || is_urgent { pace } else { self.pace.without_gates.max(pace) };
        pace.max((took * SHARE).min(self.pace.good_for / 2))
    }

    /// Stores a list, after checking if the nodes missing from it are really gone.
    async fn take_nodes(&mut self, fresh: Vec<Node>, read_at: Instant) -> Result<(), RestError> {
        let mut nodes = self.snapshot.nodes.table.updated(fresh);
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
                        nodes = nodes.with(&name, Some(node));
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

    /// Reads the followed nodes.
    pub(super) async fn read_followed(&mut self, names: &BTreeSet<NodeName>) -> Result<(), RestError> {
        self.due.followed = Instant::now() + self.pace.nodes;
        let mut nodes = Nodes::clone(&self.snapshot.nodes.table);
        for name in names.iter().take(SINGLY) {
            match self.client.node(name).await {
                Ok(node) => {
                    self.known.insert(node.name.clone());
                    nodes = nodes.with(name.as_str(), Some(node));
                }
                Err(RestError::NotFound { .. }) => {
                    self.known.remove(name.as_str());
                    nodes = nodes.with(name.as_str(), None);
                }
                Err(error) => return Err(error),
            }
        }
        if !nodes.changes_since(&self.snapshot.nodes.table).is_empty() {
            self.snapshot.nodes.table = Arc::new(nodes);
            self.due.jobs = Instant::now();
        }
        Ok(())
    }

    /// Checks the server's report that nothing changed.
    async fn audit_gate(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let mut fresh = Vec::new();
        let whole = self.client.nodes(None, |node| fresh.push(node)).await?;
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
        if let Gated::Whole { gate } = whole {
            self.take_nodes(fresh, started).await?;
            self.gates.nodes = gate.filter(|_| self.snapshot.nodes.table.missing == 0);
        }
        // The queue has the same weakness and no audit of its own.
        self.gates.jobs = None;
        self.due.jobs = started;
        Ok(())
    }

    /// Reads the queue, without ended jobs.
    pub(super) async fn read_jobs(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let since = self.gates.jobs.filter(|_| self.gates.are_trusted());
        let mut jobs = Vec::new();
        let gated = self
            .client
            .jobs(since, |job| {
                if !job.job_state.is_terminal() {
                    jobs.push(job);
                }
            })
            .await?;
        self.due.jobs = started + self.wait_after(started.elapsed(), self.pace.jobs);
        self.snapshot.jobs.at = Some(started);
        if let Gated::Whole { gate } = gated {
            self.gates.jobs = gate;
            if !jobs.iter().eq(self.snapshot.jobs.table.iter()) {
                self.snapshot.jobs.table = Arc::new(Jobs::of(jobs));
            }
        }
        Ok(())
    }

    pub(super) async fn read_reservations(&mut self) -> Result<(), RestError> {
        let started = Instant::now();
        let since = self.gates.reservations.filter(|_| self.gates.are_trusted());
        let mut reservations = Vec::new();
        let gated = self.client.reservations(since, |reservation| reservations.push(reservation)).await?;
        self.due.reservations = started + self.pace.reservations;
        self.snapshot.reservations.at = Some(started);
        if let Gated::Whole { gate } = gated {
            self.gates.reservations = gate;
            if reservations != *self.snapshot.reservations.table {
                self.snapshot.reservations.table = Arc::new(reservations);
            }
        }
        Ok(())
    }
}
