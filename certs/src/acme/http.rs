//! The HTTP client for instant-acme: bounded in size and time, and without redirects. It handles what that library
//! drops: `Retry-After`, and errors without a problem document.

use std::{
    path::Path,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use instant_acme::{BodyWrapper, BytesResponse, HttpClient};
use time::{OffsetDateTime, format_description::well_known::Rfc2822};
use tokio::time::Instant;

use super::{
    authority::AcmeDirectory,
    problem::{AcmeError, ProblemDocument, ProblemKind},
};

/// The limit of a response body in bytes; a certificate chain has a hundredth of it.
const BODY: usize = 1024 * 1024;
const WITHIN: Duration = Duration::from_secs(30);
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// How long the authority's directory is cached.
const DIRECTORY_KEPT: Duration = Duration::from_mins(5);
/// The longest wait that an authority may request.
const LONGEST_WAIT: Duration = Duration::from_hours(30 * 24);

#[derive(Clone)]
pub(super) struct AcmeHttp {
    client: reqwest::Client,
    directory_url: String,
    directory: Arc<Mutex<Option<(Instant, Bytes)>>>,
}

impl AcmeHttp {
    /// Creates the client. With `ca_file`, only its roots are trusted for the authority's TLS.
    pub(super) fn new(directory_url: String, ca_file: Option<&Path>) -> Result<Self, AcmeError> {
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("svc/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_WITHIN)
            .timeout(WITHIN);
        if let Some(file) = ca_file {
            let unusable =
                |reason: String| AcmeError::Away(format!("acme.ca_file {} cannot be used: {reason}", file.display()));
            let pem = std::fs::read(file).map_err(|error| unusable(error.to_string()))?;
            let roots = reqwest::Certificate::from_pem_bundle(&pem).map_err(|error| unusable(error.to_string()))?;
            if roots.is_empty() {
                return Err(unusable("it holds no certificate".to_owned()));
            }
            builder = builder.tls_certs_only(roots);
        }
        let client = builder.build().map_err(|error| AcmeError::unreachable(&error))?;
        Ok(Self { client, directory_url, directory: Arc::default() })
    }

    pub(super) async fn get(&self, url: &str) -> Result<Response<Bytes>, AcmeError> {
        let unusable = |error: http::Error| AcmeError::Away(format!("{url:?} is no URL: {error}"));
        let request = Request::builder().uri(url).body(Bytes::new()).map_err(unusable)?;
        self.exchange(request).await
    }

    pub(super) async fn directory(&self) -> Result<Bytes, AcmeError> {
        let url = self.directory_url.clone();
        Ok(self.get(&url).await?.into_body())
    }

    /// Sends a request. Returns a success, or a refused nonce, for which instant-acme retries with another one.
    pub(super) async fn exchange(&self, request: Request<Bytes>) -> Result<Response<Bytes>, AcmeError> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        let is_directory = parts.method == Method::GET && url == self.directory_url;
        if let Some(known) = is_directory.then(|| self.known_directory()).flatten() {
            return Ok(Response::new(known));
        }
        let request = self.client.request(parts.method, url).headers(parts.headers).body(body);
        let mut response = request.send().await.map_err(|error| AcmeError::unreachable(&error))?;
        let (status, headers) = (response.status(), std::mem::take(response.headers_mut()));
        let body = bounded(response).await?;
        if !status.is_success() {
            let document = serde_json::from_slice::<ProblemDocument>(&body).ok();
            let is_document = document.is_some();
            let error = refused(status, &headers, document);
            let is_nonce = matches!(&error, AcmeError::Refused(problem) if problem.kind == ProblemKind::BadNonce);
            if !(is_nonce && is_document && status == StatusCode::BAD_REQUEST) {
                return Err(error);
            }
        }
        // A truncated directory is not cached.
        if is_directory && AcmeDirectory::read(&body).is_ok() {
            *self.directory.lock().unwrap_or_else(PoisonError::into_inner) = Some((Instant::now(), body.clone()));
        }
        let mut answer = Response::new(body);
        *answer.status_mut() = status;
        *answer.headers_mut() = headers;
        Ok(answer)
    }

    fn known_directory(&self) -> Option<Bytes> {
        let known = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().filter(|(at, _)| at.elapsed() < DIRECTORY_KEPT).map(|(_, body)| body.clone())
    }
}

impl HttpClient for AcmeHttp {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Result<BytesResponse, instant_acme::Error>> + Send>> {
        let http = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            // The body is already in memory.
            let body = match body.collect().await {
                Ok(body) => body.to_bytes(),
                Err(never) => match never {},
            };
            match http.exchange(Request::from_parts(parts, body)).await {
                Ok(answer) => Ok(BytesResponse::from(answer.map(Full::new))),
                Err(error) => Err(instant_acme::Error::Other(Box::new(error))),
            }
        })
    }
}

async fn bounded(mut response: reqwest::Response) -> Result<Bytes, AcmeError> {
    let mut body = BytesMut::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| AcmeError::unreachable(&error))? {
        if body.len() + chunk.len() > BODY {
            return Err(AcmeError::Away(format!("its answer is longer than {BODY} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

/// Interprets a response that is not a success.
fn refused(status: StatusCode, headers: &HeaderMap, document: Option<ProblemDocument>) -> AcmeError {
    let retry_after = retry_after(headers);
    match document {
        Some(document) => AcmeError::Refused(document.refusal(Some(status), retry_after)),
        // These are clear without a document: an unknown order, and a request to come back later.
        None if status == StatusCode::NOT_FOUND
            || status == StatusCode::TOO_MANY_REQUESTS
            || (status.is_server_error() && retry_after.is_some()) =>
        {
            let mut problem = ProblemDocument::default().refusal(Some(status), retry_after);
            problem.detail = format!("it answers {status}");
            AcmeError::Refused(problem)
        }
        None => AcmeError::Away(format!("it answers {status} without saying why")),
    }
}

/// Returns the wait that a response requests (RFC 9110, 10.2.3). A date is compared to the response's own `Date`.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = value.parse() {
        Duration::from_secs(seconds)
    } else {
        let now = headers.get(header::DATE)?.to_str().ok()?;
        let (then, now) = (OffsetDateTime::parse(value, &Rfc2822), OffsetDateTime::parse(now, &Rfc2822));
        Duration::try_from(then.ok()? - now.ok()?).unwrap_or(Duration::ZERO)
    };
    Some(wait.min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(retry_after: &str, date: &str) -> HeaderMap {
        let pairs = [(header::RETRY_AFTER, retry_after), (header::DATE, date)];
        pairs.into_iter().map(|(name, value)| (name, value.parse().unwrap())).collect()
    }

    #[test]
    fn a_time_to_wait_is_read() {
        let wait = |value| retry_after(&headers(value, "Sun, 06 Nov 1994 08:49:37 GMT"));
        assert_eq!(wait("120"), Some(Duration::from_mins(2)));
        assert_eq!(wait(" 0 "), Some(Duration::ZERO));
        assert_eq!(wait("Sun, 06 Nov 1994 08:50:37 GMT"), Some(Duration::from_mins(1)));
        assert_eq!(wait("Sun, 06 Nov 1994 08:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("18446744073709551615"), Some(LONGEST_WAIT));
        for unreadable in ["soon", "-1", "", "1.5"] {
            assert_eq!(wait(unreadable), None, "{unreadable:?}");
        }
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }

    #[test]
    fn answers_without_a_document_are_understood() {
        let none = HeaderMap::new();
        let kind =
            |status: u16, headers: &HeaderMap| match refused(StatusCode::from_u16(status).unwrap(), headers, None) {
                AcmeError::Refused(problem) => Some((problem.kind, problem.retry_after)),
                AcmeError::Away(_) => None,
            };
        assert_eq!(kind(404, &none), Some((ProblemKind::OrderGone, None)));
        let later = headers("5", "");
        assert_eq!(kind(429, &later), Some((ProblemKind::RateLimited, Some(Duration::from_secs(5)))));
        assert_eq!(kind(503, &later), Some((ProblemKind::ServerInternal, Some(Duration::from_secs(5)))));
        assert_eq!(kind(503, &none), None);
        assert_eq!(kind(301, &none), None);
    }
}
