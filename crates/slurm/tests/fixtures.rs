//! Responses recorded from a real server (Slurm 26.05.5, one controller, two workers, no accounting), read by the client in every version.
#![cfg(feature = "rest")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use slipway_slurm::name::NodeName;
use slipway_slurm::rest::errno::Errno;
use slipway_slurm::rest::list::Gated;
use slipway_slurm::rest::model::{
    Cancelled, JobState, JobSubmit, JobUpdate, NodeState, NodeUpdate, Number, PartitionState, PartitionWrite,
};
use slipway_slurm::rest::token::FixedToken;
use slipway_slurm::rest::transport::{Body, Later, Request, Response, Transport, Trouble};
use slipway_slurm::rest::{Client, Limits, RestError, Version};

/// Responds to every request with one recorded response, in small chunks.
struct Recorded {
    status: u16,
    is_json: bool,
    body: Vec<u8>,
}

struct Pieces(Vec<u8>);

impl Body for Pieces {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>> {
        let rest = self.0.split_off(self.0.len().min(61));
        let piece = std::mem::replace(&mut self.0, rest);
        Box::pin(async move { Ok((!piece.is_empty()).then(|| Bytes::from(piece))) })
    }
}

impl Transport for Recorded {
    fn send(&self, _: Request) -> Later<'_, Result<Response, Trouble>> {
        let response = Response { status: self.status, is_json: self.is_json, body: Box::new(Pieces(self.body.clone())) };
        Box::pin(async move { Ok(response) })
    }
}

fn client(version: Version, what: &str) -> Client {
    let file = format!("{}/tests/fixtures/v{}-{what}.json", env!("CARGO_MANIFEST_DIR"), version.as_str().trim_start_matches("v0.0."));
    let recorded: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let body = match &recorded["body"] {
        Value::String(text) => text.clone().into_bytes(),
        // In the server's formatting.
        json => serde_json::to_vec_pretty(json).unwrap(),
    };
    let status = u16::try_from(recorded["status"].as_u64().unwrap()).unwrap();
    let is_json = recorded["content_type"] == "application/json";
    let transport = Recorded { status, is_json, body };
    Client::new(Arc::new(transport), Arc::new(FixedToken::new("t")), Arc::new(()), Limits::default()).pinned(version)
}

fn ghost() -> NodeName {
    NodeName::parse("ghost").unwrap()
}

#[tokio::test]
async fn nodes_are_read() {
    for version in Version::NEWEST_FIRST {
        let mut nodes = Vec::new();
        let gated = client(version, "nodes").nodes(None, |node| nodes.push(node)).await.unwrap();
        assert!(matches!(gated, Gated::Whole { gate: Some(_), .. }), "{version}: {gated:?}");
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        let [idle, draining] = nodes.as_slice() else { panic!("{version}: {nodes:?}") };
        assert_eq!((idle.name.as_str(), idle.state.to_string().as_str()), ("worker-0", "IDLE+DYNAMIC_NORM"));
        assert!(idle.state.is_usable() && !idle.state.is_busy() && idle.slurmd_start_time.moment().is_some());
        assert_eq!(
            (idle.cpus, idle.features.as_slice(), idle.partitions.as_slice()),
            (2, &["worker".to_owned()][..], &["worker".to_owned()][..])
        );
        assert!(draining.state.has(&NodeState::Drain) && draining.state.is_busy() && !draining.state.is_drained(), "{}", draining.state);
        assert_eq!(draining.reason, "fixture: leaves");
    }
}

#[tokio::test]
async fn jobs_are_read() {
    for version in Version::NEWEST_FIRST {
        let mut jobs = Vec::new();
        client(version, "jobs").jobs(None, |job| jobs.push(job)).await.unwrap();
        assert!(jobs.iter().any(|job| job.job_state.has(&JobState::Completed) && job.nodes == "worker-[1,0]"), "{version}: not in order");
        jobs.retain(|job| !job.job_state.is_terminal());
        let running = jobs.iter().find(|job| job.name == "running").unwrap();
        assert!(running.job_state.has(&JobState::Running) && running.nodes == "worker-1", "{version}: {running:?}");
        assert_eq!(running.time_limit, Number::Set(5));
        assert_eq!(running.end_time.get(), running.start_time.get().map(|start| start + 300));
        let held = jobs.iter().find(|job| job.name == "held").unwrap();
        assert!(held.hold && held.job_state.has(&JobState::Pending) && held.time_limit == Number::Infinite, "{version}: {held:?}");
        assert!(held.start_time.moment().is_none());
    }
}

#[tokio::test]
async fn no_change_is_told_apart_from_an_empty_table() {
    for version in Version::NEWEST_FIRST {
        let gate = match client(version, "nodes").nodes(None, |_| ()).await.unwrap() {
            Gated::Whole { gate, .. } => gate,
            Gated::Unchanged => panic!("{version}"),
        };
        assert_eq!(client(version, "nodes-unchanged").nodes(gate, |_| ()).await.unwrap(), Gated::Unchanged);
        assert_eq!(client(version, "jobs-unchanged").jobs(gate, |_| ()).await.unwrap(), Gated::Unchanged);
    }
}

#[tokio::test]
async fn partitions_reservations_pings_and_states_are_read() {
    for version in Version::NEWEST_FIRST {
        let (mut partitions, mut reservations) = (Vec::new(), Vec::new());
        client(version, "partitions").partitions(None, |it| partitions.push(it)).await.unwrap();
        client(version, "reservations").reservations(None, |it| reservations.push(it)).await.unwrap();
        assert_eq!((partitions[0].name.as_str(), partitions[0].node_sets.as_str(), partitions[0].nodes.total), ("worker", "worker", 2));
        assert_eq!((reservations[0].name.as_str(), reservations[0].node_list.as_str()), ("m1", "worker-0"));
        assert_eq!(reservations[0].end_time.get(), reservations[0].start_time.get().map(|start| start + 3600));
        let pings = client(version, "ping").ping().await.unwrap();
        assert!(pings[0].responding && pings[0].primary, "{version}");
        assert_eq!(pings[0].mode, if version < Version::V45 { "primary" } else { "" });
        let states = client(version, "jobs-state").job_states(&[]).await.unwrap();
        assert!(states.iter().all(|job| job.job_id.parse::<u64>().is_ok() && !job.state.is_empty()), "{version}: {states:?}");
    }
}

#[tokio::test]
async fn what_is_missing_is_not_found_in_all_its_forms() {
    for version in Version::NEWEST_FIRST {
        let answers = [
            client(version, "node-absent").node(&ghost()).await.map(drop),
            client(version, "update-absent").update_node(&ghost(), &NodeUpdate::comment("x")).await,
            client(version, "job-absent").job(999).await.map(drop),
            client(version, "cancel-absent").cancel(999).await.map(|_: Cancelled| ()),
            client(version, "partition-absent").partition("ghost").await.map(drop),
            client(version, "reservation-absent").reservation("ghost").await.map(drop),
        ];
        for (index, answer) in answers.into_iter().enumerate() {
            assert!(matches!(answer, Err(RestError::NotFound { .. })), "{version}, answer {index}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn refusals_keep_status_and_number() {
    for version in Version::NEWEST_FIRST {
        let busy = client(version, "delete-busy").delete_node(&ghost()).await.unwrap_err();
        assert_eq!((busy.http(), busy.number()), (Some(422), Some(Errno::NODES_BUSY)));
        let resumed = client(version, "resume-idle").update_node(&ghost(), &NodeUpdate::resume()).await.unwrap_err();
        assert_eq!(resumed.number(), Some(Errno::INVALID_NODE_TRANSITION));
        let refused = client(version, "token-refused").nodes(None, |_| ()).await.unwrap_err();
        assert!(matches!(refused, RestError::TokenRefused { http: 511, number: Errno::AUTHENTICATION_FAILED, .. }), "{refused:?}");
    }
    let nobody = client(Version::V45, "no-credentials").ping().await.unwrap_err();
    assert!(matches!(nobody, RestError::TokenRefused { http: 401, .. }), "{nobody:?}");
}

#[tokio::test]
async fn counters_and_changes_of_jobs_are_read() {
    for version in Version::NEWEST_FIRST {
        assert!(client(version, "diag").diag().await.unwrap().server_thread_count > 0);
        client(version, "job-updated").update_job(1, &JobUpdate::default()).await.unwrap();
        let absent = client(version, "job-update-absent").update_job(1, &JobUpdate::default()).await;
        assert!(matches!(absent, Err(RestError::NotFound { .. })), "{version}: {absent:?}");
    }
}

#[tokio::test]
async fn what_only_the_newest_version_has_is_read() {
    let conf = client(Version::V45, "conf").conf().await.unwrap();
    assert_eq!((conf.hash, conf.booted_at, conf.release.as_str()), (1_687_713_688, Number::Set(1_794_756_501), "26.05.5"));
    let older = client(Version::V44, "ping").conf().await;
    assert!(matches!(older, Err(RestError::Unsupported { version: Version::V44, .. })), "{older:?}");
    let waits = client(Version::V45, "requeue-pending").requeue(1, false).await.unwrap_err();
    assert_eq!((waits.http(), waits.number()), (Some(422), Some(Errno::JOB_PENDING)));
    let absent = [
        client(Version::V45, "requeue-absent").requeue(1, true).await,
        client(Version::V45, "partition-delete-absent").delete_partition("ghost").await,
    ];
    assert!(absent.iter().all(|answer| matches!(answer, Err(RestError::NotFound { .. }))), "{absent:?}");
    let write = PartitionWrite::state("worker", PartitionState::Up);
    let refused = client(Version::V45, "partition-write-refused").write_partition(&write).await.unwrap_err();
    assert_eq!(refused.number(), Some(Errno::NOT_THE_OWNER));
}

#[tokio::test]
async fn a_held_job_was_taken() {
    for version in Version::NEWEST_FIRST {
        assert!(client(version, "submitted-held").submit(&JobSubmit::default()).await.unwrap().job_id > 0);
    }
}
