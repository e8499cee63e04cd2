//! The code host: who people sign in with, and where their repositories are. [`CodeHost`] is the port for signing in,
//! [`Repositories`] the one for repositories; each kind is an implementation.
//!
//! [`github`] speaks GitHub's REST wire format; [`local`] has no code host at all, and asks on a page of ours. [`admit`]
//! ends every sign-in, and [`grants`] hands out the tokens that it kept.

mod admit;
pub mod github;
pub mod grants;
pub mod local;
mod repositories;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use config::{CodeHostKind, Config};
use db::users::Identity;
use domain::Clock;
use secrecy::SecretString;

pub use admit::admit;
pub use repositories::{Account, AppToken, Repositories, Repository};

/// Signing in at a code host: on a device by RFC 8628, in a browser by its web flow.
#[async_trait]
pub trait CodeHost: Send + Sync {
    /// Begins a device flow.
    async fn begin(&self) -> Result<Begun, CodeHostError>;

    /// Asks whether the person has answered there.
    async fn ask(&self, device_code: &SecretString) -> Result<Answer, CodeHostError>;

    /// What people call it.
    fn name(&self) -> String;

    /// Where a person signs in in a browser; none when that is a page of ours.
    fn web_sign_in(&self, leaving: &WebSignIn<'_>) -> Option<String>;

    /// Whom the code speaks for that the person came back with; none when the code host does not take it.
    async fn finish_web_sign_in(
        &self,
        code: &SecretString,
        verifier: &SecretString,
        redirect_uri: &str,
    ) -> Result<Option<SignedIn>, CodeHostError>;

    /// Its repositories; none with the local kind.
    fn repositories(&self) -> Option<&dyn Repositories> {
        None
    }
}

/// A device flow that waits for a person.
pub struct Begun {
    /// What to ask with; none when the person answers on our own page, which moves the flow itself.
    pub device_code: Option<SecretString>,
    /// What the person types.
    pub user_code: String,
    /// Where.
    pub verification_uri: String,
    /// The same with the code filled in.
    pub verification_uri_complete: Option<String>,
    /// Until both codes expire.
    pub expires_in: Duration,
    /// To leave between polls.
    pub interval: Duration,
}

/// What a person takes along to the code host's sign-in page.
#[derive(Debug)]
pub struct WebSignIn<'a> {
    /// Where they come back to.
    pub redirect_uri: &'a str,
    /// What they bring back.
    pub state: &'a str,
    /// What the code is bound to there: the SHA-256 of the verifier (PKCE, S256).
    pub challenge: &'a str,
    /// Whether they want to choose between accounts.
    pub choose_account: bool,
}

/// A person whom the code host vouches for.
#[derive(Debug)]
pub struct SignedIn {
    /// Who.
    pub identity: Identity,
    /// What we may do there in their name; none with the local kind.
    pub grant: Option<UserGrant>,
}

/// Tokens that speak for a person at the code host.
#[derive(Debug)]
pub struct UserGrant {
    /// The access token.
    pub token: SecretString,
    /// How long it works; for ever when absent.
    pub expires_in: Option<Duration>,
    /// What the next pair is got with. Works once.
    pub refresh_token: Option<SecretString>,
    /// How long that works.
    pub refresh_expires_in: Option<Duration>,
}

/// What the code host says of a flow.
#[derive(Debug)]
pub enum Answer {
    /// Nothing yet.
    Pending,
    /// Nothing yet, and we ask too often: leave this much between polls, or 5 s more than before.
    SlowDown(Option<Duration>),
    /// Too late.
    Expired,
    /// The person said no.
    Denied,
    /// The person said yes, and is this.
    Authorized(SignedIn),
}

/// The code host did not answer, or not as documented. Holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum CodeHostError {
    /// No connection, no answer in time, or an answer that cannot be read.
    #[error("the code host does not answer: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// The token does not work, or not any more.
    #[error("the code host refused the token for {call}")]
    Unauthorized {
        /// What was asked.
        call: &'static str,
    },
    /// There is no such thing, or the token does not reach it.
    #[error("the code host has nothing at {call}")]
    NotFound {
        /// What was asked.
        call: &'static str,
    },
    /// Our app's key is not taken: it is another app's, or was revoked.
    #[error("the code host does not take our app's key; look at code_host.app_id and code_host.private_key_file")]
    AppRefused,
    /// The installation was suspended.
    #[error("the installation is suspended at the code host")]
    Suspended,
    /// The installation does not reach the repository, or may not read its contents.
    #[error("the installation does not reach the repository, or may not read its contents")]
    Unreached,
    /// We ask too often.
    #[error("the code host wants to be left alone for {} s", after.as_secs())]
    RateLimited {
        /// For so long.
        after: Duration,
    },
    /// More than we take.
    #[error("the code host's answer to {call} is too large")]
    TooLarge {
        /// What was asked.
        call: &'static str,
    },
    /// The answer could not be kept: our fault.
    #[error("the spool folder: {0}")]
    Spool(#[from] std::io::Error),
    /// A status that is not in its documentation for this call.
    #[error("the code host answered {call} with status {status}")]
    Status {
        /// What was asked.
        call: &'static str,
        /// The answer.
        status: u16,
    },
    /// An answer that is not in its documentation for this call.
    #[error("the code host's answer to {call} is not as documented: {reason}")]
    Answer {
        /// What was asked.
        call: &'static str,
        /// What is wrong with the answer.
        reason: String,
    },
}

impl CodeHostError {
    /// Whether the same call may well succeed later.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::RateLimited { .. }
            | Self::Spool(_)
            | Self::Answer { .. }
            | Self::AppRefused => true,
            Self::Status { status, .. } => *status >= 500 || *status == 408,
            Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::Suspended
            | Self::Unreached
            | Self::TooLarge { .. } => false,
        }
    }

    /// Whether a token was refused. GitHub does so also with one that is too new for some of its servers.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Unauthorized { .. } | Self::Status { status: 403, .. })
    }

    /// The same error for one more who waited for the call.
    fn again(&self) -> Self {
        match self {
            Self::Unauthorized { call } => Self::Unauthorized { call },
            Self::NotFound { call } => Self::NotFound { call },
            Self::AppRefused => Self::AppRefused,
            Self::Suspended => Self::Suspended,
            Self::Unreached => Self::Unreached,
            Self::RateLimited { after } => Self::RateLimited { after: *after },
            Self::TooLarge { call } => Self::TooLarge { call },
            Self::Status { call, status } => Self::Status { call, status: *status },
            Self::Unreachable(_) | Self::Spool(_) | Self::Answer { .. } => {
                Self::Answer { call: "a call that others wait for", reason: self.to_string() }
            }
        }
    }
}

/// The configured code host.
pub fn from_config(config: &Config, clock: &Clock) -> anyhow::Result<Arc<dyn CodeHost>> {
    let host = &config.code_host;
    Ok(match host.kind {
        CodeHostKind::Github => Arc::new(github::Github::new(host, clock.clone())?),
        CodeHostKind::Local => {
            anyhow::ensure!(!host.client_secret.is_empty(), "code_host.client_secret must hold the operator's secret");
            Arc::new(local::Local::new(&config.site.base_url))
        }
    })
}
