//! Our crates and the allowed dependencies between them, as ARCHITECTURE.md draws them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::cluster::project_root;

/// Our crates that each crate may use.
const ARROWS: [(&str, &[&str]); 9] = [
    ("slipway-api", &[]),
    ("slipway-slurm", &[]),
    ("slipway-render", &["slipway-api", "slipway-slurm"]),
    ("slipway-plan", &["slipway-api"]),
    ("slipway-runtime", &["slipway-api"]),
    ("slipway-operator", &["slipway-api", "slipway-slurm", "slipway-render", "slipway-plan", "slipway-runtime"]),
    ("slipway-bed", &[]),
    ("slipway-sim", &["slipway-slurm"]),
    ("slipway-tests", &["slipway-bed", "slipway-sim"]),
];

/// The functional core, and the dependencies that would give it a network, a clock or randomness.
const CORE: [&str; 3] = ["slipway-api", "slipway-render", "slipway-plan"];
const SHELL_ONLY: [&str; 7] = ["tokio", "reqwest", "hyper", "axum", "rand", "futures", "tower"];
/// `slurm` has a client, but only for crates that enable its feature, and it does not depend on Kubernetes.
const SLURM: &str = "slipway-slurm";
const SLURM_CLIENT: &str = "rest";
const KUBERNETES: [&str; 2] = ["kube", "k8s-openapi"];
const SHELL_ONLY_KUBE_FEATURES: [&str; 3] = ["client", "runtime", "ws"];

/// One dependency of a crate, as stated in its manifest.
struct Dependency {
    name: String,
    is_optional: bool,
    features: BTreeSet<String>,
}

fn manifests() -> BTreeMap<String, Vec<Dependency>> {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--locked", "--format-version=1"])
        .current_dir(project_root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages = metadata["packages"].as_array().unwrap().iter().map(|package| {
        // Dev-dependencies do not count.
        let dependencies = package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["kind"].is_null());
        let dependencies = dependencies.map(|dependency| Dependency {
            name: text(&dependency["name"]),
            is_optional: dependency["optional"].as_bool().unwrap(),
            features: dependency["features"].as_array().unwrap().iter().map(text).collect(),
        });
        (text(&package["name"]), dependencies.collect())
    });
    packages.collect()
}

#[test]
fn arrows_point_one_way() {
    let manifests = manifests();
    let known: BTreeSet<_> = ARROWS.iter().map(|(room, _)| (*room).to_owned()).collect();
    assert_eq!(manifests.keys().cloned().collect::<BTreeSet<_>>(), known, "a room came or went: draw it in ARCHITECTURE.md and here");
    for (room, allowed) in ARROWS {
        let used = manifests[room].iter().filter(|dependency| dependency.name.starts_with("slipway-"));
        for dependency in used {
            assert!(allowed.contains(&dependency.name.as_str()), "{room} must not use {}", dependency.name);
        }
    }
}

#[test]
fn the_core_knows_no_network_no_clock_and_no_chance() {
    let manifests = manifests();
    for room in CORE {
        for Dependency { name, features, .. } in &manifests[room] {
            assert!(!SHELL_ONLY.contains(&name.as_str()), "{room} must not use {name}");
            assert!(name != SLURM || !features.contains(SLURM_CLIENT), "{room} must not use the client of {name}");
            if name == "kube" {
                let shell: Vec<_> = SHELL_ONLY_KUBE_FEATURES.iter().filter(|feature| features.contains(**feature)).collect();
                assert!(shell.is_empty(), "{room} must not use kube's features {shell:?}");
            }
        }
    }
}

#[test]
fn slurm_knows_no_kubernetes_and_only_its_client_knows_the_network() {
    for Dependency { name, is_optional, .. } in &manifests()[SLURM] {
        assert!(!KUBERNETES.contains(&name.as_str()), "{SLURM} must not use {name}");
        assert!(!SHELL_ONLY.contains(&name.as_str()) || *is_optional, "{SLURM} may use {name} only in its feature `{SLURM_CLIENT}`");
    }
}
