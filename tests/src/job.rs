//! Jobs on a Slurm cluster.

use slipway_bed::failure::Failure;

use crate::eventually::eventually;
use crate::slurm::Slurm;

const PATIENT: &str = r#"srun --label sh -c "echo start; until [ -e /tmp/release-$SLURM_JOB_ID ]; do sleep 0.5; done; echo end""#;

/// Result of a job.
#[derive(Debug)]
pub struct JobResult {
    pub id: u64,
    pub state: String,
    pub output: String,
}

/// Fields of `scontrol show job`.
#[derive(Debug)]
pub struct Shown {
    pub state: String,
    reason: String,
    /// The node that runs the script.
    pub host: String,
}

impl Slurm {
    /// Submits a batch script on `nodes` nodes, waits for its end and returns its output.
    pub async fn run_job(&self, nodes: u8, script: &str) -> Result<JobResult, Failure> {
        let id = self.submit(nodes, &[], script)?;
        self.until_ended(id).await
    }

    /// Runs a job on all workers, `nodes` of them, until the operator has shown its start and its end: then nothing is left to write about it. A job that
    /// is over sooner may still show later, by a read of Slurm that began while it ran. Returns its ID.
    pub async fn run_shown_job(&self, nodes: u8) -> Result<u64, Failure> {
        let job = self.submit_patient(nodes)?;
        self.until_all_busy().await?;
        self.release(job)?;
        let result = self.until_ended(job).await?;
        if result.state != "COMPLETED" {
            return Err(Failure::new(format!("{result:?}")));
        }
        self.until_at_rest().await?;
        Ok(job)
    }

    /// Submits a job that takes whole nodes. On each it prints `start`, waits for its release, and prints `end`. Its output is appended to, so a
    /// second start would be visible.
    pub fn submit_patient(&self, nodes: u8) -> Result<u64, Failure> {
        self.submit(nodes, &["--exclusive", "--open-mode=append"], PATIENT)
    }

    /// Submits such a job for one node, on this worker only.
    pub fn submit_patient_on(&self, worker: &str) -> Result<u64, Failure> {
        self.submit(1, &["--exclusive", "--open-mode=append", &format!("--nodelist={worker}")], PATIENT)
    }

    /// Output of a patient job on `nodes` nodes that ran once.
    pub fn patient_output(nodes: u8) -> Vec<String> {
        (0..nodes).flat_map(|task| [format!("{task}: end"), format!("{task}: start")]).collect()
    }

    /// Lets a patient job end.
    pub fn release(&self, job: u64) -> Result<(), Failure> {
        for pod in self.pods()? {
            self.on_worker(&pod, &["touch", &format!("/tmp/release-{job}")])?;
        }
        Ok(())
    }

    /// Lets a patient job of one node end, without access to any other worker.
    pub fn release_one(&self, job: u64) -> Result<(), Failure> {
        let host = self.show_job(job)?.host;
        self.on_worker(&self.pod_of(&host)?, &["touch", &format!("/tmp/release-{job}")]).map(drop)
    }

    fn submit(&self, nodes: u8, options: &[&str], script: &str) -> Result<u64, Failure> {
        let (count, wrap) = (format!("--nodes={nodes}"), format!("--wrap={script}"));
        let mut command = vec!["sbatch", "--parsable", "--chdir=/tmp", "--output=/tmp/job-%j.out", "--time=30", &count];
        command.extend(options);
        command.push(&wrap);
        let said = self.on_controller(&command)?;
        said.trim().parse().map_err(|_| Failure::new(format!("sbatch gave no number of a job but said `{}`", said.trim())))
    }

    /// A job as Slurm reports it.
    pub fn show_job(&self, id: u64) -> Result<Shown, Failure> {
        let shown = self.on_controller(&["scontrol", "--oneliner", "show", "job", &id.to_string()])?;
        let field = |name: &str| shown.split_whitespace().find_map(|word| word.strip_prefix(name)).unwrap_or_default().to_owned();
        Ok(Shown { state: field("JobState="), reason: field("Reason="), host: field("BatchHost=") })
    }

    /// Waits until a job is in this state.
    pub async fn until_job(&self, id: u64, state: &str) -> Result<(), Failure> {
        eventually(&format!("job {id} to be {state}"), async || {
            let shown = self.show_job(id).map_err(|failure| failure.to_string())?;
            if shown.state == state { Ok(()) } else { Err(format!("it is {} ({})", shown.state, shown.reason)) }
        })
        .await
    }

    /// Waits for a job's end and returns its output.
    pub async fn until_ended(&self, id: u64) -> Result<JobResult, Failure> {
        let (state, host) = eventually(&format!("job {id} to end"), async || {
            let Shown { state, reason, host } = self.show_job(id).map_err(|failure| failure.to_string())?;
            match state.as_str() {
                "PENDING" | "RUNNING" | "COMPLETING" | "CONFIGURING" => Err(format!("it is {state} ({reason})")),
                _ => Ok((state, host)),
            }
        })
        .await?;
        let output = self.on_worker(&self.pod_of(&host)?, &["cat", &format!("/tmp/job-{id}.out")])?;
        Ok(JobResult { id, state, output })
    }

    /// Waits until slurmctld has saved everything that happened to a job so far. It saves up to five seconds late, and anything unsaved is lost with
    /// its process, on any installation.
    pub async fn until_saved(&self, id: u64) -> Result<(), Failure> {
        let mark = format!("saved-{}", self.on_controller(&["cat", "/proc/sys/kernel/random/uuid"])?.trim());
        self.on_controller(&["scontrol", "update", &format!("jobid={id}"), &format!("comment={mark}")])?;
        eventually(&format!("slurmctld to save job {id}"), async || {
            let found =
                self.on_controller(&["sh", "-c", &format!("grep -q {mark} /var/spool/slurmctld/*/job_state && echo yes || echo no")]);
            if found.map_err(|failure| failure.to_string())?.trim() == "yes" { Ok(()) } else { Err("its state is older".to_owned()) }
        })
        .await
    }
}
