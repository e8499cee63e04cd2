//! `[limits]`: rates.

use serde::{Deserialize, Serialize};

/// `[limits]`: rates.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// `POST /auth/device`, per IP address.
    pub auth_device_per_10_min: u32,
    /// `POST /auth/device/poll`, per IP address.
    pub auth_poll_per_10_min: u32,
    /// The control plane outside `/auth`, per token.
    pub api_per_min: u32,
    /// The control plane outside `/auth`, per account over all its tokens.
    pub api_account_per_min: u32,
    /// The AI gateway's completions, per account over all its keys.
    pub gateway_per_min: u32,
    /// The AI gateway's completions of one account that are under way at each edge.
    pub gateway_concurrent: u32,
    /// Tokens read and written by the AI gateway's models, per account and UTC day.
    pub gateway_tokens_per_day: u64,
    /// Whether looks at custom domains may connect to addresses that are not global, such as this machine's own. For trying
    /// svc out; elsewhere it would let people ask what stands in the operator's network.
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
            // Three minutes' worth.
            gateway_concurrent: 180,
            gateway_tokens_per_day: 1_000_000,
            probe_allow_private: false,
        }
    }
}
