use std::fmt::Write;

use proptest::prelude::*;
use rstest::rstest;

use super::*;

const CORPUS: &str = include_str!("../../tests/corpus/gres.tsv");

/// Resources in the format of the corpus.
fn written(all: &[Gres]) -> String {
    let mut text = String::new();
    for Gres { name, kind, count } in all {
        write!(text, "{name} {} {count} ", kind.as_deref().unwrap_or("-")).unwrap();
    }
    text.trim_end().to_owned()
}

#[test]
fn a_real_slurmd_reads_each_text_of_the_corpus_as_we_do() {
    let mut count = 0;
    for line in CORPUS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let ours = parse(fields[0]);
        match fields.as_slice() {
            [text, "!"] | [text, _, "narrower"] => assert!(ours.is_err(), "{text}: {ours:?}"),
            [text, real] => assert_eq!(ours.map(|all| written(&all)).as_deref(), Ok(*real), "{text}"),
            _ => panic!("{line}"),
        }
        count += 1;
    }
    assert!(count > 40, "{count} texts");
}

#[rstest]
#[case::nothing("(null)", "")]
#[case::empty("", "")]
#[case::not_applicable("N/A", "")]
#[case::sockets("gpu:nvidia_h200:1(S:0),shard:nvidia_h200:8(S:0)", "gpu nvidia_h200 1 shard nvidia_h200 8")]
#[case::several_sockets("gpu:8(S:0,2),fake:2", "gpu - 8 fake - 2")]
#[case::indexes("gpu:a100:2(IDX:0-1),fake:0", "gpu a100 2 fake - 0")]
#[case::type_left_out("fake:(null):2K", "fake - 2048")]
#[case::type_left_out_and_a_flag("fake:(null):no_consume:1", "fake - 1")]
fn what_slurm_answers_is_read(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(written(&parse(text).unwrap()), expected);
}

#[rstest]
#[case("gpu:1x", "no number")]
#[case("gpu:1,gpu:a100:1", "with a type and without one")]
#[case("gp u:1", "in a name")]
fn a_refusal_says_what_is_wrong(#[case] text: &str, #[case] words: &str) {
    let error = parse(text).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[rstest]
#[case::none("", &[])]
#[case::two("GresTypes=gpu,shard\n", &["gpu", "shard"])]
#[case::blanks_and_case("grestypes = gpu,\n", &["gpu"])]
#[case::the_last_counts("GresTypes=gpu\nGresTypes=fake\n", &["fake"])]
#[case::comment("#GresTypes=gpu\n", &[])]
fn the_types_are_those_of_slurm_conf(#[case] text: &str, #[case] expected: &[&str]) {
    assert_eq!(Setup::read(text, None).types, expected);
}

#[rstest]
#[case::no_file("", "w-1", Detection::Unsaid, "")]
#[case::files("Name=gpu File=/dev/nvidia[0-3]\n", "w-1", Detection::Unsaid, "gpu - 4")]
#[case::two_lines(
    "Name=gpu Type=a100 File=/dev/nvidia0\nName=gpu Type=a100 File=/dev/nvidia1\n",
    "w-1",
    Detection::Unsaid,
    "gpu a100 1 gpu a100 1"
)]
#[case::list("Name=gpu File=/dev/nvidia0,/dev/nvidia1\n", "w-1", Detection::Unsaid, "gpu - 2")]
#[case::one_of_several_files("Name=gpu MultipleFiles=/dev/a,/dev/b\n", "w-1", Detection::Unsaid, "gpu - 1")]
#[case::count_without_file("Name=fake Count=4\n", "w-1", Detection::Unsaid, "fake - 0")]
#[case::detected("AutoDetect=nvidia\n", "w-1", Detection::By("nvidia".to_owned()), "")]
#[case::switched_off("autodetect=OFF\n", "w-1", Detection::Off, "")]
#[case::off_for_others("AutoDetect=nvidia\nNodeName=w-[2-3] AutoDetect=off Name=gpu File=/dev/a\n", "w-1", Detection::By("nvidia".to_owned()), "")]
#[case::off_for_it("NodeName=w-[0-3] AutoDetect=off Name=gpu File=/dev/a\nAutoDetect=nvidia\n", "w-1", Detection::Off, "gpu - 1")]
#[case::bad_list("NodeName=w-[ Name=gpu File=/dev/a\n", "w-1", Detection::Unsaid, "")]
fn a_gres_conf_says_which_devices_a_node_has(#[case] text: &str, #[case] node: &str, #[case] detection: Detection, #[case] devices: &str) {
    let conf = GresConf::parse(text);
    assert_eq!((conf.detection(node), written(&conf.devices(node)).as_str()), (detection, devices));
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in ".{0,60}", conf in ".{0,200}") {
        let _ = parse(&text);
        let setup = Setup::read(&conf, Some(&conf));
        setup.conf.devices(&text);
        setup.conf.detection(&text);
    }

    #[test]
    fn texts_that_look_like_resources_do_not_make_it_panic(text in "[gf:,(0-9KMBi)ab.-]{0,40}") {
        let _ = parse(&text);
    }

    #[test]
    fn what_is_written_is_read_back(name in "[a-z][a-z0-9_]{0,8}", kind in proptest::option::of("[a-z][a-z0-9_.-]{0,8}"), count in 0..=i64::MAX.unsigned_abs()) {
        prop_assume!(kind.as_deref() != Some("no_consume"));
        let one = Gres { name, kind, count };
        prop_assert_eq!(parse(&one.to_string()), Ok(vec![one]));
    }
}
