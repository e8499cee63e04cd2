//! The EU's VAT registry, VIES: whether somebody has a VAT number.
//!
//! A registry that does not answer says nothing of the number: that is an error here, never "unknown". Start with
//! [`VatRegistry::check`]; the wire format is in `vies.rs`. Not here: what follows from an answer, which is
//! `crate::vat_checks`.

mod vies;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use config::Config;
use domain::{PayingAccount, UserId, billing::vat::VatNumber};
use fairness::{Bounds, Refused, Turns};
use reqwest::{Client, redirect};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use url::Url;

use self::vies::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for one call, its answer included. The registries of some states take a dozen seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time for a check: the wait for a turn, a call, and a second one.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest wait for a turn.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// Calls at a time for people who wait. The registry refuses callers who ask much concurrently.
const CALLS: usize = 6;
/// Calls at a time for one person.
const PERSON_CALLS: usize = 2;
/// Calls of one person that wait. More could not be answered within [`CHECK_TIMEOUT`].
const PERSON_WAITING: usize = 4;
/// Calls of all people that wait.
const WAITING: usize = 256;
/// Calls at a time for numbers that are checked again.
pub const RENEWALS: usize = 2;
/// Pause before a question that met too many others is asked once more.
const BUSY_PAUSE: Duration = Duration::from_millis(500);
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// The EU's VAT registry. Cheap to clone.
#[derive(Clone)]
pub struct VatRegistry {
    client: Client,
    url: Url,
    /// The seller's number, in whose name the registry is asked, so that it answers with a consultation number.
    requester: Option<VatNumber>,
    turns: Turns<PayingAccount>,
    /// Those of the job that checks numbers again, which people do not wait for.
    renewals: Arc<Semaphore>,
}

/// Whose turn a question takes.
#[derive(Debug, Clone, Copy)]
pub enum Asker<'a> {
    /// Somebody who waits for the answer: the person, whichever organization it is for.
    Person(&'a UserId),
    /// The platform, about a number that it has.
    Platform,
}

/// The registry's answer about a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VatAnswer {
    /// Somebody has the number.
    Valid {
        /// The name that the registry has with it, where the state tells it.
        name: Option<String>,
        /// The address that the registry has with it, where the state tells it.
        address: Option<String>,
        /// The registry's name for this answer: the proof that it was asked.
        consultation: Option<String>,
    },
    /// Nobody has the number.
    Unknown,
}

/// Why there is no answer about a number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VatError {
    /// Nothing is known of the number: it may be valid.
    #[error(transparent)]
    Unavailable(Unavailable),
    /// The registry was not asked, because too much is asked of it already.
    #[error("too many VAT numbers are being checked")]
    Busy(#[from] Refused),
}

/// The part of the registry that does not answer, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The registry itself.
    #[error("the VAT registry does not answer: {0}")]
    Registry(String),
    /// The part of the state that gave the number. The registry has been reached, and asks the state in vain.
    #[error("the VAT registry's part of the state does not answer: {0}")]
    State(String),
}

impl VatRegistry {
    /// Prepares calls of the configured registry. No connection is made before the first check.
    pub fn new(config: &Config) -> anyhow::Result<Self> {
        let client = Client::builder()
            .user_agent(USER_AGENT)
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(CALL_TIMEOUT)
            .redirect(redirect::Policy::none())
            .build()
            .context("the HTTP client for the VAT registry")?;
        let url = config.billing.vies_url.clone();
        anyhow::ensure!(!url.cannot_be_a_base(), "billing.vies_url cannot carry a path");
        let requester = config.billing.seller.as_ref().and_then(|seller| seller.vat_number.clone());
        let turns =
            Turns::new(Bounds { total: CALLS, share: PERSON_CALLS, waiting: WAITING, waiting_share: PERSON_WAITING });
        Ok(Self { client, url, requester, turns, renewals: Arc::new(Semaphore::new(RENEWALS)) })
    }

    /// Asks whether somebody has the number.
    pub async fn check(&self, number: &VatNumber, asker: Asker<'_>) -> Result<VatAnswer, VatError> {
        let begun = Instant::now();
        let (_turn, _renewal) = match asker {
            Asker::Person(person) => (Some(self.turns.take(&person.clone().into(), TURN_WAIT).await?), None),
            Asker::Platform => (None, self.renewals.acquire().await.ok()),
        };
        let late = || Unavailable::Registry(format!("no answer within {} s", CHECK_TIMEOUT.as_secs()));
        timeout_at(begun + CHECK_TIMEOUT, self.check_in_turn(number))
            .await
            .unwrap_or_else(|_| Err(late()))
            .map_err(VatError::Unavailable)
    }

    async fn check_in_turn(&self, number: &VatNumber) -> Result<VatAnswer, Unavailable> {
        let failure = match self.ask(number, self.requester.as_ref()).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        // A second question, where it may well be answered: no third.
        let requester = match &failure {
            Failure::Requester(code) => {
                tracing::warn!(code, "the VAT registry does not accept billing.seller.vat_number; asked without it");
                None
            }
            Failure::Busy(_) => {
                tokio::time::sleep(BUSY_PAUSE).await;
                self.requester.as_ref()
            }
            Failure::Unavailable(_) => return Err(failure.into()),
        };
        self.ask(number, requester).await.map_err(Unavailable::from)
    }
}
