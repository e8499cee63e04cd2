//! Gateway keys: the account of an `ai` token.
//!
//! An unknown token is remembered until any token changes, so a new one works immediately even if it was presented
//! before. A client that presents many unknown tokens has to wait.

use std::{sync::Arc, time::Duration};

use db::{edges::routes::AsOf, gateway::ai_keys::AiKey};
use domain::{
    Account, PayingAccount, TokenId,
    changes::AccountPlan,
    gateway::{KeyLimits, ModelAliases},
    token::{TokenHash, TokenSecret},
    usage::Microcents,
};
use fairness::Client;
use limits::MemoryShares;
use sqlx::PgPool;

use super::{
    CacheReadError, ChangeMarks,
    recall::{Cached, ReadThroughCache, ReadThroughLimits, SourceRead},
    unknown::{self, UnknownCounter},
};

/// A valid key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayKey {
    /// The token.
    pub token: TokenId,
    /// The account that pays for the use of the key.
    pub account: Account,
    /// The account and the person behind it, as the payer of what the key uses of this edge.
    pub payer: PayingAccount,
    /// The plan that the account is subscribed to, if any.
    pub subscribed: Option<String>,
    /// The plan for which the account's current month was charged, if any.
    pub charged: Option<String>,
    /// The maximum cost of the key per month.
    pub limit: Option<Microcents>,
    /// The maximum cost of all keys of the account per month.
    pub account_limit: Option<Microcents>,
    /// Limits of the key that are below those of its plan.
    pub asks: KeyLimits,
    /// The account's own names for models, if any.
    pub aliases: Option<Arc<ModelAliases>>,
    /// Whether the operator has suspended the account, or all people who own it.
    pub is_suspended: bool,
}

/// Why the account of a key is not known.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// The key could not be read.
    #[error(transparent)]
    Recall(#[from] CacheReadError),
    /// The client has presented too many unknown keys, and has to wait for this long.
    #[error("too many keys of this client are nobody's")]
    TooManyUnknown(Duration),
}

/// A read-through cache of the gateway's keys over Postgres.
pub struct GatewayKeyCache {
    recall: ReadThroughCache<TokenHash, Arc<GatewayKey>>,
    unknown: UnknownCounter,
    marks: Arc<ChangeMarks>,
    /// Queried first: a nearby replica, if there is one.
    near: PgPool,
    /// Queried if the first result was too old.
    primary: PgPool,
}

impl GatewayKeyCache {
    /// Creates an empty cache over the database within `shares`. Changes that reach `marks` invalidate it.
    pub fn new(marks: Arc<ChangeMarks>, near: PgPool, primary: PgPool, shares: &MemoryShares) -> Self {
        let bounds = ReadThroughLimits {
            present: shares.keys,
            usual: limits::KEY_BYTES,
            absent: shares.absences(),
            present_life: None,
            absent_life: None,
            can_lapse: true,
            flights: limits::FLIGHTS,
            askers_per_client: limits::ASKERS_PER_CLIENT,
            reads: limits::KEY_READS,
            reads_per_client: limits::KEY_READS_PER_CLIENT,
            wait: limits::KEY_WAIT,
            tries: limits::READ_TRIES,
            back_off: limits::READ_BACK_OFF,
            failures: limits::FAILURES,
        };
        let (recall, unknown) = (ReadThroughCache::new(marks.clone(), bounds), UnknownCounter::new(unknown::KEYS));
        Self { recall, unknown, marks, near, primary }
    }

    /// Returns the key with the secret that `asker` presents; `None` if it is unknown, revoked, or not for the gateway.
    pub async fn find(&self, secret: &TokenSecret, asker: Client) -> Result<Option<Arc<GatewayKey>>, KeyError> {
        let hash = secret.hash();
        match self.recall.cached(&hash) {
            Cached::Present(key) => Ok(Some(key)),
            Cached::Absent => Ok(None),
            Cached::Unknown => {
                self.unknown.admit(asker).map_err(KeyError::TooManyUnknown)?;
                let found = self.recall.find(&hash, asker, |is_retry| self.read(hash, is_retry)).await?;
                if found.is_none() {
                    self.unknown.count(asker);
                }
                Ok(found)
            }
        }
    }

    async fn read(
        &self,
        hash: TokenHash,
        is_retry: bool,
    ) -> Result<SourceRead<TokenHash, Arc<GatewayKey>>, CacheReadError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        let found = db::gateway::ai_keys::find(pool, &hash).await;
        let AsOf { value, extent } = found.map_err(|error| CacheReadError::from_database("keys", &error))?;
        let bytes = limits::KEY_BYTES + value.as_ref().map_or(0, |key| key.aliases.bytes());
        let value =
            value.map(|key| {
                let AiKey {
                    token,
                    account,
                    payer,
                    subscribed,
                    charged,
                    limit,
                    account_limit,
                    asks,
                    aliases,
                    is_suspended,
                } = key;
                let aliases = (!aliases.is_empty()).then(|| Arc::new(aliases));
                Arc::new(GatewayKey {
                    token,
                    account,
                    payer,
                    subscribed,
                    charged,
                    limit,
                    account_limit,
                    asks,
                    aliases,
                    is_suspended,
                })
            });
        let plan = value.as_ref().map(|key| AccountPlan::from(key.account.clone()));
        let names = match (&value, &plan) {
            (Some(key), Some(plan)) => [key.token.as_str(), key.account.as_str(), plan.as_str()],
            _ => [ChangeMarks::ANY_TOKEN; 3],
        };
        Ok(SourceRead { key: hash, reading: self.marks.reading(&extent, names), value, bytes })
    }
}
