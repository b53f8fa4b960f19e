//! An observer that runs during a scenario, independent of the operator. It watches jobs, drains, workers, daemons and writes.
//!
//! It has two threads of its own, so that a scenario that waits for a program does not block it.

pub mod daemon;
pub mod job;
pub mod node;
pub mod pod;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::Request;
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::Value;
use slipway_bed::bed::Bed;
use slipway_bed::failure::{Context, Failure};
use tokio_util::sync::CancellationToken;

use crate::audit::{Audit, Write};
use crate::cluster::Cluster;
use crate::eventually::eventually;
use crate::slurm::{OPERATOR_NAMESPACE, OPERATOR_USER, Slurm};
use daemon::{Counts, Logs};
use job::{Ledger, Loss, Seen, Start};
use node::Drains;
use pod::Roll;

/// Kinds that the operator creates besides pods.
const MADE: &str = "statefulsets,deployments,services,configmaps,poddisruptionbudgets,persistentvolumeclaims,controllerrevisions";
/// Selects objects with our labels.
const OURS: &str = "app.kubernetes.io/name in (slurmctld,slurmrestd,slurmdbd,slurmd,login)";
/// The API server's status code for the creation of an object.
const CREATED: i64 = 201;
/// Poll intervals. Several observers poll at once on a machine with few cores, so none polls more often than it needs.
const JOBS_EVERY: Duration = Duration::from_secs(1);
const LOGS_EVERY: Duration = Duration::from_millis(300);
/// Timeout of one poll of slurmrestd. While slurmctld is down a response takes too long to wait for.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Observes one Slurm cluster until it is dropped.
pub struct Observer {
    shared: Arc<Shared>,
    audit: Audit,
    cluster: Cluster,
    namespace: String,
    /// Objects with our labels at the start.
    made: BTreeSet<String>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stop: CancellationToken,
    table: Mutex<Table>,
    logs: Mutex<Logs>,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// State from Slurm's tables and the pods.
struct Table {
    ledger: Ledger,
    drains: Drains,
    roll: Roll,
    /// Start of the last successful poll.
    looked: Option<Instant>,
    /// Longest time between two successful polls.
    outage: Duration,
    /// Error of the last poll that failed.
    trouble: String,
}

impl Observer {
    /// Starts to observe. Fails if Slurm issues no token.
    pub fn start(bed: &Bed, slurm: &Slurm) -> Result<Self, Failure> {
        let shared = Arc::new(Shared {
            stop: CancellationToken::new(),
            table: Mutex::new(Table {
                ledger: Ledger::default(),
                drains: Drains::default(),
                roll: Roll::default(),
                looked: None,
                outage: Duration::ZERO,
                trouble: String::new(),
            }),
            logs: Mutex::new(Logs::new(bed.layout().root.join("nodes"), [slurm.namespace.as_str(), OPERATOR_NAMESPACE])),
        });
        let (cluster, namespace) = (slurm.cluster.clone(), slurm.namespace.clone());
        let (audit, made) = (Audit::from_now(bed, [namespace.clone()]), made(&cluster, &namespace)?);
        let mut observer = Self { shared: shared.clone(), audit, cluster, namespace, made, threads: Vec::new() };
        let kubeconfig = bed.kubeconfig();
        let questions = Questions { token: slurm.token()?, path: rest_path(slurm), namespace: slurm.namespace.clone(), kubeconfig };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.context(|| "could not make a runtime for the observer".to_owned())?;
        let of_jobs = shared.clone();
        observer.threads.push(std::thread::spawn(move || runtime.block_on(look_at_cluster(&of_jobs, &questions))));
        observer.threads.push(std::thread::spawn(move || look_at_logs(&shared)));
        Ok(observer)
    }

    /// Announces a submitted job: it must exist from now on.
    pub fn follow(&self, job: u64) {
        self.table().ledger.announce(job, Instant::now());
    }

    /// Excuses a job that the scenario itself ends, or whose nodes it removes.
    pub fn excuse(&self, job: u64) {
        self.table().ledger.excuse(job);
    }

    /// Allows the scenario itself to lift a drain of others on this node.
    pub fn lift(&self, node: &str) {
        self.table().drains.lift(node);
    }

    /// Requires this many available workers at any time from now on.
    pub fn demand(&self, workers: usize) {
        self.table().roll.demand(workers);
    }

    /// Slurm's table of nodes in the last poll.
    pub fn nodes(&self) -> Vec<node::Seen> {
        self.table().drains.table().to_vec()
    }

    /// Waits until another poll has read Slurm's whole table.
    pub async fn look_again(&self) -> Result<(), Failure> {
        let from = Instant::now();
        eventually("the observer to see Slurm's jobs", async || {
            let table = self.table();
            if table.looked.is_some_and(|looked| looked > from) { Ok(()) } else { Err(table.trouble.clone()) }
        })
        .await
    }

    /// A job as last polled.
    pub fn job(&self, id: u64) -> Option<Seen> {
        self.table().ledger.job(id).cloned()
    }

    /// Every start of a job that Slurm has reported.
    pub fn starts(&self) -> Vec<Start> {
        self.table().ledger.starts()
    }

    pub fn losses(&self) -> Vec<Loss> {
        self.table().ledger.losses()
    }

    /// Changes to drains of others that the scenario did not make.
    pub fn altered_drains(&self) -> Vec<String> {
        self.table().drains.altered()
    }

    /// Longest time for which Slurm's jobs could not be read.
    pub fn outage(&self) -> Duration {
        self.table().outage
    }

    /// Counts of the containers of one name in the cluster's namespace, since the scenario began.
    pub fn counts(&self, daemon: &str) -> Counts {
        let mut logs = self.logs();
        logs.read();
        logs.counts(&self.namespace, daemon)
    }

    /// Fatal errors and panics in the logs of the operator and the daemons.
    pub fn last_words(&self) -> Vec<String> {
        let mut logs = self.logs();
        logs.read();
        let ours = logs.runs().iter().filter(|(run, _)| run.namespace == self.namespace || run.namespace == OPERATOR_NAMESPACE);
        ours.flat_map(|(run, printed)| printed.last_words.iter().map(move |line| format!("{} {}: {line}", run.pod, run.container)))
            .collect()
    }

    /// Writes of the operator, from the API server's audit log.
    pub fn operator_writes(&self) -> Vec<Write> {
        self.audit.writes_of(OPERATOR_USER)
    }

    /// Writes of the operator, without status and events.
    pub fn operator_acts(&self) -> Vec<Write> {
        self.audit.acts_of(OPERATOR_USER)
    }

    /// The verdict at the end of a scenario: no job lost, no drain of others changed, enough workers at any time, no write outside; and no fatal
    /// error of a daemon, no panic.
    pub async fn verdict(&self) -> Result<(), Failure> {
        self.look_again().await?;
        let mut wrong: Vec<_> = self.losses().into_iter().map(|loss| format!("job {} {}", loss.job, loss.what)).collect();
        let mut ours = made(&self.cluster, &self.namespace)?;
        ours.extend(self.made.iter().cloned());
        {
            let table = self.table();
            wrong.extend(table.drains.altered());
            wrong.extend(table.roll.missing());
            ours.extend(table.roll.names().iter().cloned());
        }
        wrong.extend(self.last_words());
        let writes = self.operator_writes();
        ours.extend(writes.iter().filter(|write| write.code == CREATED).map(|write| write.name.clone()));
        let outside = writes.into_iter().filter(|write| !may_write(write, &self.namespace, &ours));
        wrong.extend(outside.map(|write| format!("{write:?}")));
        if wrong.is_empty() { Ok(()) } else { Err(Failure::new(format!("the observer saw:\n  {}", wrong.join("\n  ")))) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.shared.table()
    }

    fn logs(&self) -> MutexGuard<'_, Logs> {
        self.shared.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        for thread in self.threads.drain(..) {
            // A thread that panicked has reported it on the test's output.
            let _ = thread.join();
        }
    }
}

/// Names of the objects with our labels in a namespace.
fn made(cluster: &Cluster, namespace: &str) -> Result<BTreeSet<String>, Failure> {
    let (namespace, selector) = (format!("--namespace={namespace}"), format!("--selector={OURS}"));
    let names = "--output=jsonpath={.items[*].metadata.name}";
    let made = cluster.kubectl().args(["get", MADE, &namespace, &selector, names]).output()?;
    Ok(made.split_whitespace().map(str::to_owned).collect())
}

/// True if the operator may make this write: anything in its own namespace and in those of other clusters, which this observer does not know; in the
/// cluster's namespace our kinds, events, and objects that it created or that carry our labels; of cluster-scoped objects its webhook alone.
fn may_write(write: &Write, namespace: &str, ours: &BTreeSet<String>) -> bool {
    let resource = write.resource.split('/').next().unwrap_or_default();
    match write.namespace.as_str() {
        "" => resource == "validatingwebhookconfigurations",
        "kube-system" | "default" => false,
        other if other != namespace => true,
        // A create by POST has no name in the audit log.
        _ => matches!(resource, "controllers" | "restapis" | "nodesets" | "events") || write.name.is_empty() || ours.contains(&write.name),
    }
}

fn look_at_logs(shared: &Shared) {
    while !shared.stop.is_cancelled() {
        shared.logs.lock().unwrap_or_else(PoisonError::into_inner).read();
        std::thread::sleep(LOGS_EVERY);
    }
}

/// Access to slurmrestd through the API server, which reaches it whatever happens to the test's own connections.
struct Questions {
    token: String,
    path: String,
    namespace: String,
    kubeconfig: std::path::PathBuf,
}

fn rest_path(slurm: &Slurm) -> String {
    let Slurm { namespace, controller, manifest, .. } = slurm;
    format!("/api/v1/namespaces/{namespace}/services/{controller}-restapi:{}/proxy/slurm/v0.0.45", manifest.rest_port())
}

async fn look_at_cluster(shared: &Shared, questions: &Questions) {
    let client = slipway_bed::client::from_kubeconfig(&questions.kubeconfig).await;
    let Ok(client) = client else { return };
    let pods = Api::<Pod>::namespaced(client.clone(), &questions.namespace);
    let ours = ListParams::default().labels(OURS);
    let mut last = Instant::now();
    while !shared.stop.is_cancelled() {
        let began = Instant::now();
        let floor = shared.table().roll.floor();
        // While the API server does not respond nothing can be written either, so a failed poll misses little.
        if let Ok(pods) = pods.list(&ours).await {
            shared.table().roll.look(&pods.items, floor);
        }
        let answers = async { Ok::<_, String>((questions.ask(&client, "jobs").await?, questions.ask(&client, "nodes").await?)) };
        let answers = tokio::time::timeout(ANSWER_WITHIN, answers).await.unwrap_or_else(|_| Err("slurmrestd does not answer".to_owned()));
        let answers = answers.and_then(|(jobs, nodes)| {
            let parsed = job::parse(&jobs).zip(node::parse(&nodes));
            parsed.ok_or_else(|| format!("slurmrestd answers with errors: {} {}", jobs["errors"], nodes["errors"]))
        });
        {
            let mut table = shared.table();
            match answers {
                Ok((jobs, nodes)) => {
                    table.ledger.look(jobs, began);
                    table.drains.look(nodes);
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

impl Questions {
    async fn ask(&self, client: &Client, table: &str) -> Result<Value, String> {
        let request = Request::get(format!("{}/{table}/", self.path)).header("X-SLURM-USER-NAME", "slurm");
        let request = request.header("X-SLURM-USER-TOKEN", &self.token).body(Vec::new()).map_err(|error| error.to_string())?;
        client.request(request).await.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_operator_may_write_what_is_ours_and_nothing_else() {
        let ours = BTreeSet::from(["worker-0".to_owned()]);
        let may = |namespace: &str, resource: &str, name: &str| {
            let write = Write {
                user: OPERATOR_USER.to_owned(),
                verb: "patch".to_owned(),
                resource: resource.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                code: 200,
            };
            may_write(&write, "slurm", &ours)
        };
        assert!(may("slurm", "pods/status", "worker-0"));
        assert!(may("slurm", "nodesets/status", "worker"));
        assert!(may("", "validatingwebhookconfigurations", "slipway-webhook"));
        assert!(!may("slurm", "pods", "somebody-elses"));
        assert!(!may("slurm", "secrets", "slurm-keys"));
        assert!(!may("", "nodes", "n1"));
        assert!(!may("kube-system", "pods", "worker-0"));
    }
}
