//! One call to GitHub: bounded in time and size, redirected only within GitHub, with errors that hold no secret.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use moka::sync::Cache;
use reqwest::{Client, RequestBuilder, Response, Url, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;

use super::{CodeHostError, GithubHost};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of a whole call, including the response body.
pub(super) const CALL_TIMEOUT: Duration = Duration::from_secs(10);
const ANSWER_MAX: usize = 4 * 1024 * 1024;
/// The size of the response cache in bytes, enough for some thousand repositories.
const KNOWN_BYTES: u64 = 16 * 1024 * 1024;
/// The most redirects of one call: one for a renamed repository, another for its archive.
const REDIRECTS: usize = 3;
const RATE_LIMIT_PAUSE: Duration = Duration::from_mins(1);
const RATE_LIMIT_LONGEST: Duration = Duration::from_hours(1);
const API_VERSION: &str = "2022-11-28";
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

#[derive(Clone)]
pub(super) struct CachedResponse {
    etag: HeaderValue,
    body: Arc<[u8]>,
}

pub(super) type ResponseCache = Cache<String, CachedResponse>;

pub(super) fn response_cache() -> ResponseCache {
    let weight = |url: &String, known: &CachedResponse| url.len() + known.etag.len() + known.body.len();
    let weigher = move |url: &String, known: &CachedResponse| u32::try_from(weight(url, known)).unwrap_or(u32::MAX);
    Cache::builder().max_capacity(KNOWN_BYTES).weigher(weigher).build()
}

/// Creates the HTTP client. It follows no redirects by itself: a redirect may lead anywhere, but a token must not.
pub(super) fn client() -> anyhow::Result<Client> {
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .build()
        .context("the HTTP client for the code host")
}

impl GithubHost {
    pub(super) fn api_url(&self, call: &'static str, segments: &[&str]) -> Result<Url, CodeHostError> {
        let unusable = || CodeHostError::Answer { call, reason: "code_host.api_url cannot carry a path".to_owned() };
        let mut url: Url = self.api.parse().map_err(|_| unusable())?;
        url.path_segments_mut().map_err(|()| unusable())?.pop_if_empty().extend(segments);
        Ok(url)
    }

    /// Prepares a GET of the REST API. The token is added only if the URL is the API's.
    pub(super) fn api_get(&self, url: Url, token: &SecretString) -> RequestBuilder {
        let is_api = self.is_api(&url);
        let request = self
            .client
            .get(url)
            .timeout(CALL_TIMEOUT)
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", API_VERSION);
        if is_api { request.bearer_auth(token.expose_secret()) } else { request }
    }

    pub(super) fn api_post(&self, url: Url) -> RequestBuilder {
        self.client
            .post(url)
            .timeout(CALL_TIMEOUT)
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", API_VERSION)
    }

    /// Prepares a POST to the OAuth endpoints of the website, which respond with forms unless JSON is requested.
    pub(super) fn web_post(&self, path: &str, form: &[(&str, &str)]) -> RequestBuilder {
        self.client
            .post(format!("{}{path}", self.web))
            .timeout(CALL_TIMEOUT)
            .header(header::ACCEPT, "application/json")
            .form(form)
    }

    /// Calls the REST API and follows redirects within GitHub. The returned response is a success.
    pub(super) async fn follow(
        &self,
        call: &'static str,
        url: Url,
        token: &SecretString,
        timeout: Duration,
    ) -> Result<Response, CodeHostError> {
        self.follow_unless(call, url, token, timeout, None).await
    }

    /// Does what [`Self::follow`] does, but also returns a 304 if the entity tag is still `known`.
    async fn follow_unless(
        &self,
        call: &'static str,
        mut url: Url,
        token: &SecretString,
        timeout: Duration,
        known: Option<&HeaderValue>,
    ) -> Result<Response, CodeHostError> {
        for _ in 0..=REDIRECTS {
            let mut request = self.api_get(url.clone(), token).timeout(timeout);
            if let Some(known) = known {
                request = request.header(header::IF_NONE_MATCH, known);
            }
            let response = request.send().await.map_err(reqwest::Error::without_url)?;
            if known.is_some() && response.status() == StatusCode::NOT_MODIFIED {
                return Ok(response);
            }
            if !response.status().is_redirection() {
                return succeeded(call, response, |_| false);
            }
            let location = response.headers().get(header::LOCATION).and_then(|location| location.to_str().ok());
            let next = location.and_then(|location| url.join(location).ok());
            url = next.filter(|next| self.is_own(next)).ok_or_else(|| CodeHostError::Answer {
                call,
                reason: "a redirect that leads away from the code host".to_owned(),
            })?;
        }
        Err(CodeHostError::Answer { call, reason: "too many redirects".to_owned() })
    }

    /// Calls the REST API, and parses the JSON of the response. An unchanged response is not sent again and does not
    /// count against the rate limit, but GitHub still checks the token.
    pub(super) async fn fetch<T: DeserializeOwned>(
        &self,
        call: &'static str,
        url: Url,
        token: &SecretString,
    ) -> Result<T, CodeHostError> {
        let known = self.answers.get(url.as_str());
        let etag = known.as_ref().map(|known| &known.etag);
        let response = self.follow_unless(call, url.clone(), token, CALL_TIMEOUT, etag).await?;
        if let Some(known) = known
            && response.status() == StatusCode::NOT_MODIFIED
        {
            return parse(call, &known.body);
        }
        let etag = response.headers().get(header::ETAG).cloned();
        let body = body(call, response).await?;
        let answer = parse(call, &body)?;
        if let Some(etag) = etag {
            self.answers.insert(url.into(), CachedResponse { etag, body: body.into() });
        }
        Ok(answer)
    }

    pub(super) async fn fetch_page<T: DeserializeOwned>(
        &self,
        call: &'static str,
        url: Url,
        token: &SecretString,
    ) -> Result<(T, Option<Url>), CodeHostError> {
        let response = self.follow(call, url, token, CALL_TIMEOUT).await?;
        let next = next_page(response.headers()).map(|next| {
            next.parse()
                .ok()
                .filter(|next| self.is_api(next))
                .ok_or_else(|| CodeHostError::Answer { call, reason: "a next page that is not of the API".to_owned() })
        });
        let next = next.transpose()?;
        Ok((json(call, response).await?, next))
    }

    fn is_api(&self, url: &Url) -> bool {
        self.api.parse().is_ok_and(|api: Url| api.origin() == url.origin())
    }

    pub(super) fn is_own(&self, url: &Url) -> bool {
        let Ok(web) = self.web.parse::<Url>() else { return false };
        let is_archives = match (web.host_str(), url.host_str()) {
            (Some(web_host), Some(host)) => host.strip_prefix("codeload.") == Some(web_host),
            _ => false,
        };
        let same_way = url.scheme() == web.scheme() && url.port_or_known_default() == web.port_or_known_default();
        let no_login = url.username().is_empty() && url.password().is_none();
        no_login && (self.is_api(url) || url.origin() == web.origin() || (is_archives && same_way))
    }
}

/// Sends a request, and parses the JSON of the response. OAuth endpoints also report errors with status 400 and a JSON
/// body.
pub(super) async fn send_json<T: DeserializeOwned>(
    call: &'static str,
    request: RequestBuilder,
) -> Result<T, CodeHostError> {
    // Without the URL, which may hold a secret: the error is logged.
    let response = request.send().await.map_err(reqwest::Error::without_url)?;
    json(call, succeeded(call, response, |status| status == StatusCode::BAD_REQUEST)?).await
}

pub(super) fn succeeded(
    call: &'static str,
    response: Response,
    accepts: impl FnOnce(StatusCode) -> bool,
) -> Result<Response, CodeHostError> {
    let status = response.status();
    if status.is_success() || accepts(status) {
        return Ok(response);
    }
    Err(match status {
        StatusCode::UNAUTHORIZED => CodeHostError::Unauthorized { call },
        StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::UNAVAILABLE_FOR_LEGAL_REASONS => {
            CodeHostError::NotFound { call }
        }
        StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS if is_rate_limit(status, response.headers()) => {
            CodeHostError::RateLimited { after: rate_limit_pause(response.headers()) }
        }
        status => CodeHostError::Status { call, status: status.as_u16() },
    })
}

pub(super) async fn json<T: DeserializeOwned>(call: &'static str, response: Response) -> Result<T, CodeHostError> {
    parse(call, &body(call, response).await?)
}

async fn body(call: &'static str, mut response: Response) -> Result<Vec<u8>, CodeHostError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > ANSWER_MAX {
            return Err(CodeHostError::TooLarge { call });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn parse<T: DeserializeOwned>(call: &'static str, body: &[u8]) -> Result<T, CodeHostError> {
    serde_json::from_slice(body).map_err(|error| CodeHostError::Answer {
        call,
        reason: format!("not the JSON expected ({:?})", error.classify()),
    })
}

/// Returns whether a response is a rate limit: 429, or 403 with the headers of one.
pub(super) fn is_rate_limit(status: StatusCode, headers: &HeaderMap) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS
        || headers.contains_key(header::RETRY_AFTER)
        || headers.get(RATE_REMAINING).is_some_and(|left| left == "0")
}

/// Returns the pause of `Retry-After`. `x-ratelimit-reset` would require GitHub's clock to agree with ours.
fn rate_limit_pause(headers: &HeaderMap) -> Duration {
    let seconds = headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    seconds.map_or(RATE_LIMIT_PAUSE, Duration::from_secs).min(RATE_LIMIT_LONGEST)
}

fn next_page(headers: &HeaderMap) -> Option<&str> {
    let links = headers.get(header::LINK)?.to_str().ok()?;
    links.split(',').find_map(|link| {
        let (target, parameters) = link.split_once(';')?;
        let is_next = parameters.split(';').any(|parameter| parameter.trim() == "rel=\"next\"");
        is_next.then(|| target.trim().strip_prefix('<')?.strip_suffix('>')).flatten()
    })
}

#[cfg(test)]
mod tests {
    use domain::Clock;

    use super::*;

    fn github(web: &str, api: &str) -> GithubHost {
        let host = config::CodeHost {
            web_url: web.parse().unwrap(),
            api_url: api.parse().unwrap(),
            client_id: "Iv1.x".to_owned(),
            ..config::CodeHost::default()
        };
        GithubHost::new(&host, Clock::system()).unwrap()
    }

    #[test]
    fn redirects_stay_at_the_code_host() {
        let cloud = github("https://github.com", "https://api.github.com");
        let server = github("https://ghe.example", "https://ghe.example/api/v3/");
        let own = |github: &GithubHost, url: &str| github.is_own(&url.parse().unwrap());
        for url in ["https://codeload.github.com/o/r/legacy.tar.gz/x?token=T", "https://api.github.com/repositories/1"]
        {
            assert!(own(&cloud, url), "{url}");
        }
        assert!(own(&server, "https://ghe.example/_codeload/o/r/legacy.tar.gz/x"));
        assert!(own(&server, "https://codeload.ghe.example/o/r/legacy.tar.gz/x"));
        for url in [
            "http://codeload.github.com/x",
            "https://codeload.github.com:8443/x",
            "https://codeload.github.com.evil.example/x",
            "https://codeloadgithub.com/x",
            "https://evil.example/x",
            "https://evilcodeload.github.com/x",
            "https://github.com@evil.example/x",
            "https://user@api.github.com/x",
            "https://169.254.169.254/latest",
            "file:///etc/passwd",
        ] {
            assert!(!own(&cloud, url), "{url}");
        }
    }

    #[test]
    fn a_token_goes_to_the_api_only() {
        let cloud = github("https://github.com", "https://api.github.com");
        let token = SecretString::from("ghu_secret");
        let sends = |url: &str| {
            let request = cloud.api_get(url.parse().unwrap(), &token).build().unwrap();
            request.headers().contains_key(header::AUTHORIZATION)
        };
        assert!(sends("https://api.github.com/user"));
        assert!(!sends("https://codeload.github.com/o/r/legacy.tar.gz/x"));
    }

    #[test]
    fn paths_are_escaped_segment_by_segment() {
        let server = github("https://ghe.example", "https://ghe.example/api/v3/");
        let url = server.api_url("x", &["repos", "o", "r?x#/..", "tarball"]).unwrap();
        assert_eq!(url.as_str(), "https://ghe.example/api/v3/repos/o/r%3Fx%23%2F../tarball");
    }

    #[test]
    fn the_next_page_is_read_from_the_link_header() {
        let next = |text: &'static str| {
            let headers = HeaderMap::from_iter([(header::LINK, HeaderValue::from_static(text))]);
            next_page(&headers).map(str::to_owned)
        };
        let both = r#"<https://a/x?page=3>; rel="next", <https://a/x?page=9>; rel="last""#;
        assert_eq!(next(both).as_deref(), Some("https://a/x?page=3"));
        assert_eq!(next(r#"<https://a/x?page=1>; rel="prev""#), None);
        assert_eq!(next("nonsense"), None);
    }
}
