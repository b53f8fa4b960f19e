#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function
#![allow(clippy::duplicated_attributes)] // several columns have the same type

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use serde::{Deserialize, Serialize};

use crate::{SecretKeyRef, rule, schema};

/// A token for Slurm's REST API, kept fresh in a Secret.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "slinky.slurm.net",
    version = "v1beta1",
    kind = "Token",
    plural = "tokens",
    singular = "token",
    shortname = "tokens",
    shortname = "jwt",
    namespaced,
    status = "TokenStatus",
    printcolumn(name = "USER", type_ = "string", json_path = ".spec.username"),
    printcolumn(name = "IAT", type_ = "date", json_path = ".status.issuedAt"),
    printcolumn(name = "READY", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].status"),
    printcolumn(name = "STATUS", type_ = "string", json_path = ".status.conditions[?(@.type==\"Ready\")].reason"),
    printcolumn(name = "AGE", type_ = "date", json_path = ".metadata.creationTimestamp"),
    doc = "Token keeps a fresh token of one Slurm user in a Secret."
)]
#[x_kube(validation = rule::token_key_given(), validation = rule::jwt_key_stays(), validation = rule::token_secret_named())]
#[serde(rename_all = "camelCase")]
pub struct TokenSpec {
    /// Secret key that holds the auth/jwt (HS256) key of the cluster. It cannot point elsewhere later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_key_ref: Option<SecretKeyRef>,
    /// Deprecated: the former name of `jwtKeyRef`, used where that is not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_hs256_key_ref: Option<SecretKeyRef>,
    /// Slurm user that the token speaks for; `nobody` when empty.
    pub username: String,
    /// How long a token is good for, such as `15m` or `1h`; `15m` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = rule::lifetime_is_a_duration())]
    pub lifetime: Option<String>,
    /// Whether the token is renewed when four fifths of its lifetime are over. If not, the Secret is immutable.
    #[serde(default = "yes")]
    pub refresh: bool,
    /// Where to put the token. Left out, it is key `SLURM_JWT` of the Secret `<name>-jwt-<username>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretKeyRef>,
}

fn yes() -> bool {
    true
}

/// What was last seen of a Token.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TokenStatus {
    /// When the present token was issued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<Time>,
    /// Whether the token is good, and what it waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
