//! Mail to people, over SMTP. Without `mail.url` no mail is sent.
//!
//! There are two paths. An invitation ([`invite`]) is sent once, while its request waits: its link is stored only as a
//! hash, so the letter cannot be composed again later, and the response reports whether a mail server accepted it.
//! Every other letter ([`notices`]) is a row of `letters`, queued in the transaction of its event and sent by a job
//! until a server has accepted it. The texts of all letters are here and in [`words`], their common layout is in
//! `templates/mail`.

pub mod invite;
pub mod kinds;
pub mod letter;
pub mod links;
pub mod message;
pub mod notices;
pub mod outbox;
mod smtp;
pub mod words;

use std::{sync::Arc, time::Duration};

use admin_http::addresses::ConsoleAddresses;
use anyhow::Context as _;
use domain::{BRAND, EmailAddress, PayingAccount};
use fairness::{TurnBounds, TurnQueue};
use lettre::message::Mailbox;
use secrets::MasterKey;

use self::{
    kinds::LetterKind,
    letter::{ComposeLetter, Letter, LetterFooter},
    links::LetterSubscription,
    message::OutgoingLetter,
    smtp::SmtpServer,
};
pub use self::{
    letter::RenderedLetter,
    smtp::{SendError, SmtpSession, SmtpStep},
};

/// The longest wait of a request for the mail server, including the wait for a permit.
const SEND_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for the server to accept a queued letter, which may have attachments.
const QUEUED_TIMEOUT: Duration = Duration::from_mins(1);
/// The letters sent concurrently while their requests wait.
const CONCURRENT_SENDS: usize = 16;
const ACCOUNT_SENDS: usize = 2;
/// The letters of all accounts that wait for a permit, at most as long as a request waits for the server.
const WAITING_SENDS: usize = 256;
const ACCOUNT_WAITING_SENDS: usize = 16;

/// Sends letters. Cheap to clone.
#[derive(Clone)]
pub struct Mailer {
    smtp: Option<Arc<SmtpSender>>,
    console: ConsoleAddresses,
}

struct SmtpSender {
    server: SmtpServer,
    from: Mailbox,
    /// Permits for letters that are sent while their request waits.
    sends: TurnQueue<PayingAccount>,
}

impl Mailer {
    /// Creates a mailer from the `[mail]` section. It connects when the first letter is sent.
    pub fn new(mail: &config::Mail, site: &config::Site) -> anyhow::Result<Self> {
        let console = ConsoleAddresses::new(site);
        let Some(url) = &mail.url else { return Ok(Self { smtp: None, console }) };
        let from = mail.from.clone().unwrap_or_else(|| format!("{BRAND} <no-reply@{}>", site.site_domain));
        let from = from.parse().with_context(|| format!("mail.from: `{from}` is not an address"))?;
        let server = SmtpServer::parse(url).context("mail.url")?;
        let sends = TurnQueue::new(TurnBounds {
            total: CONCURRENT_SENDS,
            share: ACCOUNT_SENDS,
            waiting: WAITING_SENDS,
            waiting_share: ACCOUNT_WAITING_SENDS,
        });
        let smtp = SmtpSender { server, from, sends };
        Ok(Self { smtp: Some(Arc::new(smtp)), console })
    }

    /// Returns whether a mail server is configured.
    pub fn is_configured(&self) -> bool {
        self.smtp.is_some()
    }

    /// Sends a letter for `payer`, of a kind that can be unsubscribed from, and returns whether a mail server accepted
    /// it. Logs failures.
    pub async fn send(
        &self,
        master_key: &MasterKey,
        payer: &PayingAccount,
        to: &EmailAddress,
        kind: LetterKind,
        letter: &(impl ComposeLetter + Sync),
    ) -> bool {
        let Some(smtp) = &self.smtp else { return false };
        let unsubscribe =
            LetterSubscription::for_recipient(to, kind).map(|it| self.console_url(&it.unsubscribe(master_key)));
        let sent = async {
            let sender = self.sender_line();
            let footer = LetterFooter::new(&sender);
            let footer = unsubscribe.as_deref().map_or(footer, |url| footer.with_unsubscribe(url, kind.topic()));
            let letter = letter.compose().render(footer).map_err(|error| SendError::Letter(error.to_string()))?;
            let to = to.clone();
            let outgoing =
                OutgoingLetter { to, id: None, letter, unsubscribe: unsubscribe.clone(), attachments: Vec::new() };
            let Ok(_turn) = smtp.sends.take(payer, SEND_TIMEOUT).await else { return Err(SendError::timeout()) };
            smtp.send(outgoing).await
        };
        match tokio::time::timeout(SEND_TIMEOUT, sent).await.unwrap_or_else(|_| Err(SendError::timeout())) {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!("a letter was not sent: {error}");
                false
            }
        }
    }

    /// Sends a test letter, and returns the server's address. Fails with the server's message.
    pub async fn send_test_letter(&self, to: &EmailAddress) -> anyhow::Result<String> {
        let smtp = self.smtp.as_ref().context(
            "no mail server is configured, so no mail is sent: set mail.url, such as smtp://user:password@mail.example.com:587",
        )?;
        let server = smtp.server.name();
        let outgoing = self.outgoing(to, words::test_letter())?;
        let sent = tokio::time::timeout(QUEUED_TIMEOUT, smtp.send(outgoing)).await;
        match sent.unwrap_or_else(|_| Err(SendError::timeout())) {
            Ok(()) => Ok(server),
            Err(error) => Err(anyhow::Error::from(error).context(format!("{server} did not take the letter to {to}"))),
        }
    }

    /// Connects to the mail server and signs in, without sending a letter. Returns the server's address; `None` if no
    /// mail server is configured.
    pub async fn sign_in(&self) -> Option<Result<String, SendError>> {
        let server = &self.smtp.as_ref()?.server;
        let signed_in = async {
            server.connect().await?.quit().await;
            Ok(server.name())
        };
        Some(signed_in.await)
    }

    /// Opens a session for queued letters; `None` if no mail server is configured.
    pub async fn open_session(&self) -> Option<Result<SmtpSession, SendError>> {
        Some(self.smtp.as_ref()?.server.connect().await)
    }

    /// Sends a queued letter. After a failure the session is unusable.
    pub async fn send_queued(&self, session: &mut SmtpSession, outgoing: OutgoingLetter) -> Result<(), SendError> {
        let Some(smtp) = &self.smtp else { return Err(SendError::Letter("there is no mail server".to_owned())) };
        let message = outgoing.message(&smtp.from)?;
        let sent = tokio::time::timeout(QUEUED_TIMEOUT, session.send(&message)).await;
        sent.unwrap_or_else(|_| Err(SendError::timeout()))
    }

    /// Ends a session.
    pub async fn close_session(&self, session: SmtpSession) {
        session.quit().await;
    }

    pub(crate) fn sender_line(&self) -> String {
        format!("Sent by {BRAND}, {}", self.console.origin())
    }

    pub(crate) fn console_url(&self, path: &str) -> String {
        format!("{}{path}", self.console.origin())
    }

    fn outgoing(&self, to: &EmailAddress, letter: Letter) -> Result<OutgoingLetter, SendError> {
        let rendered = letter
            .render(LetterFooter::new(&self.sender_line()))
            .map_err(|error| SendError::Letter(error.to_string()))?;
        Ok(OutgoingLetter { to: to.clone(), id: None, letter: rendered, unsubscribe: None, attachments: Vec::new() })
    }
}

impl SmtpSender {
    async fn send(&self, outgoing: OutgoingLetter) -> Result<(), SendError> {
        let message = outgoing.message(&self.from)?;
        let mut session = self.server.connect().await?;
        session.send(&message).await?;
        session.quit().await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailer(from: &str) -> anyhow::Result<Mailer> {
        let mail = config::Mail { url: Some("smtp://127.0.0.1".parse()?), from: Some(from.to_owned()), operator: None };
        Mailer::new(&mail, &config::Site::default())
    }

    struct Plain;

    impl ComposeLetter for Plain {
        fn compose(&self) -> Letter {
            words::test_letter()
        }
    }

    #[tokio::test]
    async fn the_letters_of_one_account_hold_up_no_others() {
        // A server that accepts the connection, but sends no greeting.
        let server = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("smtp://{}", server.local_addr().unwrap()).parse().unwrap();
        let mail = config::Mail { url: Some(url), from: None, operator: None };
        let mailer = Mailer::new(&mail, &config::Site::default()).unwrap();
        let now = domain::Clock::system().now();
        let key = MasterKey::generate();
        let accounts = [domain::UserId::new(now), domain::UserId::new(now)].map(PayingAccount::from);
        let send = |account: &PayingAccount| {
            let (mailer, account) = (mailer.clone(), account.clone());
            let key = key.clone();
            tokio::spawn(async move {
                mailer.send(&key, &account, &"a@b.example".parse().unwrap(), LetterKind::Invoice, &Plain).await
            })
        };
        let mut sending: Vec<_> = (0..2 * CONCURRENT_SENDS).map(|_| send(&accounts[0])).collect();
        let mut open = Vec::new();
        for _ in 0..ACCOUNT_SENDS {
            open.push(server.accept().await.unwrap());
        }
        sending.push(send(&accounts[1]));
        open.push(server.accept().await.unwrap());
        let Mailer { smtp: Some(smtp), .. } = &mailer else { panic!("there is a mail server") };
        assert_eq!(smtp.sends.in_use(), ACCOUNT_SENDS + 1);
        for task in sending {
            task.abort();
        }
    }

    #[test]
    fn the_sender_is_an_address() {
        assert!(mailer("Acme <mail@acme.example>").is_ok());
        assert!(mailer("Acme").is_err());
        assert!(!Mailer::new(&config::Mail::default(), &config::Site::default()).unwrap().is_configured());
    }
}
