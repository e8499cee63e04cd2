//! Authentication of a request by its API key.

use std::sync::Arc;

use domain::token::TokenSecret;
use fairness::Client;
use gateway_request::error::ApiError;
use http::{HeaderMap, HeaderName, header};
use memory::keys::{GatewayKey, KeyError};
use telemetry::{OutageLine, OutageLog};

use super::Gateway;

/// The header in which Anthropic's clients, and some multi-service clients, send their key.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

impl Gateway {
    pub(super) async fn authenticate(&self, secret: TokenSecret, client: Client) -> Result<Arc<GatewayKey>, ApiError> {
        match self.state.keys.find(&secret, client).await {
            Ok(Some(key)) if key.is_suspended => Err(ApiError::suspended_account()),
            Ok(key) => key.ok_or_else(ApiError::invalid_key),
            Err(KeyError::TooManyUnknown(wait)) => Err(ApiError::too_many_unknown_keys(wait)),
            Err(error @ KeyError::Recall(_)) => {
                static UNREAD: OutageLog = OutageLog::new();
                if let Some(OutageLine { left_out, .. }) = UNREAD.record_failure() {
                    tracing::warn!(%error, left_out, "a gateway key cannot be looked up");
                }
                Err(ApiError::limits_unavailable(limits::KEYS_RETRY))
            }
        }
    }
}

pub(super) fn bearer_secret(headers: &HeaderMap) -> Result<TokenSecret, ApiError> {
    let secret = match (headers.get(header::AUTHORIZATION), headers.get(API_KEY)) {
        (Some(shown), _) => {
            let shown = shown.to_str().map_err(|_| ApiError::invalid_key())?;
            let (scheme, secret) = shown.split_once(' ').ok_or_else(ApiError::missing_key)?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(ApiError::missing_key());
            }
            secret
        }
        (None, Some(key)) => key.to_str().map_err(|_| ApiError::invalid_key())?,
        (None, None) => return Err(ApiError::missing_key()),
    };
    TokenSecret::parse(secret.trim()).ok_or_else(ApiError::invalid_key)
}
