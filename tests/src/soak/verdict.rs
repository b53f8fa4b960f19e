//! Fate of the jobs, and whether anything was supposed to end them.

use super::job::Job;
use super::journal::{Ending, Run};
use super::micros;
use crate::observer::job::Start;

/// A time in which something was done that may end some jobs, or make Slurm forget them.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) scope: Scope,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// The jobs that a window excuses.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    /// Whatever runs on this worker.
    On(String),
    /// Whatever starts on this worker: Slurm cannot confirm the start and may start it elsewhere.
    StartsOn(String),
    /// Whatever ends on this worker: Slurm does not hear of it, and may count the job as missing and run it again before it does.
    EndsOn(String),
    /// Whatever ends anywhere, for the same reason.
    Ends,
    /// Whatever is submitted, starts or ends: Slurm saves its state up to five seconds late and forgets what it has not saved.
    Changes,
}

impl Window {
    fn excuses(&self, job: &Job, runs: &[&Run], starts: &[&Start]) -> bool {
        let is_in = |time: u64| (self.from..=self.to).contains(&time);
        let ends_in = |run: &Run| run.ending == Ending::Complete && is_in(run.last);
        match &self.scope {
            Scope::On(worker) => runs.iter().any(|run| run.worker == *worker && run.began <= self.to && run.last >= self.from),
            Scope::StartsOn(worker) => {
                let started: Vec<&&Run> = runs.iter().filter(|run| is_in(run.began)).collect();
                // A task that could not start there has no journal. Slurm's own table names the worker; its times are whole seconds.
                let by_slurm = starts.iter().any(|start| start.is_on(worker) && (is_in(micros(start.at)) || is_in(micros(start.at + 1))));
                by_slurm || started.iter().any(|run| run.worker == *worker)
            }
            Scope::EndsOn(worker) => runs.iter().any(|run| run.worker == *worker && ends_in(run)),
            Scope::Ends => runs.iter().any(|run| ends_in(run)),
            Scope::Changes => is_in(job.submitted) || runs.iter().any(|run| is_in(run.began) || ends_in(run)),
        }
    }
}

/// The fate of all jobs. The elements of an array count as jobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) completed: usize,
    pub(super) excused: usize,
    pub(super) wrong: Vec<String>,
}

/// Judges every confirmed job by the journals of its tasks: each task ran once and came to its end, unless a window excuses the job.
pub(super) fn judge(jobs: &[Job], runs: &[Run], starts: &[Start], windows: &[Window]) -> Verdict {
    let mut verdict = Verdict::default();
    for job in jobs.iter().filter(|job| job.is_acknowledged) {
        let of_job: Vec<&Run> = runs.iter().filter(|run| run.job == job.name).collect();
        for element in 0..job.elements {
            let of_element: Vec<&Run> = of_job.iter().copied().filter(|run| run.element == element).collect();
            let its_starts: Vec<&Start> = starts.iter().filter(|it| it.job == job.name && it.element == u64::from(element)).collect();
            let wrong: Vec<String> = (0..job.nodes).filter_map(|rank| trouble(job, rank, &of_element)).collect();
            if wrong.is_empty() {
                verdict.completed += 1;
            } else if windows.iter().any(|window| window.excuses(job, &of_element, &its_starts)) {
                verdict.excused += 1;
            } else {
                let name = if job.elements > 1 { format!("{}[{element}]", job.name) } else { job.name.clone() };
                verdict.wrong.extend(wrong.into_iter().map(|what| format!("job {name} {what}")));
            }
        }
    }
    verdict
}

/// Fault of one task, or `None` if it ran once and came to its end.
fn trouble(job: &Job, rank: u32, runs: &[&Run]) -> Option<String> {
    let runs: Vec<&&Run> = runs.iter().filter(|run| run.rank == rank).collect();
    let life = |run: &Run| {
        let length = run.last.saturating_sub(run.began) / 1_000_000;
        format!("on {} for {length} of {} s from {} ({:?})", run.worker, job.seconds, run.began / 1_000_000, run.ending)
    };
    match runs.as_slice() {
        [] => Some(format!("never ran (submitted at {})", job.submitted / 1_000_000)),
        [run] if run.ending == Ending::Complete => None,
        [run] => Some(format!("did not come to its end: task {rank} ran {}", life(run))),
        several => {
            let lives: Vec<String> = several.iter().map(|run| life(run)).collect();
            Some(format!("ran {} times: task {rank} {}", several.len(), lives.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;
    use rstest::rstest;

    use super::*;

    fn job() -> Job {
        let job = Job::random(1, &mut Rng::with_seed(1));
        Job { elements: 1, nodes: 1, seconds: 10, submitted: 100, is_acknowledged: true, ..job }
    }

    fn run(worker: &str, began: u64, last: u64, ending: Ending) -> Run {
        Run { job: "j1".into(), element: 0, rank: 0, worker: worker.into(), began, last, ending }
    }

    fn window(scope: Scope, from: u64, to: u64) -> Window {
        Window { scope, from, to }
    }

    fn counts(runs: &[Run], windows: &[Window]) -> (usize, usize, usize) {
        let verdict = judge(&[job()], runs, &[], windows);
        (verdict.completed, verdict.excused, verdict.wrong.len())
    }

    #[test]
    fn one_complete_run_is_right_and_all_else_is_wrong() {
        assert_eq!(counts(&[run("w-0", 110, 120, Ending::Complete)], &[]), (1, 0, 0));
        assert_eq!(counts(&[], &[]), (0, 0, 1), "it never ran");
        assert_eq!(counts(&[run("w-0", 110, 115, Ending::Open)], &[]), (0, 0, 1), "it was killed");
        assert_eq!(counts(&[run("w-0", 110, 115, Ending::Killed), run("w-1", 120, 130, Ending::Complete)], &[]), (0, 0, 1), "it ran twice");
        let unconfirmed = Job { is_acknowledged: false, ..job() };
        assert_eq!(judge(&[unconfirmed], &[], &[], &[]), Verdict::default(), "it may not exist");
    }

    #[rstest]
    #[case::killed_worker(Scope::On("w-0".into()), 112, 118, true)]
    #[case::worker_killed_later(Scope::On("w-0".into()), 121, 130, false)]
    #[case::another_worker(Scope::On("w-1".into()), 112, 118, false)]
    #[case::start_in_a_hang(Scope::StartsOn("w-0".into()), 109, 130, true)]
    #[case::a_hang_in_the_middle(Scope::StartsOn("w-0".into()), 112, 130, false)]
    #[case::submitted_unsaved(Scope::Changes, 95, 101, true)]
    #[case::started_unsaved(Scope::Changes, 109, 111, true)]
    #[case::slurmctld_dies_in_the_middle(Scope::Changes, 112, 118, false)]
    fn a_killed_run_is_excused_by_what_was_done_to_it_alone(
        #[case] scope: Scope,
        #[case] from: u64,
        #[case] to: u64,
        #[case] is_excused: bool,
    ) {
        let killed = [run("w-0", 110, 115, Ending::Open)];
        assert_eq!(counts(&killed, &[window(scope, from, to)]), (0, usize::from(is_excused), usize::from(!is_excused)));
    }

    #[test]
    fn a_job_that_could_not_start_in_a_hang_is_excused_by_where_slurm_started_it() {
        let start = |nodes: &str, at| Start::new("j1", 0, at, nodes);
        let hang = |from, to| [window(Scope::StartsOn("w-1".into()), micros(from), micros(to))];
        let excused = |starts: &[Start], windows: &[Window]| judge(&[job()], &[], starts, windows).excused;
        assert_eq!(excused(&[start("w-[0-1]", 110)], &hang(109, 130)), 1, "it never ran");
        assert_eq!(excused(&[start("w-[0-1]", 110)], &hang(112, 130)), 0, "it started before");
        assert_eq!(excused(&[start("w-0", 110)], &hang(109, 130)), 0, "it started elsewhere");
        assert_eq!(excused(&[], &hang(109, 130)), 0, "Slurm's table does not show it");
    }

    #[test]
    fn an_end_that_slurm_forgot_excuses_a_second_run() {
        let twice = [run("w-0", 110, 120, Ending::Complete), run("w-1", 140, 150, Ending::Complete)];
        assert_eq!(counts(&twice, &[window(Scope::Changes, 119, 125)]), (0, 1, 0));
        assert_eq!(counts(&twice, &[window(Scope::Changes, 112, 118)]), (0, 0, 1));
        for (scope, is_excused) in [(Scope::Ends, true), (Scope::EndsOn("w-0".into()), true), (Scope::EndsOn("w-2".into()), false)] {
            assert_eq!(counts(&twice, &[window(scope.clone(), 119, 125)]).1, usize::from(is_excused), "{scope:?}");
            assert_eq!(counts(&twice, &[window(scope, 112, 118)]).1, 0, "it ended later");
        }
    }
}
