use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn lines(text: &str) -> Vec<(usize, String)> {
    ConfFile::parse(text).entries.iter().map(|entry| (entry.line, entry.to_string())).collect()
}

#[rstest]
#[case::comment("# a\nA=1 # b\nB=2 #c\n#D=1#2\n", &[(2, "A=1"), (3, "B=2")])]
#[case::escapes("A=a\\#b\nB=a\\\\b\\c\n", &[(1, "A=a\\#b"), (2, "B=a\\\\bc")])]
#[case::escaped_at_end("A=a\\\\\nB=2\n", &[(1, "A=a\\\\"), (2, "B=2")])]
#[case::blank_behind_continuation("A=\\ \n1\n", &[(1, "A=1")])]
#[case::blanks("  A = 1 \t\r\n\n\tB\t=\t2\n", &[(1, "A=1"), (3, "B=2")])]
#[case::continuation("A=\\\n1\nB=2\n", &[(1, "A=1"), (3, "B=2")])]
#[case::no_final_newline("A=1", &[(1, "A=1")])]
#[case::quotes("A=\"a b\"\nB=\"\"\n", &[(1, "A=\"a b\""), (2, "B=\"\"")])]
#[case::record("PartitionName=x Nodes=a,b  MaxTime=1-0\n", &[(1, "PartitionName=x Nodes=a,b MaxTime=1-0")])]
fn what_slurm_reads_is_read_with_its_line(#[case] text: &str, #[case] expected: &[(usize, &str)]) {
    let expected: Vec<(usize, String)> = expected.iter().map(|(line, text)| (*line, (*text).to_owned())).collect();
    assert_eq!(lines(text), expected);
    assert_eq!(ConfFile::parse(text).faults, []);
}

#[rstest]
#[case::words("A=1\njust words\n", 2, FaultKind::NotASetting("just words".to_owned()))]
#[case::no_value("A=\n", 1, FaultKind::NotASetting("A=".to_owned()))]
#[case::blank_in_value("A=a b\n", 1, FaultKind::NotASetting("b".to_owned()))]
#[case::second_key("A=1 B=2\n", 1, FaultKind::NotASetting("B=2".to_owned()))]
#[case::include("\ninclude  other.conf \n", 2, FaultKind::Include("other.conf".to_owned()))]
#[case::quote("A=\"a\n", 1, FaultKind::OpenQuote("A".to_owned()))]
#[case::continued("A=1\\", 1, FaultKind::ContinuedAtEnd)]
#[case::cut("A=1\nB=p#w\n", 2, FaultKind::Cut)]
#[case::nul("A=a\0b\n", 1, FaultKind::Control('\0'))]
fn what_slurm_refuses_or_misreads_is_a_fault_with_its_line(#[case] text: &str, #[case] line: usize, #[case] kind: FaultKind) {
    assert_eq!(ConfFile::parse(text).faults, [Fault { line, kind }]);
}

#[test]
fn the_last_value_counts_and_those_inside_records_do_not() {
    let file = ConfFile::parse("SuspendTime=1\nsuspendtime=2\nPartitionName=x SuspendTime=3\n");
    assert_eq!(file.last("SuspendTime"), Some((2, "2")));
    assert_eq!(file.last("Nodes"), None);
}

#[test]
fn the_value_is_what_a_real_scontrol_read() {
    let values = [("K=a\\#b", "a#b"), ("K=a\\\\#b", "a\\"), ("K=a\\\\b\\c", "a\\bc"), ("K=\"a\\#b c\"", "a#b c"), ("K=a\\\\\\\nb", "a\\b")];
    for (text, value) in values {
        assert_eq!(ConfFile::parse(text).last("K"), Some((1, value)), "{text}");
    }
}

proptest! {
    #[test]
    fn reading_never_panics(text in any::<String>()) {
        let _ = ConfFile::parse(&text).to_string();
    }

    #[test]
    fn what_is_written_is_read_back(text in r##"([A-Za-z]{1,4} ?= ?("[a-z =]{0,4}"|[a-z0-9,\[\]"#\\]{1,4})[ \t]?(#x)?\n){0,4}"##) {
        let file = ConfFile::parse(&text);
        let again = ConfFile::parse(&file.to_string());
        let bare = |file: &ConfFile| file.entries.iter().map(|entry| entry.settings.clone()).collect::<Vec<_>>();
        prop_assert_eq!(bare(&again), bare(&file));
    }
}
