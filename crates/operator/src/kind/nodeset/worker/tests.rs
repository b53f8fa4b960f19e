use rstest::rstest;
use serde_json::{Value, json};
use slipway_api::annotation::{DRAIN_DEADLINE, FORCE_DELETE, NODE_CORDON_REASON, POD_CORDON};

use super::*;

const READY_AT: &str = "2026-01-02T03:04:05Z";
const DRAINED_AT: &str = "2026-01-02T05:00:00Z";

fn nodeset(min_ready: i32, annotations: &Value) -> NodeSet {
    serde_json::from_value(json!({
        "apiVersion": "slinky.slurm.net/v1beta1", "kind": "NodeSet",
        "metadata": { "name": "w", "namespace": "n", "annotations": annotations },
        "spec": { "controllerRef": { "name": "c" }, "minReadySeconds": min_ready },
    }))
    .unwrap()
}

fn pod() -> Value {
    json!({
        "metadata": { "name": "w-0", "namespace": "n", "uid": "u", "creationTimestamp": "2026-01-02T03:00:00Z" },
        "spec": { "nodeName": "k1" },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True", "lastTransitionTime": READY_AT }] },
    })
}

fn annotated(annotations: &Value) -> Value {
    let mut pod = pod();
    pod["metadata"]["annotations"] = annotations.clone();
    pod
}

fn seen() -> Seen {
    Seen { host: None, in_slurm: InSlurm::unknown("nobody asked"), record: Record::default(), is_deleted: false, unseen: Unseen::default() }
}

fn drained() -> InSlurm {
    InSlurm { hold: Hold::DrainedByUs, reason_since: Some(moment(DRAINED_AT)), ..InSlurm::unknown("nobody asked") }
}

fn moment(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn worker(nodeset: &NodeSet, pod: Value, seen: Seen) -> Worker {
    let pod: PodView = serde_json::from_value(pod).unwrap();
    Set::new(nodeset, &Revisions::default(), &["Hot".to_owned()]).worker(&pod, seen).unwrap()
}

fn worker_of(pod: Value) -> Worker {
    worker(&nodeset(0, &json!({})), pod, seen())
}

#[rstest]
#[case::nothing_asked(0, READY_AT)]
#[case::ten_seconds(10, "2026-01-02T03:04:15Z")]
fn a_worker_is_available_when_it_has_been_ready_for_long_enough(#[case] min_ready: i32, #[case] from: &str) {
    let worker = worker(&nodeset(min_ready, &json!({})), pod(), seen());
    assert_eq!(worker.ready_since, Some(moment(READY_AT)));
    assert_eq!(worker.available_from, Some(moment(from)));
    assert!(worker.is_available(moment(from)) && !worker.is_available(moment(from) - SignedDuration::from_secs(1)));
}

#[rstest]
#[case::nothing_asked(0, Some("2026-01-02T03:00:00Z"))]
#[case::ten_seconds(10, None)]
fn a_ready_worker_that_does_not_say_since_when_is_available_only_where_nothing_is_asked(
    #[case] min_ready: i32,
    #[case] from: Option<&str>,
) {
    let mut pod = pod();
    pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    let worker = worker(&nodeset(min_ready, &json!({})), pod, seen());
    assert_eq!((worker.ready_since, worker.available_from), (None, from.map(moment)));
}

#[test]
fn a_worker_that_is_not_ready_is_not_available() {
    let mut pod = pod();
    pod["status"]["conditions"][0]["status"] = "False".into();
    let worker = worker_of(pod);
    assert_eq!((worker.stage, worker.ready_since, worker.available_from), (Stage::Starting, None, None));
}

#[test]
fn a_worker_that_goes_says_by_when() {
    let mut pod = pod();
    pod["metadata"]["deletionTimestamp"] = DRAINED_AT.into();
    let worker = worker_of(pod);
    assert_eq!((worker.stage, worker.gone_by), (Stage::Going, Some(moment(DRAINED_AT))));
}

#[test]
fn a_worker_that_we_deleted_goes_before_the_cache_shows_it() {
    let worker = worker(&nodeset(0, &json!({})), pod(), Seen { is_deleted: true, ..seen() });
    assert_eq!((worker.stage, worker.gone_by), (Stage::Going, None));
}

#[rstest]
#[case("true", true)]
#[case("True", false)]
#[case("false", false)]
#[case("", false)]
fn only_the_exact_word_cordons_a_worker(#[case] text: &str, #[case] expected: bool) {
    assert_eq!(worker_of(annotated(&json!({ POD_CORDON: text }))).is_cordoned, expected);
}

#[test]
fn a_worker_without_a_node_has_no_host() {
    let mut pod = pod();
    pod["spec"] = json!({});
    assert_eq!(worker_of(pod).host, None);
}

#[rstest]
#[case::not_in_the_cache(None, None)]
#[case::open(Some(json!({})), None)]
#[case::cordoned(Some(json!({ "spec": { "unschedulable": true } })), Some("Node (k1) was cordoned, Pod (n/w-0) must be cordoned"))]
#[case::with_a_reason(Some(json!({ "spec": { "unschedulable": true }, "annotations": { NODE_CORDON_REASON: "fan" } })), Some("fan"))]
#[case::condition(Some(json!({ "status": { "conditions": [{ "type": "Hot", "status": "True", "reason": "T", "message": "90 C" }] } })), Some("(T: 90 C)"))]
fn the_host_says_why_it_takes_no_work(#[case] node: Option<Value>, #[case] cordon: Option<&str>) {
    let host = node.map(|node| {
        let whole = json!({
            "metadata": { "name": "k1", "annotations": node["annotations"] }, "spec": node.get("spec").cloned().unwrap_or_else(|| json!({})),
            "status": node.get("status").cloned().unwrap_or_else(|| json!({})),
        });
        Arc::new(serde_json::from_value::<NodeView>(whole).unwrap())
    });
    let worker = worker(&nodeset(0, &json!({})), pod(), Seen { host, ..seen() });
    let host = worker.host.unwrap();
    assert_eq!((host.name.as_str(), host.cordon.as_deref()), ("k1", cordon));
}

#[rstest]
#[case::nobody_said_anything(json!({}), json!({}), JobPolicy::Wait)]
#[case::nodeset_forces(json!({ FORCE_DELETE: "true" }), json!({}), JobPolicy::KillNow)]
#[case::pod_forces(json!({}), json!({ FORCE_DELETE: "true" }), JobPolicy::KillNow)]
#[case::pod_spares(json!({ FORCE_DELETE: "true" }), json!({ FORCE_DELETE: "false" }), JobPolicy::Wait)]
#[case::pod_gives_time(json!({ FORCE_DELETE: "true" }), json!({ DRAIN_DEADLINE: "30m" }), JobPolicy::KillAfter(moment("2026-01-02T05:30:00Z")))]
#[case::pod_gives_more_time(json!({ DRAIN_DEADLINE: "30m" }), json!({ DRAIN_DEADLINE: "1h" }), JobPolicy::KillAfter(moment("2026-01-02T06:00:00Z")))]
#[case::nodeset_gives_time(json!({ DRAIN_DEADLINE: "30m" }), json!({}), JobPolicy::KillAfter(moment("2026-01-02T05:30:00Z")))]
#[case::moment(json!({}), json!({ DRAIN_DEADLINE: READY_AT }), JobPolicy::KillAfter(moment(READY_AT)))]
#[case::unreadable_pod(json!({ FORCE_DELETE: "true" }), json!({ DRAIN_DEADLINE: "soon" }), JobPolicy::Wait)]
#[case::unreadable_nodeset(json!({ FORCE_DELETE: "yes" }), json!({}), JobPolicy::Wait)]
fn a_pods_word_on_leaving_counts_before_that_of_its_nodeset(
    #[case] nodeset_says: Value,
    #[case] pod_says: Value,
    #[case] expected: JobPolicy,
) {
    let seen = Seen { in_slurm: drained(), ..seen() };
    assert_eq!(worker(&nodeset(0, &nodeset_says), annotated(&pod_says), seen).job_policy, expected);
}

#[rstest]
#[case::by_nobody(Hold::Open)]
#[case::by_others(Hold::ByOthers)]
#[case::unknown(Hold::Unknown)]
#[case::down(Hold::DownByUs)]
fn a_length_of_time_runs_only_while_the_drain_is_ours(#[case] hold: Hold) {
    let seen = Seen { in_slurm: InSlurm { hold, ..drained() }, ..seen() };
    assert_eq!(worker(&nodeset(0, &json!({ DRAIN_DEADLINE: "0s" })), pod(), seen).job_policy, JobPolicy::Wait);
}

#[test]
fn what_cannot_be_read_is_told_of_the_first_few_pods() {
    let doubts: Vec<_> = (0..10).map(|pod| (format!("w-{pod}"), "what?".to_owned())).collect();
    let words: Vec<_> = findings(&doubts).into_iter().map(|finding| finding.words).collect();
    assert_eq!(words, ["pod `w-0`: what?", "pod `w-1`: what?", "pod `w-2`: what?", "likewise 7 times on other pods"]);
    assert_eq!(findings(&[]), []);
}
