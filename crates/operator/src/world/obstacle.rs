//! Objects that this release cannot serve correctly: the operator does nothing for them and reports that.

use slipway_api::{condition::Reason, unserved::obstacle_in};
use slipway_plan::{
    Report, Wait,
    finding::{Finding, Kind},
};

use crate::world::{
    context::Context,
    error::Error,
    status::{self, Reported},
};

/// Reports the obstacle and returns true if there is one. The reconcile then ends: existing objects stay as they are.
pub(crate) async fn report_obstacle<K: Reported>(object: &K, kind: Kind, findings: &[Finding], context: &Context) -> Result<bool, Error> {
    let value = serde_json::to_value(object).unwrap_or_default();
    let Some(why) = obstacle_in(kind.as_str(), &value["spec"]) else { return Ok(false) };
    let waits = vec![Wait::new(Reason::NotServed, why)];
    let report = Report { waits, findings: findings.to_vec(), ..Report::default() };
    status::report(object, &report, |_| {}, context).await?;
    Ok(true)
}
