//! Checks the store, which carries the name of its database. Admin names a store that is empty or has packs of this
//! database; a foreign store is not touched.

use db::upkeep::identity;
use domain::{DeploymentId, Timestamp};
use packs::{DatabaseName, PackStore, StoreError};
use sqlx::PgPool;
use tokio::time::{Instant, timeout};

use super::{LOOK_WAIT, Refusal, Role, UNNAMED, Watch, bounded, ruler::Rule, show, words::Words};

/// The number of packs from the store to find in the database, and from the database to find in the store.
const PACKS_LOOKED_UP: usize = 1_000;
const PACKS_LOOKED_FOR: i64 = 10;

/// The result of checking the store.
pub(super) enum StoreState {
    /// It belongs to this database.
    Ours(Rule),
    /// It has no name, and waits for an admin to name it.
    Unnamed,
    /// It has no name, and does not look like this database's.
    Unlike(Refusal),
    /// It belongs to another database, or its name is unreadable.
    Foreign(Refusal),
    /// It is unreachable, with the reason; or the database's name is not known yet.
    Unknown(Option<String>),
}

/// Whom the store belongs to, before anything is changed.
pub(super) enum Belonging {
    /// It carries the database's name.
    Ours,
    /// It can be named after the database, because that is safe or configured, then with the name to take it over from.
    Nameable(Option<String>),
    /// It has no name, and an edge cannot name it.
    Unnamed,
    /// See [`StoreState::Unlike`].
    Unlike(Refusal),
    /// See [`StoreState::Foreign`].
    Foreign(Refusal),
    /// It is unreachable, or could not be compared with the database.
    Unknown(String),
}

/// The evidence in a store without a name.
enum Likeness {
    /// Both it and the database are empty, or it has packs of this database.
    Ours,
    /// It has packs, but none that this database knows.
    OtherPacks,
    /// It is empty, but this database has packs.
    Empty,
}

/// Examines a store without changing it.
pub(super) struct StoreLook<'a> {
    pub(super) db: &'a PgPool,
    pub(super) store: &'a PackStore,
    pub(super) words: &'a Words,
    pub(super) role: Role,
    /// The database's name.
    pub(super) database: &'a str,
}

impl StoreLook<'_> {
    pub(super) async fn belonging(&self) -> Belonging {
        match in_time(self.store.database_name()).await {
            Ok(Some(name)) if name.database == self.database => Belonging::Ours,
            Ok(Some(name)) => self.another(&name.database).await,
            Ok(None) if self.role == Role::Edge => Belonging::Unnamed,
            Ok(None) => self.without_name().await,
            // Admin would create this folder.
            Err(StoreError::Absent(_)) if self.role == Role::Admin && !self.store.is_remote() => self.empty().await,
            Err(StoreError::Damaged(what)) => Belonging::Foreign(self.words.unreadable_name(&what)),
            Err(error) => Belonging::Unknown(error.to_string()),
        }
    }

    /// Examines the store of another database. It is taken over, once, if the configuration names that database.
    async fn another(&self, former: &str) -> Belonging {
        let foreign = || Belonging::Foreign(self.words.foreign_store(former, Some(self.database), self.role));
        if self.role == Role::Edge || self.words.store_take_over() != Some(former) {
            return foreign();
        }
        match bounded(identity::taken_over_at(self.db, "store", former)).await {
            Ok(None) => Belonging::Nameable(Some(former.to_owned())),
            Ok(Some(at)) => Belonging::Foreign(self.words.used_up_store(former, Some(self.database), at)),
            Err(error) => Belonging::Unknown(error.to_string()),
        }
    }

    async fn without_name(&self) -> Belonging {
        match self.likeness().await {
            Ok(Likeness::Ours) => Belonging::Nameable(None),
            Ok(Likeness::OtherPacks) => self.unlike(Words::unknown_packs).await,
            Ok(Likeness::Empty) => self.unlike(Words::empty_store).await,
            Err(error) => Belonging::Unknown(error),
        }
    }

    async fn empty(&self) -> Belonging {
        match bounded(identity::newest_packs(self.db, 1)).await {
            Ok(wanted) if wanted.is_empty() => Belonging::Nameable(None),
            Ok(_) => self.unlike(Words::empty_store).await,
            Err(error) => Belonging::Unknown(error.to_string()),
        }
    }

    /// Examines a store that does not look like this database's. It is named, once, if the configuration says so.
    async fn unlike(&self, sentence: fn(&Words, Option<&str>, Option<Timestamp>) -> Refusal) -> Belonging {
        let refused = |used_up| Belonging::Unlike(sentence(self.words, Some(self.database), used_up));
        if self.words.store_take_over() != Some(UNNAMED) {
            return refused(None);
        }
        match bounded(identity::taken_over_at(self.db, "store", UNNAMED)).await {
            Ok(None) => Belonging::Nameable(Some(UNNAMED.to_owned())),
            Ok(at) => refused(at),
            Err(error) => Belonging::Unknown(error.to_string()),
        }
    }

    async fn likeness(&self) -> Result<Likeness, String> {
        let packs = in_time(self.store.some_packs(PACKS_LOOKED_UP)).await.map_err(|error| error.to_string())?;
        if bounded(identity::knows_any(self.db, &packs)).await.map_err(|error| error.to_string())? {
            return Ok(Likeness::Ours);
        }
        let wanted = bounded(identity::newest_packs(self.db, PACKS_LOOKED_FOR)).await;
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
}

impl Watch {
    pub(super) async fn look_at_store(&self, database: &str) -> StoreState {
        let (db, store, words, role) = (&self.db, &self.store, &self.words, self.role);
        match (StoreLook { db, store, words, role, database }).belonging().await {
            // Edges remove nothing, so the ruler does not matter to them.
            Belonging::Ours if role == Role::Edge => StoreState::Ours(Rule::This),
            Belonging::Ours => self.ruled().await,
            Belonging::Nameable(former) => self.write_name(database, former.as_deref()).await,
            Belonging::Unnamed => StoreState::Unnamed,
            Belonging::Unlike(refusal) => StoreState::Unlike(refusal),
            Belonging::Foreign(refusal) => StoreState::Foreign(refusal),
            Belonging::Unknown(why) => StoreState::Unknown(Some(why)),
        }
    }

    async fn ruled(&self) -> StoreState {
        match self.ruler().look().await {
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
        if let Err(error) = bounded(identity::note_take_over(&self.db, "store", former, self.clock.now())).await {
            tracing::warn!(%error, "the take-over of the store could not be noted: remove store.take_over_from");
        }
        match self.ruler().take().await {
            Ok(()) => StoreState::Ours(Rule::This),
            Err(why) => StoreState::Unknown(Some(why)),
        }
    }

    /// Applies the result of a check. Returns why the program must not continue with this store, if so.
    pub(super) fn judge_store(&mut self, store: StoreState) -> Option<Refusal> {
        match store {
            StoreState::Ours(rule) => {
                show("store", false);
                match rule {
                    Rule::This => self.store.confirm(),
                    // The reason and the remedy are reported when something would have been moved.
                    Rule::Another => self.store.leave_to_ruler(),
                }
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
            // The store has lost its name, perhaps with all its contents: sites in memory are still served.
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
            StoreState::Unknown(why) => {
                if let Some(why) = why {
                    self.say_once(self.words.store_away(&why));
                }
                None
            }
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

pub(super) async fn in_time<T>(asked: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let late = || StoreError::Io(std::io::Error::from(std::io::ErrorKind::TimedOut));
    timeout(LOOK_WAIT, asked).await.unwrap_or_else(|_| Err(late()))
}
