//! Time of one plan for a NodeSet, at rest and during large changes: `make bench`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use slipway_api::slurm_node::{CONDITION_PREFIX, PodInfo, REASON_PREFIX, SCALE_IN};
use slipway_plan::{
    drift::SeenChildren,
    gate::Answer,
    nodeset::{
        Containers, Finish, Hold, Host, InSlurm, JobPolicy, Kubernetes, Layout, Maintenance, Moves, Observed, Phase, Policy, Reach,
        ReplacementBackoff, Revision, Revisions, Shown, Slot, Slurm, Stage, Update, Worker, nodeset as plan,
    },
};

const RUNS: usize = 50;
const WORKERS: u32 = 10_000;
/// Upper limit for the median.
const MOST: Duration = Duration::from_millis(20);

/// A healthy worker that shows its complete state; each hundredth is busy.
fn worker(ordinal: u32) -> Worker {
    let name = format!("worker-{ordinal}");
    let is_busy = ordinal.is_multiple_of(100);
    let end = Timestamp::UNIX_EPOCH + Duration::from_secs(u64::from(ordinal));
    let state = if is_busy { "Allocated" } else { "Idle" };
    let info = PodInfo {
        namespace: "slurm".to_owned(),
        pod_name: name.clone(),
        node: format!("host-{ordinal}"),
        node_set_name: "worker".to_owned(),
        node_set_uid: "u".to_owned(),
    };
    Worker {
        slot: Slot::Ordinal(ordinal),
        created: None,
        uid: format!("uid-{ordinal}"),
        node: name.clone(),
        stage: Stage::Ready,
        phase: Phase::Running,
        ready_since: Some(Timestamp::UNIX_EPOCH),
        available_from: Some(Timestamp::UNIX_EPOCH),
        gone_by: None,
        host: Some(Host { name: format!("host-{ordinal}"), ..Host::default() }),
        hash: "now".to_owned(),
        is_current: true,
        deletion_cost: 0,
        is_cordoned: false,
        job_policy: JobPolicy::Wait,
        in_slurm: InSlurm {
            is_registered: Answer::Yes,
            is_drained: Answer::No,
            is_busy: if is_busy { Answer::Yes } else { Answer::No },
            hold: Hold::Open,
            finish: if is_busy { Finish::At(end) } else { Finish::Free },
            states: vec![state],
            comment: info.to_string(),
            ..InSlurm::unknown("")
        },
        record: slipway_plan::nodeset::Record::default(),
        is_lost: false,
        shown: Shown {
            conditions: [(format!("{CONDITION_PREFIX}{state}"), String::new())].into(),
            is_protected: is_busy,
            deadline: is_busy.then(|| end.to_string()),
        },
        address: None,
        containers: Containers::Ready,
        trouble: None,
        name,
    }
}

/// Half of the workers drain for a scale-in, and those that are already empty can be deleted.
fn leaving(mut workers: Vec<Worker>) -> Vec<Worker> {
    for worker in workers.iter_mut().filter(|worker| worker.slot >= Slot::Ordinal(WORKERS / 2)) {
        worker.in_slurm.hold = Hold::DrainedByUs;
        worker.in_slurm.reason = format!("{REASON_PREFIX}{SCALE_IN}");
        worker.in_slurm.is_drained = if worker.in_slurm.is_busy == Answer::No { Answer::Yes } else { Answer::No };
    }
    workers
}

fn measure(what: &str, workers: &[Worker], replicas: u32) {
    let (seen, backoff) = (SeenChildren::new(), ReplacementBackoff::new());
    let stored = Revision { name: "worker-now".into(), uid: "r".into(), hash: "now".into(), number: 1, meaning: "now".into() };
    let revisions = Revisions { meaning: "now".into(), data: serde_json::Value::Null, stored: vec![stored], keep: 0 };
    let maintenance = Maintenance::none("SlurmOperatorMaint-worker".to_owned());
    let pass = || {
        plan(Observed {
            policy: Policy {
                namespace: "slurm",
                nodeset: "worker",
                uid: "u",
                controller: "slurm",
                replicas: replicas as usize,
                layout: Layout::Numbered,
                padding: 0,
                hostname: None,
                claim_templates: &[],
                retention: slipway_api::ClaimRetention::default(),
                update: Update::Rolling,
                max_unavailable: 1,
                protects: true,
                prunes: true,
            },
            problem: None,
            new_workers_wait: None,
            workers,
            kubernetes: Kubernetes { shared: Vec::new(), seen: &seen, orphans: &[], claims: &[], revisions: &revisions },
            slurm: Slurm { reach: Reach::Answers, stale_nodes: &[], maintenance: &maintenance, moves: Moves::Now },
            backoff: &backoff,
            now: Timestamp::UNIX_EPOCH + Duration::from_hours(1),
        })
    };
    let actions = pass().actions.len();
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            drop(black_box(pass()));
            started.elapsed()
        })
        .collect();
    times.sort();
    let (median, slow) = (times[RUNS / 2], times[RUNS * 95 / 100]);
    let verdict = if median <= MOST { "within" } else { "OVER" };
    let ms = |time: Duration| time.as_secs_f64() * 1000.0;
    println!("{what:<52} {:>8.3} ms, slowest but one in twenty {:>8.3} ms, {verdict} {MOST:?}; {actions} actions", ms(median), ms(slow));
}

fn main() {
    let workers: Vec<Worker> = (0..WORKERS).map(worker).collect();
    measure("10,000 workers at rest", &workers, WORKERS);
    measure("10,000 workers, all to be drained for a scale-in", &workers, 10);
    measure("10,000 workers, half of them leaving", &leaving(workers), WORKERS / 2);
    measure("10,000 workers to be made", &[], WORKERS);
}
