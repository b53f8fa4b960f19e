//! The numbers in a NodeSet's status.

use slipway_api::NodeSetStatus;
use slipway_plan::nodeset::{Stage, Worker};

pub(super) fn count(status: &mut NodeSetStatus, workers: &[Worker], replicas: i32) {
    let number = |wanted: fn(&&Worker) -> bool| i32::try_from(workers.iter().filter(wanted).count()).unwrap_or(i32::MAX);
    let ready = number(|worker| worker.stage == Stage::Ready);
    status.desired = Some(replicas);
    status.replicas = Some(number(|_| true));
    status.updated_replicas = Some(number(|worker| worker.is_current && worker.stage != Stage::Going));
    status.ready_replicas = Some(ready);
    status.available_replicas = Some(ready);
    status.unavailable_replicas = Some((replicas - ready).max(0));
}
