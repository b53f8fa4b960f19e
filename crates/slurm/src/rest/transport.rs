//! Transport to slurmrestd: HTTP in production, a replacement in tests that set the clock.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, header};
use secrecy::{ExposeSecret, SecretString};

/// Timeout for establishing a connection.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(3);
/// slurmrestd's header for the token. It refuses requests that also have `Authorization`.
pub const TOKEN_HEADER: HeaderName = HeaderName::from_static("x-slurm-user-token");

/// One request. It has no `Debug`, because it carries the token.
pub struct Request {
    pub method: Method,
    /// Path and query.
    pub path: String,
    pub token: Arc<SecretString>,
    pub body: Option<Bytes>,
}

/// The start of a response; the body arrives in chunks.
pub struct Response {
    pub status: u16,
    pub is_json: bool,
    pub body: Box<dyn Body>,
}

/// A failure below HTTP.
#[derive(Debug)]
pub enum Trouble {
    /// Nothing was sent.
    Unreachable(String),
    /// Something may have been sent.
    Broken(String),
}

/// A boxed future.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends requests to one slurmrestd.
pub trait Transport: Send + Sync {
    fn send(&self, request: Request) -> Later<'_, Result<Response, Trouble>>;
}

/// The body of a response, chunk by chunk.
pub trait Body: Send {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>>;
}

/// HTTP/1.1 to one server.
pub struct Http {
    base: String,
    client: reqwest::Client,
}

impl Http {
    /// For a server such as `http://slurm-restapi.slurm:6820`; `authorities` are the PEM certificates that it trusts for `https`.
    pub fn new(base: &str, authorities: Option<&[u8]>) -> Result<Self, String> {
        let trusted = match authorities {
            Some(pem) => reqwest::Certificate::from_pem_bundle(pem).map_err(|error| reasons(&error))?,
            None => Vec::new(),
        };
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_LIMIT)
            .pool_max_idle_per_host(4)
            .redirect(reqwest::redirect::Policy::none())
            .no_proxy()
            .tls_certs_only(trusted)
            .build()
            .map_err(|error| reasons(&error))?;
        Ok(Self { base: base.trim_end_matches('/').to_owned(), client })
    }
}

impl Transport for Http {
    fn send(&self, request: Request) -> Later<'_, Result<Response, Trouble>> {
        Box::pin(async move {
            let Request { method, path, token, body } = request;
            let mut secret = HeaderValue::from_str(token.expose_secret())
                .map_err(|_| Trouble::Unreachable("the token cannot stand in a header".to_owned()))?;
            secret.set_sensitive(true);
            let mut builder = self.client.request(method, format!("{}{path}", self.base));
            builder = builder.header(TOKEN_HEADER, secret).header(header::ACCEPT, "application/json");
            if let Some(body) = body {
                builder = builder.header(header::CONTENT_TYPE, "application/json").body(body);
            }
            let response = builder.send().await.map_err(|error| {
                let why = reasons(&error);
                if error.is_connect() { Trouble::Unreachable(why) } else { Trouble::Broken(why) }
            })?;
            let kind = response.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let is_json = kind.starts_with("application/json");
            Ok(Response { status: response.status().as_u16(), is_json, body: Box::new(HttpBody(response)) })
        })
    }
}

struct HttpBody(reqwest::Response);

impl Body for HttpBody {
    fn next(&mut self) -> Later<'_, Result<Option<Bytes>, Trouble>> {
        Box::pin(async move { self.0.chunk().await.map_err(|error| Trouble::Broken(reasons(&error))) })
    }
}

/// An error and its causes, in one line.
fn reasons(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}
