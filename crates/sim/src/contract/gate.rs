//! Promises about change gates, which the poller relies on.

use slipway_slurm::name::NodeName;
use slipway_slurm::rest::list::{Gate, Gated};
use slipway_slurm::rest::model::{JobSubmit, NodeUpdate};
use slipway_slurm::rest::{RestError, Version};

use super::bench::{Bench, eventually, fine, holds};

/// Tables that have a gate.
#[derive(Clone, Copy, Debug)]
enum Table {
    Nodes,
    Jobs,
    Partitions,
    Reservations,
}

async fn ask(bench: &Bench, table: Table, since: Option<Gate>) -> Result<Gated, RestError> {
    match table {
        Table::Nodes => bench.client.nodes(since, |_| ()).await,
        Table::Jobs => bench.client.jobs(since, |_| ()).await,
        Table::Partitions => bench.client.partitions(since, |_| ()).await,
        Table::Reservations => bench.client.reservations(since, |_| ()).await,
    }
}

async fn gate_of(bench: &Bench, table: Table) -> Result<Gate, String> {
    match fine(ask(bench, table, None).await)? {
        Gated::Whole { gate: Some(gate), .. } => Ok(gate),
        other => Err(format!("{table:?} gives no moment: {other:?}")),
    }
}

pub(super) async fn a_quiet_table_is_not_sent_again(bench: &Bench) -> Result<(), String> {
    for table in [Table::Nodes, Table::Jobs, Table::Partitions, Table::Reservations] {
        // A change in the same second as the answer counts as later, so a quiet second is needed.
        eventually("a quiet table", async || {
            let gate = gate_of(bench, table).await?;
            let again = fine(ask(bench, table, Some(gate)).await)?;
            holds(again == Gated::Unchanged, || format!("{table:?} was sent again"))
        })
        .await?;
    }
    Ok(())
}

/// Holds while workers respond; the deletion of the last one is not reported.
pub(super) async fn the_gate_of_nodes_tells_that_one_was_deleted(bench: &Bench) -> Result<(), String> {
    if bench.version < Version::V44 {
        return Ok(()); // no node can be created there
    }
    let name = NodeName::parse("contract-gone").map_err(|error| error.to_string())?;
    fine(bench.client.create_node("NodeName=contract-gone State=EXTERNAL CPUs=1").await)?;
    let quiet = eventually("a quiet table", async || {
        let gate = gate_of(bench, Table::Nodes).await?;
        let again = fine(ask(bench, Table::Nodes, Some(gate)).await)?;
        if again == Gated::Unchanged { Ok(gate) } else { Err(format!("{again:?}")) }
    });
    let quiet = quiet.await;
    fine(bench.client.delete_node(&name).await)?;
    let seen = fine(ask(bench, Table::Nodes, Some(quiet?)).await)?;
    holds(seen != Gated::Unchanged, || "the gate of nodes hides a deletion".to_owned())
}

/// Each change comes right after the gate was made, mostly within the same second: the hardest case.
pub(super) async fn no_change_slips_through_a_gate(bench: &Bench) -> Result<(), String> {
    let worker = bench.worker(0)?;
    for round in 0..3 {
        let updates = [
            NodeUpdate::comment(format!("round {round}")),
            NodeUpdate::drain("contract"),
            NodeUpdate::undrain(),
            NodeUpdate::features(std::slice::from_ref(&bench.target.partition)),
        ];
        for update in updates {
            let gate = gate_of(bench, Table::Nodes).await?;
            fine(bench.client.update_node(&worker, &update).await)?;
            let seen = fine(ask(bench, Table::Nodes, Some(gate)).await)?;
            holds(seen != Gated::Unchanged, || format!("the gate of nodes hides {update:?}"))?;
        }
        let gate = gate_of(bench, Table::Jobs).await?;
        let job = JobSubmit {
            name: "contract".to_owned(),
            script: "#!/bin/sh\n".to_owned(),
            current_working_directory: "/tmp".to_owned(),
            environment: vec!["PATH=/bin".to_owned()],
            hold: Some(true),
            ..JobSubmit::default()
        };
        let id = fine(bench.client.submit(&job).await)?.job_id;
        let seen = fine(ask(bench, Table::Jobs, Some(gate)).await)?;
        holds(seen != Gated::Unchanged, || "the gate of jobs hides a new job".to_owned())?;
        let gate = gate_of(bench, Table::Jobs).await?;
        fine(bench.client.cancel(id).await)?;
        let seen = fine(ask(bench, Table::Jobs, Some(gate)).await)?;
        holds(seen != Gated::Unchanged, || "the gate of jobs hides the end of a job".to_owned())?;
    }
    fine(bench.client.update_node(&worker, &NodeUpdate::comment("")).await)
}
