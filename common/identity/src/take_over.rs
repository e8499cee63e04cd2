//! `admin take-over`: takes over a store or Redis, even if the configuration key has already been used.

use tokio::time::timeout;

use super::{
    CHECK_TIMEOUT, IdentityError, IdentityWatch, UNNAMED, redis::RedisState, store::StoreState, store::in_time,
    with_timeout,
};

/// A service that can be taken over from another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakeOverTarget {
    /// The store of packs.
    Store,
    /// Redis.
    Redis,
}

impl IdentityWatch {
    /// Takes over `part` from the database `former`, whose name (or, for a store, [`UNNAMED`]) it must carry. For admin
    /// only.
    pub async fn take_over(&mut self, part: TakeOverTarget, former: &str) -> Result<(), IdentityError> {
        let own = with_timeout(db::upkeep::database::name(&self.db)).await;
        let own = own.map_err(|error| IdentityError(format!("the database's name cannot be read: {error}")))?;
        self.database = Some(own.clone());
        let owner = match part {
            TakeOverTarget::Store => {
                let name = in_time(self.store.database_name()).await;
                name.map_err(|error| IdentityError(format!("the store's name cannot be read: {error}")))?
                    .map(|name| name.database)
            }
            TakeOverTarget::Redis => match timeout(CHECK_TIMEOUT, self.redis.database_name()).await {
                Ok(Ok(name)) => name,
                Ok(Err(error)) => return Err(IdentityError(format!("Redis's name cannot be read: {error}"))),
                Err(_) => return Err(IdentityError("Redis does not answer".to_owned())),
            },
        };
        match owner.as_deref() {
            Some(owner) if owner == own => return Err(IdentityError(format!("it is this database's ({own}) already"))),
            Some(owner) if owner == former => {}
            None if part == TakeOverTarget::Store && former == UNNAMED => {}
            Some(owner) => {
                return Err(IdentityError(format!("it belongs to the database {owner}, and not to {former}")));
            }
            None => {
                return Err(IdentityError("it has no name: a store without one is taken over as `unnamed`".to_owned()));
            }
        }
        let is_done = match part {
            TakeOverTarget::Store => matches!(self.write_name(&own, Some(former)).await, StoreState::Ours(_)),
            TakeOverTarget::Redis => matches!(self.rename_redis(former.to_owned(), &own).await, RedisState::Ours),
        };
        if is_done { Ok(()) } else { Err(IdentityError("it could not be renamed; the log says why".to_owned())) }
    }
}
