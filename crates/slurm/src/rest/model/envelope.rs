//! Fields of every response around its payload.

use serde::{Deserialize, Serialize};

use super::lenient;
use super::number::Number;
use crate::rest::errno::Errno;

/// A failure inside a response, whatever its HTTP status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Complaint {
    #[serde(deserialize_with = "lenient::text")]
    pub description: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub error_number: i64,
    #[serde(deserialize_with = "lenient::text")]
    pub error: String,
    #[serde(deserialize_with = "lenient::text")]
    pub source: String,
}

impl Complaint {
    pub fn errno(&self) -> Errno {
        Errno(self.error_number)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Warning {
    #[serde(deserialize_with = "lenient::text")]
    pub description: String,
    #[serde(deserialize_with = "lenient::text")]
    pub source: String,
}

/// Everything in a response but the payload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Envelope {
    #[serde(deserialize_with = "lenient::or_default")]
    pub errors: Vec<Complaint>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub warnings: Vec<Warning>,
    pub last_update: Number,
    #[serde(deserialize_with = "lenient::or_default")]
    pub meta: Meta,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Meta {
    #[serde(deserialize_with = "lenient::or_default")]
    pub slurm: Release,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Release {
    #[serde(deserialize_with = "lenient::text")]
    pub release: String,
    #[serde(deserialize_with = "lenient::text")]
    pub cluster: String,
}
