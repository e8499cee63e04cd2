//! The AI gateway: `OpenAI`'s wire format in front of the models' providers.
//!
//! A request becomes a response here; connections are accepted in `listen/`, and what a request costs is counted by the
//! [`meter`]. Prompts and completions live in memory for as long as they are passed on: nothing here logs, counts or
//! keeps a byte of them. Start with [`Gateway::answer`], then `request` (what goes out), `chat` (the exchange), `sse`
//! and `stream` (what comes back).

mod body;
mod catalog;
mod chat;
mod cors;
mod drains;
mod gzip;
mod json;
pub mod keys;
pub mod meter;
mod refusal;
mod request;
mod sse;
mod stream;
mod upstream;

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use config::{Gateway as Config, models::Models};
use domain::{Clock, token::TokenSecret};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use percent_encoding::percent_decode_str;
use tokio::sync::Semaphore;

pub use self::{body::Body, upstream::UpstreamError};
use self::{
    catalog::Catalog,
    cors::Cors,
    drains::{Drains, Lasting},
    keys::{GatewayKey, Keys},
    meter::Meter,
    refusal::Refusal,
};
use crate::{
    limits,
    metrics::{self, NO_MODEL},
};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const COMPLETIONS: &str = "/v1/chat/completions";
const MODELS: &str = "/v1/models";

/// The gateway.
pub struct Gateway {
    shared: Arc<Shared>,
    cors: Cors,
    request_ids: RequestIds,
}

/// What requests share.
struct Shared {
    catalog: Catalog,
    keys: Arc<Keys>,
    meter: Meter,
    clock: Clock,
    under_way: Arc<Semaphore>,
    drains: Drains,
}

impl Gateway {
    /// A gateway to `models`.
    pub fn new(
        config: &Config,
        models: &Models,
        keys: Arc<Keys>,
        meter: Meter,
        clock: Clock,
    ) -> Result<Self, UpstreamError> {
        let shared = Shared {
            catalog: Catalog::new(models, config)?,
            keys,
            meter,
            clock,
            under_way: Arc::new(Semaphore::new(limits::EXCHANGES)),
            drains: Drains::new(),
        };
        Ok(Self { shared: Arc::new(shared), cors: Cors::new(&config.cors_origins), request_ids: RequestIds::new() })
    }

    /// Answers a request.
    pub async fn answer<B>(&self, request: Request<B>) -> Response<Body>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let (head, mut body) = request.into_parts();
        let request_id = self.request_ids.next();
        let mut response = match self.route(&head, &mut body, &request_id).await {
            Ok(response) => {
                // Completions count themselves, under their model.
                if head.uri.path() != COMPLETIONS || head.method == Method::OPTIONS {
                    metrics::gateway(NO_MODEL, response.status());
                }
                response
            }
            Err(refusal) => {
                metrics::gateway(NO_MODEL, refusal.status);
                if !body.is_end_stream() && !head.headers.contains_key(header::EXPECT) {
                    leave_nothing_of(&mut body).await;
                }
                chat::refuse(refusal, None)
            }
        };
        let headers = response.headers_mut();
        if let Ok(id) = HeaderValue::try_from(request_id) {
            headers.insert(REQUEST_ID, id);
        }
        self.cors.mark(&head, headers);
        if head.method == Method::HEAD { without_body(response) } else { response }
    }

    /// Settles what still goes on for clients that have gone. For the end, when there are no connections any more.
    pub async fn finish(&self) {
        self.shared.drains.finish().await;
    }

    async fn route<B>(&self, head: &Parts, body: &mut B, request_id: &str) -> Result<Response<Body>, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let path = head.uri.path();
        let model = path.strip_prefix(MODELS).and_then(|rest| rest.strip_prefix('/')).filter(|id| !id.is_empty());
        let allowed = match path {
            COMPLETIONS => "POST, OPTIONS",
            MODELS => "GET, HEAD, OPTIONS",
            _ if model.is_some() => "GET, HEAD, OPTIONS",
            _ => return Err(Refusal::unknown_url(&head.method, path)),
        };
        match head.method {
            Method::OPTIONS => return Ok(options(allowed)),
            Method::POST if path == COMPLETIONS => {}
            Method::GET | Method::HEAD if path != COMPLETIONS => {}
            _ => return Err(Refusal::wrong_method(&head.method, path, allowed)),
        }
        let key = self.key(&head.headers).await?;
        match model {
            _ if path == COMPLETIONS => self.complete(head, body, key, request_id).await,
            None => Ok(json(self.shared.catalog.list())),
            Some(id) => {
                let id = percent_decode_str(id).decode_utf8_lossy();
                let served = self.shared.catalog.find(&id).ok_or_else(|| Refusal::unknown_model(&id))?;
                Ok(json(served.described.clone()))
            }
        }
    }

    /// The key that a request shows.
    async fn key(&self, headers: &HeaderMap) -> Result<Arc<GatewayKey>, Refusal> {
        let shown = headers.get(header::AUTHORIZATION).ok_or_else(Refusal::no_key)?;
        let shown = shown.to_str().map_err(|_| Refusal::wrong_key())?;
        let (scheme, secret) = shown.split_once(' ').ok_or_else(Refusal::no_key)?;
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(Refusal::no_key());
        }
        let secret = TokenSecret::parse(secret.trim()).ok_or_else(Refusal::wrong_key)?;
        match self.shared.keys.find(&secret).await {
            Ok(key) => key.ok_or_else(Refusal::wrong_key),
            Err(error) => {
                tracing::warn!(%error, "a gateway key cannot be looked up");
                Err(Refusal::unavailable(limits::KEYS_RETRY))
            }
        }
    }

    async fn complete<B>(
        &self,
        head: &Parts,
        body: &mut B,
        key: Arc<GatewayKey>,
        request_id: &str,
    ) -> Result<Response<Body>, Refusal>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let mut encodings = head.headers.get_all(header::CONTENT_ENCODING).iter();
        if encodings.any(|encoding| !encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"identity")) {
            return Err(Refusal::compressed());
        }
        let body = match tokio::time::timeout(limits::COMPLETION_BODY, read(body)).await {
            Ok(body) => body?,
            Err(_) => return Err(Refusal::too_slow()),
        };
        let completion = request::judge(&body, &self.shared.catalog)?;
        drop(body);
        let (shared, request_id) = (self.shared.clone(), request_id.to_owned());
        let drains = self.shared.drains.clone();
        Ok(Lasting::new(drains, |gone| chat::complete(shared, key, completion, request_id, gone)).await)
    }
}

/// A whole body, measured as it is read: what a header says of it may be wrong.
async fn read<B>(body: &mut B) -> Result<Bytes, Refusal>
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return Err(Refusal::broken_body()) };
        let Ok(piece) = frame.into_data() else { continue };
        if first.len() + all.len() + piece.len() > limits::COMPLETION_BYTES {
            return Err(Refusal::too_large());
        }
        match (first.is_empty(), all.is_empty()) {
            (true, true) => first = piece,
            (false, _) => {
                all.extend_from_slice(&std::mem::take(&mut first));
                all.extend_from_slice(&piece);
            }
            (true, false) => all.extend_from_slice(&piece),
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

/// Reads what a refused client still sends, within bounds: one that sends while it is answered may lose the answer.
async fn leave_nothing_of<B>(body: &mut B)
where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.data_ref().map_or(0, Bytes::len);
            if read > limits::UNWANTED_BODY_BYTES {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(limits::COMPLETION_BODY, reading).await;
}

/// The answer to HEAD: hyper sends over HTTP/2 whatever body there is.
fn without_body(response: Response<Body>) -> Response<Body> {
    let (mut head, body) = response.into_parts();
    if let Some(len) = body.size_hint().exact() {
        head.headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    Response::from_parts(head, Bytes::new().into())
}

fn json(body: Bytes) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn options(allowed: &'static str) -> Response<Body> {
    let mut response = Response::new(Bytes::new().into());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
    response
}

/// Names for requests, so that what a client reports can be found in the log.
struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    fn new() -> Self {
        Self { process: RandomState::new().hash_one(std::process::id()), next: AtomicU64::new(0) }
    }

    fn next(&self) -> String {
        format!("req_{:016x}{:08x}", self.process, self.next.fetch_add(1, Ordering::Relaxed))
    }
}
