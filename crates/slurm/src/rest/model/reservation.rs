//! Reservations. The types for writing differ from those for reading.

use serde::{Deserialize, Serialize};

use super::lenient;
use super::number::Number;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Reservation {
    #[serde(deserialize_with = "lenient::text")]
    pub name: String,
    /// A hostlist expression.
    #[serde(deserialize_with = "lenient::text")]
    pub node_list: String,
    #[serde(deserialize_with = "lenient::text")]
    pub users: String,
    #[serde(deserialize_with = "lenient::text")]
    pub accounts: String,
    #[serde(deserialize_with = "lenient::text")]
    pub partition: String,
    #[serde(deserialize_with = "lenient::words")]
    pub flags: Vec<String>,
    pub start_time: Number,
    pub end_time: Number,
}

/// Creates a reservation, or changes the one of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ReservationWrite {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Number>,
    /// Minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_time: Option<Number>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_list: Vec<String>,
    /// Slurm refuses a reservation that no one may use.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}
