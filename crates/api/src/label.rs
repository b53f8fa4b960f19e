//! Labels, and the values that other programs select by.

/// Daemon in the object's pods; a [`Component::daemon`].
pub const NAME: &str = "app.kubernetes.io/name";
/// Name of the resource that the object was created for.
pub const INSTANCE: &str = "app.kubernetes.io/instance";
/// Part of a cluster that the object belongs to; a [`Component::part`].
pub const COMPONENT: &str = "app.kubernetes.io/component";
/// Name of the Controller that a worker belongs to.
pub const CLUSTER: &str = "slinky.slurm.net/cluster";
/// `"true"` on the slurmctld pod that the client Service selects.
pub const CONTROLLER_ACTIVE: &str = "controller.slinky.slurm.net/active";
/// Name of a worker pod.
pub const POD_NAME: &str = "nodeset.slinky.slurm.net/pod-name";
/// Ordinal of a worker pod.
pub const POD_INDEX: &str = "nodeset.slinky.slurm.net/pod-index";
/// Slurm node name of a worker pod, as known when it was created.
pub const POD_HOSTNAME: &str = "nodeset.slinky.slurm.net/pod-hostname";
/// `"true"` on worker pods that a disruption budget protects.
pub const POD_PROTECT: &str = "nodeset.slinky.slurm.net/pod-protect";
/// Scaling mode of a NodeSet: the way its pods are counted and named.
pub const SCALING_MODE: &str = "nodeset.slinky.slurm.net/scaling-mode";
/// [`SCALING_MODE`] of numbered workers.
pub const NUMBERED: &str = "StatefulSet";
/// [`SCALING_MODE`] of workers with one on each Kubernetes node.
pub const PER_NODE: &str = "DaemonSet";
/// Revision of the StatefulSet that a pod was created from; Kubernetes sets it.
pub const REVISION: &str = "controller-revision-hash";
/// Hash of the template that a worker pod was created from.
pub const TEMPLATE_HASH: &str = "controller.kubernetes.io/hash";

/// Name of a pod of a StatefulSet; Kubernetes sets it.
pub const STATEFULSET_POD: &str = "statefulset.kubernetes.io/pod-name";

/// `"true"` on the only Service of a Controller through which Prometheus finds each slurmctld once.
pub const SCRAPED: &str = "slipway.dev/scraped";

/// Taint that keeps other pods off worker nodes; every worker tolerates it.
pub const WORKER_TAINT: &str = "nodeset.slinky.slurm.net/worker";

/// A part of a Slurm cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Controller,
    RestApi,
    Accounting,
    Worker,
    Login,
}

impl Component {
    /// Every component that has pods.
    pub const ALL: [Self; 5] = [Self::Controller, Self::RestApi, Self::Accounting, Self::Worker, Self::Login];

    /// The daemon, which is also the name of the main container and of its port.
    pub fn daemon(self) -> &'static str {
        match self {
            Self::Controller => "slurmctld",
            Self::RestApi => "slurmrestd",
            Self::Accounting => "slurmdbd",
            Self::Worker => "slurmd",
            Self::Login => "login",
        }
    }

    /// The value of [`COMPONENT`].
    pub fn part(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::RestApi => "restapi",
            Self::Accounting => "accounting",
            Self::Worker => "worker",
            Self::Login => "login",
        }
    }

    /// The labels by which Services and budgets find the pods of `instance`.
    pub fn selector(self, instance: &str) -> [(&'static str, String); 2] {
        [(INSTANCE, instance.to_owned()), (NAME, self.daemon().to_owned())]
    }

    /// The labels of every object created for `instance`.
    pub fn labels(self, instance: &str) -> [(&'static str, String); 3] {
        let [first, second] = self.selector(instance);
        [(COMPONENT, self.part().to_owned()), first, second]
    }

    /// [`Self::selector`] as text, in the form of `status.selector`.
    pub fn selector_text(self, instance: &str) -> String {
        self.selector(instance).map(|(key, value)| format!("{key}={value}")).join(",")
    }
}

/// Selects everything that we created, in any cluster: the only selector of all watches on children.
pub fn ours() -> String {
    format!("{NAME} in ({})", Component::ALL.map(Component::daemon).join(","))
}
