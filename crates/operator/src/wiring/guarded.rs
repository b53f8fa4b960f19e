//! Pauses reconciles of a kind whose served CustomResourceDefinition does not fit.

use std::sync::Arc;

use slipway_plan::Report;
use slipway_runtime::{
    failure::Failure,
    queue::{Next, Reconcile},
};

use crate::world::{
    context::Context,
    error::Error,
    status::{self, Reported},
};

/// Reconciler that pauses while the served definition of its kind lacks spec fields or is foreign.
pub(crate) struct Guarded<R> {
    pub(crate) passes: R,
    pub(crate) context: Arc<Context>,
}

impl<K, R> Reconcile<K> for Guarded<R>
where
    K: Reported + Send + Sync + 'static,
    K::Status: Send + Sync,
    R: Reconcile<K, Error = Error>,
{
    type Error = Error;

    async fn pass(&self, object: Arc<K>) -> Result<Next, Error> {
        let Some(wait) = self.context.guard.pause(K::KIND) else { return self.passes.pass(object).await };
        if object.meta().deletion_timestamp.is_none() {
            let report = Report { waits: vec![wait], ..Report::default() };
            status::report(object.as_ref(), &report, |_| {}, &self.context).await?;
        }
        Ok(Next::OnChange)
    }

    async fn report_failure(&self, object: Arc<K>, failure: &Failure<Error>) {
        self.passes.report_failure(object, failure).await;
    }
}
