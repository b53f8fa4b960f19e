//! Reason of a node's DRAIN or DOWN state.

use std::fmt;

use crate::name::{NotAName, spoken};

/// The reason of a node's state: one line without quotes, so that it survives `scontrol`, shells and tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason(String);

/// Maximum length. Slurm stores more, but every listing repeats it.
const MAX: usize = 512;

impl Reason {
    /// Fails with a sentence on anything but a single line of plain text.
    pub fn parse(text: &str) -> Result<Self, NotAName> {
        let wrong = |problem: String, remedy: &str| Err(NotAName::new("reason", text, problem, remedy));
        if text.trim().is_empty() {
            return wrong("it is empty".to_owned(), "say why");
        }
        if let Some((index, character)) = text.chars().enumerate().find(|(_, character)| !is_plain(*character)) {
            return wrong(format!("character {} is {}", index + 1, spoken(character)), "write one line without quotes");
        }
        let length = text.chars().count();
        if length > MAX {
            return wrong(format!("it has {length} characters"), "say it shorter");
        }
        Ok(Self(text.to_owned()))
    }

    /// The nearest reason to any text: line breaks and tabs become blanks, quotes become backticks, other control characters are removed, and long
    /// text is cut. Empty text becomes `unknown`, the word that others use for it.
    pub fn of(text: &str) -> Self {
        let plain = text.chars().filter_map(|character| match character {
            '\n' | '\r' | '\t' => Some(' '),
            '\'' | '"' => Some('`'),
            other => is_plain(other).then_some(other),
        });
        let plain: String = plain.take(MAX).collect();
        Self(if plain.trim().is_empty() { "unknown".to_owned() } else { plain })
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// True for characters that a reason may have. U+2028 and U+2029 break lines for some readers.
fn is_plain(character: char) -> bool {
    !character.is_control() && !matches!(character, '\'' | '"' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::plain("slurm-operator: fan 3 failed", Ok("slurm-operator: fan 3 failed"))]
    #[case::words("Lüfter 3", Ok("Lüfter 3"))]
    #[case::empty(" ", Err("` ` is no reason: it is empty; say why"))]
    #[case::two_lines("a\nb", Err("`a\\nb` is no reason: character 2 is a line break; write one line without quotes"))]
    #[case::quote("it's", Err("`it\\'s` is no reason: character 3 is a quote ('); write one line without quotes"))]
    fn a_reason_is_one_plain_line(#[case] text: &str, #[case] expected: Result<&str, &str>) {
        let parsed = Reason::parse(text);
        assert_eq!(parsed.as_ref().map(Reason::as_str).map_err(ToString::to_string), expected.map_err(str::to_owned));
    }

    #[rstest]
    #[case("a\tb\r\nc", "a b  c")]
    #[case("it's \"down\"", "it`s `down`")]
    #[case("\u{1b}[31mred", "[31mred")]
    #[case("\n", "unknown")]
    fn any_text_has_a_nearest_reason(#[case] text: &str, #[case] expected: &str) {
        assert_eq!(Reason::of(text).as_str(), expected);
    }

    proptest! {
        #[test]
        fn what_was_made_can_be_parsed_and_changes_no_more(text in any::<String>()) {
            let reason = Reason::of(&text);
            prop_assert_eq!(&Reason::parse(reason.as_str()).unwrap(), &reason);
            prop_assert_eq!(&Reason::of(reason.as_str()), &reason);
        }

        #[test]
        fn what_is_accepted_is_kept_as_it_stands(text in any::<String>()) {
            if let Ok(reason) = Reason::parse(&text) {
                prop_assert_eq!(reason.as_str(), &text);
                prop_assert!(!text.contains(['\n', '\r', '"', '\'', '\0']));
            }
        }
    }
}
