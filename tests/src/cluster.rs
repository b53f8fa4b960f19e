//! A cluster to work on: one of our beds, or any other by its kubeconfig.

use std::path::{Path, PathBuf};
use std::process::Command;

use kube::Client;
use serde_json::Value;
use slipway_bed::bed::Bed;
use slipway_bed::failure::{Context, Failure};
use slipway_bed::program::Program;

use crate::ask::ApiServer;

/// Image prefix in the committed manifests: the bed's own store.
const LOCAL_IMAGES: &str = "localhost/slipway/";

/// Admin access to a cluster.
#[derive(Clone, Debug)]
pub struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    api_server: ApiServer,
    /// Prefix of an image's name, with its slash.
    images: String,
}

impl Cluster {
    pub fn of_bed(bed: &Bed) -> Self {
        Self::new(bed.spec().programs.distribution.join("kubectl"), bed.kubeconfig(), LOCAL_IMAGES.to_owned())
    }

    /// Any cluster whose nodes pull from `registry`; our images must already be there.
    pub fn existing(kubeconfig: PathBuf, registry: &str) -> Self {
        Self::new("kubectl".into(), kubeconfig, format!("{}/", registry.trim_end_matches('/')))
    }

    fn new(kubectl: PathBuf, kubeconfig: PathBuf, images: String) -> Self {
        Self { kubectl, api_server: ApiServer::new(kubeconfig.clone()), kubeconfig, images }
    }

    /// The object at a path of the API server.
    pub fn get(&self, path: &str) -> Result<Value, Failure> {
        self.api_server.get(path)
    }

    /// The object at a path of the API server, or `None` if it does not exist.
    pub fn find(&self, path: &str) -> Result<Option<Value>, Failure> {
        self.api_server.find(path)
    }

    /// Posts an object to a path, such as that of a pod's eviction.
    pub fn create(&self, path: &str, object: &Value) -> Result<(), Failure> {
        self.api_server.create(path, object)
    }

    /// Changes the object at a path with a JSON merge patch.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<(), Failure> {
        self.api_server.merge(path, patch)
    }

    /// Deletes the object at a path, or all objects of a list, without waiting. An object that is already gone is no error.
    pub fn delete(&self, path: &str, grace_seconds: Option<u32>) -> Result<(), Failure> {
        self.api_server.delete(path, grace_seconds)
    }

    /// Runs a command in a container and returns its output.
    pub fn exec(&self, namespace: &str, pod: &str, container: &str, command: &[&str]) -> Result<String, Failure> {
        self.api_server.exec(namespace, pod, container, command)
    }

    pub fn kubectl(&self) -> Program {
        Program::new(&self.kubectl).env("KUBECONFIG", &self.kubeconfig)
    }

    /// kubectl as a process to start and stop, for commands that run during a test.
    pub fn kubectl_command(&self) -> Command {
        let mut kubectl = Command::new(&self.kubectl);
        kubectl.env("KUBECONFIG", &self.kubeconfig);
        kubectl
    }

    pub async fn client(&self) -> Result<Client, Failure> {
        slipway_bed::client::from_kubeconfig(&self.kubeconfig).await
    }

    /// Applies a file of the project, or every file of one of its folders, in order of name.
    pub fn apply(&self, relative: &str, namespace: Option<&str>) -> Result<(), Failure> {
        let path = project_root().join(relative);
        let mut files = vec![path.clone()];
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).context(|| format!("could not list {}", path.display()))?;
            files = entries.flatten().map(|entry| entry.path()).filter(|file| file.extension().is_some_and(|end| end == "yaml")).collect();
            files.sort();
        }
        for file in files {
            let text = std::fs::read_to_string(&file).context(|| format!("could not read {}", file.display()))?;
            self.apply_text(&text, namespace)?;
        }
        Ok(())
    }

    /// Applies a manifest, with our images from this cluster's registry.
    pub fn apply_text(&self, manifest: &str, namespace: Option<&str>) -> Result<(), Failure> {
        let manifest = manifest.replace(LOCAL_IMAGES, &self.images);
        self.api_server.apply(&manifest, namespace)
    }
}

/// Root folder of this checkout.
pub fn project_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}
