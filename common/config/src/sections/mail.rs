//! `[mail]`: letters to people.

use domain::EmailAddress;
use serde::{Deserialize, Serialize};
use url::Url;

/// `[mail]`: letters to people.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Mail {
    /// `smtp://user:password@host:port` or `smtps://…`; no mail is sent when absent. Without `?tls=none`, `opportunistic`
    /// or `required`, smtp:// wants TLS (STARTTLS) for a password, takes it where offered, and does without on this machine.
    pub url: Option<Url>,
    /// The sender of letters, as `Name <address>`; `no-reply` at the site domain when absent.
    pub from: Option<String>,
    /// The operator's address: letters about the service itself, such as a sweep of the store that stopped, go there. None are
    /// sent when absent.
    pub operator: Option<EmailAddress>,
}
