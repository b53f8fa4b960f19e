//! Supervised tasks: one that ends by itself ends the process, so that a dead watch never goes unnoticed.

use std::{future::Future, time::Duration};

use tokio::{task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

/// Time limit for tasks to finish at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(20);

/// A set of tasks that run and end together.
pub struct Tasks {
    running: JoinSet<String>,
    stop: CancellationToken,
}

/// A task ended without a request to stop.
#[derive(Debug, thiserror::Error)]
#[error("the task {0} ended unexpectedly")]
pub struct Ended(String);

impl Tasks {
    /// `stop` ends every task.
    pub fn new(stop: CancellationToken) -> Self {
        Self { running: JoinSet::new(), stop }
    }

    pub fn spawn(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        let name = name.into();
        self.running.spawn(async move {
            task.await;
            name
        });
    }

    /// Runs until `stop` is cancelled and all tasks are done, or until a task ends by itself.
    pub async fn supervise(mut self) -> Result<(), Ended> {
        let ended = tokio::select! {
            () = self.stop.cancelled() => None,
            ended = self.running.join_next() => ended,
        };
        if let (Some(ended), false) = (ended, self.stop.is_cancelled()) {
            self.stop.cancel();
            return Err(Ended(ended.unwrap_or_else(|panic| panic.to_string())));
        }
        let all_done = async { while self.running.join_next().await.is_some() {} };
        if timeout(SHUTDOWN_TIMEOUT, all_done).await.is_err() {
            tracing::warn!(after = ?SHUTDOWN_TIMEOUT, "tasks did not stop in time and are dropped");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_ends_by_itself_is_an_error_and_stops_the_others() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        tasks.spawn("steady", std::future::pending());
        tasks.spawn("fleeting", async {});
        assert_eq!(tasks.supervise().await.unwrap_err().to_string(), "the task fleeting ended unexpectedly");
        assert!(stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_task_that_panics_is_an_error() {
        let mut tasks = Tasks::new(CancellationToken::new());
        tasks.spawn("shaky", async { panic!("oops") });
        assert!(tasks.supervise().await.is_err());
    }

    #[tokio::test]
    async fn when_asked_to_stop_all_tasks_finish_their_work() {
        let stop = CancellationToken::new();
        let mut tasks = Tasks::new(stop.clone());
        let token = stop.clone();
        tasks.spawn("steady", async move { token.cancelled().await });
        stop.cancel();
        assert!(tasks.supervise().await.is_ok());
    }
}
