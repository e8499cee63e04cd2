//! The person that a token speaks for.

use std::time::Duration;

use db::sign_in::users::Identity;
use secrecy::SecretString;
use serde::Deserialize;

use super::{CodeHostError, Github};

/// Attempts to learn a token's owner. GitHub hands the token out once, so a failed call is repeated.
const IDENTITY_TRIES: u32 = 3;
const IDENTITY_PAUSE: Duration = Duration::from_millis(300);

#[derive(Deserialize)]
struct User {
    id: u64,
    login: String,
    email: Option<String>,
}

#[derive(Deserialize)]
struct Address {
    email: String,
    primary: bool,
    verified: bool,
}

impl Github {
    pub(super) async fn identity(&self, token: &SecretString) -> Result<Identity, CodeHostError> {
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

    async fn user(&self, token: &SecretString) -> Result<Identity, CodeHostError> {
        let user: User = self.fetch("GET /user", self.api_url("GET /user", &["user"])?, token).await?;
        // The address is a courtesy: a person who keeps it private can sign in all the same.
        let address = self.api_url("GET /user/emails", &["user", "emails"])?;
        let emails: Vec<Address> = self.fetch("GET /user/emails", address, token).await.unwrap_or_default();
        let email = emails.into_iter().find(|email| email.primary && email.verified).map(|email| email.email);
        Ok(Identity { vcs_id: user.id.to_string(), login: user.login, email: email.or(user.email) })
    }
}
