//! The admission webhook in front of a real API server.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use slipway_bed::patience::Patience;

use crate::stage::{Stage, condition, controller, eventually};

const WITH_WEBHOOK: [&str; 2] = ["--webhook-addr=127.0.0.1:9443", "--webhook-url=https://127.0.0.1:9443"];
const REGISTRATION: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/slipway-webhook";
const SECRET: &str = "/api/v1/namespaces/slipway-system/secrets/slipway-webhook";

fn names_of_webhooks(registration: &Value) -> Vec<String> {
    let webhooks = registration["webhooks"].as_array().cloned().unwrap_or_default();
    webhooks.iter().map(|webhook| webhook["name"].as_str().unwrap().to_owned()).collect()
}

/// Waits until a create with a misspelled field gets a warning.
async fn until_served(stage: &Stage) {
    eventually("the webhook to answer", async || {
        let probe = controller("probe", &json!({ "slurmctld": { "imgae": "x" } }));
        let answer = stage.create("controllers?dryRun=All", &probe).await;
        if answer.warnings.iter().any(|warning| warning.contains("imgae")) { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
}

fn config_map(stage: &Stage, name: &str, key: &str) {
    stage.kubectl(&["create", "configmap", name, "--namespace", &stage.namespace, &format!("--from-literal={key}=#")]);
}

fn claim(stage: &Stage, name: &str, mode: &str) {
    let claim = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": { "name": name, "namespace": &stage.namespace },
        "spec": { "accessModes": [mode], "resources": { "requests": { "storage": "1Gi" } } },
    });
    stage.bed.kubectl().args(["create", "--filename=-"]).feed(&claim.to_string()).unwrap();
}

fn with_claim(name: &str, claim: &str) -> Value {
    controller(name, &json!({ "ha": { "enabled": true }, "persistence": { "enabled": true, "existingClaim": claim } }))
}

/// Name of a Controller whose default cluster name has 44 characters.
const LONG: &str = "controller-whose-name-is-much-too-long";

fn with_files(name: &str, config_map: &str) -> Value {
    controller(name, &json!({ "configFileRefs": [{ "name": config_map }] }))
}

#[tokio::test]
async fn what_no_rule_can_see_is_told_at_once_and_where_the_webhook_is_absent_in_a_condition() {
    let stage = Stage::alone("findings").await;
    let operator = stage.operator("slipway", &WITH_WEBHOOK);
    until_served(&stage).await;

    let registration = stage.get(REGISTRATION).await;
    let expected = ["accounting", "controller", "loginset", "nodeset", "restapi", "token"].map(|kind| format!("{kind}-v1beta1.kb.io"));
    assert_eq!(names_of_webhooks(&registration), expected);
    for webhook in registration["webhooks"].as_array().unwrap() {
        assert_eq!((&webhook["failurePolicy"], &webhook["timeoutSeconds"]), (&json!("Ignore"), &json!(2)));
        assert_eq!(webhook["rules"][0]["apiGroups"], json!(["slinky.slurm.net"]), "it would see objects that are not ours");
    }

    config_map(&stage, "reserved", "slurm.conf");
    config_map(&stage, "odd", "gress.conf");
    claim(&stage, "once", "ReadWriteOnce");
    claim(&stage, "many", "ReadWriteMany");
    let refused = [
        (with_files("a", "reserved"), ["`reserved`", "`slurm.conf`", "spec.extraConf"], "InvalidSpec"),
        (with_claim("b", "once"), ["`once`", "ReadWriteOnce", "ReadWriteMany"], "InvalidSpec"),
    ];
    for (object, words, _) in &refused {
        let answer = stage.create("controllers", object).await;
        let message = answer.body["message"].as_str().unwrap_or_default();
        assert_eq!(answer.code, 422, "{answer:?}");
        assert!(words.iter().all(|word| message.contains(word)), "{message}");
    }
    let accepted = [with_files("c", "comes-later"), with_claim("d", "comes-later"), with_claim("e", "many")];
    for object in &accepted {
        let answer = stage.create("controllers", object).await;
        let told = answer.warnings.join("\n");
        assert!(answer.code == 201 && !told.contains("comes-later") && !told.contains("`many`"), "{answer:?}");
    }

    let key = json!({ "name": "keys", "key": "key" });
    let spec = json!({
        "configFileRefs": [{ "name": "odd" }], "jwtHs256KeyRef": key, "slurmctld": { "imgae": "x", "image": "y" },
        "service": { "spec": { "externalIPs": ["192.0.2.1"] } },
    });
    let doubtful = ["`gress.conf`", "spec.jwtHs256KeyRef is deprecated", "externalIPs is dropped", "spec.slurmctld.imgae"];
    let answer = stage.create("controllers", &controller("f", &spec)).await;
    assert_eq!((answer.code, answer.warnings.len()), (201, doubtful.len()), "{answer:?}");
    let told = answer.warnings.join("\n");
    assert!(doubtful.iter().all(|words| told.contains(words)), "{told}");
    assert_eq!(answer.body["spec"]["slurmctld"]["imgae"], "x", "a field that may be newer was dropped");
    let accepted = eventually("the same words in a condition", async || {
        let accepted = condition(&stage.object("controllers", "f").await, "SpecAccepted");
        if accepted["status"] == "True" { Ok(accepted) } else { Err(accepted.to_string()) }
    })
    .await;
    assert!(doubtful.iter().all(|words| accepted["message"].as_str().unwrap().contains(words)), "{accepted}");

    // A field unknown to the API server makes the reconcile fail. SpecAccepted still names the likely cause.
    let literal = "--from-literal=key=0123456789abcdef0123456789abcdef";
    stage.kubectl(&["create", "secret", "generic", "keys", "--namespace", &stage.namespace, literal]);
    stage.create("controllers", &controller("g", &json!({ "slurmctld": { "image": "x", "imgae": "x" } }))).await;
    eventually("the cause beside the failure", async || {
        let object = stage.object("controllers", "g").await;
        let accepted = condition(&object, "SpecAccepted");
        let is_told = accepted["message"].as_str().is_some_and(|message| message.contains("did you mean `image`"));
        if is_told && condition(&object, "Ready")["reason"] == "ReconcileFailed" { Ok(()) } else { Err(object["status"].to_string()) }
    })
    .await;

    // The referenced ConfigMap became invalid: the object can still be labelled and deleted, but its spec changes only with a fix.
    config_map(&stage, "comes-later", "slurm.conf");
    let label = stage.patch("controllers", "c", &json!({ "metadata": { "labels": { "a": "b" } } })).await;
    assert_eq!((label.code, label.warnings.len()), (200, 1), "{label:?}");
    let change = stage.patch("controllers", "c", &json!({ "spec": { "extraConf": "Debug=1" } })).await;
    assert_eq!(change.code, 422, "{change:?}");
    let repair = stage.patch("controllers", "c", &json!({ "spec": { "configFileRefs": [] } })).await;
    assert_eq!((repair.code, repair.warnings.len()), (200, 0), "{repair:?}");

    // Cluster name: validation rules of the CRD do not see the namespace.
    let long = stage.create("controllers", &controller(LONG, &json!({}))).await;
    let message = long.body["message"].as_str().unwrap_or_default();
    assert!(long.code == 422 && message.contains("44 characters") && message.contains("spec.clusterName"), "{long:?}");
    let short = stage.create("controllers?dryRun=All", &controller(LONG, &json!({ "clusterName": "short" }))).await;
    assert_eq!(short.code, 201, "{short:?}");
    let renamed = stage.patch("controllers", "f", &json!({ "spec": { "clusterName": "other_f" } })).await;
    let message = renamed.body["message"].as_str().unwrap_or_default();
    assert!(renamed.code == 422 && message.contains("from `slurm_f` to `other_f`"), "{renamed:?}");
    let written_out = stage.patch("controllers", "f", &json!({ "spec": { "clusterName": "slurm_f" } })).await;
    assert_eq!(written_out.code, 200, "{written_out:?}");

    // Without the webhook.
    drop(operator);
    stage.kubectl(&["delete", "validatingwebhookconfiguration", "slipway-webhook"]);
    let _operator = stage.operator("slipway", &[]);
    for (object, words, reason) in &refused {
        // The API server may still have the registration cached. It ignores a webhook that does not respond.
        let answer = stage.create("controllers", object).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        let name = object["metadata"]["name"].as_str().unwrap();
        eventually("the refusal as a condition", async || {
            let object = stage.object("controllers", name).await;
            let accepted = condition(&object, "SpecAccepted");
            let message = accepted["message"].as_str().unwrap_or_default();
            let is_told = accepted["status"] == "False" && words.iter().all(|word| message.contains(word));
            if is_told && condition(&object, "Ready")["reason"] == *reason { Ok(()) } else { Err(object["status"].to_string()) }
        })
        .await;
        let statefulset = stage.get(&format!("/apis/apps/v1/namespaces/{}/statefulsets/{name}-controller", stage.namespace)).await;
        assert_eq!(statefulset["code"], 404, "slurmctld was started on a spec that cannot work");
    }
    assert_eq!(stage.create("controllers", &controller(LONG, &json!({}))).await.code, 201);
    eventually("the long name in a condition", async || {
        let accepted = condition(&stage.object("controllers", LONG).await, "SpecAccepted");
        let is_told = accepted["message"].as_str().is_some_and(|message| message.contains("44 characters"));
        if is_told && accepted["reason"] == "Warnings" { Ok(()) } else { Err(accepted.to_string()) }
    })
    .await;
    // Without a default partition there would be another warning.
    let good = json!({ "spec": { "configFileRefs": [], "extraConf": "PartitionName=all Nodes=ALL Default=YES\n" } });
    let repaired = stage.patch("controllers", "a", &good).await;
    assert_eq!(repaired.code, 200, "{repaired:?}");
    eventually("the condition to go away", async || {
        let object = stage.object("controllers", "a").await;
        let ready = condition(&object, "Ready");
        let is_gone = condition(&object, "SpecAccepted").is_null() && ready["observedGeneration"] == object["metadata"]["generation"];
        if is_gone { Ok(()) } else { Err(object["status"].to_string()) }
    })
    .await;
    assert_eq!(stage.get(REGISTRATION).await["code"], 404, "it was registered although nothing serves");
    stage.end();
}

#[tokio::test]
async fn the_registration_is_repaired_and_a_new_process_finds_nothing_to_write() {
    let stage = Stage::alone("registered").await;
    assert_eq!(names_of_webhooks(&stage.get(REGISTRATION).await), [""; 0], "it was registered before anybody serves");
    let operator = stage.operator("slipway", &WITH_WEBHOOK);
    until_served(&stage).await;
    stage.kubectl(&["delete", "validatingwebhookconfiguration", "slipway-webhook"]);
    until_served(&stage).await;
    stage.kubectl(&["delete", "secret", "slipway-webhook", "--namespace=slipway-system"]);
    eventually("new certificates", async || {
        let secret = stage.get(SECRET).await;
        if secret["data"]["tls.crt"].is_string() { Ok(()) } else { Err(secret.to_string()) }
    })
    .await;
    until_served(&stage).await;

    // An object that cannot be checked is allowed, with a warning.
    let role = stage.get("/apis/rbac.authorization.k8s.io/v1/clusterroles/slipway").await;
    let rules = role["rules"].as_array().unwrap();
    let place = rules.iter().position(|rule| rule["resources"].as_array().unwrap().iter().any(|kind| kind == "configmaps")).unwrap();
    let rights = json!([{ "op": "remove", "path": format!("/rules/{place}") }]).to_string();
    stage.kubectl(&["patch", "clusterrole", "slipway", "--type=json", "--patch", &rights]);
    eventually("a warning about what was not checked", async || {
        // The warning comes from the webhook: the API server did not ignore it.
        let answer = stage.create("controllers?dryRun=All", &with_files("x", "unreadable")).await;
        assert_eq!(answer.code, 201, "{answer:?}");
        if answer.warnings.iter().any(|warning| warning.contains("was not checked")) { Ok(()) } else { Err(format!("{answer:?}")) }
    })
    .await;
    stage.apply("deploy/operator.yaml");

    drop(operator);
    let before = stage.writes().len();
    let bundle = stage.get(REGISTRATION).await["webhooks"][0]["clientConfig"]["caBundle"].clone();
    let _operator = stage.operator("slipway", &WITH_WEBHOOK);
    until_served(&stage).await;
    let writes = stage.writes().split_off(before);
    assert!(writes.is_empty(), "a new process wrote although nothing had changed: {writes:?}");
    assert_eq!(stage.get(REGISTRATION).await["webhooks"][0]["clientConfig"]["caBundle"], bundle);
    assert!(!stage.log("slipway").contains("PRIVATE KEY"), "a key was printed");
    stage.end();
}

#[tokio::test]
async fn certificates_of_somebody_else_are_read_again_and_their_authority_is_left_alone() {
    let stage = Stage::alone("files").await;
    let folder = stage.bed.layout().root.join("serving-certs");
    std::fs::create_dir(&folder).unwrap();
    let authority = CertifiedIssuer::self_signed(authority_params(), KeyPair::generate().unwrap()).unwrap();
    let issue = || {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &authority).unwrap();
        // For a moment the two files do not match, as when a user copies them.
        std::fs::write(folder.join("tls.crt"), certificate.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
    };
    issue();
    let from_folder = format!("--webhook-cert-dir={}", folder.display());
    let args = [WITH_WEBHOOK[0], WITH_WEBHOOK[1], &from_folder, "--webhook-inject-ca-from=slipway-system/webhook"];
    let operator = stage.operator("slipway", &args);
    let registration = eventually("the registration", async || {
        let registration = stage.get(REGISTRATION).await;
        if names_of_webhooks(&registration).len() == 6 { Ok(registration) } else { Err(registration.to_string()) }
    })
    .await;
    assert_eq!(registration["metadata"]["annotations"]["cert-manager.io/inject-ca-from"], "slipway-system/webhook");

    let bundle = json!(k8s_openapi::ByteString(authority.pem().into_bytes()));
    let injected: Vec<_> =
        (0..6).map(|index| json!({ "op": "add", "path": format!("/webhooks/{index}/clientConfig/caBundle"), "value": bundle })).collect();
    let injected = json!(injected).to_string();
    stage.kubectl(&["patch", "validatingwebhookconfiguration", "slipway-webhook", "--type=json", "--patch", &injected]);
    until_served(&stage).await;

    let before = fingerprint(&stage, 9443);
    issue();
    eventually("the new certificate", async || {
        let now = fingerprint(&stage, 9443);
        if now != before && now.contains("Fingerprint") { Ok(()) } else { Err(now) }
    })
    .await;
    until_served(&stage).await;

    drop(operator);
    let writes = stage.writes().len();
    let _operator = stage.operator("slipway", &args);
    until_served(&stage).await;
    assert_eq!(stage.writes().split_off(writes), [""; 0], "it wrote although nothing had changed");
    assert_eq!(stage.get(REGISTRATION).await["webhooks"][5]["clientConfig"]["caBundle"], bundle);
    assert_eq!(stage.get(SECRET).await["code"], 404, "it made certificates although it was given some");
    stage.end();
}

fn authority_params() -> CertificateParams {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params
}

/// Fingerprint of the certificate served at a port inside the bed.
fn fingerprint(stage: &Stage, port: u16) -> String {
    let command = format!("openssl s_client -connect 127.0.0.1:{port} </dev/null 2>/dev/null | openssl x509 -noout -fingerprint");
    stage.inside(&["sh", "-c", &command])
}

#[tokio::test]
async fn authorities_and_certificates_are_exchanged_under_load_without_one_lost_answer() {
    let stage = Stage::alone("rotation").await;
    // Each is rotated after two thirds of its life. The last third is slack for a busy machine.
    let lives = ["--webhook-ca-life=30s", "--webhook-certificate-life=15s"];
    let second = ["--webhook-addr=127.0.0.1:9444", WITH_WEBHOOK[1]];
    let _one = stage.operator("slipway", &[WITH_WEBHOOK, lives].concat());
    let _two = stage.operator("slipway-2", &[second, lives].concat());
    until_served(&stage).await;
    stage.create("controllers", &controller("busy", &json!({ "slurmctld": { "imgae": "x" } }))).await;

    let (started, mut patience) = (Instant::now(), Patience::start());
    let (mut writes, mut slowest) = (0_u32, Duration::ZERO);
    let (mut authorities, mut certificates, mut bundles) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    while writes < 200 || authorities.len() < 3 {
        assert!(!patience.is_exhausted(), "{} authorities in {writes} writes", authorities.len());
        let asked = Instant::now();
        let answer = stage.patch("controllers", "busy", &json!({ "metadata": { "annotations": { "n": writes.to_string() } } })).await;
        slowest = slowest.max(asked.elapsed());
        // The API server ignores a webhook that does not respond, so only the warning proves that it responded.
        let is_answered = answer.code == 200 && answer.warnings.iter().any(|warning| warning.contains("imgae"));
        let server = || slipway_bed::failure::tail(&stage.bed.layout().log("kube-apiserver"), 40).join("\n");
        assert!(is_answered, "write {writes} after {:?}: {answer:?}\n{}", started.elapsed(), server());
        writes += 1;
        if writes % 10 == 0 {
            let data = stage.get(SECRET).await["data"].clone();
            authorities.insert(data["ca.crt"].to_string());
            certificates.insert(data["tls.crt"].to_string());
            bundles.insert(stage.get(REGISTRATION).await["webhooks"][0]["clientConfig"]["caBundle"].to_string());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(bundles.len() >= 5, "each change of authority should be seen in three steps, there were {} bundles", bundles.len());
    eventually("both replicas to serve the same certificate", async || {
        let (one, two) = (fingerprint(&stage, 9443), fingerprint(&stage, 9444));
        if one == two && one.contains("Fingerprint") { Ok(()) } else { Err(format!("{one} and {two}")) }
    })
    .await;
    let failed_open = stage.kubectl(&["get", "--raw", "/metrics"]);
    let failed_open: Vec<_> = failed_open.lines().filter(|line| line.starts_with("apiserver_admission_webhook_fail_open_count")).collect();
    assert!(failed_open.is_empty(), "the API server went on without an answer: {failed_open:?}");
    eprintln!(
        "{writes} writes in {:.0} s over {} authorities and {} certificates: none lost, slowest {slowest:?}",
        started.elapsed().as_secs_f64(),
        authorities.len(),
        certificates.len()
    );
    stage.end();
}
