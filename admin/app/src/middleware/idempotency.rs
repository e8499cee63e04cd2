//! `Idempotency-Key`: a repeated POST is not executed again and receives the first response.
//!
//! The middleware [`replay`] handles small bodies. A handler with a streamed body takes [`Idempotency`] itself and runs
//! its work through [`Idempotency::run`] once it knows the body's hash (see `api/deployments/upload.rs`).
//!
//! A key is scoped to its credential, so that callers cannot receive each other's responses; without an accepted
//! credential it is ignored and costs nothing. Responses are sealed with a key that only the request itself holds.

use std::{pin::pin, time::Duration};

use admin_http::{
    error::{ApiError, Code, PossibleError, TransientRefusal},
    extract::read_body,
};
use axum::{
    body::Body,
    extract::{FromRequestParts, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use base64::{Engine as _, engine::general_purpose::STANDARD_NO_PAD};
use db::upkeep::idempotency::{self, ClaimHorizon, KeyClaim};
use domain::{Timestamp, limits::IDEMPOTENCY_WINDOW};
use secrets::master_key;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use sqlx::PgPool;
use tracing::Instrument as _;

use crate::{
    App,
    auth::{self, AuthOutcome},
    rates::{PersonRate, RatePayer},
};

/// The request header that carries the key.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const KEY_MAX_LEN: usize = 255;
/// Heartbeat interval of a request in progress. An upload may wait minutes for a permit or for a slow store.
const KEEP_ALIVE: Duration = Duration::from_secs(30);
/// Time since the last heartbeat after which a request counts as dead, and its key may be claimed again.
const ABANDONED_AFTER: Duration = Duration::from_mins(3);
// Several heartbeats may be lost while the database is briefly unavailable.
const _: () = assert!(KEEP_ALIVE.as_secs() * 4 <= ABANDONED_AFTER.as_secs());
/// Maximum wait of a duplicate for the first request's response.
const DUPLICATE_WAIT: Duration = Duration::from_secs(5);
const DUPLICATE_POLL: Duration = Duration::from_millis(100);
/// Maximum size of a stored response. No handler returns a larger one.
const ANSWER_MAX: usize = 1024 * 1024;

/// The errors of a request with an `Idempotency-Key`, in addition to the operation's own.
pub const IDEMPOTENCY_ERRORS: &[PossibleError] = &[
    PossibleError::new(Code::InvalidRequest, "the `Idempotency-Key` breaks a rule"),
    PossibleError::new(
        Code::IdempotencyConflict,
        "the `Idempotency-Key` belongs to another request, or to one that is still being worked on",
    ),
];

/// Whether a request is the first under its `Idempotency-Key`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptKind {
    /// The request is the first under its key, or has no key.
    First,
    /// A repeat, which may receive the first one's response. It must not use up limits, nor be blocked by reached ones.
    Repeated,
}

/// The request's `Idempotency-Key`, if any, as an extractor.
#[derive(Debug)]
#[must_use = "work done outside of `run` is not remembered"]
pub struct Idempotency(Option<ScopedKey>);

struct ScopedKey {
    /// The hash of the key and its owner.
    scope: [u8; 32],
    /// The secret that, with the body's hash, derives the key that seals the response. Never stored.
    secret: Vec<u8>,
    target: String,
    /// The party that the rows of stored responses count against.
    payer: RatePayer,
}

impl std::fmt::Debug for ScopedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keyed({})", self.target)
    }
}

impl FromRequestParts<App> for Idempotency {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        // The handler refuses everybody else, so there is no response to store.
        let Some(AuthOutcome::Known(caller)) = parts.extensions.get::<AuthOutcome>() else {
            return Ok(Self(None));
        };
        let payer = caller.counted_for();
        let Some(key) = given_key(&parts.headers)? else { return Ok(Self(None)) };
        let owner = auth::presented_secret(&parts.headers).unwrap_or_default();
        let secret = [owner.as_bytes(), b"\0", key.as_bytes()].concat();
        let scope = Sha256::new().chain_update(b"idempotency scope\0").chain_update(&secret).finalize().into();
        let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self(Some(ScopedKey { scope, secret, target: format!("{} {path}", parts.method), payer })))
    }
}

fn given_key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).into_iter();
    let Some(value) = values.next() else { return Ok(None) };
    let bytes = value.as_bytes();
    let visible = bytes.iter().all(u8::is_ascii_graphic);
    if values.next().is_some() || !visible || !(1..=KEY_MAX_LEN).contains(&bytes.len()) {
        let rule = format!("Idempotency-Key must be one value of 1 to {KEY_MAX_LEN} visible ASCII characters.");
        return Err(ApiError::invalid(rule));
    }
    Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
}

/// Middleware that applies the key on routes with small bodies.
pub async fn replay(State(app): State<App>, request: Request, next: Next) -> Response {
    if request.method() != Method::POST || !request.headers().contains_key(IDEMPOTENCY_KEY) {
        return next.run(request).await;
    }
    let answered = async {
        let (mut parts, body) = request.into_parts();
        let idempotency = Idempotency::from_request_parts(&mut parts, &app).await?;
        if idempotency.0.is_none() {
            // Do not read the body of a caller who is refused.
            return Ok(next.run(Request::from_parts(parts, body)).await);
        }
        let body = read_body(body).await?;
        let hash = Sha256::digest(&body).into();
        let request = Request::from_parts(parts, Body::from(body));
        idempotency.run(&app, hash, async move { Ok(next.run(request).await) }).await
    };
    answered.await.unwrap_or_else(ApiError::into_response)
}

impl Idempotency {
    /// Makes a secret header part of what identifies the request. Its hash reveals nothing without the caller's
    /// credential.
    pub fn with_secret_header(mut self, header: Option<&str>) -> Self {
        if let (Some(keyed), Some(header)) = (&mut self.0, header) {
            let hash = Sha256::new().chain_update(b"shaped by\0").chain_update(&keyed.secret).chain_update(b"\0");
            keyed.target.push(' ');
            keyed.target.push_str(&hex::encode(hash.chain_update(header).finalize()));
        }
        self
    }

    /// Returns whether a request came under the same key before.
    pub async fn attempt(&self, app: &App) -> Result<AttemptKind, ApiError> {
        let Some(keyed) = &self.0 else { return Ok(AttemptKind::First) };
        let holder = db::in_time(idempotency::find_holder(&app.db, &keyed.scope)).await?;
        Ok(if matches!(holder, KeyClaim::Released) { AttemptKind::First } else { AttemptKind::Repeated })
    }

    /// Runs `work`, or returns the stored response if it was done under the same key. `body` is the SHA-256 of the
    /// request's body. Under a key, `work` completes even if the client disconnects, so that a retry receives the
    /// response.
    pub async fn run<Work>(self, app: &App, body: [u8; 32], work: Work) -> Result<Response, ApiError>
    where
        Work: Future<Output = Result<Response, ApiError>> + Send + 'static,
    {
        let Some(keyed) = self.0 else { return work.await };
        // Each stored response occupies a row for a day.
        app.rate_limits.count_for(PersonRate::IdempotencyKey, &keyed.payer).await.check()?;
        let request = Sha256::new().chain_update(keyed.target.as_bytes()).chain_update(b"\0").chain_update(body);
        let request: [u8; 32] = request.finalize().into();
        let seal =
            ResponseSeal { key: master_key::derive(&keyed.secret, "idempotent answer", &body), scope: keyed.scope };

        let deadline = tokio::time::Instant::now() + DUPLICATE_WAIT;
        loop {
            let now = app.clock.now();
            let horizon = ClaimHorizon { answered: now - IDEMPOTENCY_WINDOW, running: now - ABANDONED_AFTER };
            match db::in_time(idempotency::claim(&app.db, &keyed.scope, &request, now, horizon)).await? {
                KeyClaim::Fresh => return do_once(app.clone(), seal, keyed.payer, now, work).await,
                KeyClaim::Answered { request: before, .. } | KeyClaim::Running { request: before }
                    if before != request =>
                {
                    return Err(ApiError::new(
                        Code::IdempotencyConflict,
                        "This Idempotency-Key was used for another request; use a new key for a new request.",
                    ));
                }
                KeyClaim::Answered { status, sealed_answer, .. } => return seal.open(status, &sealed_answer),
                KeyClaim::Running { .. } | KeyClaim::Released if tokio::time::Instant::now() < deadline => {
                    tokio::time::sleep(DUPLICATE_POLL).await;
                }
                KeyClaim::Running { .. } | KeyClaim::Released => {
                    return Err(ApiError::new(
                        Code::IdempotencyConflict,
                        "The first request with this Idempotency-Key is still being worked on; try again in a moment.",
                    )
                    .retry_after(Duration::from_secs(1)));
                }
            }
        }
    }
}

async fn do_once<Work>(
    app: App,
    seal: ResponseSeal,
    payer: RatePayer,
    claimed_at: Timestamp,
    work: Work,
) -> Result<Response, ApiError>
where
    Work: Future<Output = Result<Response, ApiError>> + Send + 'static,
{
    let (db, clock, rates) = (app.db.clone(), app.clock.clone(), app.rate_limits.clone());
    let task = async move {
        // A separate task, so that the key is released after a panic too.
        let working = tokio::spawn(work.in_current_span());
        let show = || keep_alive(db.clone(), seal.scope, claimed_at, clock.now());
        let worked = with_heartbeat(working, show).await.unwrap_or_else(|e| Err(ApiError::internal(e)));
        let response = worked.unwrap_or_else(ApiError::into_response);
        let (response, answer) = seal.seal(response).await?;
        let kept = if let Some(sealed) = answer {
            let status = i16::try_from(response.status().as_u16()).unwrap_or_default();
            db::in_time(idempotency::store_response(&db, &seal.scope, claimed_at, status, &sealed)).await
        } else {
            // It leaves no row.
            rates.uncount_for(PersonRate::IdempotencyKey, &payer).await;
            db::in_time(idempotency::release(&db, &seal.scope, claimed_at)).await
        };
        // The work is done, whether or not its response can be stored.
        if let Err(error) = kept {
            tracing::error!("an answer could not be remembered under its Idempotency-Key: {error}");
        }
        Ok(response)
    };
    app.tasks.spawn(task.in_current_span()).await.map_err(ApiError::internal)?
}

/// Waits for `work`, and sends a heartbeat every [`KEEP_ALIVE`].
async fn with_heartbeat<T, Shown: Future<Output = ()>>(
    work: impl Future<Output = T>,
    mut show: impl FnMut() -> Shown,
) -> T {
    let mut work = pin!(work);
    loop {
        match tokio::time::timeout(KEEP_ALIVE, work.as_mut()).await {
            Ok(done) => return done,
            Err(_) => show().await,
        }
    }
}

async fn keep_alive(db: PgPool, scope: [u8; 32], claimed_at: Timestamp, now: Timestamp) {
    if let Err(error) = db::in_time(idempotency::keep_alive(&db, &scope, claimed_at, now)).await {
        tracing::warn!(%error, "a request under way could not show that it lives");
    }
}

/// Returns whether a response with this status is stored: only if a retry could not improve it.
pub fn is_stored(status: StatusCode) -> bool {
    let passing = [StatusCode::UNAUTHORIZED, StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
    !status.is_server_error() && !passing.contains(&status)
}

/// A response without its status, in the form in which it is sealed.
#[derive(Serialize, Deserialize)]
struct StoredResponse {
    headers: Vec<(String, String)>,
    body: String,
}

struct ResponseSeal {
    key: [u8; 32],
    scope: [u8; 32],
}

impl ResponseSeal {
    /// Returns the response, with its sealed copy if it is to be stored.
    async fn seal(&self, response: Response) -> Result<(Response, Option<Vec<u8>>), ApiError> {
        if !is_stored(response.status()) || response.extensions().get::<TransientRefusal>().is_some() {
            return Ok((response, None));
        }
        let (parts, body) = response.into_parts();
        let body = axum::body::to_bytes(body, ANSWER_MAX).await.map_err(ApiError::internal)?;
        let text = |value: &HeaderValue| value.to_str().map(ToOwned::to_owned).ok();
        let headers = parts.headers.iter().filter_map(|(name, value)| Some((name.to_string(), text(value)?)));
        let answer = StoredResponse { headers: headers.collect(), body: STANDARD_NO_PAD.encode(&body) };
        let plain = serde_json::to_vec(&answer).map_err(ApiError::internal)?;
        let sealed = master_key::seal(&self.key, &self.scope, &plain);
        Ok((Response::from_parts(parts, Body::from(body)), Some(sealed)))
    }

    fn open(&self, status: i16, sealed: &[u8]) -> Result<Response, ApiError> {
        let plain = master_key::open(&self.key, &self.scope, sealed).map_err(ApiError::internal)?;
        let answer: StoredResponse = serde_json::from_slice(&plain).map_err(ApiError::internal)?;
        let body = STANDARD_NO_PAD.decode(answer.body).map_err(ApiError::internal)?;
        let status = u16::try_from(status).ok().and_then(|status| StatusCode::from_u16(status).ok());
        let mut response = (status.unwrap_or(StatusCode::OK), Body::from(body)).into_response();
        for (name, value) in answer.headers {
            if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
                response.headers_mut().insert(name, value);
            }
        }
        response.headers_mut().remove(header::CONTENT_LENGTH);
        response.headers_mut().insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        Ok(response)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_visible_ascii_of_bounded_length() {
        let key =
            |value: &str| given_key(&HeaderMap::from_iter([(IDEMPOTENCY_KEY, HeaderValue::from_str(value).unwrap())]));
        assert_eq!(given_key(&HeaderMap::new()).unwrap(), None);
        assert_eq!(key("a-1").unwrap().as_deref(), Some("a-1"));
        assert!(key(&"k".repeat(255)).is_ok());
        for bad in ["", "two words", "tab\t", &"k".repeat(256)] {
            assert!(key(bad).is_err(), "{bad:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn work_shows_that_it_lives_for_as_long_as_an_upload_may_wait() {
        let begun = tokio::time::Instant::now();
        let mut shown = vec![Duration::ZERO];
        let work = tokio::time::sleep(crate::bounds::PUBLISH_WAIT);
        let show = || {
            shown.push(begun.elapsed());
            std::future::ready(())
        };
        with_heartbeat(work, show).await;
        shown.push(begun.elapsed());
        assert!(shown.last() >= Some(&crate::bounds::PUBLISH_WAIT));
        for pair in shown.windows(2) {
            assert!(pair[1].saturating_sub(pair[0]) < ABANDONED_AFTER, "{shown:?}");
        }
    }

    #[tokio::test]
    async fn an_answer_comes_back_as_it_was_and_only_for_the_same_request() {
        let seal = ResponseSeal { key: [1; 32], scope: [2; 32] };
        let created =
            (StatusCode::CREATED, [("x-svc-propagation", "3/3; 9ms")], "{\"token\":\"svc_x\"}").into_response();
        let (_, sealed) = seal.seal(created).await.unwrap();
        let sealed = sealed.unwrap();
        let replayed = seal.open(201, &sealed).unwrap();
        assert_eq!(replayed.status(), StatusCode::CREATED);
        assert_eq!(replayed.headers()["x-svc-propagation"], "3/3; 9ms");
        assert_eq!(replayed.headers()[IDEMPOTENCY_REPLAYED], "true");
        assert_eq!(axum::body::to_bytes(replayed.into_body(), 99).await.unwrap(), "{\"token\":\"svc_x\"}");
        assert!(ResponseSeal { key: [9; 32], scope: [2; 32] }.open(201, &sealed).is_err());
    }

    #[tokio::test]
    async fn what_a_retry_may_mend_is_not_remembered() {
        let seal = ResponseSeal { key: [1; 32], scope: [2; 32] };
        for (status, remembered) in [
            (500, false),
            (503, false),
            (401, false),
            (408, false),
            (429, false),
            (201, true),
            (400, true),
            (403, true),
            (404, true),
            (409, true),
        ] {
            let response = StatusCode::from_u16(status).unwrap().into_response();
            assert_eq!(seal.seal(response).await.unwrap().1.is_some(), remembered, "{status}");
        }
    }
}
