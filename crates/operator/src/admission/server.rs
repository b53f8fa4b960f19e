//! The webhook's server: one path per kind.

use axum::{
    Json, Router,
    body::Bytes,
    extract::{DefaultBodyLimit, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use slipway_plan::finding::Kind;
use slipway_runtime::tls::TlsListener;
use tokio_util::sync::CancellationToken;

use super::{judge::Judge, registration::path, review};

/// Maximum size of a request. The API server accepts objects of up to 3 MiB and sends two of them, the old and the new one, and a little more.
const MOST: usize = 7 << 20;

/// Serves until `stop`.
pub(super) async fn serve(listener: TlsListener, judge: Judge, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router(judge)).with_graceful_shutdown(stop.cancelled_owned()).await
}

fn router(judge: Judge) -> Router {
    let mut router = Router::new();
    for kind in Kind::ALL {
        router = router.route(&path(kind), post(move |State(judge): State<Judge>, body: Bytes| respond(kind, judge, body)));
    }
    router.layer(DefaultBodyLimit::max(MOST)).with_state(judge)
}

async fn respond(kind: Kind, judge: Judge, body: Bytes) -> Response {
    match review::parse(&body) {
        Ok(question) => {
            let verdict = judge.judge(kind, &question).await;
            Json(review::answer(&question, &verdict)).into_response()
        }
        Err(malformed) => (StatusCode::BAD_REQUEST, format!("{malformed}\n")).into_response(),
    }
}
