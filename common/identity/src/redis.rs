//! Checks Redis, which carries the name of its database. Admin names a Redis without a name; a foreign one is not used.

use db::upkeep::identity;
use domain::Timestamp;
use live::RedisError;
use tokio::time::timeout;

use super::{CHECK_TIMEOUT, IdentityError, IdentityWatch, ProgramRole, show, with_timeout};

/// The result of checking Redis.
pub(super) enum RedisState {
    /// It belongs to this database.
    Ours,
    /// It belongs to the database of this name. If a time is given, it was already taken over from that database then.
    Foreign(String, Option<Timestamp>),
    /// It is unreachable or unnamed, or the database's name is not known yet.
    Unknown,
}

impl IdentityWatch {
    pub(super) async fn look_at_redis(&self, database: &str) -> RedisState {
        match timeout(CHECK_TIMEOUT, self.name_redis(database)).await {
            Ok(Ok(Some(name))) if name == database => RedisState::Ours,
            Ok(Ok(Some(name))) => self.take_redis_over(name, database).await,
            Ok(Err(error)) => {
                tracing::debug!(%error, "Redis's name cannot be read");
                RedisState::Unknown
            }
            Ok(Ok(None)) | Err(_) => RedisState::Unknown,
        }
    }

    async fn name_redis(&self, database: &str) -> Result<Option<String>, RedisError> {
        match self.role {
            ProgramRole::Admin => self.redis.claim_database(database).await.map(Some),
            ProgramRole::Edge => self.redis.database_name().await,
        }
    }

    async fn take_redis_over(&self, former: String, database: &str) -> RedisState {
        let is_wanted = self.role == ProgramRole::Admin && self.words.redis_take_over() == Some(former.as_str());
        if !is_wanted {
            return RedisState::Foreign(former, None);
        }
        match with_timeout(identity::taken_over_at(&self.db, "redis", &former)).await {
            Ok(None) => self.rename_redis(former, database).await,
            Ok(at) => RedisState::Foreign(former, at),
            Err(_) => RedisState::Foreign(former, None),
        }
    }

    pub(super) async fn rename_redis(&self, former: String, database: &str) -> RedisState {
        match timeout(CHECK_TIMEOUT, self.redis.take_over(&former, database)).await {
            Ok(Ok(name)) if name == database => {}
            Ok(Ok(name)) => return RedisState::Foreign(name, None),
            Ok(Err(_)) | Err(_) => return RedisState::Unknown,
        }
        tracing::warn!(former, "this database has taken Redis over (redis.take_over_from, which can be removed now)");
        if let Err(error) = with_timeout(identity::record_take_over(&self.db, "redis", &former, self.clock.now())).await
        {
            tracing::warn!(%error, "the take-over of Redis could not be noted: remove redis.take_over_from");
        }
        RedisState::Ours
    }

    /// Describes the owner of a foreign Redis and how to proceed.
    pub(super) fn foreign_redis(&self, owner: &str, used_up: Option<Timestamp>) -> IdentityError {
        match used_up {
            None => self.words.foreign_redis(owner, self.database(), self.role),
            Some(at) => self.words.used_up_redis(owner, self.database(), at),
        }
    }

    /// Makes every command fail while Redis is foreign. Returns whether Redis is known to be ours.
    pub(super) fn apply_redis_state(&self, redis: &RedisState) -> bool {
        match redis {
            RedisState::Ours => {
                show("redis", false);
                if self.redis.set_refused(false) {
                    tracing::info!("Redis is this database's again");
                }
                true
            }
            RedisState::Foreign(name, used_up) => {
                show("redis", true);
                if self.redis.set_refused(true) {
                    tracing::error!("not used: {}", self.foreign_redis(name, *used_up));
                }
                false
            }
            RedisState::Unknown => false,
        }
    }
}
