//! containerd, the kubelet and kube-proxy of one node.

use serde_json::json;

use crate::control::Part;
use crate::layout::{DNS_SERVICE, NodeLayout, POD_RANGE, node_address, pod_range};
use crate::part::flags;
use crate::pki::Pki;
use crate::spec::Spec;
use crate::timer;

pub const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// Image of the process that holds a pod's namespaces.
pub const PAUSE_IMAGE: &str = "localhost/slipway/pause:1";

/// Restarts of a daemon that ends by itself, as the init of a machine would do. They also serve a kubelet that connects to containerd in the moment in
/// which its socket is open and its container runtime service does not respond yet: it exits.
const RESTARTS: u8 = 10;

pub fn containerd(node: &NodeLayout) -> Part {
    Part {
        name: "containerd".to_owned(),
        program: "containerd".into(),
        args: vec!["--config".to_owned(), "/run/containerd.toml".to_owned()],
        log: node.log("containerd"),
        restarts: RESTARTS,
    }
}

pub fn kubelet(spec: &Spec, pki: &Pki, node: &NodeLayout) -> Part {
    let args = flags([
        ("config", "/run/kubelet.yaml".to_owned()),
        ("kubeconfig", pki.kubeconfig(&node.name()).display().to_string()),
        ("hostname-override", node.name()),
        ("node-ip", node_address(node.index).to_string()),
        ("v", "1".to_owned()),
    ]);
    Part {
        name: "kubelet".to_owned(),
        program: spec.programs.kubernetes.join("kubelet"),
        args,
        log: node.log("kubelet"),
        restarts: RESTARTS,
    }
}

pub fn kube_proxy(spec: &Spec, pki: &Pki, node: &NodeLayout) -> Part {
    let zero = || "0".to_owned();
    let args = flags([
        ("kubeconfig", pki.kubeconfig("kube-proxy").display().to_string()),
        ("hostname-override", node.name()),
        ("proxy-mode", "nftables".to_owned()),
        ("cluster-cidr", POD_RANGE.to_owned()),
        // These three belong to the whole machine; zero leaves them unchanged.
        ("conntrack-max-per-core", zero()),
        ("conntrack-tcp-timeout-established", zero()),
        ("conntrack-tcp-timeout-close-wait", zero()),
        ("nodeport-addresses", "primary".to_owned()),
    ]);
    Part {
        name: "kube-proxy".to_owned(),
        program: spec.programs.kubernetes.join("kube-proxy"),
        args,
        log: node.log("kube-proxy"),
        restarts: 0,
    }
}

/// CNI configuration with point-to-point links instead of a bridge. Every packet is routed, so Services between two pods of one node need no bridge
/// netfilter, which would be a kernel module of the machine.
pub fn cni_config(index: u8) -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": "bed",
        "plugins": [{
            "type": "ptp",
            "ipMasq": false,
            "mtu": 1500,
            "ipam": {
                "type": "host-local",
                "dataDir": "/run/cni-ipam",
                "ranges": [[{"subnet": pod_range(index)}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    })
    .to_string()
}

/// containerd configuration in version 2 of the format, which 1.6 and 1.7 read and 2.x converts.
///
/// `restrict_oom_score_adj` is for machines without the right to lower that score. There runc would die without an error message.
pub fn containerd_config() -> String {
    format!(
        r#"version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "/run/cni"
"#
    )
}

pub fn kubelet_config(pki: &Pki, node: &str) -> String {
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": pki.cert("ca")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": pki.cert(node),
        "tlsPrivateKeyFile": pki.key(node),
        "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
        "clusterDNS": [DNS_SERVICE.to_string()],
        "clusterDomain": "cluster.local",
        "resolvConf": "/run/resolv.conf",
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": false,
        "failSwapOn": false,
        "maxPods": 250,
        // All images are local and the disk is the machine's: no image is collected and no pod is evicted for disk space.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"},
        "serializeImagePulls": false,
        "nodeStatusUpdateFrequency": timer::NODE_STATUS_UPDATE,
        // Without this a kubelet that checks its node often also writes its status as often, even unchanged. Its lease shows that it is alive.
        "nodeStatusReportFrequency": "5m",
        "nodeLeaseDurationSeconds": timer::NODE_LEASE_SECONDS,
        "syncFrequency": timer::KUBELET_SYNC,
        "crashLoopBackOff": {"maxContainerRestartPeriod": timer::CRASH_LOOP_BACK_OFF},
    })
    .to_string()
}
