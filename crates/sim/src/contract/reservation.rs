//! Promises about reservations.

use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::model::{Number, ReservationWrite};
use slipway_slurm::rest::{RestError, Version};

use super::bench::{Bench, fine, holds, not_found, refused};

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

pub(super) async fn a_missing_reservation_is_told_apart(bench: &Bench) -> Result<(), String> {
    not_found(bench.client.reservation("ghost").await)
}
