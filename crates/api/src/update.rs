#![allow(unreachable_pub)] // the KubeSchema derive repeats each struct inside a function

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::Time, util::intstr::IntOrString};
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{rule, schema};

/// How nodes get a changed template.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[schemars(inline)]
#[x_kube(validation = rule::schedule_complete())]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// `RollingUpdate` drains and replaces a few nodes at a time, `OnDelete` replaces a node when its pod is deleted, `ScheduledUpdate`
    /// replaces all of them in a maintenance reservation.
    #[serde(rename = "type", default)]
    pub kind: UpdateKind,
    /// Details of `RollingUpdate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingNodes>,
    /// Details of `ScheduledUpdate`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_update: Option<ScheduledUpdate>,
}

/// How nodes get a changed template, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub enum UpdateKind {
    #[default]
    RollingUpdate,
    OnDelete,
    ScheduledUpdate,
}

/// Details of a rolling update of nodes.
#[derive(KubeSchema, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct RollingNodes {
    /// How many nodes, or which share of them, may be missing at a time.
    #[serde(default = "a_quarter")]
    #[schemars(schema_with = "schema::int_or_string")]
    #[x_kube(validation = rule::may_lose_one())]
    pub max_unavailable: IntOrString,
}

fn a_quarter() -> IntOrString {
    IntOrString::String("25%".to_owned())
}

/// The maintenance in which nodes are replaced.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct ScheduledUpdate {
    /// When it begins, such as `2027-01-31T22:00:00Z`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// How long it may take, such as `30m` or `2h`: at least one minute.
    #[serde(default = "half_an_hour")]
    #[x_kube(validation = rule::schedule_long_enough())]
    pub duration: String,
    /// Further flags of the Slurm reservation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
}

fn half_an_hour() -> String {
    "30m".to_owned()
}
