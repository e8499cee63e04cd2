//! One call: bounded in time and in what is read, and an error that holds no secret.

use std::time::Duration;

use anyhow::Context as _;
use reqwest::{Client, RequestBuilder, StatusCode, header, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::de::DeserializeOwned;

use super::{CodeHostError, Github};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a whole call, answer included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Larger answers are not read.
const ANSWER_MAX: usize = 1024 * 1024;
const API_VERSION: &str = "2022-11-28";
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// The client of every call. Follows no redirect by itself: a redirect may lead anywhere, a token must not.
pub(super) fn client() -> anyhow::Result<Client> {
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(CALL_TIMEOUT)
        .redirect(redirect::Policy::none())
        .build()
        .context("the HTTP client for the code host")
}

impl Github {
    /// A call of the REST API in the name of `token`.
    pub(super) fn api_get(&self, path: &str, token: &SecretString) -> RequestBuilder {
        self.client
            .get(format!("{}{path}", self.api))
            .bearer_auth(token.expose_secret())
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", API_VERSION)
    }

    /// A call of the web's OAuth endpoints, which answer forms unless JSON is asked for.
    pub(super) fn web_post(&self, path: &str, form: &[(&str, &str)]) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.web)).header(header::ACCEPT, "application/json").form(form)
    }
}

/// Sends, and reads a bounded JSON answer. OAuth endpoints also answer errors with 400 and a JSON body.
pub(super) async fn read<T: DeserializeOwned>(call: &'static str, request: RequestBuilder) -> Result<T, CodeHostError> {
    // Without the URL: an error is logged, and must not carry more than it needs to.
    let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    if !status.is_success() && status != StatusCode::BAD_REQUEST {
        return Err(CodeHostError::Status { call, status: status.as_u16() });
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(reqwest::Error::without_url)? {
        if body.len() + chunk.len() > ANSWER_MAX {
            return Err(CodeHostError::Answer { call, reason: "too large".to_owned() });
        }
        body.extend_from_slice(&chunk);
    }
    serde_json::from_slice(&body).map_err(|error| CodeHostError::Answer {
        call,
        reason: format!("not the JSON expected ({:?})", error.classify()),
    })
}
