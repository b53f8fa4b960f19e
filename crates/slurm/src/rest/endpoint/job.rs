//! Calls about jobs.

use http::Method;
use serde_json::{Value, json};

use super::{Ask, CallKind, Client, Errno, Gate, Gated, RestError, Version, absent, said_in};
use crate::rest::model::job::{CancelStatus, JobBrief, UpdateResult};
use crate::rest::model::{Cancelled, Job, JobSubmit, JobUpdate, QueuedJob, Submitted};

impl Client {
    /// Passes every job to `take`, including those that ended in the last minutes, or none if nothing changed since the gate.
    pub async fn jobs(&self, since: Option<Gate>, take: impl FnMut(Job) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListJobs, "jobs/", "jobs", since, take).await
    }

    /// Like [`Self::jobs`], with only what decides about nodes: there may be 50,000 of them.
    pub async fn queue(&self, since: Option<Gate>, take: impl FnMut(QueuedJob) + Send) -> Result<Gated, RestError> {
        self.list(CallKind::ListJobs, "jobs/", "jobs", since, take).await
    }

    pub async fn job(&self, id: u64) -> Result<Job, RestError> {
        self.one(CallKind::GetJob, &format!("job/{id}"), "jobs", || format!("job {id}"), &[Errno::INVALID_JOB]).await
    }

    /// The states of these jobs, or of all; unknown ones are left out. Each id is a separate parameter: a list with commas results in a 500.
    pub async fn job_states(&self, ids: &[u64]) -> Result<Vec<JobBrief>, RestError> {
        let ids: Vec<String> = ids.iter().map(|id| format!("job_id={id}")).collect();
        let query = if ids.is_empty() { String::new() } else { format!("?{}", ids.join("&")) };
        let mut jobs = Vec::new();
        self.list(CallKind::ListJobStates, &format!("jobs/state/{query}"), "jobs", None, |job| jobs.push(job)).await?;
        Ok(jobs)
    }

    /// Submits a job. One that must wait, or is held, is accepted too.
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

    /// Changes a job that has not ended. In an array, some elements may be changed and others not: then the refusal comes with a 200.
    pub async fn update_job(&self, id: u64, update: &JobUpdate) -> Result<(), RestError> {
        let body = serde_json::to_vec(update).map_err(|error| RestError::Unreadable(format!("our own body: {error}")))?;
        let mut results: Vec<UpdateResult> = Vec::new();
        let mut keep = |text: &[u8]| {
            results.push(serde_json::from_slice(text)?);
            Ok(())
        };
        let path = format!("job/{id}");
        let ask = Ask { kind: CallKind::UpdateJob, method: Method::POST, path: &path, body: Some(body.into()), wanted: "results" };
        let answer = self.ask(ask, &mut keep).await;
        let answer = answer.and_then(said_in).map_err(|error| absent(error, &[Errno::INVALID_JOB], || format!("job {id}")))?;
        match results.into_iter().find(|result| result.error_code != 0) {
            None => Ok(()),
            Some(result) => Err(RestError::Refused { http: answer.http, number: Errno(result.error_code), text: result.error }),
        }
    }

    /// Kills a running job and requeues it, held if `hold` is true. Needs v0.0.45; refused for a pending job.
    ///
    /// While its processes end, the job is `PENDING+COMPLETING` and still on its nodes.
    pub async fn requeue(&self, id: u64, hold: bool) -> Result<(), RestError> {
        self.able("putting a job back into the queue", Version::requeues_jobs).await?;
        let path = format!("job/{id}/requeue{}", if hold { "?Hold=true" } else { "" });
        let written = self.write(CallKind::RequeueJob, Method::GET, &path, None::<&()>).await;
        written.map(drop).map_err(|error| absent(error, &[Errno::INVALID_JOB], || format!("job {id}")))
    }
}
