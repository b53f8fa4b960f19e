//! Conditions of a Controller or RestApi if something it needs is missing or wrong, on a real API server: they report the first problem and the
//! remedy, existing objects are not touched meanwhile, and work resumes once the cause is removed.

use std::time::Instant;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::stage::{Stage, condition, controller, eventually};

/// One mistake in an object that a Controller refers to, or in its own spec.
struct Case {
    name: &'static str,
    spec: Value,
    /// The spec with the mistake, or `None` if the mistake is in the object.
    bad_spec: Option<Value>,
    /// The correct object: resource and body.
    object: Option<(&'static str, Value)>,
    /// The object with the mistake, or `None` if the mistake is that it is missing.
    bad_object: Option<Value>,
    reason: &'static str,
    words: &'static [&'static str],
}

/// A key in base64.
const KEY: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";
const SECRETS: &str = "secrets";
const CONFIG_MAPS: &str = "configmaps";
const CLAIMS: &str = "persistentvolumeclaims";

fn secret(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": name }, "data": data })
}

fn config_map(name: &str, data: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": data })
}

fn claim(name: &str, mode: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name },
        "spec": { "accessModes": [mode], "resources": { "requests": { "storage": "1Gi" } } },
    })
}

/// A case with a missing or wrong object.
fn object(name: &'static str, spec: Value, resource: &'static str, good: Value, reason: &'static str) -> Case {
    Case { name, spec, bad_spec: None, object: Some((resource, good)), bad_object: None, reason, words: &[] }
}

/// A case of a field that names ConfigMaps with scripts.
fn script(name: &'static str, field: &str, words: &'static [&'static str]) -> Case {
    let spec = json!({ field: [{ "name": name }] });
    let file = format!("{name}.sh");
    let good = config_map(name, &json!({ file: "#!/bin/sh\n" }));
    Case { words, ..object(name, spec, CONFIG_MAPS, good, "ConfigMapMissing") }
}

fn cases() -> Vec<Case> {
    let key = |name: &str| json!({ "name": name, "key": "key" });
    let good_key = json!({ "key": KEY });
    let shared = |claim: &str| json!({ "ha": { "enabled": true }, "persistence": { "existingClaim": claim } });
    let jwks = json!({ "jwksKeyRef": { "name": "jwks", "key": "keys.json" } });
    let files = json!({ "configFileRefs": [{ "name": "both-a" }, { "name": "both-b" }] });
    vec![
        Case {
            words: &["Secret `slurm/slurm-secret` does not exist", "create it", "spec.slurmKeyRef"],
            ..object(
                "slurm-secret",
                json!({ "slurmKeyRef": key("slurm-secret") }),
                SECRETS,
                secret("slurm-secret", &good_key),
                "SecretMissing",
            )
        },
        Case {
            bad_object: Some(secret("slurm-key", &json!({ "other": KEY }))),
            words: &["Secret `slurm/slurm-key` has no key `key`", "add it", "spec.slurmKeyRef"],
            ..object("slurm-key", json!({ "slurmKeyRef": key("slurm-key") }), SECRETS, secret("slurm-key", &good_key), "SecretMissing")
        },
        Case {
            words: &["Secret `slurm/jwt-secret` does not exist", "create it", "spec.jwtKeyRef"],
            ..object("jwt-secret", json!({ "jwtKeyRef": key("jwt-secret") }), SECRETS, secret("jwt-secret", &good_key), "SecretMissing")
        },
        Case {
            words: &["ConfigMap `slurm/files` does not exist", "create it", "spec.configFileRefs"],
            ..object(
                "files",
                json!({ "configFileRefs": [{ "name": "files" }] }),
                CONFIG_MAPS,
                config_map("files", &json!({ "gres.conf": "AutoDetect=off\n" })),
                "ConfigMapMissing",
            )
        },
        script("prolog", "prologScriptRefs", &["ConfigMap `slurm/prolog` does not exist", "create it", "spec.prologScriptRefs"]),
        script("epilog", "epilogScriptRefs", &["ConfigMap `slurm/epilog` does not exist", "create it", "spec.epilogScriptRefs"]),
        script("before", "prologSlurmctldScriptRefs", &["ConfigMap `slurm/before` does not exist", "spec.prologSlurmctldScriptRefs"]),
        script("after", "epilogSlurmctldScriptRefs", &["ConfigMap `slurm/after` does not exist", "spec.epilogSlurmctldScriptRefs"]),
        Case {
            bad_object: Some(config_map("jwks", &json!({ "other.json": "{}" }))),
            words: &["ConfigMap `slurm/jwks` has no text under the key `keys.json`", "add it", "spec.jwksKeyRef"],
            ..object("jwks", jwks, CONFIG_MAPS, config_map("jwks", &json!({ "keys.json": "{\"keys\": []}" })), "ConfigMapMissing")
        },
        Case {
            words: &["claim `slurm/claim`", "spec.persistence.existingClaim", "does not exist", "create it"],
            ..object("claim", shared("claim"), CLAIMS, claim("claim", "ReadWriteMany"), "ClaimUnfit")
        },
        Case {
            words: &["claim `slurm/alone`", "does not exist", "create it"],
            ..object("alone", json!({ "persistence": { "existingClaim": "alone" } }), CLAIMS, claim("alone", "ReadWriteOnce"), "ClaimUnfit")
        },
        Case {
            bad_object: Some(claim("mode", "ReadWriteOnce")),
            words: &["claim `mode` has access modes [ReadWriteOnce]", "ReadWriteMany", "name a claim"],
            ..object("mode", shared("mode"), CLAIMS, claim("mode", "ReadWriteMany"), "InvalidSpec")
        },
        Case {
            name: "extra",
            spec: json!({ "extraConf": "KillWait=30\nMinJobAge=300\n" }),
            bad_spec: Some(json!({ "extraConf": "KillWait=30\nMinJobAgee=300\n" })),
            object: None,
            bad_object: None,
            reason: "ConfigurationRefused",
            words: &["line 2 of spec.extraConf", "slurm.conf line ", "MinJobAgee"],
        },
        Case {
            bad_object: Some(config_map("cgroup", &json!({ "cgroup.conf": "# one\nNoSuchKey=1\n" }))),
            words: &["cgroup.conf line 2", "NoSuchKey"],
            ..object(
                "cgroup",
                json!({ "configFileRefs": [{ "name": "cgroup" }] }),
                CONFIG_MAPS,
                config_map("cgroup", &json!({ "cgroup.conf": "# one\n" })),
                "ConfigurationRefused",
            )
        },
        Case {
            bad_object: Some(config_map("both-b", &json!({ "gres.conf": "AutoDetect=off\n" }))),
            words: &["spec.configFileRefs", "two files `gres.conf`", "`both-a` and `both-b`", "take it out of one"],
            ..object("both", files, CONFIG_MAPS, config_map("both-b", &json!({ "topology.conf": "# none\n" })), "InvalidSpec")
        },
        Case {
            bad_object: Some(config_map("own", &json!({ "slurm.conf": "KillWait=30\n" }))),
            words: &["spec.configFileRefs", "`own` with a key `slurm.conf`", "only the operator writes", "spec.extraConf"],
            ..object(
                "own",
                json!({ "configFileRefs": [{ "name": "own" }] }),
                CONFIG_MAPS,
                config_map("own", &json!({ "gres.conf": "AutoDetect=off\n" })),
                "InvalidSpec",
            )
        },
    ]
}

/// Creates or updates an object, or deletes it if `object` is `None`.
async fn put(stage: &Stage, resource: &str, name: &str, object: Option<&Value>) {
    let group = if ["controllers", "accountings"].contains(&resource) { "apis/slinky.slurm.net/v1beta1" } else { "api/v1" };
    let path = format!("/{group}/namespaces/{}/{resource}/{name}", stage.namespace);
    if resource == CLAIMS || object.is_none() {
        // A claim is immutable, and is deleted only without the finalizer that marks it as in use.
        stage.edit(&path, &json!({ "metadata": { "finalizers": null } })).await;
        stage.delete(&path, "Background").await;
    }
    if let Some(object) = object {
        let answer = stage.put(&path, object).await;
        assert!([200, 201].contains(&answer.code), "{answer:?}");
    }
}

impl Case {
    fn late_name(&self) -> String {
        format!("{}-late", self.name)
    }

    async fn put_controller(&self, stage: &Stage, name: &str, spec: &Value) {
        let mut spec = spec.clone();
        spec["slurmctld"] = json!({ "image": "slurmctld" });
        put(stage, "controllers", name, Some(&controller(name, &spec))).await;
    }

    async fn put_object(&self, stage: &Stage, is_good: bool) {
        let Some((resource, good)) = &self.object else { return };
        let name = good["metadata"]["name"].as_str().unwrap();
        put(stage, resource, name, if is_good { Some(good) } else { self.bad_object.as_ref() }).await;
    }

    /// Waits until only the pods are missing, which nothing starts here.
    async fn is_well(&self, stage: &Stage, name: &str) {
        until_reported(stage, "controllers", name, "PodsNotReady", &["slurmctld: 0 of"]).await;
    }

    /// Introduces the mistake, checks that it is reported and nothing is touched, fixes it and checks that work resumes.
    async fn play(&self, stage: &Stage) {
        let late = self.late_name();
        self.put_object(stage, true).await;
        self.put_controller(stage, self.name, &self.spec).await;
        self.is_well(stage, self.name).await;
        let before = children(stage, self.name).await;
        assert!(before.len() >= 4, "{before:?}");

        self.put_object(stage, false).await;
        let bad_spec = self.bad_spec.as_ref().unwrap_or(&self.spec);
        self.put_controller(stage, self.name, bad_spec).await;
        self.put_controller(stage, &late, bad_spec).await;
        for name in [self.name, &late] {
            until_reported(stage, "controllers", name, self.reason, self.words).await;
        }
        assert_eq!(children(stage, self.name).await, before, "{}: something that exists was changed", self.name);
        let made = children(stage, &late).await;
        assert!(made.iter().all(|(child, _)| child.starts_with("Service/")), "{late}: {made:?}");

        let mended = Instant::now();
        self.put_object(stage, true).await;
        for name in [self.name, &late] {
            self.put_controller(stage, name, &self.spec).await;
        }
        for name in [self.name, &late] {
            self.is_well(stage, name).await;
        }
        eprintln!("{} was well {:.1?} after its cause was gone", self.name, mended.elapsed());
        assert_eq!(children(stage, self.name).await, before, "{}: something was changed though all is as it was", self.name);
    }
}

/// Waits until Ready is False with this reason and these words, for the current generation.
async fn until_reported(stage: &Stage, plural: &str, name: &str, reason: &str, words: &[&str]) {
    let words: Vec<String> = words.iter().map(|words| stage.here(words)).collect();
    eventually(&format!("{plural}/{name} to say {reason} {words:?}"), async || {
        let object = stage.object(plural, name).await;
        let ready = condition(&object, "Ready");
        let message = ready["message"].as_str().unwrap_or_default();
        let is_current = ready["observedGeneration"] == object["metadata"]["generation"] && !ready["observedGeneration"].is_null();
        let is_said = ready["status"] == "False" && ready["reason"] == reason && words.iter().all(|part| message.contains(part.as_str()));
        if is_current && is_said { Ok(()) } else { Err(ready.to_string()) }
    })
    .await;
}

/// All children of an object, with their resource versions.
async fn children(stage: &Stage, owner: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (group, plural) in [("api/v1", "services"), ("api/v1", "configmaps"), ("apis/apps/v1", "statefulsets")] {
        let list = stage.get(&format!("/{group}/namespaces/{}/{plural}", stage.namespace)).await;
        let kind = list["kind"].as_str().unwrap().trim_end_matches("List").to_owned();
        for item in list["items"].as_array().unwrap() {
            if item["metadata"]["ownerReferences"][0]["name"] == owner {
                let text = |field: &str| item["metadata"][field].as_str().unwrap().to_owned();
                found.push((format!("{kind}/{}", text("name")), text("resourceVersion")));
            }
        }
    }
    found.sort();
    found
}

/// Reasons of the events about an object, sorted.
fn events(all: &Value, name: &str) -> Vec<String> {
    let about = |event: &&Value| event["regarding"]["name"] == name;
    let mut reasons: Vec<_> =
        all["items"].as_array().unwrap().iter().filter(about).map(|event| event["reason"].as_str().unwrap().to_owned()).collect();
    reasons.sort();
    reasons
}

#[tokio::test]
async fn what_is_missing_or_wrong_is_named_with_its_remedy_touches_nothing_and_heals() {
    let stage = Stage::new("conditions").await;
    let _operator = stage.operator("slipway", &[]);
    put(&stage, SECRETS, "keys", Some(&secret("keys", &json!({ "key": KEY })))).await;
    put(&stage, CONFIG_MAPS, "both-a", Some(&config_map("both-a", &json!({ "gres.conf": "AutoDetect=off\n" })))).await;
    let cases = cases();
    join_all(cases.iter().map(|case| case.play(&stage))).await;

    // Each change caused one event.
    let all = stage.get(&format!("/apis/events.k8s.io/v1/namespaces/{}/events?limit=1000", stage.namespace)).await;
    for case in &cases {
        for name in [case.name, &case.late_name()] {
            let told = events(&all, name);
            let count = told.iter().filter(|reason| *reason == case.reason).count();
            assert_eq!(count, 1, "{name}: {told:?}");
        }
    }
    stage.end();
}

#[tokio::test]
async fn a_reference_to_another_resource_that_dangles_is_named_and_heals_when_it_comes() {
    let stage = Stage::new("dangling").await;
    let _operator = stage.operator("slipway", &[]);
    put(&stage, SECRETS, "keys", Some(&secret("keys", &json!({ "key": KEY })))).await;
    let accounting = |spec: Value| json!({ "apiVersion": "slinky.slurm.net/v1beta1", "kind": "Accounting", "metadata": { "name": "records" }, "spec": spec });
    let outside = accounting(json!({ "external": true, "externalConfig": { "host": "dbd.example.com", "port": 6819 } }));
    let slurm = controller("slurm", &json!({ "slurmctld": { "image": "slurmctld" }, "accountingRef": { "name": "records" } }));
    let restapi = json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "RestApi", "metadata": { "name": "api" },
        "spec": { "controllerRef": { "name": "slurm" }, "slurmrestd": { "image": "slurmrestd" } },
    });
    assert_eq!(stage.create("restapis", &restapi).await.code, 201);
    until_reported(
        &stage,
        "restapis",
        "api",
        "ControllerMissing",
        &["Controller `slurm/slurm` does not exist", "create it", "spec.controllerRef"],
    )
    .await;
    put(&stage, "controllers", "slurm", Some(&slurm)).await;
    let words = ["Accounting `slurm/records` does not exist", "create it", "spec.accountingRef"];
    until_reported(&stage, "controllers", "slurm", "AccountingMissing", &words).await;
    until_reported(
        &stage,
        "restapis",
        "api",
        "ControllerNotReady",
        &["Controller `slurm/slurm` has no configuration yet", "Ready condition"],
    )
    .await;
    put(&stage, "accountings", "records", Some(&outside)).await;
    until_reported(&stage, "controllers", "slurm", "PodsNotReady", &[]).await;
    until_reported(&stage, "restapis", "api", "PodsNotReady", &["slurmrestd: 0 of 1"]).await;

    // Both are deleted and recreated while everything keeps running.
    let deployment = format!("/apis/apps/v1/namespaces/{}/deployments/api-restapi", stage.namespace);
    let (before, version) = (children(&stage, "slurm").await, stage.get(&deployment).await["metadata"]["resourceVersion"].clone());
    put(&stage, "accountings", "records", None).await;
    until_reported(&stage, "controllers", "slurm", "AccountingMissing", &words).await;
    assert_eq!(children(&stage, "slurm").await, before);
    put(&stage, "controllers", "slurm", None).await;
    until_reported(&stage, "restapis", "api", "ControllerMissing", &["Controller `slurm/slurm` does not exist"]).await;
    put(&stage, "controllers", "slurm", Some(&slurm)).await;
    until_reported(&stage, "controllers", "slurm", "AccountingMissing", &words).await;
    put(&stage, "accountings", "records", Some(&outside)).await;
    until_reported(&stage, "restapis", "api", "PodsNotReady", &[]).await;
    assert_eq!(stage.get(&deployment).await["metadata"]["resourceVersion"], version, "slurmrestd never heard of it");

    // An Accounting that this release does not serve: Slurm runs without accounting, and a condition reports it.
    put(&stage, "accountings", "records", None).await;
    let key = json!({ "name": "keys", "key": "key" });
    let unserved = accounting(json!({ "slurmKeyRef": key, "jwtKeyRef": key, "storageConfig": { "host": "db", "passwordKeyRef": key } }));
    put(&stage, "accountings", "records", Some(&unserved)).await;
    let config = format!("/api/v1/namespaces/{}/configmaps/slurm-config", stage.namespace);
    eventually("a slurm.conf without slurmdbd, and a word about it", async || {
        let accepted = condition(&stage.object("controllers", "slurm").await, "SpecAccepted");
        let conf = stage.get(&config).await["data"]["slurm.conf"].as_str().unwrap_or_default().to_owned();
        let is_said = accepted["message"].as_str().unwrap_or_default().contains("Accounting `records` is not external");
        if is_said && !conf.contains("dbd.example.com") { Ok(()) } else { Err(format!("{accepted}\n{conf}")) }
    })
    .await;
    stage.end();
}
