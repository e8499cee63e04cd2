//! The store, which carries the name of its database. Admin names one that is empty or has packs of this database; nothing in a
//! foreign one is touched.

use db::upkeep::identity;
use domain::DeploymentId;
use packs::{DatabaseName, StoreError};
use tokio::time::{Instant, timeout};

use super::{LOOK_WAIT, Refusal, Role, UNNAMED, Watch, bounded, show};

/// Packs of a store that are looked up in the database, and packs of the database that are looked for in the store.
const PACKS_LOOKED_UP: usize = 1_000;
const PACKS_LOOKED_FOR: i64 = 10;

/// What a look at the store found.
pub(super) enum StoreState {
    /// It is this database's.
    Ours,
    /// It has no name, and is waiting for an admin to give it one.
    Unnamed,
    /// It has no name, and does not look like this database's.
    Unlike(Refusal),
    /// It is another database's, or its name cannot be made out.
    Foreign(Refusal),
    /// It cannot be reached, or the database's name is not known yet.
    Unknown,
}

/// What can be told of a store without a name.
enum Likeness {
    /// It is empty, and so is the database; or it has packs of this database.
    Ours,
    /// It has packs, of which this database knows none.
    OtherPacks,
    /// It is empty, and this database has packs.
    Empty,
}

impl Watch {
    pub(super) async fn look_at_store(&self, database: &str) -> StoreState {
        match in_time(self.store.database_name()).await {
            Ok(Some(name)) if name.database == database => StoreState::Ours,
            Ok(Some(name)) => self.take_store_over(&name.database, database).await,
            Ok(None) if self.role == Role::Edge => StoreState::Unnamed,
            Ok(None) => self.name_store(database).await,
            Err(StoreError::Damaged(what)) => StoreState::Foreign(self.words.unreadable_name(&what)),
            Err(error) => {
                tracing::debug!(%error, "the store's name cannot be read");
                StoreState::Unknown
            }
        }
    }

    /// Takes a store over from another database, once, if the configuration says so by that one's name.
    async fn take_store_over(&self, former: &str, database: &str) -> StoreState {
        let is_wanted = self.role == Role::Admin && self.words.store_take_over() == Some(former);
        let foreign = || StoreState::Foreign(self.words.foreign_store(former, self.database(), self.role));
        if !is_wanted {
            return foreign();
        }
        match bounded(identity::taken_over_at(&self.db, "store", former)).await {
            Ok(None) => self.write_name(database, Some(former)).await,
            Ok(Some(at)) => {
                tracing::warn!(former, %at, "store.take_over_from was followed once already, and is not again");
                foreign()
            }
            Err(_) => StoreState::Unknown,
        }
    }

    /// Names a store that has no name, if that is safe.
    async fn name_store(&self, database: &str) -> StoreState {
        let likeness = match self.likeness().await {
            Ok(likeness) => likeness,
            Err(error) => {
                tracing::debug!(error, "the store cannot be compared with the database");
                return StoreState::Unknown;
            }
        };
        let is_wanted = self.words.store_take_over() == Some(UNNAMED)
            && matches!(bounded(identity::taken_over_at(&self.db, "store", UNNAMED)).await, Ok(None));
        match likeness {
            Likeness::Ours => self.write_name(database, None).await,
            _ if is_wanted => self.write_name(database, Some(UNNAMED)).await,
            Likeness::OtherPacks => StoreState::Unlike(self.words.unknown_packs(self.database())),
            Likeness::Empty => StoreState::Unlike(self.words.empty_store(self.database())),
        }
    }

    async fn likeness(&self) -> Result<Likeness, String> {
        let packs = in_time(self.store.some_packs(PACKS_LOOKED_UP)).await.map_err(|error| error.to_string())?;
        if bounded(identity::knows_any(&self.db, &packs)).await.map_err(|error| error.to_string())? {
            return Ok(Likeness::Ours);
        }
        let wanted = bounded(identity::newest_packs(&self.db, PACKS_LOOKED_FOR)).await;
        let wanted = wanted.map_err(|error| error.to_string())?;
        for id in &wanted {
            if self.has(id).await.map_err(|error| error.to_string())? {
                return Ok(Likeness::Ours);
            }
        }
        Ok(match (packs.is_empty(), wanted.is_empty()) {
            (true, true) => Likeness::Ours,
            (true, false) => Likeness::Empty,
            (false, _) => Likeness::OtherPacks,
        })
    }

    async fn has(&self, id: &DeploymentId) -> Result<bool, StoreError> {
        match in_time(self.store.open_manifest(id)).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }

    async fn write_name(&self, database: &str, former: Option<&str>) -> StoreState {
        let name = DatabaseName::new(database.to_owned(), self.clock.now());
        // Looked at again: two admins of two databases may have done so at the same time, and the later one has it.
        let written = in_time(async {
            self.store.set_database_name(&name).await?;
            self.store.database_name().await
        });
        match written.await {
            Ok(Some(written)) if written.database == database => {}
            Ok(_) => return StoreState::Unknown,
            Err(error) => {
                tracing::warn!(%error, "the store cannot be given the name of its database");
                return StoreState::Unknown;
            }
        }
        match former {
            None => tracing::info!(database, "the store carries the name of this database now"),
            Some(former) => {
                tracing::warn!(
                    former,
                    database,
                    "this database has taken the store over (store.take_over_from, which can be removed now)"
                );
                if let Err(error) = bounded(identity::note_take_over(&self.db, "store", former, self.clock.now())).await
                {
                    tracing::warn!(%error, "the take-over of the store could not be noted: remove store.take_over_from");
                }
            }
        }
        StoreState::Ours
    }

    /// Says why the program must not go on with this store, if so.
    pub(super) fn judge_store(&mut self, store: StoreState) -> Option<Refusal> {
        match store {
            StoreState::Ours => {
                show("store", false);
                self.store.confirm();
                (self.store_is_ours, self.unnamed_since, self.said) = (true, None, None);
                None
            }
            StoreState::Unnamed => {
                show("store", true);
                self.store.hold_removals();
                self.unnamed_since.get_or_insert_with(Instant::now);
                self.say_once(self.words.unnamed().0);
                None
            }
            // It had its name, and has lost it, perhaps with everything else: visitors are still served what is in memory.
            StoreState::Unlike(refusal) if self.store_is_ours => {
                show("store", true);
                self.store.hold_removals();
                self.say_once(refusal.0);
                None
            }
            StoreState::Unlike(refusal) | StoreState::Foreign(refusal) => {
                show("store", true);
                self.store.hold_removals();
                Some(refusal)
            }
            StoreState::Unknown => None,
        }
    }

    fn say_once(&mut self, what: String) {
        if self.said.as_ref() != Some(&what) {
            if self.store_is_ours {
                tracing::error!("{what}");
            } else {
                tracing::warn!("{what}");
            }
            self.said = Some(what);
        }
    }
}

async fn in_time<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Io(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(LOOK_WAIT, asked).await.unwrap_or_else(|_| Err(late()))
}
