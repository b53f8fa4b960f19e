use kube::runtime::{
    reflector::{self, store::Writer},
    watcher::Event,
};
use serde_json::{Value, json};
use slipway_api::{NodeSet, SlurmController};

use super::*;

struct Scene {
    controllers: Writer<SlurmController>,
    restapis: Writer<RestApi>,
    sources: Sources,
}

impl Scene {
    fn new() -> Self {
        let ((controller_store, controllers), (restapi_store, restapis)) = (reflector::store(), reflector::store());
        let nodesets = reflector::store::<NodeSet>().0;
        Self { controllers, restapis, sources: Sources { controllers: controller_store, restapis: restapi_store, nodesets } }
    }

    fn controller(&mut self, namespace: &str, name: &str, spec: &Value) -> &mut Self {
        let object = json!({"apiVersion": "slinky.slurm.net/v1beta1", "kind": "Controller",
            "metadata": {"namespace": namespace, "name": name, "uid": "u"}, "spec": spec});
        self.controllers.apply_watcher_event(&Event::Apply(serde_json::from_value(object).unwrap()));
        self
    }

    fn restapi(&mut self, namespace: &str, name: &str, controller: &str, created: &str, going: bool) -> &mut Self {
        let mut metadata = json!({"namespace": namespace, "name": name, "creationTimestamp": created});
        if going {
            metadata["deletionTimestamp"] = created.into();
        }
        let object = json!({"apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": metadata,
            "spec": {"controllerRef": {"name": controller}}});
        self.restapis.apply_watcher_event(&Event::Apply(serde_json::from_value(object).unwrap()));
        self
    }

    fn servers(&self) -> Vec<String> {
        let sessions = wanted(&self.sources, &Address::IN_CLUSTER.parse().unwrap());
        sessions.into_iter().map(|(key, wanted)| format!("{key} {}", wanted.server)).collect()
    }
}

const EARLY: &str = "2026-01-01T00:00:00Z";
const LATE: &str = "2026-01-02T00:00:00Z";

#[test]
fn a_controller_has_a_link_when_it_has_a_restapi() {
    let mut scene = Scene::new();
    scene.controller("n", "x", &json!({})).controller("m", "x", &json!({})).restapi("n", "r", "x", EARLY, false);
    scene.restapi("n", "stray", "nobody", EARLY, false);
    assert_eq!(scene.servers(), ["n/x http://r-restapi.n:6820"]);
}

#[test]
fn the_oldest_restapi_counts_and_one_that_stays_before_one_that_goes() {
    let mut scene = Scene::new();
    scene.controller("n", "x", &json!({}));
    scene.restapi("n", "b", "x", LATE, false).restapi("n", "c", "x", EARLY, false).restapi("n", "a", "x", LATE, false);
    assert_eq!(scene.servers(), ["n/x http://c-restapi.n:6820"]);
    scene.restapi("n", "c", "x", EARLY, true);
    assert_eq!(scene.servers(), ["n/x http://a-restapi.n:6820"]);
}

#[test]
fn the_older_name_of_the_key_counts_where_the_newer_is_not_given() {
    let mut scene = Scene::new();
    scene.controller("n", "x", &json!({"jwtHs256KeyRef": {"name": "old", "key": "k"}})).restapi("n", "r", "x", EARLY, false);
    let sessions = wanted(&scene.sources, &Address::IN_CLUSTER.parse().unwrap());
    let session = &sessions[&Key::new("n", "x")];
    assert_eq!((session.jwt_key.as_ref().unwrap().name.as_str(), session.jwt_field), ("old", "spec.jwtHs256KeyRef"));
}
