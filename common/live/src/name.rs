//! The name of the database that a Redis belongs to: one key, which admin sets if it is missing.
//!
//! Two databases that share a Redis would count each other's budgets and apply each other's changes. After a flush, the
//! next admin that checks sets the name again. Edges only read it.

use std::sync::atomic::Ordering;

use redis::{AsyncCommands as _, RedisError};

use super::Redis;

/// The key of the name. In a cluster, one node has it for all.
pub(super) const NAME: &str = "svc:database-name";

impl Redis {
    /// Sets the database that Redis belongs to, unless it has one. Returns the resulting name.
    pub async fn claim_database(&self, database: &str) -> Result<String, RedisError> {
        let mut commands = self.commands().unrefused();
        commands.set_nx::<_, _, bool>(NAME, database).await?;
        let name = self.database_name().await?;
        // It was flushed in between; the next check sets it.
        Ok(name.unwrap_or_else(|| database.to_owned()))
    }

    /// Returns the name of the database that Redis belongs to, or `None` if it has no name.
    pub async fn database_name(&self) -> Result<Option<String>, RedisError> {
        self.commands().unrefused().get(NAME).await
    }

    /// Sets the database that Redis belongs to, if it was `former` or none. Returns the resulting name.
    pub async fn take_over(&self, former: &str, database: &str) -> Result<String, RedisError> {
        let script = redis::Script::new(
            "local name = redis.call('GET', KEYS[1])
             if name == false or name == ARGV[1] then
               redis.call('SET', KEYS[1], ARGV[2])
               return ARGV[2]
             end
             return name",
        );
        script.key(NAME).arg(former).arg(database).invoke_async(&mut self.commands().unrefused()).await
    }

    /// Sets whether this Redis belongs to another database. While it does, every command and subscription of all clones
    /// fails as if Redis were unavailable. Returns whether the value changed.
    pub fn set_refused(&self, is_refused: bool) -> bool {
        self.is_refused.swap(is_refused, Ordering::Relaxed) != is_refused
    }
}
