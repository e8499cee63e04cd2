//! The web application flow: the person approves the sign-in at GitHub, and returns with a code.

use async_trait::async_trait;
use secrecy::{ExposeSecret as _, SecretString};
use url::form_urlencoded;

use super::{CodeHostError, GithubHost, device::SCOPES, oauth};
use crate::{SignedIn, WebFlow, WebSignIn};

#[async_trait]
impl WebFlow for GithubHost {
    fn address(&self, leaving: &WebSignIn<'_>) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query
            .append_pair("client_id", &self.client_id)
            .append_pair("redirect_uri", leaving.redirect_uri)
            .append_pair("scope", SCOPES)
            .append_pair("state", leaving.state)
            .append_pair("code_challenge", leaving.challenge)
            .append_pair("code_challenge_method", "S256");
        if leaving.choose_account {
            query.append_pair("prompt", "select_account");
        }
        format!("{}/login/oauth/authorize?{}", self.web, query.finish())
    }

    async fn redeem(
        &self,
        code: &SecretString,
        verifier: &SecretString,
        redirect_uri: &str,
    ) -> Result<Option<SignedIn>, CodeHostError> {
        let mut answer = self
            .token(&[
                ("client_id", &*self.client_id),
                ("client_secret", self.client_secret.expose_secret()),
                ("code", code.expose_secret()),
                ("redirect_uri", redirect_uri),
                ("code_verifier", verifier.expose_secret()),
            ])
            .await?;
        if let Some(grant) = answer.grant() {
            return self.identify(grant).await.map(Some);
        }
        match answer.error.as_deref() {
            // The code was used, has expired, or was made up.
            Some("bad_verification_code") => Ok(None),
            other => Err(CodeHostError::Answer { call: oauth::CALL, reason: format!("error {other:?}") }),
        }
    }
}
