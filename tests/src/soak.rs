//! A soak: a stream of jobs on a real cluster while a seeded hand disturbs everything around them.
//!
//! The fate of a job is read from its own journal, which each of its tasks keeps outside the pods. So a verdict relies neither on the operator nor
//! on Slurm: a task that was killed stops writing, and a task that ran twice has two journals.

mod fault;
mod hand;
mod job;
mod journal;
mod state;
mod stream;
mod verdict;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::progress::seconds;

use crate::eventually::eventually;
use crate::ground::Ground;
use crate::manifest::{Manifest, WORKER};
use crate::observer::Observer;
use crate::slurm::Slurm;
use hand::{Deeds, Hand};
use job::Job;
use journal::Journal;
use stream::Stream;
use verdict::{Window, judge};

pub use state::{lose_state, restore_state};

const NODES: u8 = 3;
/// Replicas at the beginning and at the end.
const WORKERS: u32 = 3;
/// Folder of the journals in the pods of workers.
const JOURNALS: &str = "/soak";
/// Folder of slurmd, on a small file system of its own.
const SPOOL: &str = "/var/spool/slurmd";

/// Runs a soak on a bed of its own and returns its report. Fails if a job was lost that nothing was supposed to end.
pub async fn soak(seed: u64, length: Duration) -> Result<String, Failure> {
    let ground = Ground::alone("soak", NODES).await?;
    let journal = Journal::create(&ground.bed.layout().root.join("soak"))?;
    let slurm = Arc::new(ground.slurm("slurm", manifest(&journal, seed)?).await?);
    let observer = Observer::start(&ground.bed, &slurm)?;
    eprintln!("soak: seed {seed}, {}", seconds(length));

    let stream = Stream::start(slurm.clone(), journal.clone(), seed)?;
    let mut hand = Hand::new(&ground, &slurm, &observer, &stream, seed)?;
    let until = Instant::now() + length;
    while Instant::now() < until {
        hand.strike().await;
    }
    let Deeds { windows, story, counts } = hand.end().await?;
    let jobs = stream.end();

    let tasks: usize = jobs.iter().filter(|job| job.is_acknowledged).map(Job::tasks).sum();
    let settled = until_settled(&jobs, &journal, &observer, &windows).await;
    if settled.is_ok() {
        until_queue_is_empty(&slurm).await?;
    }
    let at_rest = eventually("the NodeSet to be ready", async || slurm.is_ready("nodeset", WORKER)).await;

    let mut verdict = judge(&jobs, &journal.read()?, &observer.starts(), &windows);
    verdict.wrong.extend(observer.altered_drains());
    let mut report = format!(
        "soak with seed {seed}: {} of faults, {} jobs with {tasks} tasks; {} ended as they should, {} were ended by what was done on purpose, {} unconfirmed submissions",
        seconds(length),
        jobs.len(),
        verdict.completed,
        verdict.excused,
        jobs.iter().filter(|job| !job.is_acknowledged).count(),
    );
    for (fault, times) in counts {
        let _ = write!(report, "\n  {times:>3} x {fault}");
    }
    if verdict.wrong.is_empty() {
        settled.and(at_rest).map_err(|failure| unsettled(&failure, &slurm, &story))?;
        drop(observer);
        ground.end()?;
        return Ok(report);
    }
    let wrong = verdict.wrong.join("\n  ");
    Err(Failure::new(format!("{report}\nlost, and nothing was supposed to end it:\n  {wrong}\nwhat was done:\n  {}", story.join("\n  "))))
}

/// Failure of a cluster that does not come to rest, with what Slurm shows.
fn unsettled(failure: &Failure, slurm: &Slurm, story: &[String]) -> Failure {
    let shown = slurm.on_controller(&["bash", "-c", "squeue --all --long; scontrol show nodes; scontrol show jobs"]);
    let shown = shown.unwrap_or_else(|failure| failure.to_string());
    Failure::new(format!("{failure}\nwhat was done:\n  {}\nin Slurm:\n{shown}", story.join("\n  ")))
}

/// Waits until every job is as it should be. Patience begins again with each that ends: they wait for each other.
async fn until_settled(jobs: &[Job], journal: &Journal, observer: &Observer, windows: &[Window]) -> Result<(), Failure> {
    let wrong = || Ok::<_, Failure>(judge(jobs, &journal.read()?, &observer.starts(), windows).wrong);
    let mut left = wrong()?.len();
    while left > 0 {
        left = eventually("one more job to end", async || {
            let wrong = wrong().map_err(|failure| failure.to_string())?;
            if wrong.len() < left { Ok(wrong.len()) } else { Err(wrong.join("; ")) }
        })
        .await?;
    }
    Ok(())
}

/// Cancels what Slurm still shows when every job has ended or is excused: jobs whose end it did not hear, and those that it holds after a failed launch.
async fn until_queue_is_empty(slurm: &Slurm) -> Result<(), Failure> {
    eventually("Slurm's queue to be empty", async || {
        let ask = |command: &[&str]| slurm.on_controller(command).map_err(|failure| failure.to_string());
        ask(&["scancel", "--quiet", "--user=slurm"])?;
        let left = ask(&["squeue", "--noheader", "--format=%i"])?;
        if left.trim().is_empty() { Ok(()) } else { Err(format!("it shows {}", left.split_whitespace().collect::<Vec<_>>().join(" "))) }
    })
    .await
}

/// The example with a folder of the machine in every worker. Odd seeds reconfigure slurmctld in place.
fn manifest(journal: &Journal, seed: u64) -> Result<Manifest, Failure> {
    let folder = journal.folder().to_str().context(|| "the folder of the journals is no text".to_owned())?;
    let worker = json!({ "spec": {
        "slurmd": { "volumeMounts": [{ "name": "soak", "mountPath": JOURNALS }, { "name": "spool", "mountPath": SPOOL }] },
        "template": { "spec": { "volumes": [
            { "name": "soak", "hostPath": { "path": folder, "type": "Directory" } },
            { "name": "spool", "emptyDir": { "medium": "Memory", "sizeLimit": "16Mi" } },
        ] } },
    } });
    let controller = json!({ "spec": { "inplaceReconfigure": seed % 2 == 1 } });
    Ok(Manifest::demo()?.workers(WORKERS).with("NodeSet", &worker).with("Controller", &controller))
}

/// Time as the journals write it: microseconds since 1970.
#[allow(clippy::disallowed_methods, reason = "the tasks of jobs write the real time")]
fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_micros()).unwrap_or(u64::MAX)
}

fn micros(seconds: u64) -> u64 {
    seconds * 1_000_000
}
