//! A steady stream of jobs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use fastrand::Rng;
use slipway_bed::failure::{Context, Failure};

use super::job::Job;
use super::journal::{Ending, Journal};
use super::{micros, now};
use crate::eventually::eventually;
use crate::slurm::Slurm;

/// Pause between two submissions.
const PAUSE: Duration = Duration::from_millis(700);
/// Most tasks that wait or run at a time: twice what the workers run at once.
const MOST_TASKS: usize = 12;
/// Seconds without a line after which a task counts as ended: longer than any fault lasts.
const SILENT: u64 = 90;

/// Submits jobs from a thread of its own until it is ended.
pub(super) struct Stream {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    is_paused: AtomicBool,
    is_submitting: AtomicBool,
    jobs: Mutex<Vec<Job>>,
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, Vec<Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of tasks that wait or run. One that has not written for a while was ended; if on purpose, it may wait again.
    fn open_tasks(&self, journal: &Journal) -> usize {
        let runs = journal.read().unwrap_or_default();
        let silent = now().saturating_sub(micros(SILENT));
        let over =
            |job: &Job| runs.iter().filter(|run| run.job == job.name && (run.ending == Ending::Complete || run.last < silent)).count();
        let jobs = self.jobs();
        jobs.iter().filter(|job| job.is_acknowledged).map(|job| job.tasks().saturating_sub(over(job))).sum()
    }

    fn submit(&self, slurm: &Slurm, mut job: Job) {
        job.submitted = now();
        let index = {
            let mut jobs = self.jobs();
            jobs.push(job.clone());
            jobs.len() - 1
        };
        let command = job.command();
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        // It fails while slurmctld is away. A job without confirmation may exist nevertheless.
        let is_acknowledged = slurm.on_controller(&words).is_ok();
        if let Some(job) = self.jobs().get_mut(index) {
            job.is_acknowledged = is_acknowledged;
        }
    }
}

impl Stream {
    pub(super) fn start(slurm: Arc<Slurm>, journal: Journal, seed: u64) -> Result<Self, Failure> {
        let shared = Arc::new(Shared::default());
        let (ours, mut rng) = (shared.clone(), Rng::with_seed(seed));
        let work = move || {
            let mut number = 0;
            while !ours.is_over.load(Ordering::SeqCst) {
                ours.is_submitting.store(true, Ordering::SeqCst);
                if !ours.is_paused.load(Ordering::SeqCst) && ours.open_tasks(&journal) < MOST_TASKS {
                    ours.submit(&slurm, Job::random(number, &mut rng));
                    number += 1;
                }
                ours.is_submitting.store(false, Ordering::SeqCst);
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("stream of jobs".to_owned()).spawn(work);
        Ok(Self { shared, thread: Some(thread.context(|| "could not start the stream of jobs".to_owned())?) })
    }

    /// Waits until no job is being submitted, and submits none until `resume`.
    pub(super) async fn pause(&self) -> Result<(), Failure> {
        self.shared.is_paused.store(true, Ordering::SeqCst);
        eventually("the last submission", async || {
            if self.shared.is_submitting.load(Ordering::SeqCst) { Err("it is under way".to_owned()) } else { Ok(()) }
        })
        .await
    }

    pub(super) fn resume(&self) {
        self.shared.is_paused.store(false, Ordering::SeqCst);
    }

    /// Ends the stream and returns every job that was submitted.
    pub(super) fn end(mut self) -> Vec<Job> {
        self.stop();
        std::mem::take(&mut *self.shared.jobs())
    }

    fn stop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has reported it on the test's output.
            let _ = thread.join();
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.stop();
    }
}
