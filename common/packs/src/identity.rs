//! The name of the database that a store belongs to: a small object at the store's root, beside `deployments`.
//!
//! A store is of use to one database only. Another one knows none of its packs, and would take all of them for orphans. What follows
//! from a name that is missing or another's is for the crate `checks`.

use std::sync::atomic::Ordering;

use domain::{DeploymentId, Timestamp};
use serde::{Deserialize, Serialize};

use super::{PackStore, Place, StoreError, blocking};

/// The object, or file, of the name.
pub const NAME_OBJECT: &str = "database.json";
/// The object that [`PackStore::try_out`] writes and deletes.
const TRIAL_OBJECT: &str = "doctor.json";
/// Most bytes of the object that are read.
const NAME_BYTES: u64 = 4 * 1024;
/// The form that [`DatabaseName`] is written in.
const VERSION: u32 = 1;

/// The name of a database, as it is written where something belongs to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseName {
    /// The form of this object.
    pub version: u32,
    /// The name of the database (`database_name`).
    pub database: String,
    /// The time of writing.
    pub written_at: Timestamp,
}

impl DatabaseName {
    /// The name as it is written now.
    pub fn new(database: String, now: Timestamp) -> Self {
        Self { version: VERSION, database, written_at: now }
    }

    /// Reads what [`Self::to_json`] wrote. Returns `None` for an empty text, which a crash may have left.
    pub fn from_json(json: &[u8]) -> Result<Option<Self>, String> {
        if json.trim_ascii().is_empty() {
            return Ok(None);
        }
        let name: Self = serde_json::from_slice(json).map_err(|error| error.to_string())?;
        // Later versions may add fields, and raise the number when the name means something else.
        if name.version == VERSION { Ok(Some(name)) } else { Err(format!("it has form {}", name.version)) }
    }

    /// The text that is written.
    pub fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}

impl PackStore {
    /// Returns the name of the database that the store belongs to; `None` before it was given one.
    pub async fn database_name(&self) -> Result<Option<DatabaseName>, StoreError> {
        let json = match &self.place {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.read_root(NAME_OBJECT, NAME_BYTES)).await?
            }
            Place::Bucket(bucket) => bucket.read_root(NAME_OBJECT, NAME_BYTES).await?,
        };
        match json {
            None => Ok(None),
            Some(json) => DatabaseName::from_json(&json)
                .map_err(|error| StoreError::Damaged(format!("{NAME_OBJECT} at the store's root: {error}"))),
        }
    }

    /// Gives the store a name, in the place of a former one. No condition holds two writers apart: look again afterwards.
    pub async fn set_database_name(&self, name: &DatabaseName) -> Result<(), StoreError> {
        self.put_at_root(NAME_OBJECT, name.to_json()).await
    }

    /// Returns some packs of the store, at most `most`; half-written ones too.
    pub async fn some_packs(&self, most: usize) -> Result<Vec<DeploymentId>, StoreError> {
        match &self.place {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.some_packs(most)).await
            }
            Place::Bucket(bucket) => bucket.some_packs(most).await,
        }
    }

    /// Writes an object of no meaning at the store's root and deletes it again.
    pub async fn try_out(&self) -> Result<(), StoreError> {
        self.put_at_root(TRIAL_OBJECT, b"{}".to_vec()).await?;
        match &self.place {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.delete_root(TRIAL_OBJECT)).await
            }
            Place::Bucket(bucket) => bucket.delete_root(TRIAL_OBJECT).await,
        }
    }

    /// Keeps packs from being removed until [`Self::confirm`], in all clones: whose store this is is not known yet.
    pub fn hold_removals(&self) {
        self.is_held.store(true, Ordering::Relaxed);
    }

    /// Ends [`Self::hold_removals`]: the store is known to be this database's.
    pub fn confirm(&self) {
        self.is_held.store(false, Ordering::Relaxed);
    }

    /// Fails while removals are held. To be asked before anything in the store is removed or moved.
    pub fn removals_allowed(&self) -> Result<(), StoreError> {
        if self.is_held.load(Ordering::Relaxed) { Err(StoreError::Unconfirmed) } else { Ok(()) }
    }

    async fn put_at_root(&self, name: &'static str, json: Vec<u8>) -> Result<(), StoreError> {
        match &self.place {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || folder.write_root(name, &json)).await
            }
            Place::Bucket(bucket) => bucket.write_root(name, json).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
