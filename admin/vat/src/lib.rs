//! The EU's VAT registry, VIES, which says whether a VAT number is valid.
//!
//! A registry that does not respond says nothing about the number: that is an error here, never "unknown". Start with
//! [`VatRegistry::check`]; the wire format is in `vies.rs`. Not here: the consequences of a response
//! (`billing::vat_checks`).

mod vies;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use config::Config;
use domain::{PayingAccount, UserId, billing::vat::VatNumber};
use fairness::{ShareError, TurnBounds, TurnQueue};
use reqwest::{Client, redirect};
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};
use url::Url;

use self::vies::CallError;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of one call, including the response body. The registries of some states take a dozen seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// The timeout of a check: the wait in the queue, a call, and a retry.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
const TURN_WAIT: Duration = Duration::from_secs(10);
/// The concurrent calls for people who wait. The registry rejects callers with many concurrent requests.
const CALLS: usize = 6;
const PERSON_CALLS: usize = 2;
/// The queued calls of one person. More could not be answered within [`CHECK_TIMEOUT`].
const PERSON_WAITING: usize = 4;
const WAITING: usize = 256;
/// The concurrent calls for rechecked numbers.
pub const RECHECK_CALLS: usize = 2;
/// The pause before the retry of a call that the registry rejected as one too many.
const BUSY_PAUSE: Duration = Duration::from_millis(500);
const USER_AGENT: &str = concat!("svc/", env!("CARGO_PKG_VERSION"));

/// A client of the EU's VAT registry. Cheap to clone.
#[derive(Clone)]
pub struct VatRegistry {
    client: Client,
    url: Url,
    /// The seller's number, in whose name the registry is consulted, so that it issues a consultation number.
    requester: Option<VatNumber>,
    turns: TurnQueue<PayingAccount>,
    /// The permits of the job that rechecks numbers, apart from people's.
    renewals: Arc<Semaphore>,
}

/// The queue that a check waits in.
#[derive(Debug, Clone, Copy)]
pub enum CheckQueue<'a> {
    /// A person who waits for the result, even on behalf of an organization.
    Person(&'a UserId),
    /// The platform, rechecking a number that it has stored.
    Platform,
}

/// The registry's answer about a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VatAnswer {
    /// The number is valid.
    Valid {
        /// The registered name, if the state discloses it.
        name: Option<String>,
        /// The registered address, if the state discloses it.
        address: Option<String>,
        /// The registry's consultation number: the proof of the check.
        consultation: Option<String>,
    },
    /// The number is not registered.
    Unknown,
}

/// An error of a check.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VatError {
    /// The registry did not respond: the number may be valid.
    #[error(transparent)]
    Unavailable(RegistryUnavailable),
    /// The registry was not contacted, because too many checks are pending.
    #[error("too many VAT numbers are being checked")]
    Busy(#[from] ShareError),
}

/// The part of the registry that does not respond, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RegistryUnavailable {
    /// The registry itself.
    #[error("the VAT registry does not answer: {0}")]
    Registry(String),
    /// The system of the state that issued the number. The registry responds, but cannot reach that state.
    #[error("the VAT registry's part of the state does not answer: {0}")]
    State(String),
}

impl VatRegistry {
    /// Creates a client of the configured registry. It connects at the first check.
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
        let turns = TurnQueue::new(TurnBounds {
            total: CALLS,
            share: PERSON_CALLS,
            waiting: WAITING,
            waiting_share: PERSON_WAITING,
        });
        Ok(Self { client, url, requester, turns, renewals: Arc::new(Semaphore::new(RECHECK_CALLS)) })
    }

    /// Checks whether a number is registered.
    pub async fn check(&self, number: &VatNumber, asker: CheckQueue<'_>) -> Result<VatAnswer, VatError> {
        let begun = Instant::now();
        let (_turn, _renewal) = match asker {
            CheckQueue::Person(person) => (Some(self.turns.take(&person.clone().into(), TURN_WAIT).await?), None),
            CheckQueue::Platform => (None, self.renewals.acquire().await.ok()),
        };
        let late = || RegistryUnavailable::Registry(format!("no answer within {} s", CHECK_TIMEOUT.as_secs()));
        timeout_at(begun + CHECK_TIMEOUT, self.check_in_turn(number))
            .await
            .unwrap_or_else(|_| Err(late()))
            .map_err(VatError::Unavailable)
    }

    async fn check_in_turn(&self, number: &VatNumber) -> Result<VatAnswer, RegistryUnavailable> {
        let failure = match self.call_once(number, self.requester.as_ref()).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        // One retry where it is likely to succeed, and no second.
        let requester = match &failure {
            CallError::Requester(code) => {
                tracing::warn!(code, "the VAT registry does not accept billing.seller.vat_number; asked without it");
                None
            }
            CallError::Busy(_) => {
                tokio::time::sleep(BUSY_PAUSE).await;
                self.requester.as_ref()
            }
            CallError::Unavailable(_) => return Err(failure.into()),
        };
        self.call_once(number, requester).await.map_err(RegistryUnavailable::from)
    }
}
