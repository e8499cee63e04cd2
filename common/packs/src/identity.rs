//! The identity of the database that owns a store: a small object at the store's root, next to `deployments`.
//!
//! A store serves one database only. Another database knows none of its packs and would treat all of them as orphans.
//! The crate `checks` handles a missing or foreign name.

use std::sync::atomic::Ordering;

use domain::{DeploymentId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{PackStore, StoreBackend, StoreError, blocking};

/// The object or file with the database's name.
pub const NAME_OBJECT: &str = "database.json";
/// The object that names the copy of the database which rules the store. Programs that do not know it ignore it.
pub const RULER_OBJECT: &str = "ruler.json";
/// The object that [`PackStore::probe_write`] writes and deletes.
const TRIAL_OBJECT: &str = "doctor.json";
/// Maximum bytes of these objects that are read.
const NAME_BYTES: u64 = 4 * 1024;
/// The format version of [`DatabaseName`].
const VERSION: u32 = 1;

/// The name of a database, as recorded in what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseName {
    /// The format version of this object.
    pub version: u32,
    /// The name of the database (`database_name`).
    pub database: String,
    /// The time of writing.
    pub written_at: Timestamp,
}

impl DatabaseName {
    /// Creates a record of the name, dated `now`.
    pub fn new(database: String, now: Timestamp) -> Self {
        Self { version: VERSION, database, written_at: now }
    }

    /// Parses the output of [`Self::to_json`]. Returns `None` for an empty text, which a crash may have left.
    pub fn from_json(json: &[u8]) -> Result<Option<Self>, String> {
        if json.trim_ascii().is_empty() {
            return Ok(None);
        }
        let name: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        // Later versions may add fields, and increase the number if the meaning of the name changes.
        if name.version == VERSION { Ok(Some(name)) } else { Err(format!("it has form {}", name.version)) }
    }

    /// Serializes the record.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// The copy of a database that rules a store: the only copy that moves and deletes packs.
///
/// Copies share the same [`DatabaseName`], because a dump contains it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoreRuler {
    /// The format version of this object.
    pub version: u32,
    /// The identifier that tells the copy from others, as the database writes it.
    pub copy: String,
    /// The time of writing.
    pub written_at: Timestamp,
}

impl StoreRuler {
    /// Creates a record of the ruler, dated `now`.
    pub fn new(copy: String, now: Timestamp) -> Self {
        Self { version: VERSION, copy, written_at: now }
    }
}

/// Whether packs may be removed, as stored in [`PackStore`]'s `held`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RemovalHold {
    None = 0,
    Unconfirmed = 1,
    RuledElsewhere = 2,
}

impl PackStore {
    /// Returns the name of the database that owns the store, or `None` if it has no name yet.
    pub async fn database_name(&self) -> Result<Option<DatabaseName>, StoreError> {
        match self.get_at_root(NAME_OBJECT).await? {
            None => Ok(None),
            Some(json) => DatabaseName::from_json(&json)
                .map_err(|error| StoreError::Damaged(format!("{NAME_OBJECT} at the store's root: {error}"))),
        }
    }

    /// Returns the copy of the database that rules the store, or `None` if there is none yet.
    pub async fn ruler(&self) -> Result<Option<StoreRuler>, StoreError> {
        let Some(json) = self.get_at_root(RULER_OBJECT).await? else { return Ok(None) };
        if json.trim_ascii().is_empty() {
            return Ok(None);
        }
        let damaged =
            |error: &dyn std::fmt::Display| StoreError::Damaged(format!("{RULER_OBJECT} at the store's root: {error}"));
        let ruler: StoreRuler = serde_json::from_slice(&json).map_err(|error| damaged(&error))?;
        if ruler.version == VERSION { Ok(Some(ruler)) } else { Err(damaged(&format!("it has form {}", ruler.version))) }
    }

    /// Sets the copy that rules the store, unconditionally: concurrent writers must read it again afterwards.
    pub async fn set_ruler(&self, ruler: &StoreRuler) -> Result<(), StoreError> {
        self.put_at_root(RULER_OBJECT, serde_json::to_vec(ruler).unwrap_or_default()).await
    }

    /// Names the store, replacing any former name, unconditionally: concurrent writers must read it again afterwards.
    pub async fn set_database_name(&self, name: &DatabaseName) -> Result<(), StoreError> {
        self.put_at_root(NAME_OBJECT, name.to_json()).await
    }

    /// Returns at most `most` packs of the store, including unfinished ones.
    pub async fn some_packs(&self, most: usize) -> Result<Vec<DeploymentId>, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.some_packs(most)).await
            }
            StoreBackend::Bucket(bucket) => bucket.some_packs(most).await,
        }
    }

    /// Writes a dummy object at the store's root and deletes it again.
    pub async fn probe_write(&self) -> Result<(), StoreError> {
        self.put_at_root(TRIAL_OBJECT, b"{}".to_vec()).await?;
        match &self.place {
            StoreBackend::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.delete_root(TRIAL_OBJECT)).await
            }
            StoreBackend::Bucket(bucket) => bucket.delete_root(TRIAL_OBJECT).await,
        }
    }

    /// Blocks removals in all clones until [`Self::confirm`], because the owner of the store is not known yet.
    pub fn hold_removals(&self) {
        self.hold(RemovalHold::Unconfirmed);
    }

    /// Blocks removals in all clones until [`Self::confirm`], because another copy of the database rules the store.
    pub fn hold_for_ruler(&self) {
        self.hold(RemovalHold::RuledElsewhere);
    }

    /// Reverts [`Self::hold_removals`] and [`Self::hold_for_ruler`]: the store is known to be this database's.
    pub fn confirm(&self) {
        self.hold(RemovalHold::None);
    }

    fn hold(&self, hold: RemovalHold) {
        self.held.store(hold as u8, Ordering::Relaxed);
    }

    /// Returns whether another copy of the database rules the store, as set by [`Self::hold_for_ruler`].
    pub fn is_ruled_elsewhere(&self) -> bool {
        self.held.load(Ordering::Relaxed) == RemovalHold::RuledElsewhere as u8
    }

    /// Fails while removals are blocked. Must be called before anything in the store is removed or moved.
    pub fn check_removals_allowed(&self) -> Result<(), StoreError> {
        match self.held.load(Ordering::Relaxed) {
            held if held == RemovalHold::None as u8 => Ok(()),
            held if held == RemovalHold::RuledElsewhere as u8 => Err(StoreError::RuledElsewhere),
            _ => Err(StoreError::Unconfirmed),
        }
    }

    async fn get_at_root(&self, name: &'static str) -> Result<Option<Vec<u8>>, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.read_root(name, NAME_BYTES)).await
            }
            StoreBackend::Bucket(bucket) => bucket.read_root(name, NAME_BYTES).await,
        }
    }

    async fn put_at_root(&self, name: &'static str, json: Vec<u8>) -> Result<(), StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.write_root(name, &json)).await
            }
            StoreBackend::Bucket(bucket) => bucket.write_root(name, json).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_another_copy_rules_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let url = url::Url::from_directory_path(folder.path()).unwrap();
        let store = PackStore::open(&config::Store { url, ..config::Store::default() }).unwrap();
        assert_eq!(store.ruler().await.unwrap(), None);
        let ruler = StoreRuler::new("7-16384".to_owned(), Timestamp::from_unix_millis(1_700_000_000_000));
        store.set_ruler(&ruler).await.unwrap();
        assert_eq!(store.ruler().await.unwrap(), Some(ruler));
        store.hold_for_ruler();
        let id: DeploymentId = "dep_00000000000000000001".parse().unwrap();
        assert!(store.clone().is_ruled_elsewhere());
        assert!(matches!(store.trash(&id).await, Err(StoreError::RuledElsewhere)));
        assert!(matches!(store.purge(&id).await, Err(StoreError::RuledElsewhere)));
        assert!(matches!(store.remove(&id).await, Err(StoreError::RuledElsewhere)));
        store.confirm();
        assert!(!store.trash(&id).await.unwrap());
        std::fs::write(folder.path().join(RULER_OBJECT), "{").unwrap();
        assert!(matches!(store.ruler().await, Err(StoreError::Damaged(_))));
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_is_not_a_store_without_packs() {
        let folder = tempfile::tempdir().unwrap();
        let url = url::Url::from_directory_path(folder.path().join("store")).unwrap();
        let config = config::Store { url, ..config::Store::default() };
        let look = PackStore::open_existing(&config).unwrap();
        let id: DeploymentId = "dep_00000000000000000001".parse().unwrap();
        assert!(matches!(look.some_packs(1).await, Err(StoreError::Absent(_))));
        assert!(matches!(look.manifest(&id).await, Err(StoreError::Absent(_))));
        assert!(matches!(look.database_name().await, Err(StoreError::Absent(_))));
        assert!(!folder.path().join("store").exists(), "a look makes nothing");
        let store = PackStore::open(&config).unwrap();
        assert!(matches!(store.manifest(&id).await, Err(StoreError::NotFound)));
        assert_eq!(store.some_packs(1).await.unwrap(), Vec::new());
        std::fs::remove_dir_all(folder.path().join("store")).unwrap();
        for error in [
            store.manifest(&id).await.unwrap_err(),
            store.ping().await.unwrap_err(),
            store.trash(&id).await.unwrap_err(),
            store.page(None, 1).await.unwrap_err(),
        ] {
            assert!(matches!(error, StoreError::Absent(_)) && error.is_transient(), "{error}");
        }
    }

    #[test]
    fn a_name_is_read_by_later_and_earlier_versions() {
        let name = DatabaseName::new("0af3".to_owned(), Timestamp::from_unix_millis(1_700_000_000_000));
        assert_eq!(DatabaseName::from_json(&name.to_json()), Ok(Some(name.clone())));
        let more = br#"{"version":1,"database":"0af3","written_at":"2023-11-14T22:13:20.000Z","more":[1]}"#;
        assert_eq!(DatabaseName::from_json(more).map(|name| name.map(|name| name.database)), Ok(Some("0af3".into())));
        assert_eq!(DatabaseName::from_json(b"\n"), Ok(None));
        assert!(
            DatabaseName::from_json(br#"{"version":2,"database":"a","written_at":"2023-11-14T22:13:20Z"}"#).is_err()
        );
        assert!(DatabaseName::from_json(b"nonsense").is_err());
    }
}
