//! GitHub, by its documented REST wire format; also GitHub Enterprise Server, and anything else that speaks it.

use std::time::Duration;

use anyhow::Context as _;
use async_trait::async_trait;
use common::{config, db::users::Identity};
use reqwest::{Client, RequestBuilder, header, redirect};
use secrecy::{ExposeSecret as _, SecretString};
use serde::{Deserialize, de::DeserializeOwned};
use url::Url;

use super::{Answer, Begun, CodeHost, CodeHostError};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// For a whole call, answer included.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Larger answers are not read.
const ANSWER_MAX: usize = 1024 * 1024;
const API_VERSION: &str = "2022-11-28";
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));
const SCOPES: &str = "read:user user:email";
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";
/// GitHub hands an access token out once: asking who it is for is worth a second try.
const IDENTITY_TRIES: u32 = 3;
const IDENTITY_PAUSE: Duration = Duration::from_millis(300);

/// GitHub.
pub struct Github {
    client: Client,
    client_id: String,
    web: String,
    api: String,
}

#[derive(Deserialize)]
struct FlowAnswer {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    #[serde(default = "default_interval")]
    interval: u64,
}

/// RFC 8628, section 3.2.
fn default_interval() -> u64 {
    5
}

/// GitHub answers 200 either way; which fields are there makes the difference.
#[derive(Deserialize)]
struct PollAnswer {
    access_token: Option<String>,
    error: Option<String>,
    interval: Option<u64>,
}

#[derive(Deserialize)]
struct User {
    id: u64,
    login: String,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    email: String,
    primary: bool,
    verified: bool,
}

impl Github {
    /// The configured application at the configured GitHub.
    pub fn new(host: &config::CodeHost) -> anyhow::Result<Self> {
        anyhow::ensure!(!host.client_id.is_empty(), "code_host.client_id must name your OAuth application at GitHub");
        let client = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .redirect(redirect::Policy::none())
            .build()
            .context("the HTTP client for the code host")?;
        let base = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { client, client_id: host.client_id.clone(), web: base(&host.web_url), api: base(&host.api_url) })
    }

    async fn identity(&self, token: &SecretString) -> Result<Identity, CodeHostError> {
        let mut tries = 1;
        loop {
            match self.user(token).await {
                Err(error) if tries < IDENTITY_TRIES => {
                    tracing::warn!("asking the code host again who signed in: {error}");
                    tokio::time::sleep(IDENTITY_PAUSE * tries).await;
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn user(&self, token: &SecretString) -> Result<Identity, CodeHostError> {
        let user: User = read("GET /user", self.api_get("/user", token)).await?;
        // The address is a courtesy: a person who keeps it private can sign in all the same.
        let emails: Vec<Address> =
            read("GET /user/emails", self.api_get("/user/emails", token)).await.unwrap_or_default();
        let email = emails.into_iter().find(|email| email.primary && email.verified).map(|email| email.email);
        Ok(Identity { vcs_id: user.id.to_string(), login: user.login, email: email.or(user.email) })
    }

    fn api_get(&self, path: &str, token: &SecretString) -> RequestBuilder {
        self.client
            .get(format!("{}{path}", self.api))
            .bearer_auth(token.expose_secret())
            .header(header::ACCEPT, "application/vnd.github+json")
            .header("X-GitHub-Api-Version", API_VERSION)
    }
}

#[async_trait]
impl CodeHost for Github {
    async fn begin(&self) -> Result<Begun, CodeHostError> {
        let request = self
            .client
            .post(format!("{}/login/device/code", self.web))
            .header(header::ACCEPT, "application/json")
            .form(&[("client_id", &*self.client_id), ("scope", SCOPES)]);
        let code: FlowAnswer = read("POST /login/device/code", request).await?;
        Ok(Begun {
            device_code: Some(code.device_code.into()),
            user_code: code.user_code,
            verification_uri: code.verification_uri,
            verification_uri_complete: code.verification_uri_complete,
            expires_in: Duration::from_secs(code.expires_in),
            interval: Duration::from_secs(code.interval),
        })
    }

    async fn ask(&self, device_code: &SecretString) -> Result<Answer, CodeHostError> {
        const CALL: &str = "POST /login/oauth/access_token";
        let form = [
            ("client_id", &*self.client_id),
            ("device_code", device_code.expose_secret()),
            ("grant_type", DEVICE_GRANT),
        ];
        let request = self
            .client
            .post(format!("{}/login/oauth/access_token", self.web))
            .header(header::ACCEPT, "application/json")
            .form(&form);
        let answer: PollAnswer = read(CALL, request).await?;
        if let Some(token) = answer.access_token {
            return self.identity(&token.into()).await.map(Answer::Authorized);
        }
        match answer.error.as_deref() {
            Some("authorization_pending") => Ok(Answer::Pending),
            Some("slow_down") => Ok(Answer::SlowDown(answer.interval.map(Duration::from_secs))),
            // A code that GitHub does not know any more has been used or has expired.
            Some("expired_token" | "token_expired" | "incorrect_device_code") => Ok(Answer::Expired),
            Some("access_denied") => Ok(Answer::Denied),
            other => Err(CodeHostError::Answer { call: CALL, reason: format!("error {other:?}") }),
        }
    }
}

/// Sends, and reads a bounded JSON answer. Device flows also answer errors with 400 and a JSON body.
async fn read<T: DeserializeOwned>(call: &'static str, request: RequestBuilder) -> Result<T, CodeHostError> {
    // Without the URL: an error is logged, and must not carry more than it needs to.
    let mut response = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    if !status.is_success() && status != reqwest::StatusCode::BAD_REQUEST {
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
