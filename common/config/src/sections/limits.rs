//! `[limits]`: rate limits.

use serde::{Deserialize, Serialize};

/// `[limits]`: rate limits.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Requests to `POST /auth/device`, per IP address.
    pub auth_device_per_10_min: u32,
    /// Requests to `POST /auth/device/poll`, per IP address.
    pub auth_poll_per_10_min: u32,
    /// Control plane requests outside `/auth`, per token.
    pub api_per_min: u32,
    /// Control plane requests outside `/auth`, per account over all its tokens.
    pub api_account_per_min: u32,
    /// AI gateway completions, per account over all its keys.
    pub gateway_per_min: u32,
    /// Concurrent AI gateway completions of one account at each edge.
    pub gateway_concurrent: u32,
    /// Input and output tokens of the AI gateway's models, per account and UTC day.
    pub gateway_tokens_per_day: u64,
    /// Whether checks of custom domains may connect to addresses that are not global, such as this machine's own. For
    /// trying svc out; in production it would let users probe the operator's network.
    pub probe_allow_private: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            auth_device_per_10_min: 10,
            auth_poll_per_10_min: 180,
            api_per_min: 600,
            api_account_per_min: 3_000,
            gateway_per_min: 60,
            // Three minutes of `gateway_per_min`.
            gateway_concurrent: 180,
            gateway_tokens_per_day: 1_000_000,
            probe_allow_private: false,
        }
    }
}
