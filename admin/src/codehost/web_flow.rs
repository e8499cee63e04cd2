//! The port to the web flow: a person answers on the code host's page, and comes back with a code.

use async_trait::async_trait;
use secrecy::SecretString;

use super::{CodeHostError, SignedIn};

/// Signing in at a code host in a browser.
#[async_trait]
pub trait WebFlow: Send + Sync {
    /// Makes the address of the page on which a person answers.
    fn address(&self, leaving: &WebSignIn<'_>) -> String;

    /// Finds the person whose code came back from that page. None when the code host does not accept the code.
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
    /// The address that they come back to.
    pub redirect_uri: &'a str,
    /// The value that they bring back.
    pub state: &'a str,
    /// The SHA-256 of the verifier, to which the code is bound (PKCE, S256).
    pub challenge: &'a str,
    /// Whether the person wants to choose between accounts.
    pub choose_account: bool,
}
