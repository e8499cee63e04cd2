//! The SMTP conversation, step by step: the meaning of a refusal depends on the step.
//!
//! Not here: the schedule of retries, which the job decides, and the form of a message ([`super::message`]).

use std::time::Duration;

use anyhow::Context as _;
use lettre::{
    Message,
    transport::smtp::{
        Error,
        authentication::{Credentials, DEFAULT_MECHANISMS},
        client::{AsyncSmtpConnection, Tls, TlsParameters},
        commands::{Data, Mail, Rcpt},
        extension::ClientId,
    },
};
use url::{Host, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Replies to a recipient or a letter that concern the login or the server instead: it is closing, or requires
/// authentication (RFC 4954).
const REPLIES_ABOUT_THE_SERVER: [u16; 5] = [421, 530, 534, 535, 538];

pub(super) struct SmtpServer {
    host: String,
    port: u16,
    tls: Tls,
    credentials: Option<Credentials>,
}

/// A connection that sends letters in sequence. After a failure it is unusable.
pub struct SmtpSession(AsyncSmtpConnection);

/// A step of the SMTP conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmtpStep {
    /// Connecting and the greeting.
    Connection,
    /// The TLS negotiation.
    Tls,
    /// The login.
    Login,
    /// `MAIL FROM`.
    Sender,
    /// `RCPT TO`.
    Recipient,
    /// The message itself.
    Letter,
}

impl SmtpStep {
    const fn failure(self) -> &'static str {
        match self {
            Self::Connection => "there is no connection to the mail server",
            Self::Tls => "there is no TLS with the mail server",
            Self::Login => "the mail server does not accept the login",
            Self::Sender => "the mail server does not accept the sender",
            Self::Recipient => "the mail server does not accept the recipient",
            Self::Letter => "the mail server does not accept the letter",
        }
    }
}

/// An error of sending a letter.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The mail server accepts no letters: it is unavailable, or its configuration differs from ours.
    #[error("{}: {said}", step.failure())]
    Server {
        /// The step that failed.
        step: SmtpStep,
        /// The server's message, or the cause.
        said: String,
    },
    /// The mail server refuses this letter temporarily.
    #[error("{}: {said}", step.failure())]
    Deferred {
        /// The step that failed.
        step: SmtpStep,
        /// The server's message.
        said: String,
    },
    /// The mail server refuses this letter permanently.
    #[error("{}: {said}", step.failure())]
    Refused {
        /// The step that failed.
        step: SmtpStep,
        /// The server's message.
        said: String,
    },
    /// The conversation broke off during transmission; the server may have accepted the letter.
    #[error("the mail server broke off: {0}")]
    BrokenOff(String),
    /// The letter cannot be composed.
    #[error("the letter cannot be written: {0}")]
    Letter(String),
}

/// Returns whether a permanent refusal concerns the mailbox or the letter, by its enhanced status code (RFC 3463).
/// Other causes, such as policy, quotas or the network, may pass. Without such a code a refusal counts as permanent.
fn is_about_the_letter(said: &str) -> bool {
    let code = said.split(|c: char| !(c.is_ascii_digit() || c == '.')).find(|word| {
        let mut parts = word.split('.');
        parts.next() == Some("5") && word.split('.').count() == 3 && parts.all(|part| !part.is_empty())
    });
    code.is_none_or(|code| ["5.1.", "5.2.1", "5.6."].iter().any(|about| code.starts_with(about)) || code == "5.3.4")
}

impl SendError {
    fn from_step(step: SmtpStep, error: &Error) -> Self {
        let said = server_message(error);
        let status = error.status().map(u16::from);
        match (step, status) {
            (SmtpStep::Recipient | SmtpStep::Letter, Some(status)) if !REPLIES_ABOUT_THE_SERVER.contains(&status) => {
                if error.is_permanent() && is_about_the_letter(&said) {
                    Self::Refused { step, said }
                } else {
                    Self::Deferred { step, said }
                }
            }
            (SmtpStep::Recipient | SmtpStep::Letter, None) => Self::BrokenOff(said),
            _ => Self::Server { step, said },
        }
    }

    pub(super) fn timeout() -> Self {
        Self::BrokenOff("it took too long".to_owned())
    }
}

/// Returns the server's message, such as `550 5.1.1 Nobody of that name`, else the cause.
fn server_message(error: &Error) -> String {
    match (error.status(), std::error::Error::source(error)) {
        (Some(status), Some(words)) => format!("{status} {words}"),
        _ => error.to_string(),
    }
}

impl SmtpServer {
    /// Parses `smtp://user:password@host:port` or `smtps://…`. A password is sent over TLS only, except to this
    /// machine; `?tls=none`, `opportunistic` or `required` overrides that.
    pub(super) fn parse(url: &Url) -> anyhow::Result<Self> {
        let host = url.host().context("it names no host")?;
        let name = url.host_str().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let is_loopback = match &host {
            Host::Domain(domain) => *domain == "localhost" || domain.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        };
        let decode = |text: &str| -> anyhow::Result<String> {
            Ok(percent_encoding::percent_decode_str(text).decode_utf8().context("its user or password")?.into_owned())
        };
        let credentials = match (url.username(), url.password()) {
            ("", _) => None,
            (user, password) => Some(Credentials::new(decode(user)?, decode(password.unwrap_or_default())?)),
        };
        let asked = url.query_pairs().find_map(|(key, value)| (key == "tls").then(|| value.into_owned()));
        let parameters = || TlsParameters::new(name.clone()).context("the certificates that are to be trusted");
        let (tls, port) = match (url.scheme(), asked.as_deref()) {
            ("smtps", None) => (Tls::Wrapper(parameters()?), 465),
            ("smtp", Some("required")) => (Tls::Required(parameters()?), 587),
            ("smtp", Some("opportunistic")) => (Tls::Opportunistic(parameters()?), 587),
            ("smtp", Some("none")) => (Tls::None, 587),
            ("smtp", None) if is_loopback => (Tls::None, 25),
            ("smtp", None) if credentials.is_some() => (Tls::Required(parameters()?), 587),
            ("smtp", None) => (Tls::Opportunistic(parameters()?), 25),
            _ => anyhow::bail!(
                "write smtp://user:password@host:port or smtps://…, with ?tls=none, opportunistic or required"
            ),
        };
        Ok(Self { host: name, port: url.port().unwrap_or(port), tls, credentials })
    }

    pub(super) fn name(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    pub(super) async fn connect(&self) -> Result<SmtpSession, SendError> {
        let connecting = tokio::time::timeout(CONNECT_TIMEOUT, self.open_session());
        connecting.await.unwrap_or_else(|_| {
            Err(SendError::Server { step: SmtpStep::Connection, said: "it does not answer in time".to_owned() })
        })
    }

    async fn open_session(&self) -> Result<SmtpSession, SendError> {
        let name = ClientId::default();
        let wrapped = if let Tls::Wrapper(parameters) = &self.tls { Some(parameters.clone()) } else { None };
        let server = (self.host.as_str(), self.port);
        let connected = AsyncSmtpConnection::connect_tokio1(server, Some(CONNECT_TIMEOUT), &name, wrapped, None).await;
        let mut connection = connected.map_err(|error| SendError::from_step(SmtpStep::Connection, &error))?;
        let wanted = match &self.tls {
            Tls::Required(parameters) => Some(parameters),
            Tls::Opportunistic(parameters) if connection.can_starttls() => Some(parameters),
            Tls::Opportunistic(_) | Tls::None | Tls::Wrapper(_) => None,
        };
        if let Some(parameters) = wanted {
            let upgraded = connection.starttls(parameters.clone(), &name).await;
            upgraded.map_err(|error| SendError::from_step(SmtpStep::Tls, &error))?;
        }
        if let Some(credentials) = &self.credentials {
            let signed_in = connection.auth(DEFAULT_MECHANISMS, credentials).await;
            signed_in.map_err(|error| SendError::from_step(SmtpStep::Login, &error))?;
        }
        Ok(SmtpSession(connection))
    }
}

impl SmtpSession {
    pub(super) async fn send(&mut self, message: &Message) -> Result<(), SendError> {
        let Self(connection) = self;
        let failed = |step| move |error: Error| SendError::from_step(step, &error);
        let sender = Mail::new(message.envelope().from().cloned(), Vec::new());
        connection.command(sender).await.map_err(failed(SmtpStep::Sender))?;
        for recipient in message.envelope().to() {
            connection.command(Rcpt::new(recipient.clone(), Vec::new())).await.map_err(failed(SmtpStep::Recipient))?;
        }
        connection.command(Data).await.map_err(failed(SmtpStep::Letter))?;
        connection.message(&message.formatted()).await.map_err(failed(SmtpStep::Letter))?;
        Ok(())
    }

    pub(super) async fn quit(mut self) {
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, self.0.quit()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_mail_servers_are_taken() {
        let parse = |url: &str| SmtpServer::parse(&url.parse().unwrap());
        for (good, name) in [
            ("smtp://127.0.0.1:2525", "127.0.0.1:2525"),
            ("smtp://user:p%40ss@[::1]:25", "::1:25"),
            ("smtp://mail.example.com?tls=none", "mail.example.com:587"),
        ] {
            assert_eq!(parse(good).unwrap().name(), name);
        }
        for bad in ["http://127.0.0.1", "smtp://127.0.0.1?tls=maybe", "smtp:127.0.0.1", "smtps://h?tls=none"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
