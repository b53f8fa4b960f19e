//! What can be asked of slurmrestd and told to it.

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::answer::{Answer, said};
use super::call::CallKind;
use super::client::{Ask, Client};
use super::errno::Errno;
use super::error::RestError;
use super::list::{Gate, Gated, Hosts};
use super::model::job::{CancelStatus, JobBrief};
use super::model::{Cancelled, Job, JobSubmit, Node, NodeUpdate, Partition, Ping, Reservation, ReservationWrite, Submitted};
use crate::name::NodeName;

impl Client {
    /// Whether the controllers answer slurmrestd. Proves no token.
    pub async fn ping(&self) -> Result<Vec<Ping>, RestError> {
        let mut pings = Vec::new();
        self.list(CallKind::Ping, "ping/", "pings", None, |ping| pings.push(ping)).await?;
        Ok(pings)
    }

    /// Hands every node to `take`, or none if nothing changed since the gate. After a failure what was handed on must be thrown away.
    pub async fn nodes(&self, since: Option<Gate>, take: impl FnMut(Node) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListNodes, "nodes/", "nodes", since, take).await
    }

    pub async fn node(&self, name: &NodeName) -> Result<Node, RestError> {
        self.one(CallKind::GetNode, &format!("node/{name}"), "nodes", || format!("node `{name}`"), &[]).await
    }

    pub async fn update_node(&self, name: &NodeName, update: &NodeUpdate) -> Result<(), RestError> {
        let written = self.write(CallKind::UpdateNodes, Method::POST, &format!("node/{name}"), Some(update)).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_NODE], || format!("node `{name}`")))
    }

    /// Changes many nodes in one call. When one of them is unknown, none is changed and the refusal has the number of an invalid node.
    pub async fn update_nodes(&self, hosts: &Hosts, update: &NodeUpdate) -> Result<(), RestError> {
        #[derive(Serialize)]
        struct Batch<'a> {
            name: [&'a str; 1],
            #[serde(flatten)]
            update: &'a NodeUpdate,
        }
        self.write(CallKind::UpdateNodes, Method::POST, "nodes/", Some(&Batch { name: [hosts.as_str()], update })).await.map(drop)
    }

    /// Makes a record from a line of slurm.conf; its state must be `FUTURE`, `CLOUD` or `EXTERNAL`.
    pub async fn create_node(&self, line: &str) -> Result<(), RestError> {
        let version = self.version().await?;
        if !version.creates_nodes() {
            return Err(RestError::Unsupported { what: "making a node record", version });
        }
        self.write(CallKind::CreateNode, Method::POST, "new/node/", Some(&json!({ "node_conf": line }))).await.map(drop)
    }

    /// Removes a dynamic node's record. Refused with the number of busy nodes while a job or an active reservation is on it.
    pub async fn delete_node(&self, name: &NodeName) -> Result<(), RestError> {
        let written = self.write(CallKind::DeleteNode, Method::DELETE, &format!("node/{name}"), None::<&()>).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_NODE], || format!("node `{name}`")))
    }

    /// Hands every job to `take`, ended ones of the last minutes too, or none if nothing changed since the gate.
    pub async fn jobs(&self, since: Option<Gate>, take: impl FnMut(Job) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListJobs, "jobs/", "jobs", since, take).await
    }

    pub async fn job(&self, id: u64) -> Result<Job, RestError> {
        self.one(CallKind::GetJob, &format!("job/{id}"), "jobs", || format!("job {id}"), &[Errno::INVALID_JOB]).await
    }

    /// The states of these jobs, or of all; unknown ones are left out. Each id is a parameter of its own: a list with commas ends in a 500.
    pub async fn job_states(&self, ids: &[u64]) -> Result<Vec<JobBrief>, RestError> {
        let ids: Vec<String> = ids.iter().map(|id| format!("job_id={id}")).collect();
        let query = if ids.is_empty() { String::new() } else { format!("?{}", ids.join("&")) };
        let mut jobs = Vec::new();
        self.list(CallKind::ListJobStates, &format!("jobs/state/{query}"), "jobs", None, |job| jobs.push(job)).await?;
        Ok(jobs)
    }

    /// A job that must wait, or is held, was taken all the same.
    pub async fn submit(&self, job: &JobSubmit) -> Result<Submitted, RestError> {
        let answer = self.write(CallKind::SubmitJob, Method::POST, "job/submit", Some(&json!({ "job": job }))).await?;
        let submitted: Submitted =
            serde_json::from_value(Value::Object(answer.fields)).map_err(|error| RestError::Unreadable(error.to_string()))?;
        if submitted.job_id == 0 { Err(RestError::Unreadable("it names no job".to_owned())) } else { Ok(submitted) }
    }

    pub async fn cancel(&self, id: u64) -> Result<Cancelled, RestError> {
        let mut statuses: Vec<CancelStatus> = Vec::new();
        let path = format!("job/{id}");
        let mut keep = |text: &[u8]| {
            statuses.push(serde_json::from_slice(text)?);
            Ok(())
        };
        let ask = Ask { kind: CallKind::CancelJob, method: Method::DELETE, path: &path, body: None, wanted: "status" };
        let answer = self.ask(ask, &mut keep).await;
        let answer = answer.map_err(|error| absent(error, &[Errno::INVALID_JOB], || format!("job {id}")))?;
        let failed = statuses.into_iter().map(|status| status.error).find(|error| error.code != 0);
        match failed.map(|error| (Errno(error.code), error.string)) {
            None => Ok(Cancelled::Now),
            Some((Errno::JOB_ALREADY_DONE, _)) => Ok(Cancelled::AlreadyEnded),
            Some((Errno::INVALID_JOB, _)) => Err(RestError::NotFound { what: format!("job {id}") }),
            Some((number, text)) => Err(RestError::Refused { http: answer.http, number, text }),
        }
    }

    pub async fn partitions(&self, since: Option<Gate>, take: impl FnMut(Partition) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListPartitions, "partitions/", "partitions", since, take).await
    }

    pub async fn partition(&self, name: &str) -> Result<Partition, RestError> {
        let path = format!("partition/{}", segment(name));
        self.one(CallKind::GetPartition, &path, "partitions", || format!("partition `{name}`"), &[Errno::INVALID_PARTITION]).await
    }

    pub async fn reservations(&self, since: Option<Gate>, take: impl FnMut(Reservation) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListReservations, "reservations/", "reservations", since, take).await
    }

    pub async fn reservation(&self, name: &str) -> Result<Reservation, RestError> {
        let path = format!("reservation/{}", segment(name));
        // With others there, a missing one is called an invalid query; with none, it is a 200 with an error.
        let missing = [Errno::INVALID_RESERVATION, Errno::INVALID_QUERY];
        self.one(CallKind::GetReservation, &path, "reservations", || format!("reservation `{name}`"), &missing).await
    }

    /// Creates the reservation or changes it.
    pub async fn write_reservation(&self, reservation: &ReservationWrite) -> Result<(), RestError> {
        let version = self.version().await?;
        if !version.writes_reservations() {
            return Err(RestError::Unsupported { what: "writing a reservation", version });
        }
        self.write(CallKind::WriteReservation, Method::POST, "reservation", Some(reservation)).await.map(drop)
    }

    pub async fn delete_reservation(&self, name: &str) -> Result<(), RestError> {
        let path = format!("reservation/{}", segment(name));
        let written = self.write(CallKind::DeleteReservation, Method::DELETE, &path, None::<&()>).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_RESERVATION], || format!("reservation `{name}`")))
    }

    /// Makes slurmctld read its files again. A success says that it was told, not that the files are good: bad ones end it afterwards.
    pub async fn reconfigure(&self) -> Result<(), RestError> {
        self.write(CallKind::Reconfigure, Method::GET, "reconfigure/", None::<&()>).await.map(drop)
    }

    async fn list<T: DeserializeOwned>(
        &self,
        kind: CallKind,
        path: &str,
        wanted: &'static str,
        since: Option<Gate>,
        mut take: impl FnMut(T) + Send,
    ) -> Result<Gated, RestError> {
        let path = match since {
            Some(gate) => format!("{path}?update_time={}", gate.as_seconds()),
            None => path.to_owned(),
        };
        let mut count = 0_u64;
        let ask = Ask { kind, method: Method::GET, path: &path, body: None, wanted };
        let mut count_and_take = |text: &[u8]| {
            count += 1;
            take(serde_json::from_slice(text)?);
            Ok(())
        };
        let answer = self.ask(ask, &mut count_and_take).await?;
        if answer.http == 304 {
            return Ok(Gated::Unchanged);
        }
        if let Some(complaint) = answer.envelope.errors.first() {
            return Err(RestError::Refused { http: answer.http, number: complaint.errno(), text: said(complaint) });
        }
        // The queue has no 304: it is an empty list without a moment, and a warning.
        if since.is_some() && count == 0 && Gate::of(answer.envelope.last_update).is_none() && !answer.envelope.warnings.is_empty() {
            return Ok(Gated::Unchanged);
        }
        if !answer.found {
            return Err(RestError::Unreadable(format!("it has no `{wanted}`")));
        }
        Ok(Gated::Whole { gate: Gate::of(answer.envelope.last_update) })
    }

    async fn one<T: DeserializeOwned + Send>(
        &self,
        kind: CallKind,
        path: &str,
        wanted: &'static str,
        what: impl Fn() -> String,
        missing: &[Errno],
    ) -> Result<T, RestError> {
        let mut first = None;
        let ask = Ask { kind, method: Method::GET, path, body: None, wanted };
        let mut keep = |text: &[u8]| {
            first = Some(serde_json::from_slice(text)?);
            Ok(())
        };
        let answer = self.ask(ask, &mut keep).await.map_err(|error| absent(error, missing, &what))?;
        match (first, answer.found) {
            (Some(object), _) => Ok(object),
            // A missing node, partition or reservation is a 200 without the key; the error inside, if any, has the number 0.
            (None, _) if answer.http == 200 => Err(RestError::NotFound { what: what() }),
            (None, _) => Err(RestError::Unreadable(format!("HTTP {} and no `{wanted}`", answer.http))),
        }
    }

    async fn write(&self, kind: CallKind, method: Method, path: &str, body: Option<&(impl Serialize + Sync)>) -> Result<Answer, RestError> {
        let body = match body.map(serde_json::to_vec).transpose() {
            Ok(body) => body.map(Bytes::from),
            Err(error) => return Err(RestError::Unreadable(format!("our own body: {error}"))),
        };
        let answer = self.ask(Ask { kind, method, path, body, wanted: "" }, &mut |_| Ok(())).await?;
        match answer.envelope.errors.first() {
            Some(complaint) => Err(RestError::Refused { http: answer.http, number: complaint.errno(), text: said(complaint) }),
            None => Ok(answer),
        }
    }
}

/// A refusal that means "there is none", said as such.
fn absent(error: RestError, missing: &[Errno], what: impl Fn() -> String) -> RestError {
    match error {
        RestError::Refused { number, .. } if missing.contains(&number) => RestError::NotFound { what: what() },
        other => other,
    }
}

/// One part of a path.
fn segment(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
