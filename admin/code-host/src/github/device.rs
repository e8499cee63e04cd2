//! The device flow (RFC 8628).

use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;

use super::{CodeHostError, DeviceFlow, FlowState, GithubHost, call::send_json, oauth};

/// The scopes that an OAuth app needs, and a GitHub App ignores.
pub(super) const SCOPES: &str = "read:user user:email";
const DEVICE_GRANT: &str = "urn:ietf:params:oauth:grant-type:device_code";

#[derive(Deserialize)]
struct DeviceCodeResponse {
    device_code: String,
    user_code: String,
    verification_uri: String,
    verification_uri_complete: Option<String>,
    expires_in: u64,
    #[serde(default = "default_interval")]
    interval: u64,
}

/// Returns the interval to use if GitHub names none (RFC 8628, section 3.2).
fn default_interval() -> u64 {
    5
}

impl GithubHost {
    pub(super) async fn begin_device_flow(&self) -> Result<DeviceFlow, CodeHostError> {
        let request = self.web_post("/login/device/code", &[("client_id", &*self.client_id), ("scope", SCOPES)]);
        let code: DeviceCodeResponse = send_json("POST /login/device/code", request).await?;
        Ok(DeviceFlow {
            device_code: Some(code.device_code.into()),
            user_code: code.user_code,
            verification_uri: code.verification_uri,
            verification_uri_complete: code.verification_uri_complete,
            expires_in: Duration::from_secs(code.expires_in),
            interval: Duration::from_secs(code.interval),
        })
    }

    pub(super) async fn poll_device_flow(&self, device_code: &SecretString) -> Result<FlowState, CodeHostError> {
        let mut answer = self
            .token(&[
                ("client_id", &*self.client_id),
                ("device_code", device_code.expose_secret()),
                ("grant_type", DEVICE_GRANT),
            ])
            .await?;
        if let Some(grant) = answer.grant() {
            return self.identify(grant).await.map(FlowState::Authorized);
        }
        match answer.error.as_deref() {
            Some("authorization_pending") => Ok(FlowState::Pending),
            Some("slow_down") => Ok(FlowState::SlowDown(answer.interval.map(Duration::from_secs))),
            // GitHub no longer knows a code that was used or has expired.
            Some("expired_token" | "token_expired" | "incorrect_device_code") => Ok(FlowState::Expired),
            Some("access_denied") => Ok(FlowState::Denied),
            other => Err(CodeHostError::Answer { call: oauth::CALL, reason: format!("error {other:?}") }),
        }
    }
}
