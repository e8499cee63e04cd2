//! Whose the parts are that a program talks to. The store and Redis carry the name of the database that they belong to, and the
//! database a value that its master key has sealed. A program refuses what is another database's, with one sentence that says what to do.
//!
//! A part that cannot be reached keeps no program from starting: it is looked at again in the background ([`Watch::run`]). What is found to
//! be foreign then ends the program, except Redis, which is treated as if it were away. Not here: the spool of an edge, which carries a
//! name, too (`edge::identity`). Start with [`Watch`].

mod key;
mod redis;
mod ruler;
mod store;
mod take_over;
mod words;

use std::{sync::Arc, time::Duration};

use config::{Config, Pooler};
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
    store::{Belonging, StoreLook, StoreState},
};
pub use self::{
    ruler::{Rule, Ruler},
    take_over::TakenPart,
};

/// Longest wait for one part at a look.
const LOOK_WAIT: Duration = Duration::from_secs(4);
/// Interval of looks while some part is still to be looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Interval of looks once every part was found to be this database's.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// Longest time that an edge waits for admin to give the store a name.
const NAME_WAIT: Duration = Duration::from_secs(15);
/// Interval at which it looks for one.
const NAME_LOOK: Duration = Duration::from_millis(200);
/// Says that a store without a name is to be taken over, where a configuration key names the former database.
pub const UNNAMED: &str = "unnamed";

/// The reason why a program does not go on: one sentence, which says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(String);

impl Refusal {
    /// A refusal for the reason that the sentence gives.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// Looks at one more part of a program, given the database's name. It may block for a moment.
pub type PartCheck = Arc<dyn Fn(&str) -> Result<(), Refusal> + Send + Sync>;

/// The program that looks, with its keys.
#[derive(Debug, Clone)]
pub enum Keys {
    /// Names stores and Redis, and writes the value that the master key seals.
    Admin(MasterKey),
    /// Names nothing and writes no value: an edge may not.
    Edge(EdgeKey),
}

/// The kind of program that looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Admin,
    Edge,
}

/// Looks at the parts of a program.
pub struct Watch {
    db: PgPool,
    pooler: Pooler,
    redis: Redis,
    store: PackStore,
    keys: Keys,
    clock: Clock,
    role: Role,
    words: words::Words,
    /// The database's name, once Postgres has said it.
    database: Option<String>,
    /// Whether the store, and the key, were found to be the database's.
    store_is_ours: bool,
    key_is_right: bool,
    /// When the store was first seen without a name.
    unnamed_since: Option<Instant>,
    /// What was said last of the store, so that it is logged once.
    said: Option<String>,
    /// The name of one more part, such as the spool, and the look at it.
    more: Option<(&'static str, PartCheck)>,
}

/// The outcome of a look at every part.
struct Look {
    store: StoreState,
    redis: RedisState,
    key: KeyState,
}

impl Watch {
    /// A watch over these parts. Nothing in the store is removed before it is known whose it is.
    pub fn new(config: &Config, (db, redis, store): (PgPool, Redis, PackStore), keys: Keys, clock: Clock) -> Self {
        store.hold_removals();
        Self {
            db,
            pooler: config.postgres.pooler,
            redis,
            store,
            role: match keys {
                Keys::Admin(_) => Role::Admin,
                Keys::Edge(_) => Role::Edge,
            },
            keys,
            clock,
            words: words::Words::new(config),
            database: None,
            store_is_ours: false,
            key_is_right: false,
            unnamed_since: None,
            said: None,
            more: None,
        }
    }

    /// Looks at one more part as well, which has this name in metrics.
    #[must_use]
    pub fn also(mut self, part: &'static str, check: PartCheck) -> Self {
        self.more = Some((part, check));
        self
    }

    /// Opens parts of its own, for a look before a program's own are made.
    pub fn open(config: &Config, keys: Keys) -> Result<Self, Refusal> {
        let refused = |what: &str, error: &dyn std::error::Error| Refusal(format!("{what}: {error}"));
        let db =
            db::connect(&config.postgres, &config.postgres.url).map_err(|error| refused("postgres.url", &error))?;
        let redis = Redis::connect_trusting(&config.redis.url, config.redis.ca_file.as_deref());
        let redis = redis.map_err(|error| refused("redis.url", &error))?;
        let store = PackStore::open(&config.store).map_err(|error| refused("store.url", &error))?;
        Ok(Self::new(config, (db, redis, store), keys, Clock::system()))
    }

    /// The database's name; `None` as long as Postgres has not said it.
    pub fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// Looks at every part before the program begins. Fails for what is another database's, and passes what cannot be reached. An edge
    /// waits for admin to name a store, for some seconds.
    pub async fn start(&mut self) -> Result<(), Refusal> {
        self.check_pooler().await?;
        let waiting_since = Instant::now();
        loop {
            let look = self.look().await?;
            if let RedisState::Foreign(name, used_up) = &look.redis {
                return Err(self.foreign_redis(name, *used_up));
            }
            self.judge_key(&look.key)?;
            match self.judge_store(look.store) {
                Some(refusal) => return Err(refusal),
                None if self.unnamed_since.is_none() || !self.is_admin_expected().await => break,
                None if waiting_since.elapsed() > NAME_WAIT => return Err(self.words.never_named(NAME_WAIT)),
                None => sleep(NAME_LOOK).await,
            }
        }
        self.warn_of_password().await;
        Ok(())
    }

    /// Looks again and again. Returns once a part is found that is another database's, which the program must not use.
    pub async fn run(mut self) -> Refusal {
        loop {
            match self.look_again().await {
                Err(refusal) => return refusal,
                Ok(true) => sleep(LOOK_EVERY).await,
                Ok(false) => sleep(LOOK_AGAIN).await,
            }
        }
    }

    /// Looks at every part, and says whether all is settled.
    async fn look_again(&mut self) -> Result<bool, Refusal> {
        let look = self.look().await?;
        let is_redis_settled = self.judge_redis(&look.redis);
        self.judge_key(&look.key)?;
        if let Some(refusal) = self.judge_store(look.store) {
            return Err(refusal);
        }
        let is_overdue = self.unnamed_since.is_some_and(|since| since.elapsed() > NAME_WAIT);
        if is_overdue && !self.store_is_ours && self.is_admin_expected().await {
            return Err(self.words.never_named(NAME_WAIT));
        }
        Ok(is_redis_settled && self.key_is_right && self.store_is_ours)
    }

    async fn look(&mut self) -> Result<Look, Refusal> {
        match bounded(database::name(&self.db)).await {
            Ok(name) => match &self.database {
                Some(known) if *known != name => return Err(self.words.other_database(known, &name)),
                _ => self.database = Some(name),
            },
            Err(error) => tracing::debug!(%error, "the database's name cannot be read"),
        }
        let Some(name) = self.database.clone() else {
            // Nothing can be compared, but a store without a name is one for every database.
            return Ok(Look { store: StoreState::Unknown(None), redis: RedisState::Unknown, key: KeyState::Unknown });
        };
        self.look_at_more(&name).await?;
        let (store, redis, key) =
            tokio::join!(self.look_at_store(&name), self.look_at_redis(&name), self.look_at_key());
        Ok(Look { store, redis, key })
    }

    async fn look_at_more(&self, database: &str) -> Result<(), Refusal> {
        let Some((part, check)) = &self.more else { return Ok(()) };
        let (check, database) = (check.clone(), database.to_owned());
        let looked = timeout(LOOK_WAIT, tokio::task::spawn_blocking(move || check(&database)));
        let Ok(Ok(outcome)) = looked.await else { return Ok(()) };
        show(part, outcome.is_err());
        outcome
    }

    /// Fails if there is a pooler before Postgres that is not what the configuration says. One that cannot be reached passes.
    async fn check_pooler(&self) -> Result<(), Refusal> {
        match timeout(LOOK_WAIT, db::pooler::check(self.pooler, &self.db)).await {
            Ok(Err(error)) if error.is_final() => Err(Refusal(error.to_string())),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Whether an admin of this version has migrated the database, so that there is one to name the store.
    async fn is_admin_expected(&self) -> bool {
        bounded(identity::is_migrated(&self.db)).await.unwrap_or(false)
    }

    /// Warns if Postgres's password goes over a network unencrypted.
    async fn warn_of_password(&self) {
        // Behind a pooler Postgres only knows how the pooler reaches it.
        if self.pooler == Pooler::None
            && db::sends_password_elsewhere(self.words.postgres_url())
            && bounded(identity::is_encrypted(&self.db)).await.is_ok_and(|is_encrypted| !is_encrypted)
        {
            tracing::warn!(
                "Postgres's password goes to another machine over a connection that is not encrypted: add sslmode=verify-full to \
                 postgres.url, and set postgres.ca_file if its certificate is of an authority of your own"
            );
        }
    }
}

/// What an admin would say of its store, as a doctor asks it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreFinding {
    /// It is this database's.
    Ours,
    /// It is this database's, and another copy of it rules it.
    RuledElsewhere,
    /// Admin gives it the database's name at its start.
    ToBeNamed,
    /// Admin would not start with it.
    Refused(Refusal),
    /// It cannot be looked at, or the database cannot.
    Unknown(String),
}

/// Looks at a store as an admin does at its start, and changes nothing.
pub async fn examine_store(config: &Config, db: &PgPool, store: &PackStore) -> StoreFinding {
    let database = match bounded(database::name(db)).await {
        Ok(database) => database,
        Err(error) if identity::is_unmigrated(&error) => return StoreFinding::ToBeNamed,
        Err(error) => return StoreFinding::Unknown(error.to_string()),
    };
    let words = words::Words::new(config);
    let look = StoreLook { db, store, words: &words, role: Role::Admin, database: &database };
    match look.belonging().await {
        Belonging::Ours => match Ruler::new(db, store, &Clock::system()).compare().await {
            Ok(Some(Rule::Another)) => StoreFinding::RuledElsewhere,
            Ok(_) => StoreFinding::Ours,
            Err(error) => StoreFinding::Unknown(error),
        },
        Belonging::Nameable(_) | Belonging::Unnamed => StoreFinding::ToBeNamed,
        Belonging::Unlike(refusal) | Belonging::Foreign(refusal) => StoreFinding::Refused(refusal),
        Belonging::Unknown(error) => StoreFinding::Unknown(error),
    }
}

/// Describes the metrics of this crate to the exporter. Called once, when the exporter has started.
pub fn describe() {
    metrics::describe_gauge!(
        "svc_foreign",
        "1 while a part (store, redis, master_key, spool) is found to be another database's, or not known to be this one's."
    );
}

fn show(part: &'static str, is_foreign: bool) {
    metrics::gauge!("svc_foreign", "part" => part).set(f64::from(u8::from(is_foreign)));
}

/// Waits for Postgres no longer than for another part.
async fn bounded<T>(asked: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    timeout(LOOK_WAIT, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut))
}
