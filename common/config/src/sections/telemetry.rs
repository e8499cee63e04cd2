//! `[telemetry]`: data that is sent to the operator's own systems: traces of the AI gateway, and its usage.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use url::Url;

/// `[telemetry]`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// The URL at which a collector accepts traces as OTLP over HTTP, such as `http://collector:4318/v1/traces`. Edges
    /// send it a span for each completion, following OpenTelemetry's conventions for generative AI: models, tokens,
    /// times and errors, never any text of a prompt or an answer. When absent, no spans are created.
    pub traces_url: Option<Url>,
    /// A file with header fields for the collector, one `Name: value` per line, such as one with its key.
    pub traces_headers_file: Option<PathBuf>,
    /// The percentage of completions that are traced, chosen by trace id. Traces that the client does not sample are
    /// skipped.
    pub traces_percent: u8,
    /// Whether spans include the account (`svc.account`).
    pub traces_account: bool,
    /// The URL to which admin sends the gateway's usage: each recorded completion, in batches, signed as in Standard
    /// Webhooks. When absent, none is sent, and pending records are discarded.
    pub usage_url: Option<Url>,
    /// Seconds between two checks for usage to send, from 1 to 3600.
    pub usage_seconds: u16,
    /// A file with the secret that signs these requests: `whsec_` and base64 of 24 to 64 bytes.
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
