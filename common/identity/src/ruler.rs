//! Which copy of its database rules the store. A dump that is restored has the name of its original, and may lack what the original has had
//! since: only one of them may move and delete packs.
//!
//! The store carries what tells the ruler from other copies ([`db::upkeep::database::CopyId`]), and the ruler has noted it, so that a copy
//! knows itself for one where the store says nothing. The operator makes another copy the ruler by `admin store sweep --yes`.

use db::upkeep::{
    database::{self, CopyId},
    identity::is_unmigrated,
    store_sweep,
};
use domain::Clock;
use packs::{PackStore, Ruler as StoredRuler, StoreError};
use sqlx::PgPool;

use super::{Watch, bounded, store::in_time};

/// Whether this copy of the database rules the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// It does.
    This,
    /// Another copy does, or did: this one moves and deletes nothing.
    Another,
}

/// The ruler of a store, as one copy of the database sees it.
pub struct Ruler<'a> {
    db: &'a PgPool,
    store: &'a PackStore,
    clock: &'a Clock,
}

impl Watch {
    pub(super) fn ruler(&self) -> Ruler<'_> {
        Ruler::new(&self.db, &self.store, &self.clock)
    }
}

impl<'a> Ruler<'a> {
    /// The ruler of `store`, which is the one of the database `db`.
    pub fn new(db: &'a PgPool, store: &'a PackStore, clock: &'a Clock) -> Self {
        Self { db, store, clock }
    }

    /// Compares the ruler with this copy, and changes nothing; `None` where there is none yet. Fails with a sentence when one of both cannot
    /// be asked.
    pub async fn compare(&self) -> Result<Option<Rule>, String> {
        let own = bounded(database::copy_id(self.db)).await.map_err(|error| error.to_string())?;
        let is_own = |text: &str| CopyId::parse(text).is_some_and(|copy| copy.is_same(&own));
        match in_time(self.store.ruler()).await {
            Ok(Some(ruler)) if is_own(&ruler.copy) => Ok(Some(Rule::This)),
            Ok(Some(_)) | Err(StoreError::Damaged(_)) => Ok(Some(Rule::Another)),
            Ok(None) => match bounded(store_sweep::noted_copy(self.db)).await {
                Ok(Some(noted)) if !is_own(&noted) => Ok(Some(Rule::Another)),
                Ok(_) => Ok(None),
                Err(error) => Err(error.to_string()),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// Compares the ruler with this copy, which becomes it where there is none. Fails as [`Self::compare`].
    pub(super) async fn look(&self) -> Result<Rule, String> {
        match self.compare().await? {
            Some(Rule::This) => {
                self.note().await;
                Ok(Rule::This)
            }
            Some(Rule::Another) => Ok(Rule::Another),
            None => {
                self.take().await?;
                // Looked at again: two copies may have done so at the same time, and the later one has it.
                Ok(self.compare().await?.unwrap_or(Rule::Another))
            }
        }
    }

    /// Makes this copy the ruler, whichever was. Another one notices within seconds, and moves nothing any more.
    pub async fn take(&self) -> Result<(), String> {
        let own = bounded(database::copy_id(self.db)).await.map_err(|error| error.to_string())?;
        let ruler = StoredRuler::new(own.to_string(), self.clock.now());
        in_time(self.store.set_ruler(&ruler)).await.map_err(|error| error.to_string())?;
        self.note().await;
        Ok(())
    }

    async fn note(&self) {
        let noted = async {
            let own = bounded(database::copy_id(self.db)).await?;
            bounded(store_sweep::note_copy(self.db, &own.to_string())).await
        };
        match noted.await {
            Ok(()) => {}
            // A database that is not migrated yet has had no copies made of it.
            Err(error) if is_unmigrated(&error) => {}
            Err(error) => tracing::debug!(%error, "it could not be noted that this database rules the store"),
        }
    }
}
