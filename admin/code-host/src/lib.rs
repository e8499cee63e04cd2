//! The code host, where people sign in and keep their repositories. Each kind of code host implements [`CodeHost`], the
//! port for signing in on a device, and, if it can, [`WebFlow`] for signing in with a browser and [`Repositories`].
//!
//! [`github`] implements GitHub's REST wire format; [`local`] works without a code host, with a page of ours; [`unset`]
//! is used until one is configured. [`admit_user()`] is the last step of a sign-in, and [`grants`] hands out the tokens that
//! it stored.

mod admit;
pub mod github;
pub mod grants;
pub mod local;
mod repositories;
pub mod unset;
mod web_flow;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use config::{CodeHostKind, Config};
use db::sign_in::users::CodeHostIdentity;
use domain::Clock;
use secrecy::SecretString;

pub use admit::admit_user;
pub use repositories::{AppToken, HostAccount, HostRepository, Repositories, SpoolTarget, SpooledTarball};
pub use web_flow::{WebFlow, WebSignIn};

/// A code host: signing in on a device according to RFC 8628, and the other ports that it may have.
#[async_trait]
pub trait CodeHost: Send + Sync {
    /// Starts a device flow.
    async fn begin(&self) -> Result<DeviceFlow, CodeHostError>;

    /// Polls whether the person has approved or denied the sign-in.
    async fn ask(&self, device_code: &SecretString) -> Result<FlowState, CodeHostError>;

    /// Returns the display name of the code host.
    fn name(&self) -> String;

    /// Returns the port for signing in with a browser; `None` if people sign in on a page of ours, or cannot yet.
    fn web_flow(&self) -> Option<&dyn WebFlow> {
        None
    }

    /// Returns the port to repositories; `None` if there are none, or we cannot read them yet.
    fn repositories(&self) -> Option<&dyn Repositories> {
        None
    }
}

/// A device flow that waits for a person.
pub struct DeviceFlow {
    /// The code host's device code, for polling; `None` if the person signs in on our own page, which ends the flow
    /// itself.
    pub device_code: Option<SecretString>,
    /// The code that the person types.
    pub user_code: String,
    /// The page on which the person types the code.
    pub verification_uri: String,
    /// The page with the code filled in.
    pub verification_uri_complete: Option<String>,
    /// The lifetime of both codes.
    pub expires_in: Duration,
    /// The shortest pause between polls.
    pub interval: Duration,
}

/// A person authenticated by the code host.
#[derive(Debug)]
pub struct SignedIn {
    /// The person's identity.
    pub identity: CodeHostIdentity,
    /// The tokens that act for the person; `None` with the local kind.
    pub grant: Option<UserGrant>,
}

/// Tokens that act for a person at the code host.
#[derive(Debug)]
pub struct UserGrant {
    /// The access token.
    pub token: SecretString,
    /// The access token's lifetime; `None` if it does not expire.
    pub expires_in: Option<Duration>,
    /// The token that obtains the next pair. It works once.
    pub refresh_token: Option<SecretString>,
    /// The refresh token's lifetime.
    pub refresh_expires_in: Option<Duration>,
}

/// The state of a device flow at the code host.
#[derive(Debug)]
pub enum FlowState {
    /// The person has neither approved nor denied the sign-in.
    Pending,
    /// The person has not decided, and the polls come too fast. The value is the new pause between them; without one, it
    /// grows by 5 s.
    SlowDown(Option<Duration>),
    /// The codes have expired.
    Expired,
    /// The person denied the sign-in.
    Denied,
    /// The person approved the sign-in.
    Authorized(SignedIn),
}

/// An error of a call to the code host. It holds no secret.
#[derive(Debug, thiserror::Error)]
pub enum CodeHostError {
    /// The connection failed, or the response did not arrive in time or could not be received.
    #[error("the code host does not answer: {0}")]
    Unreachable(#[from] reqwest::Error),
    /// The configuration does not name our application at the code host.
    #[error("code_host.client_id is not set")]
    NotSetUp,
    /// The token is not valid.
    #[error("the code host refused the token for {call}")]
    Unauthorized {
        /// The call.
        call: &'static str,
    },
    /// The object does not exist, or the token may not read it.
    #[error("the code host has nothing at {call}")]
    NotFound {
        /// The call.
        call: &'static str,
    },
    /// The code host refuses our app's key: it belongs to another app, or was revoked.
    #[error("the code host does not take our app's key; look at code_host.app_id and code_host.private_key_file")]
    AppRefused,
    /// The installation was suspended.
    #[error("the installation is suspended at the code host")]
    Suspended,
    /// The installation does not reach the repository, or may not read its contents.
    #[error("the installation does not reach the repository, or may not read its contents")]
    Unreached,
    /// Our calls are too frequent.
    #[error("the code host wants to be left alone for {} s", after.as_secs())]
    RateLimited {
        /// The time to wait.
        after: Duration,
    },
    /// The response is larger than the limit.
    #[error("the code host's answer to {call} is too large")]
    TooLarge {
        /// The call.
        call: &'static str,
    },
    /// The account's share of the spool, or the whole spool, is full.
    #[error("there is no room in the spool")]
    NoRoom,
    /// The response could not be written to the spool folder.
    #[error("the spool folder: {0}")]
    Spool(#[from] std::io::Error),
    /// The response has a status that is not documented for this call.
    #[error("the code host answered {call} with status {status}")]
    Status {
        /// The call.
        call: &'static str,
        /// The response's status.
        status: u16,
    },
    /// The response differs from the documentation of this call.
    #[error("the code host's answer to {call} is not as documented: {reason}")]
    Answer {
        /// The call.
        call: &'static str,
        /// The difference.
        reason: String,
    },
}

impl CodeHostError {
    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable(_)
            | Self::RateLimited { .. }
            | Self::NoRoom
            | Self::Spool(_)
            | Self::Answer { .. }
            | Self::AppRefused => true,
            Self::Status { status, .. } => *status >= 500 || *status == 408,
            Self::Unauthorized { .. }
            | Self::NotFound { .. }
            | Self::NotSetUp
            | Self::Suspended
            | Self::Unreached
            | Self::TooLarge { .. } => false,
        }
    }

    /// Returns whether a token was refused. GitHub also refuses a token that is too new for some of its servers.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Unauthorized { .. } | Self::Status { status: 403, .. })
    }

    fn copy(&self) -> Self {
        match self {
            Self::Unauthorized { call } => Self::Unauthorized { call },
            Self::NotFound { call } => Self::NotFound { call },
            Self::AppRefused => Self::AppRefused,
            Self::NotSetUp => Self::NotSetUp,
            Self::Suspended => Self::Suspended,
            Self::Unreached => Self::Unreached,
            Self::NoRoom => Self::NoRoom,
            Self::RateLimited { after } => Self::RateLimited { after: *after },
            Self::TooLarge { call } => Self::TooLarge { call },
            Self::Status { call, status } => Self::Status { call, status: *status },
            Self::Unreachable(_) | Self::Spool(_) | Self::Answer { .. } => {
                Self::Answer { call: "a call that others wait for", reason: self.to_string() }
            }
        }
    }
}

/// Creates the configured code host.
pub fn from_config(config: &Config, clock: &Clock) -> anyhow::Result<Arc<dyn CodeHost>> {
    let host = &config.code_host;
    Ok(match host.kind {
        CodeHostKind::Github if host.client_id.is_empty() => {
            tracing::warn!("nobody can sign in: code_host.client_id does not name your GitHub App (or OAuth app)");
            Arc::new(unset::UnsetHost)
        }
        CodeHostKind::Github => Arc::new(github::GithubHost::new(host, clock.clone())?),
        CodeHostKind::Local => {
            anyhow::ensure!(!host.client_secret.is_empty(), "code_host.client_secret must hold the operator's secret");
            if host.client_secret.chars().count() < local::UNGUESSABLE_CHARS {
                tracing::warn!(
                    "code_host.client_secret has fewer than {} characters: strangers who guess at it lock everybody out of signing in; take \
                     a longer one, such as `openssl rand -hex 16` makes",
                    local::UNGUESSABLE_CHARS,
                );
            }
            Arc::new(local::LocalHost::new(&config.site.base_url))
        }
    })
}
