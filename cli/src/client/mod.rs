//! HTTP to the control plane: calls, retries, and the mapping of error responses to failures.

mod body;
mod connection;
mod events;
pub(crate) mod gateway;
mod lines;
mod trace;
mod upload;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use api::error::ErrorEnvelope;
use domain::{BRAND, limits};
use reqwest::{Method, RequestBuilder, Response, StatusCode, header::HeaderMap};
use serde::{Serialize, de::DeserializeOwned};
use url::Url;

use body::BodyError;
pub(crate) use events::{EventStream, StreamEvent};
pub(crate) use upload::UploadRequest;

use crate::{
    credentials::{Connection, RequestOutput},
    failure::{Failure, FailureClass},
    output,
};

const CALL_TIMEOUT: Duration = Duration::from_secs(30);
const DOWNLOAD_TIMEOUT: Duration = Duration::from_mins(5);
/// The timeout for downloading a deployment, equal to the service's own limit; also the maximum pause within it.
const FETCH_TIMEOUT: Duration = Duration::from_hours(3);
const FETCH_PAUSE: Duration = Duration::from_mins(2);
const ANSWER_BYTES: u64 = 16 * limits::MB;
/// The maximum size of an error response: a code and some sentences.
const REFUSAL_BYTES: u64 = limits::MB;
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// The longest `Retry-After` that the client waits for; with a longer one the command fails.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(30);
/// A failed attempt that took this long is reported before the retry.
const REPORT_RETRY_AFTER: Duration = Duration::from_secs(5);
const LIST_BYTES: u64 = 4 * ANSWER_BYTES;
/// From this pause on, the reason for waiting is shown on a terminal.
const NOTICEABLE_PAUSE: Duration = Duration::from_secs(1);
/// The maximum number of pages that are fetched of a list, each with 100 rows.
const MAX_PAGES: usize = 100;

#[derive(Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    pub(crate) api: Url,
    token: Option<String>,
    up_file: Option<PathBuf>,
    voice: RequestOutput,
}

#[derive(Debug)]
pub(crate) struct ApiResponse<T> {
    pub(crate) body: T,
    /// The edges that have applied the change, if the response carries `X-Svc-Propagation`.
    pub(crate) propagation: Option<Propagation>,
}

/// The value of `X-Svc-Propagation`, such as `2/3; 9ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Propagation {
    pub(crate) acknowledged: u32,
    pub(crate) edges: u32,
    pub(crate) milliseconds: u64,
}

impl Client {
    pub(crate) fn new(connection: Connection) -> anyhow::Result<Self> {
        let http = connection::build(&connection)?;
        let Connection { api, token, up_file, voice, .. } = connection;
        Ok(Self { http, api, token, up_file, voice })
    }

    pub(crate) fn with_token(&self, token: String) -> Self {
        let (http, api, up_file) = (self.http.clone(), self.api.clone(), self.up_file.clone());
        Self { http, api, token: Some(token), up_file, voice: self.voice }
    }

    pub(crate) async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<ApiResponse<T>, Failure> {
        let request = || self.signed(Method::GET, path);
        self.answer(request, RetrySafety::Repeatable).await
    }

    /// Sends a POST with an `Idempotency-Key`, so that a retry after a dropped connection returns the first response.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ApiResponse<T>, Failure> {
        let key = idempotency_key();
        let request = || Ok(self.signed(Method::POST, path)?.header("Idempotency-Key", &key).json(body));
        self.answer(request, RetrySafety::Repeatable).await
    }

    pub(crate) async fn post_unsigned<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let request = || Ok(self.http.post(self.url(path)?).timeout(CALL_TIMEOUT).json(body));
        Ok(self.answer(request, RetrySafety::Once).await?.body)
    }

    pub(crate) async fn put<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ApiResponse<T>, Failure> {
        let request = || Ok(self.signed(Method::PUT, path)?.json(body));
        self.answer(request, RetrySafety::Repeatable).await
    }

    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<ApiResponse<T>, Failure> {
        let request = || Ok(self.signed(Method::PATCH, path)?.json(body));
        self.answer(request, RetrySafety::Repeatable).await
    }

    pub(crate) async fn put_bytes<T: DeserializeOwned>(
        &self,
        path: &str,
        body: Vec<u8>,
    ) -> Result<ApiResponse<T>, Failure> {
        let request = || Ok(self.signed(Method::PUT, path)?.body(body.clone()));
        self.answer(request, RetrySafety::Repeatable).await
    }

    pub(crate) async fn get_unsigned<T: DeserializeOwned>(&self, path: &str) -> Result<T, Failure> {
        let request = || Ok(self.http.get(self.url(path)?).timeout(CALL_TIMEOUT));
        Ok(self.answer(request, RetrySafety::Repeatable).await?.body)
    }

    pub(crate) async fn get_text(&self, path: &str, most: u64) -> Result<String, Failure> {
        let request = || Ok(self.signed(Method::GET, path)?.timeout(DOWNLOAD_TIMEOUT));
        let text = self.read(self.send(request, RetrySafety::Repeatable).await?, most).await?;
        String::from_utf8(text).map_err(|_| self.unexpected())
    }

    /// Downloads at most `most` bytes from a link of the API. The link itself grants access, so no token is sent.
    pub(crate) async fn download(&self, link: &str, most: u64) -> Result<Vec<u8>, Failure> {
        let request = || Ok(self.http.get(link).timeout(DOWNLOAD_TIMEOUT));
        self.read(self.send(request, RetrySafety::Repeatable).await?, most).await
    }

    /// Downloads a large file, passing its parts to `take` as they arrive. Fails if the download is cut off.
    pub(crate) async fn fetch(
        &self,
        path: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let request = || Ok(self.signed(Method::GET, path)?.timeout(FETCH_TIMEOUT));
        let mut response = self.send(request, RetrySafety::Repeatable).await?;
        loop {
            let Ok(part) = tokio::time::timeout(FETCH_PAUSE, response.chunk()).await else {
                return Err(Failure::new(FailureClass::Unreachable, "unreachable", "The download stands still.")
                    .with_hint("Check your connection, then try again."));
            };
            match part.map_err(|error| self.unreachable(&error))? {
                Some(part) => take(&part)?,
                None => return Ok(()),
            }
        }
    }

    async fn read(&self, response: Response, most: u64) -> Result<Vec<u8>, Failure> {
        body::read(response, most).await.map_err(|error| match error {
            BodyError::Broken(error) => self.unreachable(&error),
            BodyError::TooLong => Failure::limit(format!("The answer is longer than {}.", domain::size(most))),
        })
    }

    /// Sends a DELETE. It is not retried after a dropped connection: the second response would be a 404.
    pub(crate) async fn delete<T: DeserializeOwned>(&self, path: &str) -> Result<ApiResponse<T>, Failure> {
        let request = || self.signed(Method::DELETE, path);
        self.answer(request, RetrySafety::Once).await
    }

    pub(crate) async fn list<P, T>(
        &self,
        path: &str,
        open: fn(P) -> (Vec<T>, Option<String>),
    ) -> Result<Vec<T>, Failure>
    where
        P: DeserializeOwned,
    {
        let mut read = 0;
        let (mut rows, mut next) = open(self.page(path, &mut read).await?);
        for _ in 1..MAX_PAGES {
            let Some(cursor) = next else { break };
            let cursor: String = url::form_urlencoded::byte_serialize(cursor.as_bytes()).collect();
            let separator = if path.contains('?') { '&' } else { '?' };
            let (more, after) = open(self.page(&format!("{path}{separator}cursor={cursor}"), &mut read).await?);
            rows.extend(more);
            next = after;
        }
        Ok(rows)
    }

    async fn page<P: DeserializeOwned>(&self, path: &str, read: &mut u64) -> Result<P, Failure> {
        let response = self.send(|| self.signed(Method::GET, path), RetrySafety::Repeatable).await?;
        let body = self.read(response, ANSWER_BYTES.min(LIST_BYTES - *read)).await?;
        *read += body.len() as u64;
        serde_json::from_slice(&body).map_err(|_| self.unexpected())
    }

    fn url(&self, path: &str) -> Result<Url, Failure> {
        let base = self.api.as_str().trim_end_matches('/');
        format!("{base}{path}").parse().map_err(|_| Failure::usage(format!("{base}{path} is not an address.")))
    }

    fn signed(&self, method: Method, path: &str) -> Result<RequestBuilder, Failure> {
        let token = self.token.as_ref().ok_or_else(|| {
            Failure::not_signed_in(format!("You are not signed in at {}.", self.api))
                .with_hint("Run `svc login`, or set SVC_TOKEN.")
        })?;
        Ok(self.http.request(method, self.url(path)?).bearer_auth(token).timeout(CALL_TIMEOUT))
    }

    async fn answer<T: DeserializeOwned>(
        &self,
        request: impl Fn() -> Result<RequestBuilder, Failure>,
        safety: RetrySafety,
    ) -> Result<ApiResponse<T>, Failure> {
        let response = self.send(request, safety).await?;
        let propagation = propagation(response.headers());
        let body = self.read(response, ANSWER_BYTES).await?;
        let body = serde_json::from_slice(&body).map_err(|_| self.unexpected())?;
        Ok(ApiResponse { body, propagation })
    }

    fn unexpected(&self) -> Failure {
        let message = format!("{} did not answer as the API does.", self.api);
        Failure::new(FailureClass::Unreachable, "unexpected_answer", message)
            .with_hint("Check the API's address (--api); if it is right, update svc.")
    }

    /// Sends a request until there is a definite response, at most [`ATTEMPTS`] times.
    async fn send(
        &self,
        request: impl Fn() -> Result<RequestBuilder, Failure>,
        safety: RetrySafety,
    ) -> Result<Response, Failure> {
        let mut pause = FIRST_PAUSE;
        let mut attempt = 1;
        loop {
            let since = Instant::now();
            let (failure, wait) = match trace::send(&self.http, request()?, self.voice).await {
                Ok(response) if response.status().is_success() => return Ok(response),
                Ok(response) => {
                    let (status, asked) = (response.status(), retry_after(response.headers()));
                    let failure = refusal(response).await;
                    let wait = is_transient(status, &failure).then(|| asked.unwrap_or(pause));
                    // The first attempt is still in progress; its response will be available under the same key.
                    let wait = wait.or_else(|| asked.filter(|_| failure.code == "idempotency_conflict"));
                    (failure, wait)
                }
                Err(error) => {
                    let may_repeat = safety == RetrySafety::Repeatable && !error.is_timeout();
                    // A connection that was never made has changed nothing.
                    (self.unreachable(&error), (error.is_connect() || may_repeat).then_some(pause))
                }
            };
            match wait {
                Some(wait) if attempt < ATTEMPTS && wait <= MAX_RETRY_AFTER => {
                    // Explain a long wait, and on a terminal any retry that can be felt.
                    let is_felt = attempt > 1 || wait >= NOTICEABLE_PAUSE;
                    if since.elapsed() >= REPORT_RETRY_AFTER || (self.voice.is_watched && is_felt) {
                        output::warning(&format!("{} Trying again ({} of {ATTEMPTS}).", failure.message, attempt + 1));
                    }
                    tokio::time::sleep(jittered(wait)).await;
                }
                Some(wait) if wait > MAX_RETRY_AFTER => {
                    return Err(failure.with_hint(format!("Try again in {} seconds.", wait.as_secs())));
                }
                _ => return Err(failure),
            }
            pause *= 3;
            attempt += 1;
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let reason = if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() };
        let failure =
            Failure::new(FailureClass::Unreachable, "unreachable", format!("Cannot reach {}: {reason}.", self.api));
        failure.with_hint(if reason.contains("certificate") {
            "If the service has a certificate authority of its own, name its file with --ca-file.".to_owned()
        } else if let Some(file) = &self.up_file {
            format!("Is `make up` still running? The address comes from {}.", file.display())
        } else {
            "Check your connection and the API's address (--api or SVC_API_URL).".to_owned()
        })
    }
}

/// Whether a request may be sent again if it is unknown whether the first one arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RetrySafety {
    Repeatable,
    Once,
}

fn idempotency_key() -> String {
    format!("{BRAND}-{:032x}", rand::random::<u128>())
}

/// Returns whether a retry may soon succeed after a response of this status.
fn is_transient(status: StatusCode, failure: &Failure) -> bool {
    match status {
        // This does not pass soon: the operator takes no payments, or the payment provider is unavailable for longer.
        StatusCode::SERVICE_UNAVAILABLE => failure.code != "billing_unavailable",
        StatusCode::BAD_GATEWAY => true,
        // The login flow handles `slow_down` with its own interval.
        StatusCode::TOO_MANY_REQUESTS => failure.code != "slow_down",
        _ => false,
    }
}

async fn refusal(response: Response) -> Failure {
    let status = response.status();
    let request_id = response.headers().get("x-request-id").and_then(|id| id.to_str().ok()).map(str::to_owned);
    // If the body is cut off or too long, the status has to suffice.
    let body = body::read(response, REFUSAL_BYTES).await.unwrap_or_default();
    let failure = match serde_json::from_slice::<ErrorEnvelope>(&body) {
        Ok(ErrorEnvelope { error }) => Failure::answered(status.as_u16(), error.code, error.message),
        Err(_) => Failure::answered(status.as_u16(), "unexpected_answer", format!("The service answered {status}.")),
    };
    match request_id {
        Some(id) if status == StatusCode::INTERNAL_SERVER_ERROR => {
            failure.with_hint(format!("This is the service's fault, not yours. Its operator finds it as request {id}."))
        }
        _ => failure,
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get("retry-after")?.to_str().ok()?.parse().ok().map(Duration::from_secs)
}

/// Lengthens a pause by up to a quarter, so that many clients do not retry at the same moment.
fn jittered(pause: Duration) -> Duration {
    pause.mul_f64(1.0 + rand::random::<f64>() / 4.0)
}

fn propagation(headers: &HeaderMap) -> Option<Propagation> {
    let (edges, time) = headers.get("x-svc-propagation")?.to_str().ok()?.split_once(';')?;
    let (acknowledged, edges) = edges.trim().split_once('/')?;
    Some(Propagation {
        acknowledged: acknowledged.parse().ok()?,
        edges: edges.parse().ok()?,
        milliseconds: time.trim().strip_suffix("ms")?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_propagation_header_is_read_and_a_strange_one_ignored() {
        let header = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-svc-propagation", text.parse().unwrap());
            propagation(&headers)
        };
        assert_eq!(header("2/3; 9ms"), Some(Propagation { acknowledged: 2, edges: 3, milliseconds: 9 }));
        assert_eq!(header("soon"), None);
        assert_eq!(header("2/3; 9s"), None);
    }
}
