//! Objects that ask for something that this release would do wrongly: it does nothing for them, and says so.

use slipway_api::{condition::Reason, unserved::obstacle_in};
use slipway_plan::{
    Report, Wait,
    finding::{Finding, Kind},
};

use crate::{
    context::Context,
    error::Error,
    status::{self, Reported},
};

/// Reports what is in the way, if anything is. Then the pass ends here: what exists stays as it is.
pub(crate) async fn report_obstacle<K: Reported>(object: &K, kind: Kind, findings: &[Finding], context: &Context) -> Result<bool, Error> {
    let value = serde_json::to_value(object).unwrap_or_default();
    let Some(why) = obstacle_in(kind.as_str(), &value["spec"]) else { return Ok(false) };
    let waits = vec![Wait::new(Reason::NotServed, why)];
    let report = Report { waits, findings: findings.to_vec(), ..Report::default() };
    status::report(object, &report, |_| {}, context).await?;
    Ok(true)
}
