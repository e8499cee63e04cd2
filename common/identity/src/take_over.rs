//! `admin take-over`: takes over a store or Redis, even if the configuration key has already been used.

use tokio::time::timeout;

use super::{LOOK_WAIT, Refusal, UNNAMED, Watch, bounded, redis::RedisState, store::StoreState, store::in_time};

/// A service that can be taken over from another database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TakenPart {
    /// The store of packs.
    Store,
    /// Redis.
    Redis,
}

impl Watch {
    /// Takes over `part` from the database `former`, whose name (or, for a store, [`UNNAMED`]) it must carry. For admin
    /// only.
    pub async fn take_over(&mut self, part: TakenPart, former: &str) -> Result<(), Refusal> {
        let own = bounded(db::upkeep::database::name(&self.db)).await;
        let own = own.map_err(|error| Refusal(format!("the database's name cannot be read: {error}")))?;
        self.database = Some(own.clone());
        let owner = match part {
            TakenPart::Store => {
                let name = in_time(self.store.database_name()).await;
                name.map_err(|error| Refusal(format!("the store's name cannot be read: {error}")))?
                    .map(|name| name.database)
            }
            TakenPart::Redis => match timeout(LOOK_WAIT, self.redis.database_name()).await {
                Ok(Ok(name)) => name,
                Ok(Err(error)) => return Err(Refusal(format!("Redis's name cannot be read: {error}"))),
                Err(_) => return Err(Refusal("Redis does not answer".to_owned())),
            },
        };
        match owner.as_deref() {
            Some(owner) if owner == own => return Err(Refusal(format!("it is this database's ({own}) already"))),
            Some(owner) if owner == former => {}
            None if part == TakenPart::Store && former == UNNAMED => {}
            Some(owner) => return Err(Refusal(format!("it belongs to the database {owner}, and not to {former}"))),
            None => return Err(Refusal("it has no name: a store without one is taken over as `unnamed`".to_owned())),
        }
        let is_done = match part {
            TakenPart::Store => matches!(self.write_name(&own, Some(former)).await, StoreState::Ours(_)),
            TakenPart::Redis => matches!(self.rename_redis(former.to_owned(), &own).await, RedisState::Ours),
        };
        if is_done { Ok(()) } else { Err(Refusal("it could not be renamed; the log says why".to_owned())) }
    }
}
