//! Sets of words that a newer server may extend.

use std::fmt::Debug;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::lenient;

/// A word from Slurm: known ones by name, others as received.
pub trait Flag: Clone + Debug + Ord {
    fn from_word(word: &str) -> Self;
    fn as_word(&self) -> &str;
}

/// A set of words, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flags<F>(Box<[F]>);

impl<F> Default for Flags<F> {
    fn default() -> Self {
        Self(Box::default())
    }
}

impl<F: Flag> Flags<F> {
    pub fn has(&self, flag: &F) -> bool {
        self.0.contains(flag)
    }

    pub fn has_any(&self, flags: &[F]) -> bool {
        flags.iter().any(|flag| self.has(flag))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &F> {
        self.0.iter()
    }
}

impl<F: Flag> FromIterator<F> for Flags<F> {
    fn from_iter<I: IntoIterator<Item = F>>(flags: I) -> Self {
        let mut flags: Vec<F> = flags.into_iter().collect();
        flags.sort();
        flags.dedup();
        Self(flags.into_boxed_slice())
    }
}

impl<F: Flag, const N: usize> From<[F; N]> for Flags<F> {
    fn from(flags: [F; N]) -> Self {
        flags.into_iter().collect()
    }
}

impl<F: Flag> std::fmt::Display for Flags<F> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<&str> = self.0.iter().map(F::as_word).collect();
        out.write_str(&words.join("+"))
    }
}

impl<F: Flag> Serialize for Flags<F> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(F::as_word))
    }
}

impl<'de, F: Flag> Deserialize<'de> for Flags<F> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Ok(lenient::words(input)?.iter().map(|word| F::from_word(word)).collect())
    }
}

/// Defines an open enum: the known words, and `Other` for the rest.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident { $($flag:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($flag,)* Other(Box<str>) }

        impl $name {
            /// All known words.
            pub const KNOWN: &[Self] = &[$(Self::$flag),*];
        }

        impl $crate::rest::model::flag::Flag for $name {
            fn from_word(word: &str) -> Self {
                match word {
                    $($word => Self::$flag,)*
                    other => Self::Other(other.into()),
                }
            }

            fn as_word(&self) -> &str {
                match self {
                    $(Self::$flag => $word,)*
                    Self::Other(word) => word,
                }
            }
        }
    };
}

pub(crate) use flags;
