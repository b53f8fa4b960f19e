//! Jobs of the stream.

use fastrand::Rng;

use super::JOURNALS;

/// One submission: a job, or an array of them.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) name: String,
    /// Elements of an array; 1 for an ordinary job.
    pub(super) elements: u32,
    /// Nodes, with one task on each.
    pub(super) nodes: u32,
    pub(super) seconds: u64,
    pub(super) is_requeued: bool,
    /// When it was sent to slurmctld.
    pub(super) submitted: u64,
    /// True if slurmctld confirmed it. What was not confirmed may or may not exist.
    pub(super) is_acknowledged: bool,
}

impl Job {
    /// The job with this number: short, long, an array, or on two nodes.
    pub(super) fn random(number: usize, rng: &mut Rng) -> Self {
        let (elements, nodes, seconds) = match rng.u8(..7) {
            0..3 => (1, 1, rng.u64(2..8)),
            3..5 => (1, 1, rng.u64(45..100)),
            5 => (3, 1, rng.u64(5..20)),
            _ => (1, 2, rng.u64(20..50)),
        };
        Self { name: format!("j{number}"), elements, nodes, seconds, is_requeued: rng.bool(), submitted: 0, is_acknowledged: false }
    }

    /// Number of its tasks, all elements together.
    pub(super) fn tasks(&self) -> usize {
        usize::try_from(self.elements * self.nodes).unwrap_or(usize::MAX)
    }

    /// The command that submits it.
    pub(super) fn command(&self) -> Vec<String> {
        let Self { name, elements, nodes, seconds, is_requeued, .. } = self;
        let mut words: Vec<String> = ["sbatch", "--parsable", "--chdir=/tmp", "--output=/dev/null", "--time=30"].map(str::to_owned).into();
        words.extend([format!("--job-name={name}"), format!("--nodes={nodes}"), "--ntasks-per-node=1".to_owned()]);
        words.push(if *is_requeued { "--requeue" } else { "--no-requeue" }.to_owned());
        if *elements > 1 {
            words.push(format!("--array=0-{}", elements - 1));
        }
        // Without a limit, srun waits for the other tasks until the end of the job, also for one that was killed with its slurmd.
        let srun = if *nodes > 1 { "srun --wait=120 " } else { "" };
        words.push(format!("--wrap={srun}bash {JOURNALS}/task {name} {seconds}"));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_makes_the_same_jobs() {
        let jobs = |seed| {
            let mut rng = Rng::with_seed(seed);
            (0..20).map(|number| Job::random(number, &mut rng).command().join(" ")).collect::<Vec<_>>()
        };
        assert_eq!(jobs(1), jobs(1));
        assert_ne!(jobs(1), jobs(2));
        assert!(jobs(1).iter().any(|job| job.contains("--array")) && jobs(1).iter().any(|job| job.contains("srun")));
    }
}
