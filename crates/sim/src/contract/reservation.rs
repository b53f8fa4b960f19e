//! Promises about reservations.

use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::model::{Node, NodeState, Number, ReservationWrite};
use slipway_slurm::rest::{RestError, Version};

use super::bench::{Bench, eventually, fine, holds, not_found, refused};

pub(super) async fn reservations_come_and_go(bench: &Bench) -> Result<(), String> {
    let start = u64::try_from(bench.now().as_second()).unwrap_or_default() + 3600;
    let wanted = ReservationWrite {
        name: "contract".to_owned(),
        start_time: Some(Number::Set(start)),
        duration: Some(Number::Set(60)),
        node_list: vec![bench.target.workers[0].clone()],
        users: vec!["slurm".to_owned()],
        flags: vec!["MAINT".to_owned(), "IGNORE_JOBS".to_owned()],
        ..ReservationWrite::default()
    };
    let made = bench.client.write_reservation(&wanted).await;
    if bench.version < Version::V43 {
        return holds(matches!(made, Err(RestError::Unsupported { .. })), || format!("{made:?}"));
    }
    fine(made)?;
    fine(bench.client.write_reservation(&wanted).await)?;
    not_found(bench.client.reservation("ghost").await)?;
    let seen = fine(bench.client.reservation("contract").await)?;
    let is_so = seen.start_time == Number::Set(start)
        && seen.end_time == Number::Set(start + 3600)
        && seen.node_list == bench.target.workers[0]
        && seen.users == "slurm"
        && seen.flags.iter().any(|flag| flag == "MAINT");
    fine(bench.client.delete_reservation("contract").await)?;
    holds(is_so, || format!("{seen:?}"))?;
    not_found(bench.client.delete_reservation("contract").await)?;
    refused(bench.client.write_reservation(&ReservationWrite { users: Vec::new(), ..wanted.clone() }).await, Errno::INVALID_RESERVATION)?;
    let elsewhere = ReservationWrite { node_list: vec!["ghost".to_owned()], ..wanted };
    refused(bench.client.write_reservation(&elsewhere).await, Errno::INVALID_NODE)
}

/// A reservation of the first worker that begins at `start` and lasts for an hour.
fn maintenance(bench: &Bench, start: u64, flags: &[&str]) -> ReservationWrite {
    ReservationWrite {
        name: "contract".to_owned(),
        start_time: Some(Number::Set(start)),
        duration: Some(Number::Set(60)),
        node_list: vec![bench.target.workers[0].clone()],
        users: vec!["slurm".to_owned()],
        flags: ["MAINT", "IGNORE_JOBS"].iter().chain(flags).map(|flag| (*flag).to_owned()).collect(),
        ..ReservationWrite::default()
    }
}

/// An update of the same reservation that changes only the given fields.
fn change(change: ReservationWrite) -> ReservationWrite {
    ReservationWrite { name: "contract".to_owned(), ..change }
}

fn now(bench: &Bench) -> u64 {
    u64::try_from(bench.now().as_second()).unwrap_or_default()
}

pub(super) async fn a_reservation_follows_edits(bench: &Bench) -> Result<(), String> {
    if bench.version < Version::V43 {
        return Ok(());
    }
    let checked = edits(bench).await;
    let _ = bench.client.delete_reservation("contract").await; // left if a promise is broken
    checked
}

async fn edits(bench: &Bench) -> Result<(), String> {
    let start = now(bench) + 3600;
    // An update of a missing reservation creates nothing.
    let longer = change(ReservationWrite { duration: Some(Number::Set(90)), ..ReservationWrite::default() });
    refused(bench.client.write_reservation(&longer).await, Errno::INVALID_RESERVATION)?;
    fine(bench.client.write_reservation(&maintenance(bench, start, &[])).await)?;
    fine(bench.client.write_reservation(&longer).await)?;
    let both = change(ReservationWrite { node_list: bench.target.workers.to_vec(), ..ReservationWrite::default() });
    fine(bench.client.write_reservation(&both).await)?;
    let later = change(ReservationWrite { start_time: Some(Number::Set(start + 601)), ..ReservationWrite::default() });
    fine(bench.client.write_reservation(&later).await)?;
    let daily = change(ReservationWrite { flags: vec!["DAILY".to_owned()], ..ReservationWrite::default() });
    fine(bench.client.write_reservation(&daily).await)?;
    let flexible = change(ReservationWrite { flags: vec!["FLEX".to_owned()], ..ReservationWrite::default() });
    fine(bench.client.write_reservation(&flexible).await)?;
    let seen = fine(bench.client.reservation("contract").await)?;
    fine(bench.client.delete_reservation("contract").await)?;
    let has = |flag: &str| seen.flags.iter().any(|known| known == flag);
    let is_so = seen.start_time == Number::Set(start + 601)
        && seen.end_time == Number::Set(start + 601 + 90 * 60)
        && slipway_slurm::hostlist::Hostlist::parse(&seen.node_list).is_ok_and(|nodes| nodes.names().eq(bench.target.workers.clone()))
        && seen.users == "slurm"
        && ["MAINT", "IGNORE_JOBS", "DAILY", "FLEX"].into_iter().all(has);
    holds(is_so, || format!("{seen:?}"))?;
    // A reservation in the past is not created, even if it recurs. Only a recurring one can have FORCE_START.
    let passed = maintenance(bench, now(bench) - 7200, &["DAILY"]);
    refused(bench.client.write_reservation(&passed).await, Errno::INVALID_TIME)?;
    let unknown = maintenance(bench, now(bench) + 3600, &["BOGUS"]);
    holds(bench.client.write_reservation(&unknown).await.is_err_and(|error| error.to_string().contains("BOGUS")), || {
        "BOGUS is taken".to_owned()
    })?;
    // A real server creates it anyway, without that flag.
    let _ = bench.client.delete_reservation("contract").await;
    let forced = maintenance(bench, now(bench) + 3600, &["FORCE_START"]);
    if bench.version >= Version::V44 {
        refused(bench.client.write_reservation(&forced).await, Errno::INVALID_RESERVATION)?;
    }
    not_found(bench.client.reservation("contract").await)
}

pub(super) async fn a_running_maintenance_shows_on_its_nodes_and_recurs(bench: &Bench) -> Result<(), String> {
    // slurmctld checks reservations only now and then, so this takes a minute, and the behaviour is the same in every version.
    if bench.version < Version::V45 {
        return Ok(());
    }
    let start = now(bench) - 60;
    fine(bench.client.write_reservation(&maintenance(bench, start, &["HOURLY"])).await)?;
    let shows = async |index: usize| {
        let is_there = |node: &Node| node.state.has(&NodeState::Maintenance) && node.reservation == "contract";
        bench.until_node(index, "the maintenance", is_there).await.map(drop)
    };
    let checked = async {
        shows(0).await?;
        let later = change(ReservationWrite { start_time: Some(Number::Set(start + 7200)), ..ReservationWrite::default() });
        refused(bench.client.write_reservation(&later).await, Errno::RESERVATION_HAS_BEGUN)?;
        let duration = Some(Number::Set(90));
        fine(bench.client.write_reservation(&change(ReservationWrite { duration, ..ReservationWrite::default() })).await)?;
        let node_list = bench.target.workers.to_vec();
        fine(bench.client.write_reservation(&change(ReservationWrite { node_list, ..ReservationWrite::default() })).await)?;
        shows(1).await?;
        let seen = fine(bench.client.reservation("contract").await)?;
        holds((seen.start_time, seen.end_time) == (Number::Set(start), Number::Set(start + 90 * 60)), || format!("{seen:?}"))?;
        // After its end it stays, for its next occurrence.
        let end_time = Some(Number::Set(now(bench) + 3));
        fine(bench.client.write_reservation(&change(ReservationWrite { end_time, ..ReservationWrite::default() })).await)?;
        eventually("the next time", async || match bench.client.reservation("contract").await {
            Ok(seen) if seen.start_time == Number::Set(start + 3600) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
    };
    let checked = checked.await;
    fine(bench.client.delete_reservation("contract").await)?;
    checked?;
    bench.until_node(0, "no maintenance", |node| !node.state.has(&NodeState::Maintenance) && node.reservation.is_empty()).await.map(drop)
}

pub(super) async fn a_missing_reservation_is_told_apart(bench: &Bench) -> Result<(), String> {
    not_found(bench.client.reservation("ghost").await)
}
