//! The webhook's server: one path per kind.

use std::{sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::to_bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
};
use slipway_plan::finding::Kind;
use slipway_runtime::tls::TlsListener;
use tokio::{sync::Semaphore, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{judge::Judge, registration::path, review};

/// Maximum size of a request. The API server accepts objects of up to 3 MiB and sends two of them, the old and the new one, and a little more.
const MOST: usize = 7 << 20;
/// Requests in memory at a time: anybody in the cluster can connect, and a parsed request takes several times its size. A review takes milliseconds.
const AT_ONCE: usize = 8;
/// Time limit for reading a request. Without it, a client that sends nothing would keep its place.
const ARRIVAL: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Desk {
    judge: Judge,
    places: Arc<Semaphore>,
}

/// Serves until `stop`.
pub(super) async fn serve(listener: TlsListener, judge: Judge, stop: CancellationToken) -> std::io::Result<()> {
    axum::serve(listener, router(judge)).with_graceful_shutdown(stop.cancelled_owned()).await
}

fn router(judge: Judge) -> Router {
    let mut router = Router::new();
    for kind in Kind::ALL {
        router = router.route(&path(kind), post(move |State(desk): State<Desk>, request: Request| respond(kind, desk, request)));
    }
    router.with_state(Desk { judge, places: Arc::new(Semaphore::new(AT_ONCE)) })
}

async fn respond(kind: Kind, desk: Desk, request: Request) -> Response {
    let _place = desk.places.acquire().await;
    let body = match timeout(ARRIVAL, to_bytes(request.into_body(), MOST)).await {
        Ok(Ok(body)) => body,
        Ok(Err(error)) => return (StatusCode::PAYLOAD_TOO_LARGE, format!("{error}\n")).into_response(),
        Err(_) => return (StatusCode::REQUEST_TIMEOUT, "the request did not arrive in time").into_response(),
    };
    match review::parse(&body) {
        Ok(question) => {
            let verdict = desk.judge.judge(kind, &question).await;
            Json(review::answer(&question, &verdict)).into_response()
        }
        Err(malformed) => (StatusCode::BAD_REQUEST, format!("{malformed}\n")).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes};
    use futures::{future::join_all, stream};
    use kube::{Client, Config};
    use slipway_runtime::metrics::Metrics;

    use super::*;

    fn desk() -> Desk {
        let client = Client::try_from(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        Desk { judge: Judge { client, metrics: Metrics::new().0 }, places: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    async fn code(desk: &Desk, body: Body) -> StatusCode {
        respond(Kind::NodeSet, desk.clone(), Request::new(body)).await.status()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_that_do_not_arrive_block_nobody_for_long() {
        let (desk, started) = (desk(), tokio::time::Instant::now());
        let never = || Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
        let slow = join_all((0..AT_ONCE).map(|_| code(&desk, never())));
        let (slow, good) = tokio::join!(slow, code(&desk, Body::from("no JSON")));
        assert_eq!(slow, [StatusCode::REQUEST_TIMEOUT; AT_ONCE]);
        assert_eq!((good, started.elapsed().as_secs()), (StatusCode::BAD_REQUEST, ARRIVAL.as_secs()));
    }

    #[tokio::test]
    async fn a_request_without_end_is_refused_at_its_limit() {
        let endless = stream::repeat_with(|| Ok::<_, std::io::Error>(Bytes::from_static(&[b' '; 4096])));
        assert_eq!(code(&desk(), Body::from_stream(endless)).await, StatusCode::PAYLOAD_TOO_LARGE);
    }
}
