//! Keys: whose an `ai` token is. Read through from Postgres, remembered until a change says otherwise.
//!
//! A token that is nobody's is remembered too, apart from those that are somebody's, so that a flood of made-up ones
//! evicts none of them. Such an answer lasts until any token changes: a new one works at once even where it was asked
//! for before.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Instant,
};

use db::routes::AsOf;
use domain::{
    Account, TokenId,
    plans::Plans,
    token::{TokenHash, TokenSecret},
    usage::Microcents,
};
use moka::sync::Cache;
use sqlx::PgPool;
use tokio::{sync::Mutex, time::timeout};

use crate::{
    limits,
    route::{Marks, Reading},
};

/// A key that works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayKey {
    /// The token.
    pub token: TokenId,
    /// Who pays for what it is used for.
    pub account: Account,
    /// What that may cost in a month.
    pub credit: Microcents,
}

/// Why it is not known whether a key works. The client may come again soon.
#[derive(Debug, Clone, thiserror::Error)]
pub enum KeyError {
    /// The database does not answer.
    #[error("keys cannot be read: {0}")]
    Unreadable(Arc<str>),
    /// Tokens change faster than this one can be read.
    #[error("tokens kept changing while the key was read")]
    Unsettled,
}

/// Knows every key. Answers out of memory, or after one read a key, however many ask.
pub struct Keys {
    known: Cache<TokenHash, Remembered<Arc<GatewayKey>>>,
    nobodys: Cache<TokenHash, Remembered<()>>,
    marks: Arc<Marks>,
    /// Asked first: a replica nearby, if there is one.
    near: PgPool,
    /// Asked when the first answer was too old.
    primary: PgPool,
    /// Every account's, until accounts have plans.
    credit: Microcents,
    /// Readers of keys that share a slot take turns, and the second finds what the first has read. The time is that of
    /// the last failure.
    turns: Box<[Mutex<Option<Instant>>]>,
    hasher: RandomState,
}

#[derive(Clone)]
struct Remembered<T> {
    value: T,
    reading: Reading,
}

impl Keys {
    /// An empty memory before the database, emptied by changes that reach `marks`.
    pub fn new(marks: Arc<Marks>, near: PgPool, primary: PgPool, plans: &Plans) -> Self {
        Self {
            known: Cache::new(limits::REMEMBERED_KEYS),
            nobodys: Cache::new(limits::REMEMBERED_NO_KEYS),
            marks,
            near,
            primary,
            credit: plans.default_plan().map_or_else(Microcents::default, |(_, plan)| plan.limits.ai_credit()),
            turns: (0..limits::KEY_READS).map(|_| Mutex::new(None)).collect(),
            hasher: RandomState::new(),
        }
    }

    /// The key with this secret; none when it is nobody's, revoked, or not for the gateway.
    pub async fn find(&self, secret: &TokenSecret) -> Result<Option<Arc<GatewayKey>>, KeyError> {
        let hash = secret.hash();
        if let Some(known) = self.remembered(&hash) {
            return Ok(known);
        }
        timeout(limits::KEY_WAIT, self.read_in_turn(&hash))
            .await
            .unwrap_or_else(|_| Err(KeyError::Unreadable("timed out".into())))
    }

    #[expect(clippy::option_option, reason = "not remembered, remembered to be nobody's, or a key")]
    fn remembered(&self, hash: &TokenHash) -> Option<Option<Arc<GatewayKey>>> {
        if self.marks.lapsed() {
            return None;
        }
        if let Some(known) = self.known.get(hash).filter(|known| self.marks.counts(&known.reading)) {
            return Some(Some(known.value));
        }
        self.nobodys.get(hash).filter(|known| self.marks.counts(&known.reading)).map(|_| None)
    }

    async fn read_in_turn(&self, hash: &TokenHash) -> Result<Option<Arc<GatewayKey>>, KeyError> {
        let slot = self.hasher.hash_one(hash) % limits::KEY_READS as u64;
        let mut last_failure = self.turns[usize::try_from(slot).unwrap_or(0)].lock().await;
        if let Some(known) = self.remembered(hash) {
            return Ok(known);
        }
        if last_failure.is_some_and(|at| at.elapsed() < limits::KEY_RETRY_AFTER) {
            return Err(KeyError::Unreadable("it failed a moment ago".into()));
        }
        let read = self.read(hash).await;
        *last_failure = read.is_err().then(Instant::now);
        read
    }

    async fn read(&self, hash: &TokenHash) -> Result<Option<Arc<GatewayKey>>, KeyError> {
        for tried in 0..limits::KEY_READ_TRIES {
            let pool = if tried > 0 { &self.primary } else { &self.near };
            let AsOf { value, seq } = db::ai_keys::find(pool, hash).await?;
            let key = value.map(|(token, account)| Arc::new(GatewayKey { token, account, credit: self.credit }));
            if self.remember(*hash, key.clone(), seq) {
                return Ok(key);
            }
        }
        Err(KeyError::Unsettled)
    }

    /// Says whether what was read as of `seq` counts: nothing newer has been applied.
    fn remember(&self, hash: TokenHash, key: Option<Arc<GatewayKey>>, seq: i64) -> bool {
        let Some(value) = key else {
            let reading = self.marks.reading(seq, [Marks::ANY_TOKEN; 2]);
            self.nobodys.insert(hash, Remembered { value: (), reading });
            return self.marks.counts(&reading);
        };
        let reading = self.marks.reading(seq, [value.token.as_str(), value.account.as_str()]);
        self.known.insert(hash, Remembered { value, reading });
        self.marks.counts(&reading)
    }
}

impl From<sqlx::Error> for KeyError {
    fn from(error: sqlx::Error) -> Self {
        telemetry::metrics::postgres_failed("keys");
        Self::Unreadable(error.to_string().into())
    }
}
