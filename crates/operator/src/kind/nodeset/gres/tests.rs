use rstest::rstest;
use serde_json::json;
use slipway_plan::nodeset::Hold;

use super::*;

/// Results of each mismatch with real Slurm daemons.
const CORPUS: &str = include_str!("../../../../../slurm/tests/corpus/gres_nodes.tsv");

fn nodeset(limit: &str, gres: &str) -> NodeSet {
    let extra = if gres == "-" { String::new() } else { format!("Gres={gres}") };
    serde_json::from_value(json!({
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": { "name": "w", "namespace": "slurm", "generation": 3 },
        "spec": {
            "controllerRef": { "name": "slurm" },
            "slurmd": { "image": "slurmd", "resources": { "limits": { "nvidia.com/gpu": limit } } },
            "extraConf": extra,
        },
    }))
    .unwrap()
}

fn in_slurm(gres: &str, refusal: &str) -> InSlurm {
    let known = InSlurm { is_registered: Answer::Yes, hold: Hold::Open, gres: gres.to_owned(), ..InSlurm::unknown("") };
    match refusal {
        "-" => known,
        reason => InSlurm { reason: reason.to_owned(), states: vec!["Idle", "Drain", REFUSED], ..known },
    }
}

#[test]
fn we_say_of_each_node_of_the_corpus_what_slurm_made_of_it() {
    let mut count = 0;
    for line in CORPUS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let [_, limit, types, conf, gres, real, refusal, _, _, ours] = fields[..] else { panic!("{line}") };
        let nodeset = nodeset(limit, gres);
        let conf = conf.replace("\\n", "\n");
        let setup = Setup::read(&format!("GresTypes={}\n", types.trim_matches('-')), (conf != "-").then_some(conf.as_str()));
        let before = of_files(&nodeset, Some(&setup), "w1");
        assert_eq!(before.derived, None, "{line}: slurmd was told something else than here");
        let record = in_slurm(real, refusal);
        let after = Places { nodes: node_gres("w1", &record).into_iter().collect(), ..before.clone() };
        let (foreseen, seen) = (plan::findings(&before), plan::findings(&after));
        let expected = match (foreseen.is_empty(), seen.is_empty()) {
            (false, _) => "foreseen",
            (true, false) => "seen",
            (true, true) => "agree",
        };
        assert_eq!(ours, expected, "{line}\n{foreseen:#?}\n{seen:#?}");
        // Everything that Slurm refused or dropped is reported.
        let parsed = slurm::parse(real).unwrap();
        let total = |name: &str| parsed.iter().filter(|gres| gres.name == name).map(|gres| gres.count).sum::<u64>().to_string();
        let is_wrong = refusal != "-" || (limit != "0" && total("gpu") != limit);
        assert!(!is_wrong || ours != "agree", "{line}");
        count += 1;
    }
    assert!(count > 35, "{count} lines");
}

#[rstest]
#[case::a_blip(Some(("True", 3)), ConditionStatus::True)]
#[case::a_blip_in_trouble(Some(("False", 3)), ConditionStatus::False)]
#[case::of_another_spec(Some(("True", 2)), ConditionStatus::Unknown)]
#[case::never_said(None, ConditionStatus::Unknown)]
fn while_slurm_cannot_be_asked_what_was_said_stays(#[case] said: Option<(&str, i64)>, #[case] expected: ConditionStatus) {
    let mut nodeset = nodeset("8", "gpu:8");
    let condition = |(status, generation): (&str, i64)| {
        json!({
            "type": GRES_AGREES, "status": status, "reason": "x", "message": "what was said", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let mut object = serde_json::to_value(&nodeset).unwrap();
    object["status"] = json!({ "conditions": said.map(condition).into_iter().collect::<Vec<_>>(), "selector": "", "nodeSetHash": "" });
    nodeset = serde_json::from_value(object).unwrap();
    let places = Places { has_unknown_nodes: true, ..of_files(&nodeset, None, "w-0") };
    let condition_update = plan::agreement(&places);
    assert_eq!(condition_update.as_ref().map(|condition_update| condition_update.status), Some(ConditionStatus::Unknown));
    assert_eq!(said_before(&nodeset).or(condition_update).unwrap().status, expected);
}

#[test]
fn a_drain_for_another_reason_is_not_held_against_the_gres() {
    let record = InSlurm { reason: "Low RealMemory".to_owned(), ..in_slurm("gpu:8", "x") };
    assert_eq!(node_gres("w-0", &record).unwrap().refusal, None);
    assert_eq!(node_gres("w-0", &InSlurm::unknown("no answer")), None);
}
