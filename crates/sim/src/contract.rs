//! Contract: behaviour of slurmrestd that we rely on. The real server and the stand-in must both keep it, in every version.
//!
//! The cluster under test has two idle workers with one feature, a partition of that name with both of them, no accounting and no topology. The suite
//! restores its state.

mod bench;
mod controller;
mod gate;
mod job;
mod node;
pub mod openapi;
mod partition;
mod reservation;
mod token;

pub use bench::{Bench, Target};
use slipway_slurm::rest::Version;
use slipway_slurm::rest::transport::Later;

/// A promise: its name and its check.
type Check = (&'static str, for<'a> fn(&'a Bench) -> Later<'a, Result<(), String>>);

/// Builds the table of promises from functions of the same names.
macro_rules! promises {
    ($($module:ident::$name:ident),* $(,)?) => {
        &[$((stringify!($name), |bench| Box::pin($module::$name(bench)))),*]
    };
}

const PROMISES: &[Check] = promises![
    controller::a_controller_answers_a_ping,
    controller::the_configuration_in_force_is_told,
    controller::counters_are_told,
    node::both_workers_are_listed_idle_and_registered,
    node::one_node_reads_as_in_the_list,
    node::every_field_that_is_read_is_there,
    node::a_missing_node_is_told_apart,
    node::an_unknown_name_in_a_batch_changes_nothing,
    node::a_batch_drains_and_undrains,
    node::a_resume_that_does_not_apply_is_refused_but_done_to_the_others,
    node::a_node_set_down_comes_back,
    node::comments_are_kept_and_healthy_nodes_have_no_reason,
    node::an_active_feature_leaves_only_with_the_available_one,
    node::an_unknown_place_in_the_topology_is_refused,
    node::records_are_made_and_deleted,
    node::unknown_urls_are_plain_404s,
    job::a_job_holds_its_node_until_cancelled,
    job::a_job_ends_by_itself_and_its_node_is_drained_then,
    job::a_held_job_is_taken_and_waits,
    job::a_job_that_leaves_still_holds_its_node,
    job::a_held_job_is_changed_and_released,
    job::a_job_is_put_back_into_the_queue,
    job::bad_jobs_are_refused,
    job::a_missing_job_is_told_apart,
    partition::partitions_are_shut_and_opened,
    partition::partitions_come_and_go,
    partition::a_missing_partition_is_told_apart,
    reservation::reservations_come_and_go,
    reservation::a_reservation_follows_edits,
    reservation::a_running_maintenance_shows_on_its_nodes_and_recurs,
    reservation::a_missing_reservation_is_told_apart,
    gate::a_quiet_table_is_not_sent_again,
    gate::no_change_slips_through_a_gate,
    gate::the_gate_of_nodes_tells_that_one_was_deleted,
    token::bad_tokens_are_refused,
    token::an_ordinary_user_writes_nothing,
    token::credentials_are_needed_and_only_one_kind,
    // Last, because a real slurmctld restarts here.
    controller::a_reconfigure_reaches_every_worker,
];

/// Checks every promise in one version; returns the broken ones with what was observed instead.
pub async fn broken_promises(target: &Target, version: Version) -> Result<Vec<String>, String> {
    only(target, version, "").await
}

/// Like [`broken_promises`], but only promises whose name starts with `start`.
pub async fn only(target: &Target, version: Version, start: &str) -> Result<Vec<String>, String> {
    let bench = Bench::new(target, version)?;
    let mut broken = Vec::new();
    for (name, check) in PROMISES.iter().filter(|(name, _)| name.starts_with(start)) {
        if let Err(why) = check(&bench).await {
            broken.push(format!("{version} {name}: {why}"));
        }
        bench.tidy().await?;
    }
    Ok(broken)
}

/// The newest version that the server and the client negotiate by themselves.
pub async fn agreed_version(target: &Target) -> Result<Version, String> {
    target.client(None)?.version().await.map_err(|error| error.to_string())
}
