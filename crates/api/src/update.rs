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

impl UpdateStrategy {
    /// How many of so many nodes may be missing at a time. Without a word about it a quarter; what cannot be read counts as one.
    pub fn max_unavailable(&self, nodes: usize) -> usize {
        let quarter = a_quarter();
        let written = self.rolling_update.as_ref().map_or(&quarter, |rolling| &rolling.max_unavailable);
        let number = match written {
            IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
            IntOrString::String(text) => match text.strip_suffix('%') {
                Some(share) => share.parse::<usize>().unwrap_or(0).saturating_mul(nodes).div_ceil(100),
                None => text.parse().unwrap_or(0),
            },
        };
        number.max(1)
    }
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

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nothing_said(None, 20, 5)]
    #[case::a_share_is_rounded_up(Some(IntOrString::String("25%".into())), 5, 2)]
    #[case::a_small_share_is_one(Some(IntOrString::String("1%".into())), 3, 1)]
    #[case::a_share_of_none_is_one(Some(IntOrString::String("50%".into())), 0, 1)]
    #[case::all(Some(IntOrString::String("100%".into())), 7, 7)]
    #[case::a_number(Some(IntOrString::Int(3)), 100, 3)]
    #[case::a_number_in_quotes(Some(IntOrString::String("4".into())), 100, 4)]
    #[case::none(Some(IntOrString::Int(0)), 9, 1)]
    #[case::less_than_none(Some(IntOrString::Int(-3)), 9, 1)]
    #[case::words(Some(IntOrString::String("many".into())), 9, 1)]
    fn at_least_one_node_may_be_missing(#[case] written: Option<IntOrString>, #[case] nodes: usize, #[case] number: usize) {
        let rolling_update = written.map(|max_unavailable| RollingNodes { max_unavailable });
        assert_eq!(UpdateStrategy { rolling_update, ..UpdateStrategy::default() }.max_unavailable(nodes), number);
    }
}
