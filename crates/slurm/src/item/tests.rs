use proptest::prelude::*;
use rstest::rstest;

use super::*;

fn printed(text: &str) -> Result<String, String> {
    let items = Item::parse_all(text).map_err(|error| error.to_string())?;
    Ok(items.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
}

/// Each of these was given to slurmctld 26.05.5 as the end of a partition line, with the same meaning as here.
#[rstest]
#[case::plain("Default=YES State=UP", "Default=YES State=UP")]
#[case::nothing("  ", "")]
#[case::tabs("\tDefault=YES\tState=UP", "Default=YES State=UP")]
#[case::blanks_around("Default = YES", "Default=YES")]
#[case::quotes("AllowGroups=\"root,daemon\" Default=YES", "AllowGroups=root,daemon Default=YES")]
#[case::an_item_inside_quotes("AllowGroups=\"root Default=YES\" State=UP", "AllowGroups=\"root Default=YES\" State=UP")]
#[case::equals_in_a_value("TRESBillingWeights=CPU=1.0,Mem=0.25G", "TRESBillingWeights=CPU=1.0,Mem=0.25G")]
#[case::other_alphabets("AllowGroups=domänen-benutzer", "AllowGroups=domänen-benutzer")]
fn items_are_read_as_slurm_reads_them(#[case] text: &str, #[case] expected: &str) {
    assert_eq!(printed(text), Ok(expected.to_owned()));
}

/// Each of these made slurmctld 26.05.5 exit or had another meaning there.
#[rstest]
#[case::no_item("CPUs=4 oops", "has `oops`, which is no `Key=Value`: separate items by blanks")]
#[case::no_key("=4", "has `=4`, which is no `Key=Value`: separate items by blanks")]
#[case::include("Include /etc/hostname", "has `Include`, which is no `Key=Value`: separate items by blanks")]
#[case::no_value("MaxTime=", "has `MaxTime` without a value: give it one or take it out")]
#[case::open_quote("AllowGroups=\"root Default=YES", "opens a quote at `AllowGroups=\\\"root` and never closes it: close it")]
#[case::late_quote("AllowGroups=root\"", "has a quote (\") in the value of `AllowGroups`: leave it out")]
#[case::after_quote("A=\"b\"c", "has `A=\\\"b\\\"c`, which is no `Key=Value`: separate items by blanks")]
#[case::single_quote("Reason=it's", "has a quote (') in the value of `Reason`: leave it out")]
#[case::joins_the_next_line("Default=YES\\", "has `\\\\` in the value of `Default`: leave it out")]
#[case::comment("Weight=2#x", "has `#` in the value of `Weight`: leave it out")]
#[case::end_of_text("Default=YES\0State=DOWN", "has `\\0` in the value of `Default`: leave it out")]
#[case::line_in_quotes("A=\"b\nInclude x\"", "has a line break in the value of `A`: leave it out")]
fn what_is_no_item_is_named(#[case] text: &str, #[case] words: &str) {
    assert_eq!(printed(text), Err(words.to_owned()));
}

/// True if a line consists of items only. The simplest possible check, to compare with the parser.
fn is_a_line_of_items(line: &str) -> bool {
    let mut in_quotes = false;
    let words = line.split(|character| {
        in_quotes ^= character == '"';
        character == ' ' && !in_quotes
    });
    let is_item = |word: &str| {
        let Some((key, value)) = word.split_once('=') else { return false };
        let bare = value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).filter(|bare| bare.contains(' ')).unwrap_or(value);
        !key.is_empty()
            && key.chars().all(|character| character.is_ascii_alphanumeric() || character == '_')
            && !bare.is_empty()
            && !bare.contains(['"', '\'', '#', '\\', '\n', '\r', '\t', '\0'])
    };
    let words: Vec<&str> = words.collect();
    line.is_empty() || words.into_iter().all(is_item)
}

proptest! {
    #[test]
    fn accepted_text_prints_as_one_line_of_items(text in r#"[ab1=" '#\\\t\n\r,é]{0,24}"#) {
        if let Ok(line) = printed(&text) {
            prop_assert!(is_a_line_of_items(&line), "{text:?} became {line:?}");
            prop_assert_eq!(printed(&line), Ok(line), "printing again changed {:?}", text);
        }
    }

    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        if let Ok(line) = printed(&text) {
            prop_assert!(!line.contains('\n'));
        }
    }
}
