//! Slurm's wrapped numbers.

use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A number that may be unset or infinite: `{"set": .., "infinite": .., "number": ..}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Number {
    #[default]
    Unset,
    Set(u64),
    Infinite,
}

impl Number {
    /// The number, or `None` if it is unset or infinite.
    pub fn get(self) -> Option<u64> {
        match self {
            Self::Set(number) => Some(number),
            Self::Unset | Self::Infinite => None,
        }
    }

    /// The time from UNIX seconds, or `None`. Slurm writes 0 for "never", and its own "no value" in fields that it forgot to wrap.
    pub fn moment(self) -> Option<jiff::Timestamp> {
        const NO_VALUE: u64 = 0xffff_fffe;
        const INFINITE: u64 = 0xffff_ffff;
        match self {
            Self::Set(0 | NO_VALUE | INFINITE) | Self::Unset | Self::Infinite => None,
            Self::Set(seconds) => i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok()),
        }
    }
}

impl From<jiff::Timestamp> for Number {
    fn from(moment: jiff::Timestamp) -> Self {
        u64::try_from(moment.as_second()).map_or(Self::Unset, Self::Set)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut wrapper = out.serialize_struct("Number", 3)?;
        wrapper.serialize_field("set", &matches!(self, Self::Set(_)))?;
        wrapper.serialize_field("infinite", &matches!(self, Self::Infinite))?;
        wrapper.serialize_field("number", &self.get().unwrap_or_default())?;
        wrapper.end()
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        input.deserialize_any(Reader)
    }
}

struct Reader;

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Key {
    Set,
    Infinite,
    Number,
    #[serde(other)]
    Other,
}

impl<'de> Visitor<'de> for Reader {
    type Value = Number;

    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("a number, bare or in Slurm's wrapper")
    }

    fn visit_u64<E>(self, number: u64) -> Result<Number, E> {
        Ok(Number::Set(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Number, E> {
        Ok(u64::try_from(number).map_or(Number::Unset, Number::Set))
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and what it saturates is no number anyway"
    )]
    fn visit_f64<E>(self, number: f64) -> Result<Number, E> {
        Ok(if number.is_nan() || number < 0.0 { Number::Unset } else { Number::Set(number as u64) })
    }

    fn visit_str<E>(self, text: &str) -> Result<Number, E> {
        Ok(text.trim().parse().map_or(Number::Unset, Number::Set))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Number, E> {
        Ok(Number::Unset)
    }

    fn visit_unit<E>(self) -> Result<Number, E> {
        Ok(Number::Unset)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Number, A::Error> {
        let (mut set, mut infinite, mut number) = (None, false, Number::Unset);
        while let Some(key) = map.next_key()? {
            match key {
                Key::Set => set = map.next_value::<Option<bool>>()?,
                Key::Infinite => infinite = map.next_value::<Option<bool>>()?.unwrap_or_default(),
                Key::Number => number = map.next_value()?,
                Key::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(if infinite {
            Number::Infinite
        } else if set == Some(false) {
            Number::Unset
        } else {
            number
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[rstest::rstest]
    #[case::set(r#"{"set":true,"infinite":false,"number":5}"#, Number::Set(5))]
    #[case::never_read_without_set(r#"{"set":false,"infinite":false,"number":5}"#, Number::Unset)]
    #[case::infinite_wins(r#"{"set":true,"infinite":true,"number":5}"#, Number::Infinite)]
    #[case::wide(r#"{"set":true,"number":18446744073709551615}"#, Number::Set(u64::MAX))]
    #[case::wider_than_the_document_says("4294901759", Number::Set(4_294_901_759))]
    #[case::text("\"7\"", Number::Set(7))]
    #[case::null("null", Number::Unset)]
    #[case::nulls_inside(r#"{"set":null,"infinite":null,"number":null}"#, Number::Unset)]
    #[case::negative("-2", Number::Unset)]
    #[case::float("1.9", Number::Set(1))]
    #[case::new_key(r#"{"set":true,"number":3,"unit":{"a":[1]}}"#, Number::Set(3))]
    fn every_form_of_a_number_is_read(#[case] text: &str, #[case] expected: Number) {
        assert_eq!(serde_json::from_str::<Number>(text).unwrap(), expected);
    }

    #[test]
    fn what_is_written_is_read_back() {
        for number in [Number::Unset, Number::Set(9), Number::Infinite] {
            assert_eq!(serde_json::from_str::<Number>(&serde_json::to_string(&number).unwrap()).unwrap(), number);
        }
    }
}
