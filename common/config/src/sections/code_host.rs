//! `[code_host]`: the service that people sign in with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[code_host]`: the service that people sign in with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeHost {
    /// `github` or `local`.
    pub kind: CodeHostKind,
    /// The URL of the code host's web pages.
    pub web_url: Url,
    /// The URL of the code host's REST API.
    pub api_url: Url,
    /// The client id of our application at the code host. For web sign-in its callback URL is
    /// `{console_url}/sign-in/callback`.
    pub client_id: String,
    /// The application's client secret. For `local`: the operator's secret, which the sign-in page asks for.
    pub client_secret: String,
    /// The secret that signs push webhooks.
    pub webhook_secret: String,
    /// The id of our GitHub App, as its settings page shows it; when absent, `client_id`, which GitHub accepts as well.
    #[serde(deserialize_with = "number_or_text")]
    pub app_id: Option<String>,
    /// The file with the app's private key, as GitHub issued it. With it, pushed commits are read as the app (with
    /// installation access tokens); without it, as the user who shared the installation or linked the repository.
    pub private_key_file: Option<PathBuf>,
}

impl Default for CodeHost {
    fn default() -> Self {
        Self {
            kind: CodeHostKind::Github,
            web_url: url("https://github.com"),
            api_url: url("https://api.github.com"),
            client_id: String::new(),
            client_secret: String::new(),
            webhook_secret: String::new(),
            app_id: None,
            private_key_file: None,
        }
    }
}

/// Accepts a number too: GitHub shows one, which people write as such.
fn number_or_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Id {
        Number(u64),
        Text(String),
    }
    Ok(Option::<Id>::deserialize(deserializer)?.map(|id| match id {
        Id::Number(number) => number.to_string(),
        Id::Text(text) => text,
    }))
}

/// The kind of code host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CodeHostKind {
    /// GitHub, or a server that implements its REST API.
    Github,
    /// Local accounts: a page of admin asks for a login and the operator's secret. For trying svc out.
    Local,
}
