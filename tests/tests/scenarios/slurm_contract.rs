//! A real slurmrestd and slurmctld keep the same contract as the simulator, in every version that they serve.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};

use jiff::Timestamp;
use slipway_sim::contract::openapi::undocumented;
use slipway_sim::contract::{Target, agreed_version, broken_promises};
use slipway_slurm::rest::Version;
use slipway_slurm::rest::clock::Clock;
use slipway_tests::cluster::Cluster;
use slipway_tests::ground::Ground;
use slipway_tests::manifest::Manifest;

/// A port-forward from this machine to a Service of the cluster, until it is dropped.
struct Forward {
    process: Child,
    /// kubectl exits if its output is closed; a line for each connection fits into the pipe.
    _said: BufReader<ChildStdout>,
    url: String,
}

impl Forward {
    /// Starts a port-forward; kubectl chooses a free port and prints it.
    fn to(cluster: &Cluster, namespace: &str, service: &str, port: u16) -> Self {
        let mut kubectl = cluster.kubectl_command();
        kubectl.arg("port-forward").arg(format!("--namespace={namespace}")).arg(format!("service/{service}")).arg(format!(":{port}"));
        let mut process = kubectl.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        said.read_line(&mut line).unwrap();
        let address = line.strip_prefix("Forwarding from ").and_then(|rest| rest.split_whitespace().next());
        let url = format!("http://{}", address.unwrap_or_else(|| panic!("kubectl said `{line}`")));
        Self { process, _said: said, url }
    }
}

impl Drop for Forward {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn a_real_slurmrestd_keeps_the_contract_in_every_version_it_serves() {
    let ground = Ground::up("contract", 2).await.unwrap();
    let slurm = ground.slurm("slurm", Manifest::demo().unwrap()).await.unwrap();
    let key = slurm.kubectl(&["get", "secret", "slurm-keys", "--output=go-template={{index .data \"jwt.key\" | base64decode}}"]).unwrap();
    let forward = Forward::to(&ground.cluster, &slurm.namespace, "slurm-restapi", 6820);
    #[allow(clippy::disallowed_methods, reason = "a real server runs by the real clock")]
    let clock = Clock::new(Timestamp::now);
    let workers = ["worker-0".to_owned(), "worker-1".to_owned()];
    let target = Target { url: forward.url.clone(), key: key.into_bytes(), clock, workers, partition: "worker".to_owned() };

    assert_eq!(agreed_version(&target).await.unwrap(), Version::V45);
    let document = target.openapi().await.unwrap();
    let mut broken = Vec::new();
    for version in Version::NEWEST_FIRST {
        broken.extend(undocumented(&document, version).into_iter().map(|field| format!("{field}: not in the server's own document")));
        broken.extend(broken_promises(&target, version).await.unwrap());
    }
    drop(forward);
    assert!(broken.is_empty(), "broken promises:\n{}", broken.join("\n"));
    ground.end().unwrap();
}
