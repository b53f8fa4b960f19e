//! Compute time of a reconcile of an unchanged Controller, without its reads: `make bench`.
#![allow(clippy::unwrap_used, reason = "a benchmark that cannot be set up has nothing to measure")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::json;
use slipway_api::{NodeSet, SlurmController, child::Child};
use slipway_plan::{
    active_controller::ActiveController,
    controller::{Candidate, ControllerPod, Observed, Proof, controller as plan},
    drift::{Seen, SeenChildren},
    gate::Answer,
    missing,
};
use slipway_render::controller::{self as render, ConfigFiles, References};

const RUNS: usize = 200;
const NODESETS: usize = 20;

fn main() {
    let controller: SlurmController = serde_json::from_value(json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller",
        "metadata": { "name": "slurm", "namespace": "slurm", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z" },
        "spec": {
            "clusterName": "bench", "slurmKeyRef": { "name": "keys", "key": "slurm.key" }, "jwtKeyRef": { "name": "keys", "key": "jwt.key" },
            "slurmctld": { "image": "slurmctld" }, "extraConf": "SelectType=select/cons_tres\nReturnToService=2\n",
        },
    }))
    .unwrap();
    let nodeset = |number: usize| -> NodeSet {
        serde_json::from_value(json!({
            "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet", "metadata": { "name": format!("set-{number}"), "namespace": "slurm" },
            "spec": { "controllerRef": { "name": "slurm" }, "partition": { "enabled": true, "config": "State=UP" } },
        }))
        .unwrap()
    };
    let file = "NodeName=DEFAULT Name=gpu File=/dev/nvidia[0-7]\n".repeat(50).into_bytes();
    let references = References {
        config_files: vec![ConfigFiles { name: "files".to_owned(), files: BTreeMap::from([("gres.conf".to_owned(), file)]) }],
        nodesets: (0..NODESETS).map(nodeset).collect(),
        ..References::default()
    };

    let published = render::configuration(&controller, &references).unwrap();
    let config_map = render::config_map(&controller, &published);
    let mut seen = SeenChildren::new();
    let statefulset = render::statefulset(&controller, &references, &published.hash()).unwrap();
    for mut child in render::services(&controller).unwrap().into_iter().chain([config_map.clone(), statefulset]) {
        child.body["status"] = json!({ "observedGeneration": 1, "updatedReplicas": 1, "readyReplicas": 1 });
        child.body["metadata"]["generation"] = 1.into();
        seen.insert(child.key, Seen { live: Some(Arc::new(child.body)), accepted: None });
    }
    let now = Timestamp::UNIX_EPOCH;
    let pods: [ControllerPod; 0] = [];
    let proof = Proof { read_at: Ok(now), workers: 2, behind: Vec::new(), nudges: 0, repeats: 0, repeated_at: None };

    let pass = || {
        let live = render::Configuration::of_config_map(&config_map.body);
        let wanted = render::configuration(&controller, &references).unwrap();
        let workload = |hash: &str| -> Result<Child, _> {
            render::statefulset(&controller, &references, hash).map_err(|invalid| missing::invalid(&invalid))
        };
        let plan = plan(Observed {
            services: render::services(&controller).unwrap(),
            surplus: Vec::new(),
            candidate: Ok(Candidate {
                child: render::config_map(&controller, &wanted),
                hash: wanted.hash(),
                refusals: Vec::new(),
                stable_for: Duration::from_mins(1),
                differs_for: Duration::ZERO,
                dropped_partitions: Vec::new(),
                dropped_partitions_have_jobs: Answer::No,
            }),
            published: Some(live.hash()),
            published_at: None,
            workload: Some(&workload),
            in_place: false,
            pods: &pods,
            active_controller: ActiveController::default(),
            proof: &proof,
            was_proven: true,
            seen: &seen,
            trouble: None,
            created: None,
            now,
        });
        assert!(plan.actions.is_empty(), "nothing has changed: {:?}", plan.actions);
        plan
    };
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let started = Instant::now();
            drop(black_box(pass()));
            started.elapsed()
        })
        .collect();
    times.sort();
    let report = |what: &str, time: Duration| println!("{what:<44} {:>8.3} ms", time.as_secs_f64() * 1000.0);
    report("an unchanged Controller with 20 NodeSets", times[RUNS / 2]);
    report("the slowest but one in twenty of them", times[RUNS * 95 / 100]);
}
