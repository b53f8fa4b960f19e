//! Responses of slurmrestd: four bytes select version, call, status and chunk size; the rest is the body.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use slipway_slurm::hostlist::Hostlist;
use slipway_slurm::name::NodeName;
use slipway_slurm::rest::list::{Gated, Hosts};
use slipway_slurm::rest::model::{Job, JobSubmit, JobUpdate, NodeUpdate, PartitionWrite, ReservationWrite};
use slipway_slurm::rest::token::FixedToken;
use slipway_slurm::rest::transport::{Body, Later, Request, Response, Transport, Trouble};
use slipway_slurm::rest::{Client, Limits, RestError, Version};
use tokio::runtime::{Builder, Runtime};

/// Number of bytes before the body.
pub const HEAD: usize = 4;
/// Statuses that servers were seen to send, the last two in plain text.
pub const STATUSES: [u16; 12] = [200, 401, 404, 405, 422, 500, 502, 504, 511, 204, 304, 500];
/// Index of the first status without JSON.
const PLAIN: usize = 10;

/// All calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Ping,
    Nodes,
    Node,
    UpdateNodes,
    CreateNode,
    DeleteNode,
    Jobs,
    Job,
    JobStates,
    Submit,
    Cancel,
    Partitions,
    Partition,
    Reservations,
    Reservation,
    WriteReservation,
    DeleteReservation,
    Reconfigure,
    Conf,
    Diag,
    UpdateJob,
    Requeue,
    WritePartition,
    DeletePartition,
}

impl Asked {
    pub const ALL: [Self; 24] = [
        Self::Ping,
        Self::Nodes,
        Self::Node,
        Self::UpdateNodes,
        Self::CreateNode,
        Self::DeleteNode,
        Self::Jobs,
        Self::Job,
        Self::JobStates,
        Self::Submit,
        Self::Cancel,
        Self::Partitions,
        Self::Partition,
        Self::Reservations,
        Self::Reservation,
        Self::WriteReservation,
        Self::DeleteReservation,
        Self::Reconfigure,
        Self::Conf,
        Self::Diag,
        Self::UpdateJob,
        Self::Requeue,
        Self::WritePartition,
        Self::DeletePartition,
    ];
}

/// Builds an input for this target.
pub fn input(version: Version, asked: Asked, status: u16, is_json: bool, body: &[u8]) -> Vec<u8> {
    let place = |found: Option<usize>| u8::try_from(found.unwrap_or_default()).unwrap_or_default();
    let head = [
        place(Version::NEWEST_FIRST.iter().position(|known| *known == version)),
        place(Asked::ALL.iter().position(|known| *known == asked)),
        place(STATUSES.iter().enumerate().position(|(at, known)| *known == status && (at < PLAIN) == is_json)),
        61,
    ];
    [&head, body].concat()
}

struct Made {
    status: u16,
    is_json: bool,
    piece: usize,
    body: Bytes,
}

struct Pieces(Bytes, usize);

impl Body for Pieces {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>> {
        let piece = self.0.split_to(self.0.len().min(self.1));
        Box::pin(async move { Ok((!piece.is_empty()).then_some(piece)) })
    }
}

impl Transport for Made {
    fn send(&self, _: Request) -> Later<'_, Result<Response, Trouble>> {
        let body = Box::new(Pieces(self.body.clone(), self.piece));
        let response = Response { status: self.status, is_json: self.is_json, body };
        Box::pin(async move { Ok(response) })
    }
}

thread_local! {
    static RUNTIME: RefCell<Runtime> =
        RefCell::new(Builder::new_current_thread().enable_time().build().expect("a runtime without sockets"));
}

pub fn run(data: &[u8]) {
    let Some((head, body)) = data.split_at_checked(HEAD) else { return };
    let pick = |index: usize, count: usize| usize::from(head[index]) % count;
    let version = Version::NEWEST_FIRST[pick(0, Version::NEWEST_FIRST.len())];
    let asked = Asked::ALL[pick(1, Asked::ALL.len())];
    let status = pick(2, STATUSES.len());
    let made =
        Made { status: STATUSES[status], is_json: status < PLAIN, piece: usize::from(head[3]).max(1), body: Bytes::copy_from_slice(body) };
    let client = Client::new(Arc::new(made), Arc::new(FixedToken::new("t")), Arc::new(()), Limits::default()).pinned(version);
    let answer = RUNTIME.with_borrow(|runtime| runtime.block_on(ask(&client, asked)));
    if let Err(error) = answer {
        let told = error.to_string();
        assert!(!told.contains('\n') && told.len() < 2_000, "{told:?} is no line");
    }
}

async fn ask(client: &Client, asked: Asked) -> Result<(), RestError> {
    let name = NodeName::parse("n").expect("a name");
    let hosts = Hosts::of([&name]).expect("hosts");
    match asked {
        Asked::Ping => client.ping().await.map(drop),
        Asked::Nodes => {
            let mut nodes = Vec::new();
            let gated = client.nodes(None, |node| nodes.push(node)).await?;
            for node in &nodes {
                let _ = (node.state.is_usable(), node.state.is_drained(), node.boot_time.moment());
                let text = serde_json::to_string(node).expect("a node can be written");
                assert_eq!(serde_json::from_str::<slipway_slurm::rest::model::Node>(&text).ok().as_ref(), Some(node), "{text}");
            }
            if let Gated::Whole { gate, .. } = gated {
                client.nodes(gate, |_| ()).await.map(drop)?;
            }
            Ok(())
        }
        Asked::Node => client.node(&name).await.map(drop),
        Asked::UpdateNodes => client.update_nodes(&hosts, &NodeUpdate::drain("x")).await,
        Asked::CreateNode => client.create_node("NodeName=n State=FUTURE").await,
        Asked::DeleteNode => client.delete_node(&name).await,
        Asked::Jobs => {
            let mut jobs = Vec::new();
            client.jobs(None, |job| jobs.push(job)).await?;
            for job in &jobs {
                let text = serde_json::to_string(job).expect("a job can be written");
                assert_eq!(serde_json::from_str::<Job>(&text).ok().as_ref(), Some(job), "{text}");
                let _ = (job.job_state.holds_nodes(), job.end_time.moment(), Hostlist::parse(&job.nodes).map(|list| list.count()));
            }
            Ok(())
        }
        Asked::Job => client.job(1).await.map(drop),
        Asked::JobStates => client.job_states(&[1, 2]).await.map(drop),
        Asked::Submit => client.submit(&JobSubmit::default()).await.map(|submitted| assert!(submitted.job_id > 0)),
        Asked::Cancel => client.cancel(1).await.map(drop),
        Asked::Partitions => client.partitions(None, |_| ()).await.map(drop),
        Asked::Partition => client.partition("p").await.map(drop),
        Asked::Reservations => client.reservations(None, |_| ()).await.map(drop),
        Asked::Reservation => client.reservation("r").await.map(drop),
        Asked::WriteReservation => client.write_reservation(&ReservationWrite::default()).await,
        Asked::DeleteReservation => client.delete_reservation("r").await,
        Asked::Reconfigure => client.reconfigure().await,
        Asked::Conf => client.conf().await.map(drop),
        Asked::Diag => client.diag().await.map(drop),
        Asked::UpdateJob => client.update_job(1, &JobUpdate::default()).await,
        Asked::Requeue => client.requeue(1, true).await,
        Asked::WritePartition => client.write_partition(&PartitionWrite::default()).await,
        Asked::DeletePartition => client.delete_partition("p").await,
    }
}
