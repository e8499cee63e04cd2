//! Compares the master key, or an edge's derived keys, with a value that is sealed in the database, until it was found
//! right once. After that, a key file that lags behind a rotation costs a running program only the new values.

use db::upkeep::master_key::{self, WrongKeyError};

use super::{IdentityError, IdentityWatch, ProgramKeys, show, with_timeout};

/// The result of comparing the master key with the database.
pub(super) enum KeyState {
    /// The key opens the database's value.
    Right,
    /// The key does not open it.
    Wrong(WrongKeyError),
    /// The database is unreachable or has not been migrated yet.
    Unknown,
}

impl IdentityWatch {
    pub(super) async fn look_at_key(&self) -> KeyState {
        if self.key_is_right {
            return KeyState::Right;
        }
        match with_timeout(self.check_key()).await {
            Ok(None) => KeyState::Right,
            Ok(Some(wrong)) => KeyState::Wrong(wrong),
            Err(error) => {
                tracing::debug!(%error, "the master key cannot be checked");
                KeyState::Unknown
            }
        }
    }

    async fn check_key(&self) -> Result<Option<WrongKeyError>, sqlx::Error> {
        match &self.keys {
            ProgramKeys::Admin(master) => master_key::check(&self.db, master, true).await,
            ProgramKeys::Edge(key) => master_key::check_edge(&self.db, key).await,
        }
    }

    pub(super) fn apply_key_state(&mut self, key: &KeyState) -> Result<(), IdentityError> {
        match key {
            KeyState::Right => {
                self.key_is_right = true;
                show("master_key", false);
                Ok(())
            }
            KeyState::Wrong(wrong) => {
                show("master_key", true);
                Err(self.words.wrong_key(wrong, self.role))
            }
            KeyState::Unknown => Ok(()),
        }
    }
}
