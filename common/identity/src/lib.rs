//! Checks that the services a program uses belong together. The store and Redis carry the name of the database that
//! they belong to, and the database holds a value that its master key has sealed. A program refuses what belongs to
//! another database, with one sentence that says what to do.
//!
//! A service that is unreachable does not keep a program from starting: it is checked again in the background
//! ([`IdentityWatch::run`]). If it then turns out to be foreign, the program exits; a foreign Redis is treated as unavailable
//! instead. The spool of an edge carries a name too, but is checked elsewhere (`edge::identity`). Start with [`IdentityWatch`].

mod key;
mod redis;
mod ruler;
mod store;
mod take_over;
mod words;

use std::{sync::Arc, time::Duration};

use config::{Config, PoolerMode};
use db::upkeep::{database, identity};
use domain::Clock;
use live::Redis;
use packs::PackStore;
use secrets::{EdgeKey, MasterKey};
use sqlx::PgPool;
use tokio::time::{Instant, sleep, timeout};

use self::{
    key::KeyState,
    redis::RedisState,
    store::{StoreExamination, StoreOwnership, StoreState},
};
pub use self::{
    ruler::{RulerStatus, StoreRuler},
    take_over::TakeOverTarget,
};

/// The timeout for checking one part.
const CHECK_TIMEOUT: Duration = Duration::from_secs(4);
/// The interval of checks while a part is unsettled.
const UNSETTLED_INTERVAL: Duration = Duration::from_secs(1);
/// The interval of checks once every part is known to be this database's.
const SETTLED_INTERVAL: Duration = Duration::from_secs(10);
/// The maximum time that an edge waits for admin to name the store.
const NAME_TIMEOUT: Duration = Duration::from_secs(15);
/// The interval at which the edge checks for the name.
const NAME_POLL_INTERVAL: Duration = Duration::from_millis(200);
/// In place of a database's name in a configuration key, means a store without a name.
pub const UNNAMED: &str = "unnamed";

/// Why a program refuses to continue: one sentence, which says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct IdentityError(String);

impl IdentityError {
    /// Creates a refusal with this sentence.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// Checks an additional part of a program against the database's name. It may block briefly.
pub type PartCheck = Arc<dyn Fn(&str) -> Result<(), IdentityError> + Send + Sync>;

/// The program that checks, with its keys.
#[derive(Debug, Clone)]
pub enum ProgramKeys {
    /// Admin, which names stores and Redis, and writes the value that the master key seals.
    Admin(MasterKey),
    /// An edge, which may not name anything or write the value.
    Edge(EdgeKey),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ProgramRole {
    Admin,
    Edge,
}

/// Checks the parts of a program.
pub struct IdentityWatch {
    db: PgPool,
    pooler: PoolerMode,
    redis: Redis,
    store: PackStore,
    keys: ProgramKeys,
    clock: Clock,
    role: ProgramRole,
    words: words::MessageContext,
    /// The database's name, once read from Postgres.
    database: Option<String>,
    /// Whether the store and the key are known to be the database's.
    store_is_ours: bool,
    key_is_right: bool,
    /// When the store was first seen without a name.
    unnamed_since: Option<Instant>,
    /// The last message about the store, so that it is logged once.
    said: Option<String>,
    /// An additional part, such as the spool: its name and its check.
    more: Option<(&'static str, PartCheck)>,
}

/// The result of checking every part.
struct CheckResults {
    store: StoreState,
    redis: RedisState,
    key: KeyState,
}

impl IdentityWatch {
    /// Creates a watch over these parts. Removals from the store are held until its owner is known.
    pub fn new(
        config: &Config,
        (db, redis, store): (PgPool, Redis, PackStore),
        keys: ProgramKeys,
        clock: Clock,
    ) -> Self {
        store.hold_removals();
        Self {
            db,
            pooler: config.postgres.pooler,
            redis,
            store,
            role: match keys {
                ProgramKeys::Admin(_) => ProgramRole::Admin,
                ProgramKeys::Edge(_) => ProgramRole::Edge,
            },
            keys,
            clock,
            words: words::MessageContext::new(config),
            database: None,
            store_is_ours: false,
            key_is_right: false,
            unnamed_since: None,
            said: None,
            more: None,
        }
    }

    /// Adds a part to check, which has this name in metrics.
    #[must_use]
    pub fn with_part(mut self, part: &'static str, check: PartCheck) -> Self {
        self.more = Some((part, check));
        self
    }

    /// Creates a watch with its own connections, for a check before the program makes its own.
    pub fn open(config: &Config, keys: ProgramKeys) -> Result<Self, IdentityError> {
        let refused = |what: &str, error: &dyn std::error::Error| IdentityError(format!("{what}: {error}"));
        let db =
            db::connect(&config.postgres, &config.postgres.url).map_err(|error| refused("postgres.url", &error))?;
        let redis = Redis::connect_trusting(&config.redis.url, config.redis.ca_file.as_deref());
        let redis = redis.map_err(|error| refused("redis.url", &error))?;
        let store = PackStore::open(&config.store).map_err(|error| refused("store.url", &error))?;
        Ok(Self::new(config, (db, redis, store), keys, Clock::system()))
    }

    /// Returns the database's name, or `None` if it has not been read from Postgres yet.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Checks every part before the program starts. Fails if a part belongs to another database; unreachable parts
    /// pass. An edge waits some seconds for admin to name a store.
    pub async fn start(&mut self) -> Result<(), IdentityError> {
        self.check_pooler().await?;
        let waiting_since = Instant::now();
        loop {
            let look = self.check_parts().await?;
            if let RedisState::Foreign(name, used_up) = &look.redis {
                return Err(self.foreign_redis(name, *used_up));
            }
            self.apply_key_state(&look.key)?;
            match self.apply_store_state(look.store) {
                Some(refusal) => return Err(refusal),
                None if self.unnamed_since.is_none() || !self.is_admin_expected().await => break,
                None if waiting_since.elapsed() > NAME_TIMEOUT => return Err(self.words.never_named(NAME_TIMEOUT)),
                None => sleep(NAME_POLL_INTERVAL).await,
            }
        }
        self.warn_about_password().await;
        Ok(())
    }

    /// Checks periodically. Returns once a part belongs to another database and the program must not use it.
    pub async fn run(mut self) -> IdentityError {
        loop {
            match self.check_again().await {
                Err(refusal) => return refusal,
                Ok(true) => sleep(SETTLED_INTERVAL).await,
                Ok(false) => sleep(UNSETTLED_INTERVAL).await,
            }
        }
    }

    /// Checks every part, and returns whether all are settled.
    async fn check_again(&mut self) -> Result<bool, IdentityError> {
        let look = self.check_parts().await?;
        let is_redis_settled = self.apply_redis_state(&look.redis);
        self.apply_key_state(&look.key)?;
        if let Some(refusal) = self.apply_store_state(look.store) {
            return Err(refusal);
        }
        let is_overdue = self.unnamed_since.is_some_and(|since| since.elapsed() > NAME_TIMEOUT);
        if is_overdue && !self.store_is_ours && self.is_admin_expected().await {
            return Err(self.words.never_named(NAME_TIMEOUT));
        }
        Ok(is_redis_settled && self.key_is_right && self.store_is_ours)
    }

    async fn check_parts(&mut self) -> Result<CheckResults, IdentityError> {
        match with_timeout(database::name(&self.db)).await {
            Ok(name) => match &self.database {
                Some(known) if *known != name => return Err(self.words.other_database(known, &name)),
                _ => self.database = Some(name),
            },
            Err(error) => tracing::debug!(%error, "the database's name cannot be read"),
        }
        let Some(name) = self.database.clone() else {
            // Without the database's name, nothing can be compared.
            return Ok(CheckResults {
                store: StoreState::Unknown(None),
                redis: RedisState::Unknown,
                key: KeyState::Unknown,
            });
        };
        self.check_extra_part(&name).await?;
        let (store, redis, key) =
            tokio::join!(self.look_at_store(&name), self.look_at_redis(&name), self.look_at_key());
        Ok(CheckResults { store, redis, key })
    }

    async fn check_extra_part(&self, database: &str) -> Result<(), IdentityError> {
        let Some((part, check)) = &self.more else { return Ok(()) };
        let (check, database) = (check.clone(), database.to_owned());
        let looked = timeout(CHECK_TIMEOUT, tokio::task::spawn_blocking(move || check(&database)));
        let Ok(Ok(outcome)) = looked.await else { return Ok(()) };
        show(part, outcome.is_err());
        outcome
    }

    /// Fails if the pooler in front of Postgres is not the configured kind. An unreachable one passes.
    async fn check_pooler(&self) -> Result<(), IdentityError> {
        match timeout(CHECK_TIMEOUT, db::pooler::check(self.pooler, &self.db)).await {
            Ok(Err(error)) if error.is_final() => Err(IdentityError(error.to_string())),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Returns whether an admin of this version has migrated the database and will name the store.
    async fn is_admin_expected(&self) -> bool {
        with_timeout(identity::is_migrated(&self.db)).await.unwrap_or(false)
    }

    /// Warns if Postgres's password crosses a network unencrypted.
    async fn warn_about_password(&self) {
        // Behind a pooler, Postgres knows only the pooler's connection.
        if self.pooler == PoolerMode::None
            && db::sends_password_elsewhere(self.words.postgres_url())
            && with_timeout(identity::is_encrypted(&self.db)).await.is_ok_and(|is_encrypted| !is_encrypted)
        {
            tracing::warn!(
                "Postgres's password goes to another machine over a connection that is not encrypted: add sslmode=verify-full to \
                 postgres.url, and set postgres.ca_file if its certificate is of an authority of your own"
            );
        }
    }
}

/// The state of a store as admin sees it at its start, for diagnosis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFinding {
    /// The store belongs to this database.
    Ours,
    /// The store belongs to this database, but another copy of it is the ruler.
    RuledElsewhere,
    /// Admin will name the store after its database when it starts.
    ToBeNamed,
    /// Admin would refuse to start.
    Refused(IdentityError),
    /// The store or the database is unreachable.
    Unknown(String),
}

/// Checks a store as admin does when it starts, without changing anything.
pub async fn examine_store(config: &Config, db: &PgPool, store: &PackStore) -> StoreFinding {
    let database = match with_timeout(database::name(db)).await {
        Ok(database) => database,
        Err(error) if identity::is_unmigrated(&error) => return StoreFinding::ToBeNamed,
        Err(error) => return StoreFinding::Unknown(error.to_string()),
    };
    let words = words::MessageContext::new(config);
    let look = StoreExamination { db, store, words: &words, role: ProgramRole::Admin, database: &database };
    match look.belonging().await {
        StoreOwnership::Ours => match StoreRuler::new(db, store, &Clock::system()).compare().await {
            Ok(Some(RulerStatus::Another)) => StoreFinding::RuledElsewhere,
            Ok(_) => StoreFinding::Ours,
            Err(error) => StoreFinding::Unknown(error),
        },
        StoreOwnership::Nameable(_) | StoreOwnership::Unnamed => StoreFinding::ToBeNamed,
        StoreOwnership::Unlike(refusal) | StoreOwnership::Foreign(refusal) => StoreFinding::Refused(refusal),
        StoreOwnership::Unknown(error) => StoreFinding::Unknown(error),
    }
}

/// Describes the metrics of this crate to the exporter. Call it once, after the exporter has started.
pub fn describe() {
    metrics::describe_gauge!(
        "svc_foreign",
        "1 while a part (store, redis, master_key, spool) is found to be another database's, or not known to be this one's."
    );
}

fn show(part: &'static str, is_foreign: bool) {
    metrics::gauge!("svc_foreign", "part" => part).set(f64::from(u8::from(is_foreign)));
}

/// Applies the timeout of a check to a query.
async fn with_timeout<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(CHECK_TIMEOUT, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
