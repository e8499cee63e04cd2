//! The messages of refusals and warnings, and the configuration values that they name.

use std::{path::PathBuf, time::Duration};

use config::{Config, without_password};
use db::upkeep::master_key::WrongKeyError;
use domain::Timestamp;

use super::{IdentityError, ProgramRole, UNNAMED};

/// The configuration values that the messages name.
pub(super) struct MessageContext {
    store: String,
    store_take_over: Option<String>,
    redis: String,
    redis_take_over: Option<String>,
    postgres_url: String,
    key_file: PathBuf,
    edge_key_file: Option<PathBuf>,
}

impl MessageContext {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            store: config.store.url.to_string(),
            store_take_over: config.store.take_over_from.clone(),
            redis: without_password(&config.redis.url),
            redis_take_over: config.redis.take_over_from.clone(),
            postgres_url: config.postgres.url.clone(),
            key_file: config.secrets.master_key_file.clone(),
            edge_key_file: config.secrets.edge_key_file.clone(),
        }
    }

    pub(super) fn store_take_over(&self) -> Option<&str> {
        self.store_take_over.as_deref()
    }

    pub(super) fn redis_take_over(&self) -> Option<&str> {
        self.redis_take_over.as_deref()
    }

    pub(super) fn postgres_url(&self) -> &str {
        &self.postgres_url
    }

    /// Formats `the database NAME (postgres.url, postgres://…)`.
    fn database(&self, name: Option<&str>) -> String {
        let url = without_password(&self.postgres_url);
        format!("the database {} (postgres.url, {url})", name.unwrap_or("of an unknown name"))
    }

    pub(super) fn foreign_store(&self, owner: &str, own: Option<&str>, role: ProgramRole) -> IdentityError {
        let who = if role == ProgramRole::Edge {
            "have admin take the store over with"
        } else {
            "to take the store over, set"
        };
        IdentityError(format!(
            "the store {} (store.url) belongs to the database {owner}, not to {}: set store.url or postgres.url right, or, {who} \
             store.take_over_from = \"{owner}\"",
            self.store,
            self.database(own),
        ))
    }

    /// The refusal of a store that `store.take_over_from` names but that was already taken over.
    pub(super) fn used_up_store(&self, former: &str, own: Option<&str>, at: Timestamp) -> IdentityError {
        IdentityError(format!(
            "the store {} (store.url) belongs to the database {former} again, not to {}: set store.url or postgres.url right, or, to take \
             the store over once more, {}",
            self.store,
            self.database(own),
            take_over_command("store", "store.take_over_from", former, at),
        ))
    }

    /// The refusal of a Redis that `redis.take_over_from` names but that was already taken over.
    pub(super) fn used_up_redis(&self, former: &str, own: Option<&str>, at: Timestamp) -> IdentityError {
        IdentityError(format!(
            "the Redis {} (redis.url) belongs to the database {former} again, not to {}: set redis.url or postgres.url right, or, to take it \
             over once more, {}",
            self.redis,
            self.database(own),
            take_over_command("redis", "redis.take_over_from", former, at),
        ))
    }

    /// The refusal of a store with unknown packs. `used_up` is when `store.take_over_from` was used.
    pub(super) fn unknown_packs(&self, own: Option<&str>, used_up: Option<Timestamp>) -> IdentityError {
        IdentityError(format!(
            "the store {} (store.url) has no name, and {} knows none of its packs: set store.url or postgres.url right, or, to take \
             the store over, {}; nothing in it was changed",
            self.store,
            self.database(own),
            unnamed_way(used_up),
        ))
    }

    /// The refusal of a store that is unexpectedly empty. `used_up` is when `store.take_over_from` was used.
    pub(super) fn empty_store(&self, own: Option<&str>, used_up: Option<Timestamp>) -> IdentityError {
        IdentityError(format!(
            "the store {} (store.url) is empty, and {} has deployments whose packs belong there: set store.url or postgres.url \
             right, or bring the packs back, or, to begin with an empty store, {}",
            self.store,
            self.database(own),
            unnamed_way(used_up),
        ))
    }

    /// The warning about a store that is unreachable when a program starts.
    pub(super) fn store_away(&self, why: &str) -> String {
        format!(
            "the store {} (store.url) cannot be looked at: {why}; until it can, sites that are not in memory are not served, and nothing is \
             published or removed",
            self.store
        )
    }

    pub(super) fn unreadable_name(&self, what: &str) -> IdentityError {
        IdentityError(format!(
            "the store {} (store.url) does not say whose it is ({what}): bring the object back, or remove it and restart admin",
            self.store
        ))
    }

    pub(super) fn unnamed(&self) -> IdentityError {
        IdentityError(format!(
            "the store {} (store.url) has no name yet; waiting for admin, which gives it one when it starts",
            self.store
        ))
    }

    pub(super) fn never_named(&self, waited: Duration) -> IdentityError {
        IdentityError(format!(
            "the store {} (store.url) has no name, and no admin gave it one within {} s: is store.url what admin has, and does \
             admin run?",
            self.store,
            waited.as_secs()
        ))
    }

    pub(super) fn foreign_redis(&self, owner: &str, own: Option<&str>, role: ProgramRole) -> IdentityError {
        let who = if role == ProgramRole::Edge { "have admin take it over with" } else { "to take it over, set" };
        IdentityError(format!(
            "the Redis {} (redis.url) belongs to the database {owner}, not to {}: set redis.url or postgres.url right, or, {who} \
             redis.take_over_from = \"{owner}\"",
            self.redis,
            self.database(own),
        ))
    }

    pub(super) fn wrong_key(&self, wrong: &WrongKeyError, role: ProgramRole) -> IdentityError {
        IdentityError(match &self.edge_key_file {
            Some(file) if role == ProgramRole::Edge => wrong.explain_edge(file, &self.postgres_url),
            _ => wrong.explain(&self.key_file, &self.postgres_url),
        })
    }

    pub(super) fn other_database(&self, known: &str, found: &str) -> IdentityError {
        IdentityError(format!(
            "{} has taken the place of the database {known} while this program ran: set postgres.url right, or start the program \
             anew if that is meant",
            self.database(Some(found)),
        ))
    }
}

/// Explains how to take over a store without a name.
fn unnamed_way(used_up: Option<Timestamp>) -> String {
    match used_up {
        None => format!("set store.take_over_from = \"{UNNAMED}\""),
        Some(at) => take_over_command("store", "store.take_over_from", UNNAMED, at),
    }
}

/// Explains how to take something over again after its configuration key was used.
fn take_over_command(part: &str, key: &str, former: &str, at: Timestamp) -> String {
    format!(
        "run `admin take-over {part} {former}` ({key} = \"{former}\" was followed at {at}, and is followed once; remove it)"
    )
}
