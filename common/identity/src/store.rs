//! Checks the store, which carries the name of its database. Admin names a store that is empty or has packs of this
//! database; a foreign store is not touched.

use db::upkeep::identity;
use domain::{DeploymentId, Timestamp};
use packs::{DatabaseName, PackStore, StoreError};
use sqlx::PgPool;
use tokio::time::{Instant, timeout};

use super::{
    CHECK_TIMEOUT, IdentityError, IdentityWatch, ProgramRole, UNNAMED, ruler::RulerStatus, show, with_timeout,
    words::MessageContext,
};

/// The number of packs from the store to find in the database, and from the database to find in the store.
const PACKS_LOOKED_UP: usize = 1_000;
const PACKS_LOOKED_FOR: i64 = 10;

/// The result of checking the store.
pub(super) enum StoreState {
    /// It belongs to this database.
    Ours(RulerStatus),
    /// It has no name, and waits for an admin to name it.
    Unnamed,
    /// It has no name, and does not look like this database's.
    Unlike(IdentityError),
    /// It belongs to another database, or its name is unreadable.
    Foreign(IdentityError),
    /// It is unreachable, with the reason; or the database's name is not known yet.
    Unknown(Option<String>),
}

/// Whom the store belongs to, before anything is changed.
pub(super) enum StoreOwnership {
    /// It carries the database's name.
    Ours,
    /// It can be named after the database, because that is safe or configured, then with the name to take it over from.
    Nameable(Option<String>),
    /// It has no name, and an edge cannot name it.
    Unnamed,
    /// See [`StoreState::Unlike`].
    Unlike(IdentityError),
    /// See [`StoreState::Foreign`].
    Foreign(IdentityError),
    /// It is unreachable, or could not be compared with the database.
    Unknown(String),
}

/// The evidence in a store without a name.
enum StoreContents {
    /// Both it and the database are empty, or it has packs of this database.
    Ours,
    /// It has packs, but none that this database knows.
    OtherPacks,
    /// It is empty, but this database has packs.
    Empty,
}

/// Examines a store without changing it.
pub(super) struct StoreExamination<'a> {
    pub(super) db: &'a PgPool,
    pub(super) store: &'a PackStore,
    pub(super) words: &'a MessageContext,
    pub(super) role: ProgramRole,
    /// The database's name.
    pub(super) database: &'a str,
}

impl StoreExamination<'_> {
    pub(super) async fn belonging(&self) -> StoreOwnership {
        match in_time(self.store.database_name()).await {
            Ok(Some(name)) if name.database == self.database => StoreOwnership::Ours,
            Ok(Some(name)) => self.foreign_ownership(&name.database).await,
            Ok(None) if self.role == ProgramRole::Edge => StoreOwnership::Unnamed,
            Ok(None) => self.without_name().await,
            // Admin would create this folder.
            Err(StoreError::Absent(_)) if self.role == ProgramRole::Admin && !self.store.is_remote() => {
                self.empty().await
            }
            Err(StoreError::Damaged(what)) => StoreOwnership::Foreign(self.words.unreadable_name(&what)),
            Err(error) => StoreOwnership::Unknown(error.to_string()),
        }
    }

    /// Examines the store of another database. It is taken over, once, if the configuration names that database.
    async fn foreign_ownership(&self, former: &str) -> StoreOwnership {
        let foreign = || StoreOwnership::Foreign(self.words.foreign_store(former, Some(self.database), self.role));
        if self.role == ProgramRole::Edge || self.words.store_take_over() != Some(former) {
            return foreign();
        }
        match with_timeout(identity::taken_over_at(self.db, "store", former)).await {
            Ok(None) => StoreOwnership::Nameable(Some(former.to_owned())),
            Ok(Some(at)) => StoreOwnership::Foreign(self.words.used_up_store(former, Some(self.database), at)),
            Err(error) => StoreOwnership::Unknown(error.to_string()),
        }
    }

    async fn without_name(&self) -> StoreOwnership {
        match self.likeness().await {
            Ok(StoreContents::Ours) => StoreOwnership::Nameable(None),
            Ok(StoreContents::OtherPacks) => self.mismatched_ownership(MessageContext::unknown_packs).await,
            Ok(StoreContents::Empty) => self.mismatched_ownership(MessageContext::empty_store).await,
            Err(error) => StoreOwnership::Unknown(error),
        }
    }

    async fn empty(&self) -> StoreOwnership {
        match with_timeout(identity::newest_packs(self.db, 1)).await {
            Ok(wanted) if wanted.is_empty() => StoreOwnership::Nameable(None),
            Ok(_) => self.mismatched_ownership(MessageContext::empty_store).await,
            Err(error) => StoreOwnership::Unknown(error.to_string()),
        }
    }

    /// Examines a store that does not look like this database's. It is named, once, if the configuration says so.
    async fn mismatched_ownership(
        &self,
        sentence: fn(&MessageContext, Option<&str>, Option<Timestamp>) -> IdentityError,
    ) -> StoreOwnership {
        let refused = |used_up| StoreOwnership::Unlike(sentence(self.words, Some(self.database), used_up));
        if self.words.store_take_over() != Some(UNNAMED) {
            return refused(None);
        }
        match with_timeout(identity::taken_over_at(self.db, "store", UNNAMED)).await {
            Ok(None) => StoreOwnership::Nameable(Some(UNNAMED.to_owned())),
            Ok(at) => refused(at),
            Err(error) => StoreOwnership::Unknown(error.to_string()),
        }
    }

    async fn likeness(&self) -> Result<StoreContents, String> {
        let packs = in_time(self.store.some_packs(PACKS_LOOKED_UP)).await.map_err(|error| error.to_string())?;
        if with_timeout(identity::has_any(self.db, &packs)).await.map_err(|error| error.to_string())? {
            return Ok(StoreContents::Ours);
        }
        let wanted = with_timeout(identity::newest_packs(self.db, PACKS_LOOKED_FOR)).await;
        let wanted = wanted.map_err(|error| error.to_string())?;
        for id in &wanted {
            if self.has_pack(id).await.map_err(|error| error.to_string())? {
                return Ok(StoreContents::Ours);
            }
        }
        Ok(match (packs.is_empty(), wanted.is_empty()) {
            (true, true) => StoreContents::Ours,
            (true, false) => StoreContents::Empty,
            (false, _) => StoreContents::OtherPacks,
        })
    }

    async fn has_pack(&self, id: &DeploymentId) -> Result<bool, StoreError> {
        match in_time(self.store.open_manifest(id)).await {
            Ok(_) => Ok(true),
            Err(StoreError::NotFound) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl IdentityWatch {
    pub(super) async fn look_at_store(&self, database: &str) -> StoreState {
        let (db, store, words, role) = (&self.db, &self.store, &self.words, self.role);
        match (StoreExamination { db, store, words, role, database }).belonging().await {
            // Edges remove nothing, so the ruler does not matter to them.
            StoreOwnership::Ours if role == ProgramRole::Edge => StoreState::Ours(RulerStatus::This),
            StoreOwnership::Ours => self.ruled().await,
            StoreOwnership::Nameable(former) => self.write_name(database, former.as_deref()).await,
            StoreOwnership::Unnamed => StoreState::Unnamed,
            StoreOwnership::Unlike(refusal) => StoreState::Unlike(refusal),
            StoreOwnership::Foreign(refusal) => StoreState::Foreign(refusal),
            StoreOwnership::Unknown(why) => StoreState::Unknown(Some(why)),
        }
    }

    async fn ruled(&self) -> StoreState {
        match self.ruler().compare_or_take().await {
            Ok(rule) => StoreState::Ours(rule),
            Err(why) => StoreState::Unknown(Some(why)),
        }
    }

    pub(super) async fn write_name(&self, database: &str, former: Option<&str>) -> StoreState {
        let name = DatabaseName::new(database.to_owned(), self.clock.now());
        // Read it again: if admins of two databases wrote at the same time, the later one owns the store.
        let written = in_time(async {
            self.store.set_database_name(&name).await?;
            self.store.database_name().await
        });
        match written.await {
            Ok(Some(written)) if written.database == database => {}
            Ok(_) => return StoreState::Unknown(None),
            Err(error) => {
                tracing::warn!(%error, "the store cannot be given the name of its database");
                return StoreState::Unknown(None);
            }
        }
        let Some(former) = former else {
            tracing::info!(database, "the store carries the name of this database now");
            return self.ruled().await;
        };
        tracing::warn!(
            former,
            database,
            "this database has taken the store over (store.take_over_from, which can be removed now)"
        );
        if let Err(error) = with_timeout(identity::record_take_over(&self.db, "store", former, self.clock.now())).await
        {
            tracing::warn!(%error, "the take-over of the store could not be noted: remove store.take_over_from");
        }
        match self.ruler().take().await {
            Ok(()) => StoreState::Ours(RulerStatus::This),
            Err(why) => StoreState::Unknown(Some(why)),
        }
    }

    /// Applies the result of a check. Returns why the program must not continue with this store, if so.
    pub(super) fn apply_store_state(&mut self, store: StoreState) -> Option<IdentityError> {
        match store {
            StoreState::Ours(rule) => {
                show("store", false);
                match rule {
                    RulerStatus::This => self.store.confirm(),
                    // The reason and the remedy are reported when something would have been moved.
                    RulerStatus::Another => self.store.hold_for_ruler(),
                }
                (self.store_is_ours, self.unnamed_since, self.said) = (true, None, None);
                None
            }
            StoreState::Unnamed => {
                show("store", true);
                self.store.hold_removals();
                self.unnamed_since.get_or_insert_with(Instant::now);
                self.log_once(self.words.unnamed().0);
                None
            }
            // The store has lost its name, perhaps with all its contents: sites in memory are still served.
            StoreState::Unlike(refusal) if self.store_is_ours => {
                show("store", true);
                self.store.hold_removals();
                self.log_once(refusal.0);
                None
            }
            StoreState::Unlike(refusal) | StoreState::Foreign(refusal) => {
                show("store", true);
                self.store.hold_removals();
                Some(refusal)
            }
            StoreState::Unknown(why) => {
                if let Some(why) = why {
                    self.log_once(self.words.store_away(&why));
                }
                None
            }
        }
    }

    fn log_once(&mut self, what: String) {
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

pub(super) async fn in_time<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Io(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(CHECK_TIMEOUT, asked).await.unwrap_or_else(|_| Err(late()))
}
