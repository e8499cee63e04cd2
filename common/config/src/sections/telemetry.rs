//! `[telemetry]`: what an operator's own systems are sent: traces of the AI gateway, and its usage.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

/// `[telemetry]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// The address at which a collector takes traces as OTLP over HTTP, such as `http://collector:4318/v1/traces`. Edges send it a span
    /// for each completion, by OpenTelemetry's conventions for generative AI: models, tokens, times and errors, never a word of a prompt
    /// or an answer. None are made without it.
    pub traces_url: Option<Url>,
    /// A file with header fields for the collector, `Name: value` in each line, such as one that holds its key.
    pub traces_headers_file: Option<PathBuf>,
    /// The part of the completions that are traced, in percent, by the ids of their traces. A client's trace that is not sampled is not
    /// traced here either.
    pub traces_percent: u8,
    /// Whether spans name the account (`svc.account`).
    pub traces_account: bool,
    /// The address that admin sends the gateway's usage to: each completion that was recorded, in batches, signed as Standard Webhooks
    /// are. Without it none is sent, and what waits is forgotten.
    pub usage_url: Option<Url>,
    /// Seconds between two looks for usage to send, from 1 to 3600.
    pub usage_seconds: u16,
    /// The file with the secret that signs what is sent there: `whsec_` and base64 of 24 to 64 bytes.
    pub usage_secret_file: Option<PathBuf>,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            traces_url: None,
            traces_headers_file: None,
            traces_percent: 100,
            traces_account: false,
            usage_url: None,
            usage_seconds: 15,
            usage_secret_file: None,
        }
    }
}
