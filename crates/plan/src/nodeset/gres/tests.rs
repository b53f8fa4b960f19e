use proptest::prelude::*;
use rstest::rstest;
use slipway_api::device::Device;

use super::*;

/// Parses text such as `gpu:a100:4,fake:2`; only the grammar that these tests use.
fn amounts(text: &str) -> Vec<Amount> {
    let entries = text.split(',').filter(|entry| !entry.is_empty());
    let amount = |entry: &str| {
        let parts: Vec<&str> = entry.split(':').collect();
        let kind = (parts.len() == 3).then(|| parts[1].to_owned());
        Amount { name: parts[0].to_owned(), kind, count: parts.last().unwrap().parse().unwrap() }
    };
    entries.map(amount).collect()
}

/// Places with a limit of `limit` NVIDIA GPUs, and the rest as text; `-` as `stated` means no `Gres`.
fn places(limit: u64, stated: &str, files: Option<Files>, in_slurm: &[&str]) -> Places {
    let device = Device { resource: "nvidia.com/gpu".to_owned(), names: &[GPU], count: limit };
    Places {
        devices: Devices { known: (limit > 0).then_some(device).into_iter().collect(), has_others: false },
        stated: (stated != "-").then(|| Ok(amounts(stated))),
        derived: None,
        files,
        nodes: in_slurm
            .iter()
            .enumerate()
            .map(|(index, gres)| NodeGres { node: format!("w-{index}"), amounts: amounts(gres), refusal: None })
            .collect(),
        has_unknown_nodes: false,
    }
}

#[allow(clippy::unnecessary_wraps, reason = "files that are not known are None")]
fn files(types: &str, detection: Detection, devices: &str) -> Option<Files> {
    let types = types.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some(Files { controller: "slurm".to_owned(), types, detection, devices: amounts(devices) })
}

use Detection::{Off, On, Unsaid};

#[rstest]
#[case::slurmd_finds_them(8, "-", files("gpu", Unsaid, ""), &["gpu:nvidia_h200:8"])]
#[case::slurmd_is_told_to_look(8, "-", files("gpu", On, ""), &["gpu:nvidia_h200:8"])]
#[case::stated_and_detected(8, "gpu:8", files("gpu", On, ""), &["gpu:8", "gpu:8"])]
#[case::stated_with_files(2, "gpu:a100:2", files("gpu", Off, "gpu:a100:2"), &["gpu:a100:2"])]
#[case::without_type_any_line_fits(2, "gpu:2", files("gpu", Unsaid, "gpu:a100:1,gpu:b200:1"), &["gpu:2"])]
#[case::slurm_adds_a_type(1, "gpu:1,shard:8", files("gpu,shard", On, "shard:0"), &["gpu:nvidia_h200:1,shard:nvidia_h200:8"])]
#[case::counted_only(0, "fake:2", files("fake", Unsaid, ""), &["fake:2"])]
#[case::counted_only_with_a_line(0, "fake:8", files("fake", Unsaid, "fake:0"), &["fake:8"])]
#[case::not_registered_yet(8, "gpu:8", files("gpu", On, ""), &[])]
#[case::files_not_known(8, "gpu:8", None, &["gpu:8"])]
fn these_places_agree(#[case] limit: u64, #[case] stated: &str, #[case] files: Option<Files>, #[case] in_slurm: &[&str]) {
    let condition_update = agreement(&places(limit, stated, files, in_slurm)).unwrap();
    assert_eq!(
        (condition_update.status, condition_update.reason),
        (ConditionStatus::True, Reason::AllReady),
        "{}",
        condition_update.message
    );
}

#[rstest]
#[case::more_than_the_limit(4, "gpu:8", files("gpu", On, ""), &[], &["`Gres=gpu:8`", "`nvidia.com/gpu: 4`", "drains the node"])]
#[case::fewer_than_the_limit(8, "gpu:a100:4", files("gpu", On, ""), &["gpu:a100:4"], &["`Gres=gpu:a100:4`", "`nvidia.com/gpu: 8`", "cannot have the rest"])]
#[case::none_of_the_limit(8, "gpu:0", files("gpu", On, ""), &["gpu:0"], &["`Gres=gpu:0`", "`nvidia.com/gpu: 8`"])]
#[case::two_types(8, "gpu:a:4,gpu:b:2", files("gpu", On, ""), &[], &["`Gres=gpu:a:4,gpu:b:2`", "`nvidia.com/gpu: 8`"])]
#[case::no_limit(0, "gpu:8", files("gpu", On, ""), &["gpu:8"], &["`Gres=gpu:8`", "no GPU", "`nvidia.com/gpu: 8`"])]
#[case::limit_without_type(8, "-", files("", Unsaid, ""), &[""], &["`nvidia.com/gpu: 8`", "no GresTypes", "`GresTypes=gpu`", "Controller `slurm`"])]
#[case::stated_without_type(8, "gpu:8", files("fake", On, ""), &[""], &["`Gres=gpu:8`", "`fake`", "`GresTypes=fake,gpu`"])]
#[case::counted_without_type(0, "fake:2", files("gpu", On, ""), &[""], &["`Gres=fake:2`", "`GresTypes=gpu,fake`"])]
#[case::no_gres_conf(2, "gpu:2", files("gpu", Unsaid, ""), &[], &["`Gres=gpu:2`", "names no device", "AutoDetect=nvidia"])]
#[case::detection_is_off(2, "gpu:2", files("gpu", Off, ""), &[], &["`Gres=gpu:2`", "names no device"])]
#[case::too_few_files(2, "gpu:2", files("gpu", Unsaid, "gpu:1"), &[], &["`Gres=gpu:2`", "names 1", "2 device files"])]
#[case::another_type(2, "gpu:h100:2", files("gpu", Unsaid, "gpu:a100:2"), &[], &["`Gres=gpu:h100:2`", "no device of type `h100`"])]
#[case::lines_without_type(1, "gpu:a100:1", files("gpu", Unsaid, "gpu:1"), &[], &["no device of type `a100`"])]
#[case::too_many_files(2, "gpu:2", files("gpu", Unsaid, "gpu:8"), &[], &["`nvidia.com/gpu: 2`", "names 8 device files", "NodeName="])]
#[case::lines_and_no_gres(2, "-", files("gpu", On, "gpu:1"), &[], &["`nvidia.com/gpu: 2`", "names 1", "`Gres=gpu:2`"])]
#[case::off_and_no_lines(4, "-", files("gpu", Off, ""), &[], &["AutoDetect=off", "/dev/nvidia[0-3]"])]
#[case::older_record(8, "gpu:8", files("gpu", On, ""), &["gpu:8", "", ""], &["`Gres=gpu:8`", "nothing", "`w-1`, `w-2`", "scontrol delete nodename"])]
#[case::record_of_another_type(8, "gpu:a:8", files("gpu", On, ""), &["gpu:b:8"], &["`Gres=gpu:a:8`", "`gpu:b:8`", "`w-0`"])]
#[case::counted_record(0, "fake:8", files("fake", Unsaid, ""), &["fake:2"], &["`Gres=fake:8`", "`fake:2`"])]
#[case::found_more(1, "-", files("gpu", Unsaid, ""), &["gpu:nvidia_h200:8"], &["`nvidia.com/gpu: 1`", "`gpu:nvidia_h200:8`", "privileged"])]
#[case::found_fewer(8, "-", files("gpu", Unsaid, ""), &[""], &["`nvidia.com/gpu: 8`", "nothing", "log of slurmd"])]
#[case::nobody_asked(0, "-", files("gpu", Unsaid, ""), &["gpu:nvidia_h200:8"], &["`gpu:nvidia_h200:8`", "no GPU", "other pods"])]
fn each_disagreement_names_both_places_and_what_to_do(
    #[case] limit: u64,
    #[case] stated: &str,
    #[case] files: Option<Files>,
    #[case] in_slurm: &[&str],
    #[case] words: &[&str],
) {
    let places = places(limit, stated, files, in_slurm);
    let found = findings(&places);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(words.iter().all(|word| found[0].contains(word)), "{}", found[0]);
    let condition_update = agreement(&places).unwrap();
    assert_eq!((condition_update.status, condition_update.reason), (ConditionStatus::False, Reason::GresMismatch));
}

#[rstest]
#[case::nobody_says_anything(places(0, "-", files("gpu", On, "gpu:8"), &["", ""]))]
#[case::none_of_it(places(0, "gpu:0", files("gpu", On, ""), &["gpu:0"]))]
#[case::nothing_known(Places::default())]
fn without_resources_there_is_no_condition(#[case] places: Places) {
    assert_eq!(agreement(&places), None);
}

#[test]
fn what_slurm_refused_is_told_in_its_words_once_for_all_nodes() {
    let mut places = places(2, "gpu:2", files("gpu", On, ""), &["gpu:1"; 5]);
    for node in &mut places.nodes {
        node.refusal = Some("gres/gpu count reported lower than configured (1 < 2)".to_owned());
    }
    let found = findings(&places);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert!(found[0].contains("(1 < 2)") && found[0].contains("`w-0`, `w-1`, `w-2` and 2 more"), "{}", found[0]);
}

#[test]
fn while_slurm_cannot_be_asked_nobody_says_that_all_agree() {
    let agreeing = Places { has_unknown_nodes: true, ..places(8, "gpu:8", files("gpu", On, ""), &[]) };
    assert_eq!(agreement(&agreeing).unwrap().status, ConditionStatus::Unknown);
    let differing = Places { has_unknown_nodes: true, ..places(8, "gpu:4", files("gpu", On, ""), &[]) };
    assert_eq!(agreement(&differing).unwrap().status, ConditionStatus::False);
}

#[test]
fn devices_that_limits_do_not_tell_are_not_held_against_anybody() {
    let mut claimed = places(0, "gpu:8", files("gpu", On, ""), &["gpu:8"]);
    claimed.devices.has_others = true;
    assert_eq!(agreement(&claimed).unwrap().status, ConditionStatus::True);
    let mut found = places(0, "-", files("gpu", Unsaid, ""), &["gpu:8"]);
    found.devices.has_others = true;
    assert_eq!(agreement(&found), None);
}

#[test]
fn what_we_tell_slurmd_counts_like_what_the_user_does() {
    let derived =
        |in_slurm: &[&str]| Places { derived: amounts("gpu:a100:2").pop(), ..places(2, "-", files("gpu", Unsaid, "gpu:a100:2"), in_slurm) };
    assert_eq!(findings(&derived(&["gpu:a100:2"])), [""; 0]);
    assert!(findings(&derived(&[""]))[0].contains("`Gres=gpu:a100:2`"));
}

#[test]
fn another_name_for_a_device_is_the_one_that_the_user_took() {
    let mut gaudi = places(8, "gaudi:8", files("gaudi", Unsaid, ""), &["gaudi:8"]);
    gaudi.devices.known[0] = Device { resource: "habana.ai/gaudi".to_owned(), names: &[GPU, "gaudi"], count: 8 };
    assert_eq!(agreement(&gaudi).unwrap().status, ConditionStatus::True);
}

#[test]
fn slices_are_added_up() {
    let mut slices = places(3, "gpu:4", files("gpu", On, ""), &["gpu:4"]);
    let more = Device { resource: "nvidia.com/mig-1g.10gb".to_owned(), names: &[GPU], count: 1 };
    slices.devices.known.push(more);
    assert_eq!(findings(&slices), [""; 0]);
}

#[test]
fn a_text_that_cannot_be_read_is_the_first_thing_to_put_right() {
    let wrong = Places { stated: Some(Err("has `gpu:x:y:1` with two types".to_owned())), ..places(8, "-", files("", Off, ""), &[]) };
    assert_eq!(findings(&wrong), ["Gres in spec.extraConf has `gpu:x:y:1` with two types"]);
    assert_eq!(findings_of_spec(&wrong), findings(&wrong));
}

#[test]
fn who_writes_a_node_set_hears_of_what_stands_in_it() {
    assert_eq!(findings_of_spec(&places(8, "gpu:4", files("", Off, ""), &[""])).len(), 1);
    assert_eq!(findings_of_spec(&places(8, "gpu:8", files("", Off, ""), &[""])), [""; 0]);
    assert_eq!(findings_of_spec(&places(8, "-", files("", Off, ""), &[""])), [""; 0]);
}

fn any_amounts() -> impl Strategy<Value = Vec<Amount>> {
    let name = prop::sample::select(vec!["gpu", "fake", "shard"]);
    let kind = prop::option::of(prop::sample::select(vec!["a", "b"]));
    let amount = (name, kind, prop_oneof![0..4_u64, Just(u64::MAX)]);
    let amount = amount.prop_map(|(name, kind, count)| Amount { name: name.to_owned(), kind: kind.map(str::to_owned), count });
    prop::collection::vec(amount, 0..4)
}

fn any_places() -> impl Strategy<Value = Places> {
    let types = prop::sample::subsequence(vec!["gpu", "fake", "shard"], 0..=3);
    let detection = prop::sample::select(vec![Unsaid, Off, On]);
    let files = prop::option::of((types, detection, any_amounts()).prop_map(|(types, detection, devices)| Files {
        controller: "slurm".to_owned(),
        types: types.into_iter().map(str::to_owned).collect(),
        detection,
        devices,
    }));
    let nodes = prop::collection::vec((any_amounts(), prop::option::of("gres/[a-z]{1,5}")), 0..4);
    (0..4_u64, prop::option::of(any_amounts()), files, nodes, any::<bool>()).prop_map(|(limit, stated, files, nodes, has_unknown_nodes)| {
        let nodes = nodes.into_iter().enumerate();
        let nodes = nodes.map(|(index, (amounts, refusal))| NodeGres { node: format!("w-{index}"), amounts, refusal });
        Places { stated: stated.map(Ok), nodes: nodes.collect(), has_unknown_nodes, ..places(limit, "-", files, &[]) }
    })
}

proptest! {
    #[test]
    fn the_condition_is_false_exactly_where_something_is_found(places in any_places()) {
        let found = findings(&places);
        let status = agreement(&places).map(|condition_update| condition_update.status);
        prop_assert_eq!(status == Some(ConditionStatus::False), !found.is_empty());
        prop_assert!(found.iter().all(|words| !words.contains('\n')));
    }

    #[test]
    fn the_order_of_nodes_does_not_matter_for_what_is_found(places in any_places()) {
        let mut turned = places.clone();
        turned.nodes.reverse();
        prop_assert_eq!(findings(&places).len(), findings(&turned).len());
    }
}
