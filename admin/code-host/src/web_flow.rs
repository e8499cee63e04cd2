//! The port for signing in with a browser: a person approves on the code host's page, and returns with a code.

use async_trait::async_trait;
use secrecy::SecretString;

use super::{CodeHostError, SignedIn};

/// Signing in at a code host with a browser.
#[async_trait]
pub trait WebFlow: Send + Sync {
    /// Returns the URL of the page on which a person approves the sign-in.
    fn address(&self, leaving: &WebSignIn<'_>) -> String;

    /// Returns the person whose code came back from that page; `None` if the code host does not accept the code.
    async fn redeem(
        &self,
        code: &SecretString,
        verifier: &SecretString,
        redirect_uri: &str,
    ) -> Result<Option<SignedIn>, CodeHostError>;
}

/// The parameters with which a person is sent to the code host's sign-in page.
#[derive(Debug)]
pub struct WebSignIn<'a> {
    /// The URL to which the person returns.
    pub redirect_uri: &'a str,
    /// The value that is returned unchanged.
    pub state: &'a str,
    /// The SHA-256 of the verifier, to which the code is bound (PKCE, S256).
    pub challenge: &'a str,
    /// Whether the person wants to choose between accounts.
    pub choose_account: bool,
}
