//! Features that a bed offers to the pods in it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use slipway_bed::bed::Bed;
use slipway_bed::cache::Cache;
use slipway_bed::control::Life;
use slipway_bed::image::{Daemon, Image, Release};
use slipway_bed::patience::Patience;
use slipway_bed::turn::{NODE_WATCHERS, Turn};
use slipway_bed::up::{Wanted, up};

use crate::unique;

/// Image of the test pods. Any image with a shell works; this one is built anyway.
const IMAGE: Image = Image::Slurm(Daemon::Slurmctld, Release::Slurm26_05);
/// Two pods on two nodes that share an RWX claim and each have an RWO one, a Service in front of them, a namespace that allows only restricted pods.
const MANIFEST: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: shared}
spec: {accessModes: [ReadWriteMany], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  replicas: 2
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: web}}
  volumeClaimTemplates:
  - metadata: {name: own}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {app: web}}}
      containers:
      - name: web
        image: @IMAGE@
        imagePullPolicy: Never
        command: [perl, -e]
        args:
        - |
          use IO::Socket::INET; $| = 1; $SIG{PIPE} = 'IGNORE';
          my $s = IO::Socket::INET->new(LocalPort => 8080, Listen => 9, ReuseAddr => 1) or die;
          print "listening\n";
          while (my $c = $s->accept) { my $l = <$c>; print $c "hello from $ENV{HOSTNAME}\n"; shutdown($c, 1); 1 while <$c>; close $c; }
        readinessProbe: {tcpSocket: {port: 8080}, periodSeconds: 1}
        volumeMounts: [{name: shared, mountPath: /shared}, {name: own, mountPath: /own}]
      volumes: [{name: shared, persistentVolumeClaim: {claimName: shared}}]
---
apiVersion: v1
kind: Namespace
metadata: {name: strict, labels: {pod-security.kubernetes.io/enforce: restricted}}
"#;

struct Kubectl<'a>(&'a Bed);

impl Kubectl<'_> {
    fn run(&self, args: &[&str]) -> String {
        self.0.kubectl().args(args).output().unwrap()
    }

    fn in_pod(&self, pod: &str, script: &str) -> String {
        self.run(&["exec", pod, "--", "bash", "-c", script])
    }

    /// Polls one value until it is the wanted one.
    fn wait_for(&self, args: &[&str], wanted: &str) {
        let mut patience = Patience::start();
        loop {
            let answer = self.0.kubectl().args(args).output();
            if answer.as_ref().is_ok_and(|text| text.trim() == wanted) {
                return;
            }
            assert!(!patience.is_exhausted(), "kubectl {args:?} did not become `{wanted}`; last: {answer:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

#[tokio::test]
async fn pods_have_names_services_tokens_volumes_limits_and_their_nodes_come_and_go() {
    let cache = Cache::open().unwrap();
    let _turn = Turn::take(&cache, 2 * NODE_WATCHERS).await.unwrap();
    let bed = up(&cache, &Wanted { images: vec![IMAGE], ..Wanted::cluster(unique("full"), 2) }).await.unwrap();
    let kubectl = Kubectl(&bed);
    bed.kubectl().args(["apply", "--filename=-"]).feed(&MANIFEST.replace("@IMAGE@", &IMAGE.reference())).unwrap();
    kubectl.wait_for(&["get", "statefulset", "web", "--output=jsonpath={.status.readyReplicas}"], "2");

    // DNS, ClusterIP, exec.
    let ask = "exec 3<>/dev/tcp/web/80; echo hello >&3; head -1 <&3";
    assert!(kubectl.in_pod("web-0", ask).contains("hello from web-"));
    assert!(kubectl.in_pod("web-1", "getent hosts web-0.web.default.svc.cluster.local").contains("10.244."));
    assert_eq!(kubectl.in_pod("web-0", "getent hosts no-such-name || echo unknown").trim(), "unknown");
    // Service account token.
    assert!(kubectl.in_pod("web-0", "cat /var/run/secrets/kubernetes.io/serviceaccount/token").matches('.').count() == 2);
    // Logs.
    assert!(kubectl.run(&["logs", "web-0"]).contains("listening"));
    // RWX is one volume for both pods, RWO is one for each.
    kubectl.in_pod("web-0", "echo from-0 > /shared/file; echo own-0 > /own/file");
    assert_eq!(kubectl.in_pod("web-1", "cat /shared/file; ls /own").trim(), "from-0");
    port_forward_answers(&bed);
    restricted_namespaces_refuse_privileged_pods(&bed);
    a_limit_of_memory_is_real(&bed, &kubectl);
    a_kubelet_that_ends_is_started_again(&bed);
    nodes_come_and_go(&bed, &kubectl);
    a_released_volume_is_removed(&bed, &kubectl);
    bed.down().unwrap();
}

fn port_forward_answers(bed: &Bed) {
    let mut forward = Command::new(bed.spec().programs.distribution.join("kubectl"))
        .env("KUBECONFIG", bed.kubeconfig())
        .args(["port-forward", "service/web", ":80"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 64];
    // Kept open to the end: kubectl dies if it writes into a closed pipe.
    let mut printed = forward.stdout.take().unwrap();
    let length = printed.read(&mut line).unwrap();
    let told = String::from_utf8_lossy(&line[..length]).into_owned();
    let port: u16 = told.split("127.0.0.1:").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.write_all(b"hello\n").unwrap();
    let mut answer = String::new();
    BufReader::new(stream).read_line(&mut answer).unwrap();
    forward.kill().unwrap();
    forward.wait().unwrap();
    assert!(answer.contains("hello from web-"), "{answer}");
}

fn restricted_namespaces_refuse_privileged_pods(bed: &Bed) {
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: bad, namespace: strict}\nspec: {containers: [{name: c, image: x, securityContext: {privileged: true}}]}\n";
    let refused = bed.kubectl().args(["apply", "--filename=-"]).feed(pod).unwrap_err().to_string();
    assert!(refused.contains("violates PodSecurity"), "{refused}");
}

fn a_limit_of_memory_is_real(bed: &Bed, kubectl: &Kubectl<'_>) {
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: greedy}}\nspec: {{restartPolicy: Never, containers: [{{name: c, image: \"{}\", \
         imagePullPolicy: Never, command: [perl, -e, '$x = \"a\" x 300_000_000; sleep 600'], resources: {{limits: {{memory: 64Mi}}}}}}]}}\n",
        IMAGE.reference()
    );
    bed.kubectl().args(["apply", "--filename=-"]).feed(&pod).unwrap();
    let reason = "--output=jsonpath={.status.containerStatuses[0].state.terminated.reason}";
    kubectl.wait_for(&["get", "pod", "greedy", reason], "OOMKilled");
}

fn a_kubelet_that_ends_is_started_again(bed: &Bed) {
    let pid = || {
        bed.parts().unwrap().into_iter().find_map(|part| match part.life {
            Life::Running { pid } if part.name == "n1/kubelet" => Some(pid),
            _ => None,
        })
    };
    let first = pid().unwrap();
    let words = bed.enter(Some(1)).unwrap();
    assert!(Command::new(&words[0]).args(&words[1..]).args(["kill", "-9", &first.to_string()]).status().unwrap().success());
    let mut patience = Patience::start();
    while pid().is_none_or(|now| now == first) {
        assert!(!patience.is_exhausted(), "the kubelet stayed down");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn nodes_come_and_go(bed: &Bed, kubectl: &Kubectl<'_>) {
    let ready = |node: &'static str| ["get", "node", node, "--output=jsonpath={.status.conditions[?(@.type=='Ready')].status}"];
    let third = bed.add_node().unwrap();
    assert_eq!(third, 3);
    kubectl.wait_for(&ready("n3"), "True");
    bed.freeze_node(3).unwrap();
    kubectl.wait_for(&ready("n3"), "Unknown");
    bed.thaw_node(3).unwrap();
    kubectl.wait_for(&ready("n3"), "True");
    bed.kill_node(3).unwrap();
    kubectl.wait_for(&ready("n3"), "Unknown");
    bed.start_node(3).unwrap();
    kubectl.wait_for(&ready("n3"), "True");
}

fn a_released_volume_is_removed(bed: &Bed, kubectl: &Kubectl<'_>) {
    kubectl.run(&["delete", "statefulset", "web", "--wait"]);
    kubectl.run(&["delete", "pod", "--selector=app=web", "--ignore-not-found", "--wait"]);
    kubectl.run(&["delete", "pvc", "--all", "--wait"]);
    kubectl.wait_for(&["get", "pv", "--output=name"], "");
    assert_eq!(std::fs::read_dir(bed.layout().volumes()).unwrap().count(), 0);
}
