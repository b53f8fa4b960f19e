//! Calls to slurmrestd: nodes and reservations here, and the parts shared by all calls.

mod controller;
mod job;
mod partition;

use bytes::Bytes;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::answer::{Answer, said};
use super::call::CallKind;
use super::client::{Ask, Client};
use super::errno::Errno;
use super::error::RestError;
use super::list::{Gate, Gated, Hosts};
use super::model::{Node, NodeUpdate, Reservation, ReservationWrite};
use super::version::Version;
use crate::name::NodeName;

impl Client {
    /// Passes every node to `take`, or none if nothing changed since the gate. After a failure, discard what was passed on.
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

    /// Changes many nodes in one call. If one of them is unknown, none is changed and the refusal has the number of an invalid node.
    pub async fn update_nodes(&self, hosts: &Hosts, update: &NodeUpdate) -> Result<(), RestError> {
        #[derive(Serialize)]
        struct Batch<'a> {
            name: [&'a str; 1],
            #[serde(flatten)]
            update: &'a NodeUpdate,
        }
        self.write(CallKind::UpdateNodes, Method::POST, "nodes/", Some(&Batch { name: [hosts.as_str()], update })).await.map(drop)
    }

    /// Creates a record from a line of slurm.conf; its state must be `FUTURE`, `CLOUD` or `EXTERNAL`.
    pub async fn create_node(&self, line: &str) -> Result<(), RestError> {
        self.able("making a node record", Version::creates_nodes).await?;
        self.write(CallKind::CreateNode, Method::POST, "new/node/", Some(&json!({ "node_conf": line }))).await.map(drop)
    }

    /// Deletes a dynamic node's record. Refused with the number of busy nodes while a job or an active reservation is on it.
    pub async fn delete_node(&self, name: &NodeName) -> Result<(), RestError> {
        let written = self.write(CallKind::DeleteNode, Method::DELETE, &format!("node/{name}"), None::<&()>).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_NODE], || format!("node `{name}`")))
    }

    pub async fn reservations(&self, since: Option<Gate>, take: impl FnMut(Reservation) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListReservations, "reservations/", "reservations", since, take).await
    }

    pub async fn reservation(&self, name: &str) -> Result<Reservation, RestError> {
        let path = format!("reservation/{}", segment(name));
        // If others exist, a missing reservation is an invalid query; if none exists, it is a 200 with an error.
        let missing = [Errno::INVALID_RESERVATION, Errno::INVALID_QUERY];
        self.one(CallKind::GetReservation, &path, "reservations", || format!("reservation `{name}`"), &missing).await
    }

    /// Creates or changes the reservation.
    pub async fn write_reservation(&self, reservation: &ReservationWrite) -> Result<(), RestError> {
        self.able("writing a reservation", Version::writes_reservations).await?;
        self.write(CallKind::WriteReservation, Method::POST, "reservation", Some(reservation)).await.map(drop)
    }

    pub async fn delete_reservation(&self, name: &str) -> Result<(), RestError> {
        let path = format!("reservation/{}", segment(name));
        let written = self.write(CallKind::DeleteReservation, Method::DELETE, &path, None::<&()>).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_RESERVATION], || format!("reservation `{name}`")))
    }

    /// Reads one object under its own key.
    async fn object<T: DeserializeOwned>(&self, kind: CallKind, path: &str, key: &'static str) -> Result<T, RestError> {
        let mut answer = self.write(kind, Method::GET, path, None::<&()>).await?;
        let object = answer.fields.remove(key).ok_or_else(|| RestError::Unreadable(format!("it has no `{key}`")))?;
        serde_json::from_value(object).map_err(|error| RestError::Unreadable(format!("`{key}`: {error}")))
    }

    /// Fails if the version does not support this.
    async fn able(&self, what: &'static str, is_able: impl Fn(Version) -> bool) -> Result<(), RestError> {
        let version = self.version().await?;
        if is_able(version) { Ok(()) } else { Err(RestError::Unsupported { what, version }) }
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
        // The queue has no 304: it is an empty list without a timestamp, and a warning.
        if since.is_some() && count == 0 && Gate::of(answer.envelope.last_update).is_none() && !answer.envelope.warnings.is_empty() {
            return Ok(Gated::Unchanged);
        }
        if !answer.found {
            return Err(RestError::Unreadable(format!("it has no `{wanted}`")));
        }
        Ok(Gated::Whole { gate: Gate::of(answer.envelope.last_update), bytes: answer.bytes })
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
        said_in(self.ask(Ask { kind, method, path, body, wanted: "" }, &mut |_| Ok(())).await?)
    }
}

/// The response, unless it has an error: for a write, even an error without a number is a failure.
fn said_in(answer: Answer) -> Result<Answer, RestError> {
    match answer.envelope.errors.first() {
        Some(complaint) => Err(RestError::Refused { http: answer.http, number: complaint.errno(), text: said(complaint) }),
        None => Ok(answer),
    }
}

/// Converts a refusal that means a missing object to `NotFound`.
fn absent(error: RestError, missing: &[Errno], what: impl Fn() -> String) -> RestError {
    match error {
        RestError::Refused { number, .. } if missing.contains(&number) => RestError::NotFound { what: what() },
        other => other,
    }
}

/// Percent-encodes one segment of a path.
fn segment(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(byte);
    name.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
