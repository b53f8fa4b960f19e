//! The name of a bed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// A bed's name. It is part of folder, host and control group names, so it is short and plain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BedName(String);

impl BedName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for BedName {
    type Err = Failure;

    fn from_str(text: &str) -> Result<Self, Failure> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if text.len() <= 20 && text.starts_with(|c: char| c.is_ascii_lowercase()) && text.chars().all(plain) {
            return Ok(Self(text.to_owned()));
        }
        Err(Failure::new(format!("`{text}` is no name for a bed")).advise("up to 20 lower-case letters, digits and dashes, a letter first"))
    }
}

impl fmt::Display for BedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_folder() {
        for bad in ["", "../x", "a/b", "A", "1a", "a b", "averyveryveryverylongname", "ä"] {
            assert!(bad.parse::<BedName>().is_err(), "{bad} was accepted");
        }
        for good in ["demo", "a", "t-1"] {
            assert_eq!(good.parse::<BedName>().unwrap().as_str(), good);
        }
    }
}
