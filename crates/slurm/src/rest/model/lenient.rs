//! Tolerant parsing: null is the default, and a list may be one string.

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::number::Number;

/// Reads null as absent.
pub fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

/// An integer in any form; anything but a number is 0.
pub fn wide<'de, D: Deserializer<'de>>(input: D) -> Result<u64, D::Error> {
    Ok(Number::deserialize(input)?.get().unwrap_or_default())
}

/// Text, even if a newer server sends a number, a list or an object.
pub fn text<'de, D: Deserializer<'de>>(input: D) -> Result<String, D::Error> {
    input.deserialize_any(Text)
}

/// A list of words: an array, or one string with commas.
pub fn words<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<String>, D::Error> {
    input.deserialize_any(Words)
}

struct Text;

impl<'de> Visitor<'de> for Text {
    type Value = String;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_string<E>(self, text: String) -> Result<String, E> {
        Ok(text)
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_i64<E>(self, number: i64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_bool<E>(self, truth: bool) -> Result<String, E> {
        Ok(truth.to_string())
    }

    fn visit_unit<E>(self) -> Result<String, E> {
        Ok(String::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, sequence: A) -> Result<String, A::Error> {
        Words.visit_seq(sequence).map(|words| words.join(","))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(String::new())
    }
}

struct Words;

/// One word of a list.
struct Word(String);

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        text(input).map(Self)
    }
}

impl<'de> Visitor<'de> for Words {
    type Value = Vec<String>;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a list of words")
    }

    fn visit_str<E>(self, text: &str) -> Result<Vec<String>, E> {
        Ok(text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    }

    fn visit_unit<E>(self) -> Result<Vec<String>, E> {
        Ok(Vec::new())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Vec<String>, E> {
        Ok(Vec::new())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Vec<String>, E> {
        Ok(vec![number.to_string()])
    }

    fn visit_i64<E>(self, number: i64) -> Result<Vec<String>, E> {
        Ok(vec![number.to_string()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<String>, A::Error> {
        let mut words = Vec::new();
        while let Some(Word(word)) = sequence.next_element()? {
            if !word.is_empty() {
                words.push(word);
            }
        }
        Ok(words)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize, PartialEq)]
    struct Read {
        #[serde(default, deserialize_with = "text")]
        text: String,
        #[serde(default, deserialize_with = "words")]
        words: Vec<String>,
        #[serde(default, deserialize_with = "wide")]
        wide: u64,
    }

    #[rstest::rstest]
    #[case::plain(r#"{"text":"a","words":["b","c"],"wide":3}"#, "a", &["b", "c"], 3)]
    #[case::absent("{}", "", &[], 0)]
    #[case::null(r#"{"text":null,"words":null,"wide":null}"#, "", &[], 0)]
    #[case::other_forms(r#"{"text":["a","b"],"words":"c, d,","wide":{"set":true,"number":4}}"#, "a,b", &["c", "d"], 4)]
    #[case::nonsense(r#"{"text":{"a":1},"words":{"b":[2]},"wide":"many"}"#, "", &[], 0)]
    fn odd_forms_are_forgiven(#[case] json: &str, #[case] text: &str, #[case] words: &[&str], #[case] wide: u64) {
        let read: Read = serde_json::from_str(json).unwrap();
        assert_eq!(read, Read { text: text.to_owned(), words: words.iter().map(|word| (*word).to_owned()).collect(), wide });
    }
}
