//! The sentences, and what of the configuration they name.

use std::{path::PathBuf, time::Duration};

use config::{Config, without_password};
use db::upkeep::master_key::WrongKey;

use super::{Refusal, Role, UNNAMED};

/// What the sentences name.
pub(super) struct Words {
    store: String,
    store_take_over: Option<String>,
    redis: String,
    redis_take_over: Option<String>,
    postgres_url: String,
    key_file: PathBuf,
    edge_key_file: Option<PathBuf>,
}

impl Words {
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

    /// `the database NAME (postgres.url, postgres://…)`.
    fn database(&self, name: Option<&str>) -> String {
        let url = without_password(&self.postgres_url);
        format!("the database {} (postgres.url, {url})", name.unwrap_or("of an unknown name"))
    }

    pub(super) fn foreign_store(&self, owner: &str, own: Option<&str>, role: Role) -> Refusal {
        let who =
            if role == Role::Edge { "have admin take the store over with" } else { "to take the store over, set" };
        Refusal(format!(
            "the store {} (store.url) belongs to the database {owner}, not to {}: set store.url or postgres.url right, or, {who} \
             store.take_over_from = \"{owner}\"",
            self.store,
            self.database(own),
        ))
    }

    pub(super) fn unknown_packs(&self, own: Option<&str>) -> Refusal {
        Refusal(format!(
            "the store {} (store.url) has no name, and {} knows none of its packs: set store.url or postgres.url right, or, to take \
             the store over, set store.take_over_from = \"{UNNAMED}\"; nothing in it was changed",
            self.store,
            self.database(own),
        ))
    }

    pub(super) fn empty_store(&self, own: Option<&str>) -> Refusal {
        Refusal(format!(
            "the store {} (store.url) is empty, and {} has deployments whose packs belong there: set store.url or postgres.url \
             right, or bring the packs back, or, to begin with an empty store, set store.take_over_from = \"{UNNAMED}\"",
            self.store,
            self.database(own),
        ))
    }

    pub(super) fn unreadable_name(&self, what: &str) -> Refusal {
        Refusal(format!(
            "the store {} (store.url) does not say whose it is ({what}): bring the object back, or remove it and restart admin",
            self.store
        ))
    }

    pub(super) fn unnamed(&self) -> Refusal {
        Refusal(format!(
            "the store {} (store.url) has no name yet; waiting for admin, which gives it one when it starts",
            self.store
        ))
    }

    pub(super) fn never_named(&self, waited: Duration) -> Refusal {
        Refusal(format!(
            "the store {} (store.url) has no name, and no admin gave it one within {} s: is store.url what admin has, and does \
             admin run?",
            self.store,
            waited.as_secs()
        ))
    }

    pub(super) fn foreign_redis(&self, owner: &str, own: Option<&str>, role: Role) -> Refusal {
        let who = if role == Role::Edge { "have admin take it over with" } else { "to take it over, set" };
        Refusal(format!(
            "the Redis {} (redis.url) belongs to the database {owner}, not to {}: set redis.url or postgres.url right, or, {who} \
             redis.take_over_from = \"{owner}\"",
            self.redis,
            self.database(own),
        ))
    }

    pub(super) fn wrong_key(&self, wrong: &WrongKey, role: Role) -> Refusal {
        Refusal(match &self.edge_key_file {
            Some(file) if role == Role::Edge => wrong.explain_edge(file, &self.postgres_url),
            _ => wrong.explain(&self.key_file, &self.postgres_url),
        })
    }

    pub(super) fn other_database(&self, known: &str, found: &str) -> Refusal {
        Refusal(format!(
            "{} has taken the place of the database {known} while this program ran: set postgres.url right, or start the program \
             anew if that is meant",
            self.database(Some(found)),
        ))
    }
}
