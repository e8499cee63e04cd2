//! Backups of the platform, and the way back from them: `admin backup` and `admin restore`.
//!
//! A backup is a dump of the database and the packs that it wants, at a place of its own: a folder or a bucket, laid out like a
//! store. Packs never change, so that backups share them, and each copies only what is new. Not here: what the commands
//! print. Start with [`Backups`].
//!
//! ```text
//! deployments/<id>/{data,manifest}   the packs of all backups
//! backups/<name>/dump                what pg_dump wrote, sealed
//! backups/<name>/manifest            what the backup consists of, signed; written last: a backup exists once its manifest does
//! ```

mod check;
mod copy;
mod create;
mod dump;
mod leases;
mod manifest;
mod place;
mod programs;
mod prune;
mod restore;

use std::sync::Arc;

use anyhow::Context as _;
use config::Config;
use domain::Clock;
use packs::objects::Objects;
use secrets::MasterKey;
use sqlx::PgPool;
use url::Url;

pub use self::{
    check::Damage,
    create::Created,
    manifest::{Content, Manifest, Pack},
    prune::{Keep, Pruned},
    restore::{RestoreOptions, Restored},
};
use self::{copy::Copier, place::Place};

/// What the commands act upon: the database, the store, and the place of the backups.
pub struct Backups {
    config: Arc<Config>,
    db: PgPool,
    key: MasterKey,
    clock: Clock,
    store: Objects,
    place: Place,
    copier: Copier,
}

impl Backups {
    /// Prepares every part. `url` is the place of the backups, or else the one of the configuration.
    pub fn open(config: Arc<Config>, url: Option<Url>) -> anyhow::Result<Self> {
        let url = url.or_else(|| config.backup.url.clone());
        let url = url.context("name the place of the backups as an argument, or set backup.url")?;
        anyhow::ensure!(url != config.store.url, "backups are kept outside the store, which they are to replace");
        let key = MasterKey::load(&config.secrets.master_key_file)?;
        Ok(Self {
            db: db::connect_directly(&config.postgres).context("postgres")?,
            store: Objects::open(&config.store).context("store.url")?,
            place: Place::open(&config.backup.place(url, &config.store), key.clone())?,
            copier: Copier::new(&config.backup),
            clock: Clock::system(),
            key,
            config,
        })
    }

    /// Returns every backup at the place, the oldest first.
    pub async fn list(&self) -> anyhow::Result<Vec<Manifest>> {
        let mut found = Vec::new();
        for name in self.place.names().await? {
            found.push(self.place.manifest(&name).await?);
        }
        Ok(found)
    }

    /// Returns the backup called `name`, or the newest.
    pub async fn find(&self, name: Option<&str>) -> anyhow::Result<Manifest> {
        let names = self.place.names().await?;
        let name = match name {
            Some(name) => names.iter().find(|known| *known == name).with_context(|| {
                format!("there is no backup {name} at {}; `admin backup list` names those there are", self.place.url())
            })?,
            None => names.last().with_context(|| format!("there is no backup at {}", self.place.url()))?,
        };
        self.place.manifest(name).await
    }
}

impl std::fmt::Debug for Backups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backups").field("place", &self.place).finish_non_exhaustive()
    }
}
