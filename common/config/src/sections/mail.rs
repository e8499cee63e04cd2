//! `[mail]`: email to users.

use domain::EmailAddress;
use serde::{Deserialize, Serialize};
use url::Url;

/// `[mail]`: email to users.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mail {
    /// `smtp://user:password@host:port` or `smtps://…`; no mail is sent when absent. Without `?tls=none`,
    /// `opportunistic` or `required`, `smtp://` requires TLS (STARTTLS) if there is a password, uses it where offered,
    /// and does without it on this machine.
    pub url: Option<Url>,
    /// The sender of mail, as `Name <address>`; `no-reply` at the site domain when absent.
    pub from: Option<String>,
    /// The operator's address, which receives mail about the service itself, such as a sweep of the store that stopped.
    /// When absent, no such mail is sent.
    pub operator: Option<EmailAddress>,
}
