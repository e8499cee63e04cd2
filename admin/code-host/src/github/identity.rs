//! The identity of a token's owner.

use std::time::Duration;

use db::sign_in::users::CodeHostIdentity;
use secrecy::SecretString;
use serde::Deserialize;

use super::{CodeHostError, GithubHost};

/// The attempts to read a token's owner. GitHub issues the token only once, so a failed call is retried.
const IDENTITY_TRIES: u32 = 3;
const IDENTITY_PAUSE: Duration = Duration::from_millis(300);

#[derive(Deserialize)]
struct GithubUser {
    id: u64,
    login: String,
    email: Option<String>,
}

#[derive(Deserialize)]
struct GithubEmail {
    email: String,
    primary: bool,
    verified: bool,
}

impl GithubHost {
    pub(super) async fn identity(&self, token: &SecretString) -> Result<CodeHostIdentity, CodeHostError> {
        let mut tries = 1;
        loop {
            match self.user(token).await {
                Err(error) if tries < IDENTITY_TRIES => {
                    tracing::warn!("asking the code host again who signed in: {error}");
                    tokio::time::sleep(IDENTITY_PAUSE * tries).await;
                    tries += 1;
                }
                answer => return answer,
            }
        }
    }

    async fn user(&self, token: &SecretString) -> Result<CodeHostIdentity, CodeHostError> {
        let user: GithubUser = self.fetch("GET /user", self.api_url("GET /user", &["user"])?, token).await?;
        // The address is optional: a person who keeps it private can sign in nevertheless.
        let address = self.api_url("GET /user/emails", &["user", "emails"])?;
        let emails: Vec<GithubEmail> = self.fetch("GET /user/emails", address, token).await.unwrap_or_default();
        let email = emails.into_iter().find(|email| email.primary && email.verified).map(|email| email.email);
        Ok(CodeHostIdentity { vcs_id: user.id.to_string(), login: user.login, email: email.or(user.email) })
    }
}
