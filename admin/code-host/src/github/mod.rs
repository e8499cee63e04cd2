//! GitHub, by its documented REST wire format; also GitHub Enterprise Server, and anything else that implements it.
//!
//! [`app`] creates tokens of our own app, [`call`] sends and receives within bounds, [`oauth`] is the last call of each
//! sign-in flow; each flow and each noun has a file of its own.

mod app;
mod call;
mod device;
mod identity;
mod installations;
mod oauth;
mod repositories;
mod tarball;
mod web;

use async_trait::async_trait;
use domain::Clock;
use reqwest::Client;
use secrecy::SecretString;
use url::Url;

use self::{app::GithubApp, call::ResponseCache};
use super::{CodeHost, CodeHostError, DeviceFlow, FlowState, Repositories, WebFlow};

/// GitHub as a code host.
pub struct GithubHost {
    client: Client,
    client_id: String,
    client_secret: SecretString,
    web: String,
    api: String,
    answers: ResponseCache,
    /// Our app, if its key is configured.
    app: Option<GithubApp>,
}

impl GithubHost {
    /// Creates a client for the configured application at the configured GitHub.
    pub fn new(host: &config::CodeHost, clock: Clock) -> anyhow::Result<Self> {
        if host.client_secret.is_empty() {
            tracing::warn!("code_host.client_secret is not set: people can sign in by `svc login`, but not on the web");
        }
        let app = match &host.private_key_file {
            None => None,
            Some(file) => Some(GithubApp::load(host.app_id.as_deref().unwrap_or(&host.client_id), file, clock)?),
        };
        let base = |url: &Url| url.as_str().trim_end_matches('/').to_owned();
        Ok(Self {
            client: call::client()?,
            client_id: host.client_id.clone(),
            client_secret: host.client_secret.clone().into(),
            web: base(&host.web_url),
            api: base(&host.api_url),
            answers: call::response_cache(),
            app,
        })
    }
}

#[async_trait]
impl CodeHost for GithubHost {
    async fn begin(&self) -> Result<DeviceFlow, CodeHostError> {
        self.begin_device_flow().await
    }

    async fn ask(&self, device_code: &SecretString) -> Result<FlowState, CodeHostError> {
        self.poll_device_flow(device_code).await
    }

    fn name(&self) -> String {
        "GitHub".to_owned()
    }

    fn web_flow(&self) -> Option<&dyn WebFlow> {
        Some(self)
    }

    fn repositories(&self) -> Option<&dyn Repositories> {
        Some(self)
    }
}
