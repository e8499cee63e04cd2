//! `[code_host]`: who people sign in with.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[code_host]`: who people sign in with.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct CodeHost {
    /// `github` or `local`.
    pub kind: CodeHostKind,
    /// The code host's pages.
    pub web_url: Url,
    /// The code host's REST API.
    pub api_url: Url,
    /// Our application there. For signing in on the web its callback URL is `{console_url}/sign-in/callback`.
    pub client_id: String,
    /// Its secret. For `local`: the operator's secret, which the sign-in page asks for.
    pub client_secret: String,
    /// The secret that push webhooks are signed with.
    pub webhook_secret: String,
    /// Our GitHub App's id, as its settings page shows it; `client_id` when absent, which GitHub takes as well.
    #[serde(deserialize_with = "number_or_text")]
    pub app_id: Option<String>,
    /// The file of the app's private key, as GitHub gave it. With it, pushes are read in the app's own name (installation
    /// access tokens); without it, in the name of who shared the installation or linked the repository.
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

/// GitHub shows a number, which one writes as such.
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
    /// GitHub, or a server that speaks its REST API.
    Github,
    /// None: a page of admin asks for a login and the operator's secret. For trying svc out.
    Local,
}
