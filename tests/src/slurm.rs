//! Our operator on a cluster, and a Slurm cluster created by it.

use std::io::Read;

use serde_json::Value;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::progress::Progress;

use crate::cluster::Cluster;
use crate::eventually::eventually;
use crate::manifest::Manifest;

/// User name of the operator at the API server.
pub const OPERATOR_USER: &str = "system:serviceaccount:slipway-system:slipway";
pub const OPERATOR_NAMESPACE: &str = "slipway-system";

/// Kills slurmctld once it listens.
pub const SIGKILL: &str = "exec 3<>/dev/tcp/127.0.0.1/6817 && kill -KILL $(cat /proc/1/task/1/children)";

/// A Slurm cluster in one namespace.
pub struct Slurm {
    pub(crate) cluster: Cluster,
    pub namespace: String,
    /// Name of its Controller and of its RestApi.
    pub controller: String,
    pub manifest: Manifest,
}

/// Installs the CRDs and the operator and waits until it is ready.
pub async fn install_operator(cluster: &Cluster, progress: Progress) -> Result<(), Failure> {
    let step = progress.step("operator: installed and ready");
    apply_operator(cluster)?;
    step.waits_for("the operator's pod");
    until_operator_ready(cluster).await?;
    step.done();
    Ok(())
}

/// Applies the CRDs and the operator's manifest.
pub(crate) fn apply_operator(cluster: &Cluster) -> Result<(), Failure> {
    cluster.apply("charts/slurm-operator-crds/templates", None)?;
    cluster.apply("deploy/operator.yaml", None)
}

/// Waits until the newest generation of the operator's Deployment is ready.
pub(crate) async fn until_operator_ready(cluster: &Cluster) -> Result<(), Failure> {
    eventually("the operator to be ready", async || {
        let path = format!("/apis/apps/v1/namespaces/{OPERATOR_NAMESPACE}/deployments/slipway");
        let deployment = cluster.get(&path).map_err(|failure| failure.to_string())?;
        let is_seen = deployment["status"]["observedGeneration"] == deployment["metadata"]["generation"];
        match deployment["status"]["readyReplicas"].as_i64() {
            Some(1..) if is_seen && deployment["status"]["updatedReplicas"] == 1 => Ok(()),
            _ => Err(pod_troubles(cluster, OPERATOR_NAMESPACE)),
        }
    })
    .await
}

/// Deletes the operator's pod if it runs; its Deployment starts a new one from the newest image.
pub fn restart_operator(cluster: &Cluster) -> Result<(), Failure> {
    let namespace = format!("--namespace={OPERATOR_NAMESPACE}");
    cluster.kubectl().args(["delete", "pods", "--all", "--wait", &namespace]).output().map(drop)
}

impl Slurm {
    /// Applies the project's example in `namespace` and waits until Slurm is up: every kind Ready and all workers idle.
    pub async fn bring_up(cluster: &Cluster, namespace: &str, progress: Progress) -> Result<Self, Failure> {
        let slurm = Self::apply(cluster, namespace, Manifest::demo()?, progress)?;
        slurm.until_ready(progress).await?;
        Ok(slurm)
    }

    /// Creates the namespace and the keys, and applies the manifest there.
    pub fn apply(cluster: &Cluster, namespace: &str, manifest: Manifest, progress: Progress) -> Result<Self, Failure> {
        let step = progress.step("slurm: manifests applied");
        let manifest = manifest.in_namespace(namespace);
        let slurm = Self { cluster: cluster.clone(), namespace: namespace.to_owned(), controller: manifest.controller(), manifest };
        cluster.apply_text(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {namespace}}}\n"), None)?;
        slurm.make_keys()?;
        cluster.apply_text(&slurm.manifest.text(), Some(namespace))?;
        step.done();
        Ok(slurm)
    }

    /// Waits until every resource is Ready and all workers are idle.
    pub async fn until_ready(&self, progress: Progress) -> Result<(), Failure> {
        for (kind, name) in self.manifest.resources() {
            let step = progress.step(format!("slurm: {kind} Ready"));
            eventually(&format!("{kind} `{name}` to be Ready"), async || {
                let waits = self.is_ready(&kind, &name).map_err(|why| format!("{why}; {}", pod_troubles(&self.cluster, &self.namespace)));
                if let Err(why) = &waits {
                    step.waits_for(why.clone());
                }
                waits
            })
            .await?;
            step.done();
        }
        let workers = self.manifest.worker_count();
        let step = progress.step(format!("slurm: {workers} nodes idle"));
        eventually(&format!("{workers} idle Slurm nodes"), async || {
            let idle = self.on_controller(&["sinfo", "--noheader", "--Node", "--states=idle", "--format=%N"]);
            let idle = idle.map_err(|failure| failure.to_string())?;
            let count = idle.lines().filter(|line| !line.trim().is_empty()).count();
            if count == workers { Ok(()) } else { Err(format!("{count} nodes are idle")) }
        })
        .await?;
        step.done();
        Ok(())
    }

    /// Ok if the resource is Ready in its newest generation, else the condition's message.
    pub fn is_ready(&self, kind: &str, name: &str) -> Result<(), String> {
        ready_condition(&self.resource(kind, name)?)
    }

    /// Waits until the resource is not ready for a reason that `is_meant` accepts. It may report another one for a moment, such as a command that
    /// Slurm has not confirmed yet.
    pub async fn until_not_ready(&self, kind: &str, name: &str, is_meant: impl Fn(&str) -> bool) -> Result<(), Failure> {
        eventually(&format!("the {kind} to say why it is not ready"), async || match self.is_ready(kind, name) {
            Err(why) if is_meant(&why) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await
    }

    /// Waits until a condition of one of our resources is as meant.
    pub async fn until_condition(&self, kind: &str, name: &str, condition: &str, is_meant: impl Fn(&Value) -> bool) -> Result<(), Failure> {
        eventually(&format!("condition {condition} of the {kind}"), async || {
            let found = self.condition(kind, name, condition)?;
            if is_meant(&found) { Ok(()) } else { Err(format!("it is {found}; {}", self.nodes())) }
        })
        .await
    }

    /// One of our resources.
    pub fn resource(&self, kind: &str, name: &str) -> Result<Value, String> {
        let path = format!("/apis/slinky.slurm.net/v1beta1/namespaces/{}/{kind}s/{name}", self.namespace);
        self.cluster.get(&path).map_err(|failure| failure.to_string())
    }

    /// A condition of one of our resources; null if it has none of that type.
    pub fn condition(&self, kind: &str, name: &str, condition: &str) -> Result<Value, String> {
        let resource = self.resource(kind, name)?;
        let found = resource["status"]["conditions"].as_array().and_then(|all| all.iter().find(|one| one["type"] == condition));
        Ok(found.cloned().unwrap_or_default())
    }

    /// Names of the pods that carry a label, such as `app.kubernetes.io/name=slurmrestd`.
    pub fn pods_with(&self, label: &str) -> Result<Vec<String>, String> {
        let path = format!("/api/v1/namespaces/{}/pods?labelSelector={label}", self.namespace);
        let pods = self.cluster.get(&path).map_err(|failure| failure.to_string())?;
        let name = |pod: &Value| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        Ok(pods["items"].as_array().into_iter().flatten().map(name).collect())
    }

    /// Kills slurmctld and waits until it responds again.
    pub async fn kill_slurmctld(&self) -> Result<(), Failure> {
        let pod = self.controller_pod();
        eventually("slurmctld to listen and be killed", async || {
            self.on_pod(&pod, "slurmctld", &["bash", "-c", SIGKILL]).map_err(|failure| failure.to_string())
        })
        .await?;
        eventually("slurmctld to answer", async || {
            self.on_controller(&["scontrol", "ping"]).map(drop).map_err(|failure| failure.to_string())
        })
        .await
    }

    /// Creates the keys that a Slurm user creates once, unless they exist.
    fn make_keys(&self) -> Result<(), Failure> {
        if self.cluster.find(&format!("/api/v1/namespaces/{}/secrets/slurm-keys", self.namespace))?.is_some() {
            return Ok(());
        }
        let mut random = std::fs::File::open("/dev/urandom").context(|| "could not open /dev/urandom".to_owned())?;
        let mut key = |bytes: usize| -> Result<String, Failure> {
            let mut buffer = vec![0; bytes];
            random.read_exact(&mut buffer).context(|| "could not read /dev/urandom".to_owned())?;
            Ok(buffer.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
        };
        let manifest = format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: slurm-keys}}\nstringData: {{slurm.key: \"{}\", jwt.key: \"{}\"}}\n",
            key(48)?,
            key(32)?
        );
        self.cluster.apply_text(&manifest, Some(&self.namespace))
    }

    /// Runs a command in slurmctld's pod and returns its output.
    pub fn on_controller(&self, command: &[&str]) -> Result<String, Failure> {
        self.on_pod(&self.controller_pod(), "slurmctld", command)
    }

    /// Name of the pod of the only slurmctld, or of the first.
    pub fn controller_pod(&self) -> String {
        format!("{}-controller-0", self.controller)
    }

    /// Runs a command in a worker's pod.
    pub fn on_worker(&self, pod: &str, command: &[&str]) -> Result<String, Failure> {
        self.on_pod(pod, "slurmd", command)
    }

    pub fn on_pod(&self, pod: &str, container: &str, command: &[&str]) -> Result<String, Failure> {
        self.cluster.exec(&self.namespace, pod, container, command)
    }

    /// Runs kubectl in the cluster's namespace and returns its output.
    pub fn kubectl(&self, args: &[&str]) -> Result<String, Failure> {
        self.cluster.kubectl().arg(self.in_namespace()).args(args).output()
    }

    /// A token for slurmrestd as Slurm's own user, valid for an hour.
    pub fn token(&self) -> Result<String, Failure> {
        let said = self.on_controller(&["scontrol", "token", "username=slurm", "lifespan=3600"])?;
        let token = said.trim().strip_prefix("SLURM_JWT=").map(str::to_owned);
        token.ok_or_else(|| Failure::new(format!("scontrol gave no token but said `{}`", said.trim())))
    }

    fn in_namespace(&self) -> String {
        format!("--namespace={}", self.namespace)
    }
}

/// Ok if the object's `Ready` condition is true for its newest generation, else the condition's message.
fn ready_condition(object: &Value) -> Result<(), String> {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let Some(ready) = conditions.iter().find(|condition| condition["type"] == "Ready") else {
        return Err("it has no Ready condition yet".to_owned());
    };
    if ready["status"] == "True" && ready["observedGeneration"] == object["metadata"]["generation"] {
        return Ok(());
    }
    Err(ready["message"].as_str().unwrap_or("it is not Ready").to_owned())
}

/// Kubernetes' messages about pods of a namespace that do not run.
fn pod_troubles(cluster: &Cluster, namespace: &str) -> String {
    let Ok(pods) = cluster.get(&format!("/api/v1/namespaces/{namespace}/pods")) else {
        return "its pods cannot be listed".to_owned();
    };
    let mut troubles = Vec::new();
    for pod in pods["items"].as_array().into_iter().flatten() {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let containers =
            ["containerStatuses", "initContainerStatuses"].map(|list| pod["status"][list].as_array().cloned().unwrap_or_default());
        for container in containers.iter().flatten() {
            if let Some(reason) = container["state"]["waiting"]["reason"].as_str() {
                let message = container["state"]["waiting"]["message"].as_str().unwrap_or_default();
                troubles.push(format!("pod {name} waits: {reason} {message}"));
            }
        }
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if let Some(message) =
            conditions.iter().find(|c| c["type"] == "PodScheduled" && c["status"] == "False").and_then(|c| c["message"].as_str())
        {
            troubles.push(format!("pod {name} cannot be scheduled: {message}"));
        }
    }
    if troubles.is_empty() { "its pods have no complaint".to_owned() } else { troubles.join("; ") }
}
