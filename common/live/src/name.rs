//! The name of the database that a Redis belongs to: one key, which admin sets where there is none.
//!
//! Two databases at one Redis would count each other's budgets and take each other's changes for their own. A Redis that was flushed
//! is named again by the admin that looks next. Edges only read the name.

use std::sync::atomic::Ordering;

use redis::{AsyncCommands as _, RedisError};

use super::Redis;

/// The key of the name. In a cluster one node has it, for all of them.
pub(super) const NAME: &str = "svc:database-name";

impl Redis {
    /// Gives Redis the name of a database unless it has one. Returns the name that it has then.
    pub async fn claim_for(&self, database: &str) -> Result<String, RedisError> {
        let mut commands = self.commands().unrefused();
        commands.set_nx::<_, _, bool>(NAME, database).await?;
        let name = self.database_name().await?;
        // It was flushed in between; the next look names it.
        Ok(name.unwrap_or_else(|| database.to_owned()))
    }

    /// Returns the name of the database that Redis belongs to; `None` while it has none.
    pub async fn database_name(&self) -> Result<Option<String>, RedisError> {
        self.commands().unrefused().get(NAME).await
    }

    /// Gives Redis the name of a database in the place of `former`. Returns the name that it has then.
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

    /// Says whether this Redis is another database's. While it is, every command and subscription fails as if it were away, in all
    /// clones. Returns whether that is new.
    pub fn set_refused(&self, is_refused: bool) -> bool {
        self.is_refused.swap(is_refused, Ordering::Relaxed) != is_refused
    }
}
