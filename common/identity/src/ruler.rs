//! Decides which copy of a database rules the store. A restored dump has the name of its original and may lack later
//! changes, so only one copy may move and delete packs.
//!
//! The store records the ruler's copy id ([`db::upkeep::database::CopyId`]), and the ruler records that it rules, so
//! that another copy recognizes itself even if the store has no record. The operator makes another copy the ruler with
//! `admin store sweep --yes`.

use db::upkeep::{
    database::{self, CopyId},
    identity::is_unmigrated,
    store_sweep,
};
use domain::Clock;
use packs::{PackStore, StoreError, StoreRuler as StoredRuler};
use sqlx::PgPool;

use super::{IdentityWatch, store::in_time, with_timeout};

/// Whether this copy of the database rules the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RulerStatus {
    /// This copy rules.
    This,
    /// Another copy rules or ruled, so this one moves and deletes nothing.
    Another,
}

/// The ruler of a store, from the perspective of one copy of the database.
pub struct StoreRuler<'a> {
    db: &'a PgPool,
    store: &'a PackStore,
    clock: &'a Clock,
}

impl IdentityWatch {
    pub(super) fn ruler(&self) -> StoreRuler<'_> {
        StoreRuler::new(&self.db, &self.store, &self.clock)
    }
}

impl<'a> StoreRuler<'a> {
    /// Creates the ruler of `store` from the perspective of `db`.
    pub fn new(db: &'a PgPool, store: &'a PackStore, clock: &'a Clock) -> Self {
        Self { db, store, clock }
    }

    /// Compares the ruler with this copy without changing anything. Returns `None` if there is no ruler yet, and fails
    /// with a sentence if the store or the database is unreachable.
    pub async fn compare(&self) -> Result<Option<RulerStatus>, String> {
        let own = with_timeout(database::copy_id(self.db)).await.map_err(|error| error.to_string())?;
        let is_own = |text: &str| CopyId::parse(text).is_some_and(|copy| copy.is_same(&own));
        match in_time(self.store.ruler()).await {
            Ok(Some(ruler)) if is_own(&ruler.copy) => Ok(Some(RulerStatus::This)),
            Ok(Some(_)) | Err(StoreError::Damaged(_)) => Ok(Some(RulerStatus::Another)),
            Ok(None) => match with_timeout(store_sweep::find_copy(self.db)).await {
                Ok(Some(noted)) if !is_own(&noted) => Ok(Some(RulerStatus::Another)),
                Ok(_) => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// Compares the ruler with this copy, which becomes the ruler if there is none. Fails like [`Self::compare`].
    pub(super) async fn compare_or_take(&self) -> Result<RulerStatus, String> {
        match self.compare().await? {
            Some(RulerStatus::This) => {
                self.note().await;
                Ok(RulerStatus::This)
            }
            Some(RulerStatus::Another) => Ok(RulerStatus::Another),
            None => {
                self.take().await?;
                // Read it again: if two copies wrote at the same time, the later one rules.
                Ok(self.compare().await?.unwrap_or(RulerStatus::Another))
            }
        }
    }

    /// Makes this copy the ruler. The former ruler notices within seconds and stops moving packs.
    pub async fn take(&self) -> Result<(), String> {
        let own = with_timeout(database::copy_id(self.db)).await.map_err(|error| error.to_string())?;
        let ruler = StoredRuler::new(own.to_string(), self.clock.now());
        in_time(self.store.set_ruler(&ruler)).await.map_err(|error| error.to_string())?;
        self.note().await;
        Ok(())
    }

    async fn note(&self) {
        let noted = async {
            let own = with_timeout(database::copy_id(self.db)).await?;
            with_timeout(store_sweep::record_copy(self.db, &own.to_string())).await
        };
        match noted.await {
            Ok(()) => {}
            // A database that is not migrated yet has no copies.
            Err(error) if is_unmigrated(&error) => {}
            Err(error) => tracing::debug!(%error, "it could not be noted that this database rules the store"),
        }
    }
}
