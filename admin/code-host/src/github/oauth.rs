//! The last call of each sign-in flow, `POST /login/oauth/access_token`, and the identity of its token's owner.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

use super::{CodeHostError, GithubHost, call::send_json};
use crate::{SignedIn, UserGrant};

const PATH: &str = "/login/oauth/access_token";
pub(super) const CALL: &str = "POST /login/oauth/access_token";

/// The response. Its status is always 200: its fields distinguish success from failure.
#[derive(Deserialize)]
pub(super) struct OauthTokenResponse {
    access_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    expires_in: Option<u64>,
    refresh_token: Option<String>,
    #[serde(default, deserialize_with = "seconds")]
    refresh_token_expires_in: Option<u64>,
    pub(super) error: Option<String>,
    pub(super) interval: Option<u64>,
}

impl OauthTokenResponse {
    pub(super) fn grant(&mut self) -> Option<UserGrant> {
        let token = self.access_token.take()?;
        Some(UserGrant {
            token: token.into(),
            expires_in: self.expires_in.map(Duration::from_secs),
            refresh_token: self.refresh_token.take().map(Into::into),
            refresh_expires_in: self.refresh_token_expires_in.map(Duration::from_secs),
        })
    }
}

impl GithubHost {
    /// Requests a token. If there is no [`OauthTokenResponse::grant`], [`OauthTokenResponse::error`] has the reason.
    pub(super) async fn token(&self, form: &[(&str, &str)]) -> Result<OauthTokenResponse, CodeHostError> {
        send_json(CALL, self.web_post(PATH, form)).await
    }

    pub(super) async fn identify(&self, grant: UserGrant) -> Result<SignedIn, CodeHostError> {
        Ok(SignedIn { identity: self.identity(&grant.token).await?, grant: Some(grant) })
    }
}

/// Parses seconds, which GitHub's documentation shows both as numbers and as text.
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Number(u64),
        Text(String),
    }
    Ok(match Option::<NumberOrText>::deserialize(deserializer)? {
        None => None,
        Some(NumberOrText::Number(number)) => Some(number),
        Some(NumberOrText::Text(text)) => Some(text.parse().map_err(serde::de::Error::custom)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lifetimes_are_read_as_numbers_and_as_text() {
        let grant = |json: &str| serde_json::from_str::<OauthTokenResponse>(json).unwrap().grant();
        for json in [
            r#"{"access_token":"a","expires_in":28800,"refresh_token":"r","refresh_token_expires_in":15811200}"#,
            r#"{"access_token":"a","expires_in":"28800","refresh_token":"r","refresh_token_expires_in":"15811200"}"#,
        ] {
            let grant = grant(json).unwrap();
            assert_eq!(grant.expires_in, Some(Duration::from_hours(8)));
            assert_eq!(grant.refresh_expires_in, Some(Duration::from_hours(183 * 24)));
        }
        let classic = grant(r#"{"access_token":"a","scope":"user:email"}"#).unwrap();
        assert!(classic.expires_in.is_none() && classic.refresh_token.is_none());
        assert!(grant(r#"{"error":"bad_refresh_token"}"#).is_none());
    }
}
