//! The store, which carries the name of its database. Admin names one that is empty or has packs of this database; nothing in a
//! foreign one is touched.

use db::upkeep::identity;
use domain::{DeploymentId, Timestamp};
use packs::{DatabaseName, PackStore, StoreError};
use sqlx::PgPool;
use tokio::time::{Instant, timeout};

use super::{LOOK_WAIT, Refusal, Role, UNNAMED, Watch, bounded, ruler::Rule, show, words::Words};

/// Packs of a store that are looked up in the database, and packs of the database that are looked for in the store.
const PACKS_LOOKED_UP: usize = 1_000;
const PACKS_LOOKED_FOR: i64 = 10;

/// What a look at the store found.
pub(super) enum StoreState {
    /// It is this database's.
    Ours(Rule),
    /// It has no name, and is waiting for an admin to give it one.
    Unnamed,
    /// It has no name, and does not look like this database's.
    Unlike(Refusal),
    /// It is another database's, or its name cannot be made out.
    Foreign(Refusal),
    /// It cannot be reached, and why; or the database's name is not known yet.
    Unknown(Option<String>),
}

/// Whose the store is to a database, before anything is done about it.
pub(super) enum Belonging {
    /// It carries the database's name.
    Ours,
    /// It is to be given the database's name, which is safe, or was asked for: then with the name that it is taken over from.
    Nameable(Option<String>),
    /// It has no name, and an edge gives it none.
    Unnamed,
    /// See [`StoreState::Unlike`].
    Unlike(Refusal),
    /// See [`StoreState::Foreign`].
    Foreign(Refusal),
    /// It cannot be reached, or compared with the database.
    Unknown(String),
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

/// A look at a store, which changes nothing.
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
            // A folder that an admin would make.
            Err(StoreError::Absent(_)) if self.role == Role::Admin && !self.store.is_remote() => self.empty().await,
            Err(StoreError::Damaged(what)) => Belonging::Foreign(self.words.unreadable_name(&what)),
            Err(error) => Belonging::Unknown(error.to_string()),
        }
    }

    /// Of a store of another database: it is taken over, once, if the configuration says so by that one's name.
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

    /// Of a store that does not look like this database's: it is named, once, if the configuration says so.
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
            // Edges remove nothing, so that it is the same to them.
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
        // Looked at again: two admins of two databases may have done so at the same time, and the later one has it.
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

    /// Says why the program must not go on with this store, if so.
    pub(super) fn judge_store(&mut self, store: StoreState) -> Option<Refusal> {
        match store {
            StoreState::Ours(rule) => {
                show("store", false);
                match rule {
                    Rule::This => self.store.confirm(),
                    // Why, and what to do, is said where something would have been moved.
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
