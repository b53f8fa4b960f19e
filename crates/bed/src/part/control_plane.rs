//! etcd, the API server, the controller manager and the scheduler.

use std::path::Path;

use crate::control::Part;
use crate::layout::{API_PORT, CONTROL_PLANE, Layout, SERVICE_RANGE};
use crate::part::flags;
use crate::pki::Pki;
use crate::spec::Spec;
use crate::timer;

/// Client rate limits. Without these the controller manager alone takes 4 to 6 seconds longer to start its controllers.
const FAST: [&str; 2] = ["--kube-api-qps=1000", "--kube-api-burst=2000"];

/// Audit policy: every write is recorded with user, object and response. Of reads, only those of the operator are: benchmarks count them.
pub const AUDIT_POLICY: &str = "\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, verbs: [get, list], userGroups: ['system:serviceaccounts:slipway-system']}
- {level: None, verbs: [get, list, watch]}
- {level: Metadata}
";

pub fn etcd(layout: &Layout, spec: &Spec) -> Part {
    let client = "http://127.0.0.1:2379".to_owned();
    let mut args = flags([
        // On the bed's own tmpfs: the data is needed only while the bed is up, and memory is faster than any disk.
        ("data-dir", "/run/etcd".to_owned()),
        ("listen-client-urls", client.clone()),
        ("advertise-client-urls", client),
        ("listen-peer-urls", "http://127.0.0.1:2380".to_owned()),
        ("log-level", "warn".to_owned()),
    ]);
    args.push("--unsafe-no-fsync".to_owned());
    part(layout, "etcd", &spec.programs.distribution.join("etcd"), args)
}

/// API server number `index`, counted from zero.
pub fn apiserver(layout: &Layout, spec: &Spec, pki: &Pki, index: u8) -> Part {
    let name = if index == 0 { "kube-apiserver".to_owned() } else { format!("kube-apiserver-{}", index + 1) };
    let path = |path: std::path::PathBuf| path.display().to_string();
    let mut args = flags([
        ("etcd-servers", "http://127.0.0.1:2379".to_owned()),
        ("secure-port", (API_PORT + u16::from(index)).to_string()),
        ("bind-address", "0.0.0.0".to_owned()),
        ("advertise-address", CONTROL_PLANE.to_string()),
        ("service-cluster-ip-range", SERVICE_RANGE.to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("allow-privileged", "true".to_owned()),
        ("client-ca-file", path(pki.cert("ca"))),
        ("tls-cert-file", path(pki.cert("apiserver"))),
        ("tls-private-key-file", path(pki.key("apiserver"))),
        ("kubelet-client-certificate", path(pki.cert("kubelet-client"))),
        ("kubelet-client-key", path(pki.key("kubelet-client"))),
        ("kubelet-certificate-authority", path(pki.cert("ca"))),
        ("kubelet-preferred-address-types", "InternalIP".to_owned()),
        ("service-account-key-file", path(pki.service_account_public_key())),
        ("service-account-signing-key-file", path(pki.key("sa"))),
        ("service-account-issuer", "https://kubernetes.default.svc.cluster.local".to_owned()),
        ("requestheader-client-ca-file", path(pki.cert("front-proxy-ca"))),
        ("requestheader-allowed-names", "front-proxy-client".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        ("proxy-client-cert-file", path(pki.cert("front-proxy-client"))),
        ("proxy-client-key-file", path(pki.key("front-proxy-client"))),
        ("enable-aggregator-routing", "true".to_owned()),
        ("audit-policy-file", path(layout.root.join("audit-policy.yaml"))),
        ("audit-log-path", path(layout.audit_log())),
        // In one file: by default a second one begins after 100 MB, and a test that counts writes would miss the earlier ones.
        ("audit-log-maxsize", "100000".to_owned()),
        ("profiling", "false".to_owned()),
        ("v", "1".to_owned()),
    ]);
    if spec.api_servers > 1 {
        // Several API servers on one address would otherwise remove each other from the endpoints of `kubernetes`.
        args.push("--endpoint-reconciler-type=none".to_owned());
    }
    part(layout, &name, &spec.programs.kubernetes.join("kube-apiserver"), args)
}

pub fn controller_manager(layout: &Layout, spec: &Spec, pki: &Pki) -> Part {
    let name = "kube-controller-manager";
    let path = |path: std::path::PathBuf| path.display().to_string();
    let mut args = client_flags(pki, name);
    args.extend(flags([
        ("service-account-private-key-file", path(pki.key("sa"))),
        ("root-ca-file", path(pki.cert("ca"))),
        ("cluster-signing-cert-file", path(pki.cert("ca"))),
        ("cluster-signing-key-file", path(pki.key("ca"))),
        ("use-service-account-credentials", "true".to_owned()),
        ("allocate-node-cidrs", "false".to_owned()),
        ("node-monitor-grace-period", timer::NODE_MONITOR_GRACE.to_owned()),
    ]));
    part(layout, name, &spec.programs.kubernetes.join(name), args)
}

pub fn scheduler(layout: &Layout, spec: &Spec, pki: &Pki) -> Part {
    let name = "kube-scheduler";
    part(layout, name, &spec.programs.kubernetes.join(name), client_flags(pki, name))
}

fn client_flags(pki: &Pki, name: &str) -> Vec<String> {
    let kubeconfig = pki.kubeconfig(name).display().to_string();
    let mut args = flags([
        ("kubeconfig", kubeconfig.clone()),
        ("authentication-kubeconfig", kubeconfig.clone()),
        ("authorization-kubeconfig", kubeconfig),
        ("leader-elect", "false".to_owned()),
    ]);
    args.extend(FAST.map(str::to_owned));
    args
}

/// A part with a user ID of its bed. The kernel allows each user 128 inotify instances, of which a control plane takes a dozen, and kubelets, which must
/// run as root, need all of root's. It may read and write what belongs to root.
fn part(layout: &Layout, name: &str, program: &Path, args: Vec<String>) -> Part {
    const FILES: &str = "+dac_override,+dac_read_search,+fowner";
    let as_user = [format!("--reuid={}", user(layout)), format!("--inh-caps={FILES}"), format!("--ambient-caps={FILES}"), "--".to_owned()];
    let args = as_user.into_iter().chain([program.display().to_string()]).chain(args).collect();
    Part { name: name.to_owned(), program: "setpriv".into(), args, log: layout.log(name), restarts: 0 }
}

/// User ID for the control plane of a bed; two beds may happen to share one.
fn user(layout: &Layout) -> u32 {
    let bytes = layout.root.as_os_str().as_encoded_bytes();
    20_000 + bytes.iter().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte))) % 40_000
}
