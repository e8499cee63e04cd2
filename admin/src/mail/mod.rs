//! Mail to people, over SMTP. Without `mail.url` no mail is sent.
//!
//! A letter is sent once, while its request waits: the link in it is stored hashed only, so the letter cannot be written
//! again later. The request's answer says whether a mail server took the letter, so that the sender can hand the link on
//! themselves. Not here: the letters' words, which are in `admin/templates/mail`.

pub mod domain_moved;
pub mod invite;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use domain::BRAND;
use lettre::{
    Address, AsyncSmtpTransport, AsyncTransport as _, Message, Tokio1Executor,
    message::{
        Mailbox, MultiPart,
        header::{HeaderName, HeaderValue},
    },
    transport::smtp::{
        authentication::Credentials,
        client::{Tls, TlsParameters},
    },
};
use tokio::sync::Semaphore;
use url::{Host, Url};

/// Longest wait of a request for the mail server, including the wait for a free connection.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of text in one encoded word: as base64, with its frame and `Subject: ` before it, the line stays below 76
/// characters.
const ENCODED_WORD_BYTES: usize = 39;
/// Letters that are sent concurrently.
const CONCURRENT_SENDS: usize = 16;

/// Sends letters. Cheap to clone.
#[derive(Clone)]
pub struct Mailer(Option<Arc<Smtp>>);

struct Smtp {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
    /// One permit for each letter that may be on its way to the server.
    sends: Semaphore,
}

/// A letter to one person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    /// The `Subject` header, unencoded.
    pub subject: String,
    /// The body as plain text.
    pub text: String,
    /// The body as HTML.
    pub html: String,
}

/// Something that can be written as a letter.
pub trait Compose {
    /// Writes the letter.
    fn compose(&self) -> askama::Result<Letter>;
}

/// Why a letter was not sent.
#[derive(Debug, thiserror::Error)]
enum SendError {
    #[error("the mail server took too long")]
    Timeout,
    #[error("the address cannot be written in an envelope: {0}")]
    Address(#[from] lettre::address::AddressError),
    #[error("the letter cannot be rendered: {0}")]
    Render(#[from] askama::Error),
    #[error("the letter cannot be written: {0}")]
    Message(#[from] lettre::error::Error),
    #[error("the mail server did not take it: {0}")]
    Smtp(#[from] lettre::transport::smtp::Error),
}

impl Mailer {
    /// Reads the `[mail]` section. The first letter opens the first connection.
    pub fn new(mail: &config::Mail, site_domain: &str) -> anyhow::Result<Self> {
        let Some(url) = &mail.url else { return Ok(Self(None)) };
        let from = mail.from.clone().unwrap_or_else(|| format!("{BRAND} <no-reply@{site_domain}>"));
        let from = from.parse().with_context(|| format!("mail.from: `{from}` is not an address"))?;
        let transport = transport(url).context("mail.url")?;
        Ok(Self(Some(Arc::new(Smtp { transport, from, sends: Semaphore::new(CONCURRENT_SENDS) }))))
    }

    /// Sends a letter, and returns whether a mail server took it. Failures are logged here.
    pub async fn send(&self, to: &domain::EmailAddress, letter: &(impl Compose + Sync)) -> bool {
        let Some(smtp) = &self.0 else { return false };
        let sent = async { smtp.send(to.as_str(), letter.compose()?).await };
        match tokio::time::timeout(SEND_TIMEOUT, sent).await.unwrap_or(Err(SendError::Timeout)) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!("a letter was not sent: {error}");
                false
            }
        }
    }
}

impl Smtp {
    async fn send(&self, to: &str, letter: Letter) -> Result<(), SendError> {
        let Ok(_permit) = self.sends.acquire().await else { return Err(SendError::Timeout) };
        // The address alone: a display name beside it could be chosen by anybody.
        let to = Mailbox::new(None, to.parse::<Address>()?);
        // RFC 3834: automatic replies do not answer this.
        let automatic = HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".to_owned());
        let message = Message::builder()
            .from(self.from.clone())
            .to(to)
            .message_id(None)
            .raw_header(automatic)
            .raw_header(subject(letter.subject))
            .multipart(MultiPart::alternative_plain_html(letter.text, letter.html))?;
        self.transport.send(message).await?;
        Ok(())
    }
}

/// The `Subject` header. Mail programs decode what looks like an encoded word (RFC 2047) into anything, line breaks
/// included, so text that contains one is encoded as a whole.
fn subject(text: String) -> HeaderValue {
    let name = || HeaderName::new_from_ascii_str("Subject");
    if !text.contains("=?") {
        return HeaderValue::new(name(), text);
    }
    let mut words: Vec<String> = Vec::new();
    for c in text.chars() {
        match words.last_mut() {
            Some(word) if word.len() + c.len_utf8() <= ENCODED_WORD_BYTES => word.push(c),
            _ => words.push(c.to_string()),
        }
    }
    let encoded: Vec<String> = words.iter().map(|word| format!("=?utf-8?b?{}?=", STANDARD.encode(word))).collect();
    HeaderValue::dangerous_new_pre_encoded(name(), text, encoded.join("\r\n "))
}

/// Reads `smtp://user:password@host:port` or `smtps://…`. A password is sent over TLS only, except to this machine;
/// `?tls=none`, `opportunistic` or `required` overrides that.
fn transport(url: &Url) -> anyhow::Result<AsyncSmtpTransport<Tokio1Executor>> {
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
    let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(name)
        .port(url.port().unwrap_or(port))
        .tls(tls)
        .timeout(Some(SEND_TIMEOUT));
    if let Some(credentials) = credentials {
        builder = builder.credentials(credentials);
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailer(url: &str, from: Option<&str>) -> anyhow::Result<Mailer> {
        let mail = config::Mail { url: Some(url.parse()?), from: from.map(ToOwned::to_owned) };
        Mailer::new(&mail, "svc.localhost")
    }

    #[test]
    fn only_addresses_of_mail_servers_are_taken() {
        for good in ["smtp://127.0.0.1:2525", "smtp://user:p%40ss@[::1]:25", "smtp://mail.example.com?tls=none"] {
            assert!(mailer(good, None).is_ok(), "{good}");
        }
        for bad in ["http://127.0.0.1", "smtp://127.0.0.1?tls=maybe", "smtp:127.0.0.1", "smtps://h?tls=none"] {
            assert!(mailer(bad, None).is_err(), "{bad}");
        }
        assert!(mailer("smtp://127.0.0.1", Some("Acme <mail@acme.example>")).is_ok());
        assert!(mailer("smtp://127.0.0.1", Some("Acme")).is_err());
    }
}
