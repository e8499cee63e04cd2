//! The master key, or what an edge has of it, against what the database has sealed. Looked at until it was found right once: a key file that is behind a rotation
//! costs a running program the new values, not the old ones.

use db::upkeep::master_key::{self, WrongKey};

use super::{Keys, Refusal, Watch, bounded, show};

/// What a look at the master key found.
pub(super) enum KeyState {
    /// It opens what the database has.
    Right,
    /// It does not.
    Wrong(WrongKey),
    /// The database cannot be asked, or has not been migrated yet.
    Unknown,
}

impl Watch {
    pub(super) async fn look_at_key(&self) -> KeyState {
        if self.key_is_right {
            return KeyState::Right;
        }
        match bounded(self.check_key()).await {
            Ok(None) => KeyState::Right,
            Ok(Some(wrong)) => KeyState::Wrong(wrong),
            Err(error) => {
                tracing::debug!(%error, "the master key cannot be checked");
                KeyState::Unknown
            }
        }
    }

    async fn check_key(&self) -> Result<Option<WrongKey>, sqlx::Error> {
        match &self.keys {
            Keys::Admin(master) => master_key::check(&self.db, master, true).await,
            Keys::Edge(key) => master_key::check_edge(&self.db, key).await,
        }
    }

    pub(super) fn judge_key(&mut self, key: &KeyState) -> Result<(), Refusal> {
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
