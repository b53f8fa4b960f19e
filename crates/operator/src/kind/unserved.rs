//! Reconciles kinds that are stored and not served yet: reports that, and changes nothing else. An external Accounting only provides its address,
//! which Controllers read.

use std::sync::Arc;

use slipway_plan::{Report, finding::Kind};
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::world::{
    context::Context,
    error::Error,
    observe::findings_of,
    obstacle::report_obstacle,
    status::{self, Reported},
};

/// Reports on objects of `kind` that nothing is done for them.
pub(crate) struct Unserved {
    pub(crate) kind: Kind,
    pub(crate) context: Arc<Context>,
}

impl<K> Reconcile<K> for Unserved
where
    K: Reported + Send + Sync + 'static,
    K::Status: Send + Sync,
{
    type Error = Error;

    async fn pass(&self, object: Arc<K>) -> Result<Next, Error> {
        if object.meta().deletion_timestamp.is_none() {
            let findings = findings_of(self.kind, object.as_ref());
            status::note_findings(object.as_ref(), &findings, &self.context);
            if !report_obstacle(object.as_ref(), self.kind, &findings, &self.context).await? {
                let summary = "slurmdbd runs outside this Kubernetes: Controllers that name this object use it".to_owned();
                let report = Report { summary, findings, ..Report::default() };
                status::report(object.as_ref(), &report, |_| {}, &self.context).await?;
            }
        }
        Ok(Next::OnChange)
    }

    async fn report_failure(&self, object: Arc<K>, failure: &Failure<Error>) {
        status::report_failure(object.as_ref(), failure, &self.context).await;
    }
}
