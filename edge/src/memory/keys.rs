//! Gateway keys: whose an `ai` token is.
//!
//! That a token is nobody's is remembered until any token changes: a new one works immediately even where it was asked for
//! before. A client that shows many tokens which are nobody's has to wait before another one is looked up.

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
use sqlx::PgPool;

use super::{
    Marks, RecallError,
    recall::{Bounds, Read, Recall, Recollection},
    unknown::{self, Unknown},
};
use crate::limits::{self, Shares};

/// A key that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayKey {
    /// The token.
    pub token: TokenId,
    /// The account that pays for what the key is used for.
    pub account: Account,
    /// The account and who stands behind it, as who pays for what the key uses of this edge.
    pub payer: PayingAccount,
    /// The plan that the account is subscribed to, if it is to one.
    pub subscribed: Option<String>,
    /// The plan for which the account's present month was charged, when something was.
    pub charged: Option<String>,
    /// The most that the key may cost in a month.
    pub limit: Option<Microcents>,
    /// The most that all keys of the account may cost in a month.
    pub account_limit: Option<Microcents>,
    /// What the key may ask less of than its plan allows.
    pub asks: KeyLimits,
    /// The names that the account has given to models, if it has.
    pub aliases: Option<Arc<ModelAliases>>,
    /// Whether the operator has suspended the account, or all people who own it.
    pub is_suspended: bool,
}

/// Why it is not known whose a key is.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// The key could not be read.
    #[error(transparent)]
    Recall(#[from] RecallError),
    /// The client has shown too many keys that are nobody's, and is to wait so long.
    #[error("too many keys of this client are nobody's")]
    TooManyUnknown(Duration),
}

/// The gateway's keys, read through from Postgres.
pub struct Keys {
    recall: Recall<TokenHash, Arc<GatewayKey>>,
    unknown: Unknown,
    marks: Arc<Marks>,
    /// Asked first: a replica nearby, if there is one.
    near: PgPool,
    /// Asked when the first answer was too old.
    primary: PgPool,
}

impl Keys {
    /// An empty memory, with room as in `shares`, before the database, emptied by changes that reach `marks`.
    pub fn new(marks: Arc<Marks>, near: PgPool, primary: PgPool, shares: &Shares) -> Self {
        let bounds = Bounds {
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
        let (recall, unknown) = (Recall::new(marks.clone(), bounds), Unknown::new(unknown::KEYS));
        Self { recall, unknown, marks, near, primary }
    }

    /// The key with this secret, which `asker` shows; none when it is nobody's, revoked, or not for the gateway.
    pub async fn find(&self, secret: &TokenSecret, asker: Client) -> Result<Option<Arc<GatewayKey>>, KeyError> {
        let hash = secret.hash();
        match self.recall.remembered(&hash) {
            Recollection::Present(key) => Ok(Some(key)),
            Recollection::Absent => Ok(None),
            Recollection::Unknown => {
                self.unknown.admit(asker).map_err(KeyError::TooManyUnknown)?;
                let found = self.recall.find(&hash, asker, |is_retry| self.read(hash, is_retry)).await?;
                if found.is_none() {
                    self.unknown.count(asker);
                }
                Ok(found)
            }
        }
    }

    async fn read(&self, hash: TokenHash, is_retry: bool) -> Result<Read<TokenHash, Arc<GatewayKey>>, RecallError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        let found = db::gateway::ai_keys::find(pool, &hash).await;
        let AsOf { value, extent } = found.map_err(|error| RecallError::database("keys", &error))?;
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
            _ => [Marks::ANY_TOKEN; 3],
        };
        Ok(Read { key: hash, reading: self.marks.reading(&extent, names), value, bytes })
    }
}
