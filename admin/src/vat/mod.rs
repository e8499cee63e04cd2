//! The EU's VAT registry, VIES: whether somebody has a VAT number.
//!
//! A registry that does not answer says nothing of the number: that is an error here, never "unknown". Start with
//! [`VatRegistry::check`]; the wire format is in `vies.rs`. Not here: what follows from an answer, which is
//! `crate::vat_checks`.

mod vies;

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use config::Config;
use domain::billing::vat::VatNumber;
use reqwest::{Client, redirect};
use tokio::{sync::Semaphore, time::timeout};
use url::Url;

use self::vies::Failure;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest time for one call, its answer included. The registries of some states take a dozen seconds.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest time for a check: the wait for a turn, a call, and a second one.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// Calls at a time. The registry refuses callers who ask much concurrently.
const CALLS: usize = 8;
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
    turns: Arc<Semaphore>,
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
        Ok(Self { client, url, requester, turns: Arc::new(Semaphore::new(CALLS)) })
    }

    /// Asks whether somebody has the number.
    pub async fn check(&self, number: &VatNumber) -> Result<VatAnswer, VatError> {
        let late = || Unavailable::Registry(format!("no answer within {} s", CHECK_TIMEOUT.as_secs()));
        timeout(CHECK_TIMEOUT, self.check_in_turn(number))
            .await
            .unwrap_or_else(|_| Err(late()))
            .map_err(VatError::Unavailable)
    }

    async fn check_in_turn(&self, number: &VatNumber) -> Result<VatAnswer, Unavailable> {
        let _turn = self.turns.acquire().await.map_err(|closed| Unavailable::Registry(closed.to_string()))?;
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
