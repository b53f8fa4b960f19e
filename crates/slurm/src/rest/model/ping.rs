//! Whether slurmctld answers slurmrestd.

use serde::{Deserialize, Serialize};

use super::lenient;

/// One configured controller. A ping proves no token: slurmrestd answers it without asking who we are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ping {
    #[serde(deserialize_with = "lenient::text")]
    pub hostname: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub responding: bool,
    #[serde(deserialize_with = "lenient::or_default")]
    pub primary: bool,
}
