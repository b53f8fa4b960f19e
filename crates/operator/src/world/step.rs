//! Runs a comparison whenever caches change.

use std::{pin::pin, time::Duration};

use futures::{Stream, StreamExt, future::join_all};
use slipway_runtime::hub::Filled;
use tokio_util::sync::CancellationToken;

/// Interval between comparisons without a change: whatever ended by itself is restarted then.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// Calls `compare` once `caches` are filled, then after each of `changes` and periodically, until `stop`. Which object changed does not matter.
pub(crate) async fn keep_in_step<R>(
    changes: impl Stream<Item = R> + Send,
    caches: Vec<Filled>,
    stop: CancellationToken,
    compare: impl Fn() + Send,
) {
    let work = async {
        join_all(caches.into_iter().map(Filled::wait)).await;
        let mut changes = pin!(changes.ready_chunks(1024));
        loop {
            compare();
            let is_over = tokio::select! {
                chunk = changes.next() => chunk.is_none(),
                () = tokio::time::sleep(LOOK_AGAIN) => false,
            };
            if is_over {
                return;
            }
        }
    };
    tokio::select! {
        () = stop.cancelled() => {}
        () = work => {}
    }
}
