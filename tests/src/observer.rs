//! Somebody who looks on while a scenario runs, through no part of the operator: at jobs, at daemons, at writes.
//!
//! Two threads of its own, so that a scenario that waits for a program does not keep it from looking.

pub mod daemon;
pub mod job;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::Request;
use kube::Client;
use serde_json::Value;
use slipway_bed::bed::Bed;
use slipway_bed::failure::{Context, Failure};
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, Write};
use crate::eventually::eventually;
use crate::slurm::{OPERATOR_NAMESPACE, OPERATOR_USER, Slurm};
use daemon::{Counts, Logs};
use job::{Ledger, Loss, Seen};

const JOBS_EVERY: Duration = Duration::from_millis(250);
const LOGS_EVERY: Duration = Duration::from_millis(100);
/// How long one question to slurmrestd may take; while slurmctld is away it takes longer than anybody wants to wait.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long a look may be impossible.
const PATIENCE: Duration = Duration::from_mins(2);

/// Looks at one Slurm cluster until it is dropped.
pub struct Observer {
    shared: Arc<Shared>,
    audit: Audit,
    namespace: String,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: CancellationToken,
    table: Mutex<Table>,
    logs: Mutex<Logs>,
}

/// What is known from Slurm's table of jobs.
struct Table {
    ledger: Ledger,
    /// When the newest look that succeeded began.
    looked: Option<Instant>,
    /// The longest time between two looks that succeeded.
    outage: Duration,
    /// Why the newest look failed, if it did.
    trouble: String,
}

impl Observer {
    /// Begins to look. Fails where Slurm does not give a token.
    pub fn start(bed: &Bed, slurm: &Slurm) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            stop: CancellationToken::new(),
            table: Mutex::new(Table { ledger: Ledger::default(), looked: None, outage: Duration::ZERO, trouble: String::new() }),
            logs: Mutex::new(Logs::new(bed.layout().root.join("nodes"))),
        });
        let mut observer =
            Self { shared: shared.clone(), audit: Audit::from_now(bed), namespace: slurm.namespace.clone(), threads: Vec::new() };
        let questions = Questions { token: slurm.token()?, path: jobs_path(slurm), kubeconfig: bed.kubeconfig() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(|| "could not make a runtime for the observer".to_owned())?;
        let of_jobs = shared.clone();
        observer.threads.push(std::thread::spawn(move || runtime.block_on(look_at_jobs(&of_jobs, &questions))));
        observer.threads.push(std::thread::spawn(move || look_at_logs(&shared)));
        Ok(observer)
    }

    /// A job was submitted: it must be there from now on.
    pub fn follow(&self, job: u64) {
        self.table().ledger.announce(job, Instant::now());
    }

    /// The scenario itself ends this job, or takes its nodes away.
    pub fn excuse(&self, job: u64) {
        self.table().ledger.excuse(job);
    }

    /// Waits until Slurm's whole table was seen once more.
    pub async fn look_again(&self) -> Result<(), Failure> {
        let from = Instant::now();
        eventually("the observer to see Slurm's jobs", PATIENCE, async || {
            let table = self.table();
            if table.looked.is_some_and(|looked| looked > from) { Ok(()) } else { Err(table.trouble.clone()) }
        })
        .await
    }

    /// What the newest look said about a job.
    pub fn job(&self, id: u64) -> Option<Seen> {
        self.table().ledger.job(id).cloned()
    }

    pub fn losses(&self) -> Vec<Loss> {
        self.table().ledger.losses()
    }

    /// The longest time for which Slurm's jobs could not be seen.
    pub fn outage(&self) -> Duration {
        self.table().outage
    }

    /// What the containers of one name have done in the cluster's namespace, since the bed came up.
    pub fn counts(&self, daemon: &str) -> Counts {
        let mut logs = self.logs();
        logs.read();
        logs.counts(&self.namespace, daemon)
    }

    /// What the operator or a daemon said at an end of its own making.
    pub fn last_words(&self) -> Vec<String> {
        let mut logs = self.logs();
        logs.read();
        let ours = logs.runs().iter().filter(|(run, _)| run.namespace == self.namespace || run.namespace == OPERATOR_NAMESPACE);
        ours.flat_map(|(run, printed)| printed.last_words.iter().map(move |line| format!("{} {}: {line}", run.pod, run.container)))
            .collect()
    }

    /// Writes of the operator, from the API server's own book.
    pub fn operator_writes(&self) -> Vec<Write> {
        self.audit.writes_of(OPERATOR_USER)
    }

    /// Those among them that changed more than what is said about an object.
    pub fn operator_acts(&self) -> Vec<Write> {
        self.audit.acts_of(OPERATOR_USER)
    }

    /// The verdict at the end of a scenario: no job lost, no daemon that gave up, no panic, no write outside.
    pub async fn verdict(&self) -> Result<(), Failure> {
        self.look_again().await?;
        let losses: Vec<_> = self.losses().into_iter().map(|loss| format!("job {} {}", loss.job, loss.what)).collect();
        let outside = self.operator_writes().into_iter().filter(|write| !may_write(write)).map(|write| format!("{write:?}"));
        let wrong: Vec<_> = losses.into_iter().chain(self.last_words()).chain(outside).collect();
        if wrong.is_empty() { Ok(()) } else { Err(Failure::new(format!("the observer saw:\n  {}", wrong.join("\n  ")))) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.shared.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on the test's output.
            let _ = thread.join();
        }
    }
}

/// In namespaces of Slurm clusters and in its own; of the whole cluster, its webhook alone.
fn may_write(write: &Write) -> bool {
    let is_webhook = write.resource == "validatingwebhookconfigurations";
    !matches!(write.namespace.as_str(), "kube-system" | "default") && (!write.namespace.is_empty() || is_webhook)
}

fn look_at_logs(shared: &Shared) {
    while !shared.stop.is_cancelled() {
        shared.logs.lock().unwrap_or_else(PoisonError::into_inner).read();
        std::thread::sleep(LOGS_EVERY);
    }
}

/// How slurmrestd is asked: through the API server, which reaches it whatever happens to the test's own ways.
struct Questions {
    token: String,
    path: String,
    kubeconfig: std::path::PathBuf,
}

fn jobs_path(slurm: &Slurm) -> String {
    format!("/api/v1/namespaces/{}/services/{}-restapi:6820/proxy/slurm/v0.0.45/jobs/", slurm.namespace, slurm.controller)
}

async fn look_at_jobs(shared: &Shared, questions: &Questions) {
    let client = slipway_bed::client::from_kubeconfig(&questions.kubeconfig).await;
    let Ok(client) = client else { return };
    let mut last = Instant::now();
    while !shared.stop.is_cancelled() {
        let began = Instant::now();
        let answer = tokio::time::timeout(ANSWER_WITHIN, ask(&client, questions)).await;
        {
            let mut table = shared.table.lock().unwrap_or_else(PoisonError::into_inner);
            match answer.unwrap_or_else(|_| Err("slurmrestd does not answer".to_owned())) {
                Ok(jobs) => {
                    table.ledger.look(jobs, began);
                    table.outage = table.outage.max(last.elapsed());
                    table.looked = Some(began);
                    last = Instant::now();
                }
                Err(why) => table.trouble = why,
            }
        }
        tokio::select! {
            () = shared.stop.cancelled() => {}
            () = tokio::time::sleep(JOBS_EVERY) => {}
        }
    }
}

async fn ask(client: &Client, questions: &Questions) -> Result<Vec<Seen>, String> {
    let request = Request::get(&questions.path).header("X-SLURM-USER-NAME", "slurm").header("X-SLURM-USER-TOKEN", &questions.token);
    let request = request.body(Vec::new()).map_err(|error| error.to_string())?;
    let answer: Value = client.request(request).await.map_err(|error| error.to_string())?;
    job::parse(&answer).ok_or_else(|| format!("slurmrestd answers with errors: {}", answer["errors"]))
}
