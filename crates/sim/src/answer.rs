//! Answers in slurmrestd's format.

use bytes::Bytes;
use serde_json::{Value, json};

/// A complete answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub is_json: bool,
    pub body: Bytes,
}

/// A refusal in slurmctld's wording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub number: i64,
    pub error: &'static str,
    pub description: String,
    /// HTTP status of its own; `None` for the release's default.
    pub status: Option<u16>,
}

impl Refusal {
    pub fn new(number: i64, description: impl Into<String>) -> Self {
        let (error, status) = match number {
            0 => ("No error", Some(200)),
            1007 => ("Protocol authentication error", Some(511)),
            2000 => ("Invalid partition name specified", None),
            2009 => ("Job script not specified", None),
            2010 => ("Invalid user id", None),
            2016 => ("Requested nodes are busy", None),
            2017 => ("Invalid job id specified", Some(404)),
            2018 => ("Invalid node name specified", None),
            2021 => ("Job/step already completing or completed", None),
            2024 => ("Job is pending execution", None),
            2028 => ("Invalid node state specified", None),
            2031 => ("Active features not subset of available features", None),
            2053 => ("Requested reservation is invalid", None),
            2055 => ("Requested reservation is in use", None),
            2070 => ("Required partition not available (inactive or drain)", None),
            2075 => ("Partition is in use", None),
            2084 => ("Job has already finished", None),
            2168 => ("Node already exists in the node table", None),
            2178 => ("Requested topology configuration is not available", None),
            2180 => ("Invalid node state transition", None),
            9000 => ("Query empty or not RFC7320 compliant", None),
            9202 => ("Unable to convert Data type", Some(500)),
            9207 => ("Data parser unable to parse invalid flag", Some(500)),
            9209 => ("Data parser expected a dictionary or object", Some(500)),
            _ => ("Unspecified error", None),
        };
        Self { number, error, description: description.into(), status }
    }

    pub fn as_json(&self) -> Value {
        json!({"description": self.description, "error_number": self.number, "error": self.error, "source": "stand-in"})
    }
}

impl Answer {
    pub fn plain(status: u16, text: &'static str) -> Self {
        Self { status, is_json: false, body: Bytes::from_static(text.as_bytes()) }
    }

    pub fn unknown_url() -> Self {
        Self::plain(404, "Unable to find requested URL endpoint.")
    }

    pub fn unchanged() -> Self {
        Self::plain(304, "")
    }

    pub fn json(status: u16, value: &Value) -> Self {
        Self { status, is_json: true, body: Bytes::from(value.to_string()) }
    }
}
