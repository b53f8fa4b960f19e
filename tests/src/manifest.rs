//! The project's example as a set of objects to change before applying it.

use serde_json::{Value, json};
use slipway_bed::failure::{Context, Failure};

use crate::cluster::project_root;

/// Name of the Controller and of the RestApi in the example.
pub const CONTROLLER: &str = "slurm";
/// Name of the NodeSet in the example.
pub const WORKER: &str = "worker";

/// Objects that make one Slurm cluster.
#[derive(Clone, Debug)]
pub struct Manifest {
    objects: Vec<Value>,
}

impl Manifest {
    /// `examples/demo.yaml`: a Controller and a RestApi `slurm`, a NodeSet `worker` of two, a ConfigMap `slurm-files`.
    pub fn demo() -> Result<Self, Failure> {
        let path = project_root().join("examples/demo.yaml");
        let text = std::fs::read_to_string(&path).context(|| format!("could not read {}", path.display()))?;
        let objects = serde_saphyr::from_multiple(&text).context(|| format!("{} is no YAML", path.display()))?;
        Ok(Self { objects })
    }

    #[must_use]
    pub fn in_namespace(mut self, namespace: &str) -> Self {
        for object in &mut self.objects {
            object["metadata"]["namespace"] = namespace.into();
        }
        self
    }

    /// Renames the Controller and the RestApi.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        for object in &mut self.objects {
            if matches!(object["kind"].as_str(), Some("Controller" | "RestApi")) {
                object["metadata"]["name"] = name.into();
            }
            if let Some(reference) = object.pointer_mut("/spec/controllerRef/name") {
                *reference = name.into();
            }
        }
        self
    }

    #[must_use]
    pub fn workers(self, replicas: u32) -> Self {
        self.with("NodeSet", &json!({ "spec": { "replicas": replicas } }))
    }

    /// Changes the objects of one kind with a JSON merge patch.
    #[must_use]
    pub fn with(mut self, kind: &str, patch: &Value) -> Self {
        for object in self.objects.iter_mut().filter(|object| object["kind"] == kind) {
            merge(object, patch);
        }
        self
    }

    /// Places all our pods on Kubernetes nodes with these labels.
    #[must_use]
    pub fn on_nodes(self, labels: &Value) -> Self {
        let patch = json!({ "spec": { "template": { "spec": { "nodeSelector": labels } } } });
        ["Controller", "RestApi", "NodeSet"].into_iter().fold(self, |manifest, kind| manifest.with(kind, &patch))
    }

    /// Adds an object.
    #[must_use]
    pub fn and(mut self, object: Value) -> Self {
        self.objects.push(object);
        self
    }

    /// Adds a line to the slurm.conf of its Controllers.
    #[must_use]
    pub fn with_conf(mut self, line: &str) -> Self {
        for controller in self.objects.iter_mut().filter(|object| object["kind"] == "Controller") {
            let lines = controller["spec"]["extraConf"].as_str().unwrap_or_default();
            controller["spec"]["extraConf"] = format!("{lines}{line}\n").into();
        }
        self
    }

    /// Removes the objects of one kind.
    #[must_use]
    pub fn without(mut self, kind: &str) -> Self {
        self.objects.retain(|object| object["kind"] != kind);
        self
    }

    /// Kind and name of our objects, in the order in which they become ready.
    pub fn resources(&self) -> Vec<(String, String)> {
        let ours = self.objects.iter().filter(|object| object["apiVersion"].as_str().is_some_and(|group| group.starts_with("slinky")));
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        ours.map(|object| (text(&object["kind"]).to_lowercase(), text(&object["metadata"]["name"]))).collect()
    }

    /// Number of workers that it requests.
    pub fn worker_count(&self) -> usize {
        let sets = self.objects.iter().filter(|object| object["kind"] == "NodeSet");
        sets.filter_map(|set| usize::try_from(set["spec"]["replicas"].as_u64().unwrap_or(1)).ok()).sum()
    }

    /// The port of the RestApi's Service.
    pub fn rest_port(&self) -> u16 {
        let restapi = self.objects.iter().find(|object| object["kind"] == "RestApi");
        restapi.and_then(|restapi| u16::try_from(restapi.pointer("/spec/service/port")?.as_u64()?).ok()).unwrap_or(6820)
    }

    /// The name of the first Controller.
    pub fn controller(&self) -> String {
        self.resources().into_iter().find(|(kind, _)| kind == "controller").map(|(_, name)| name).unwrap_or_default()
    }

    /// The text to apply. Controllers come last: a slurmctld that is created before its NodeSets are known is restarted with their lines, and the
    /// number of starts must not depend on the speed of applying.
    pub fn text(&self) -> String {
        let (controllers, others): (Vec<_>, Vec<_>) = self.objects.iter().partition(|object| object["kind"] == "Controller");
        let documents: Vec<_> = others.into_iter().chain(controllers).map(Value::to_string).collect();
        documents.join("\n---\n")
    }
}

/// Merges by RFC 7386: an object merges, null removes, anything else replaces.
fn merge(into: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *into = patch.clone();
        return;
    };
    if !into.is_object() {
        *into = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            if let Some(object) = into.as_object_mut() {
                object.remove(name);
            }
        } else {
            merge(&mut into[name], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_takes_another_name_another_namespace_and_more_workers() {
        let manifest = Manifest::demo().unwrap().named("hpc").in_namespace("n").workers(5);
        assert_eq!(manifest.controller(), "hpc");
        assert_eq!(manifest.worker_count(), 5);
        let pairs = [("controller", "hpc"), ("restapi", "hpc"), ("nodeset", WORKER)].map(|(kind, name)| (kind.to_owned(), name.to_owned()));
        assert_eq!(manifest.resources(), pairs);
        let text = manifest.text();
        assert!(!text.contains(r#""namespace":"slurm""#) && text.contains(r#""controllerRef":{"name":"hpc"}"#), "{text}");
    }

    #[test]
    fn a_patch_merges_replaces_and_removes() {
        let patch = json!({ "spec": { "extraConf": "A=1\n", "configFileRefs": null, "persistence": { "enabled": false } } });
        let text = Manifest::demo().unwrap().with("Controller", &patch).text();
        assert!(text.contains(r#""extraConf":"A=1\n""#) && text.contains(r#""enabled":false"#) && text.contains("ReadWriteOnce"), "{text}");
        assert!(!text.contains("configFileRefs"), "{text}");
    }
}
