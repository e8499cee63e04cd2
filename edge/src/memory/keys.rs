//! Gateway keys: whose an `ai` token is.
//!
//! That a token is nobody's is remembered until any token changes: a new one works immediately even where it was asked for
//! before.

use std::sync::Arc;

use db::edges::routes::AsOf;
use domain::{
    Account, TokenId,
    plans::Plans,
    token::{TokenHash, TokenSecret},
    usage::Microcents,
};
use fairness::Client;
use sqlx::PgPool;

use super::{
    Marks, RecallError,
    recall::{Bounds, Read, Recall},
};
use crate::limits::{self, Shares};

/// A key that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayKey {
    /// The token.
    pub token: TokenId,
    /// The account that pays for what the key is used for.
    pub account: Account,
    /// The account's credit for a month.
    pub credit: Microcents,
}

/// The gateway's keys, read through from Postgres.
pub struct Keys {
    recall: Recall<TokenHash, Arc<GatewayKey>>,
    marks: Arc<Marks>,
    /// Asked first: a replica nearby, if there is one.
    near: PgPool,
    /// Asked when the first answer was too old.
    primary: PgPool,
    plans: Plans,
}

impl Keys {
    /// An empty memory, with room as in `shares`, before the database, emptied by changes that reach `marks`.
    pub fn new(marks: Arc<Marks>, near: PgPool, primary: PgPool, plans: Plans, shares: &Shares) -> Self {
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
        Self { recall: Recall::new(marks.clone(), bounds), marks, near, primary, plans }
    }

    /// The key with this secret, which `asker` shows; none when it is nobody's, revoked, or not for the gateway.
    pub async fn find(&self, secret: &TokenSecret, asker: Client) -> Result<Option<Arc<GatewayKey>>, RecallError> {
        let hash = secret.hash();
        self.recall.find(&hash, asker, |is_retry| self.read(hash, is_retry)).await
    }

    async fn read(&self, hash: TokenHash, is_retry: bool) -> Result<Read<TokenHash, Arc<GatewayKey>>, RecallError> {
        let pool = if is_retry { &self.primary } else { &self.near };
        let found = db::gateway::ai_keys::find(pool, &hash).await;
        let AsOf { value, seq } = found.map_err(|error| RecallError::database("keys", &error))?;
        let value = value.map(|(token, account)| {
            let plan = self.plans.plan_of(&account);
            let credit = plan.map_or_else(Microcents::default, |plan| plan.limits.ai_credit());
            Arc::new(GatewayKey { token, account, credit })
        });
        let names = match &value {
            Some(key) => [key.token.as_str(), key.account.as_str()],
            None => [Marks::ANY_TOKEN; 2],
        };
        Ok(Read { key: hash, reading: self.marks.reading(seq, names), value, bytes: limits::KEY_BYTES })
    }
}
