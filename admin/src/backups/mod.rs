//! Backups of the platform and their restoration: `admin backup` and `admin restore`.
//!
//! A backup is a dump of the database and the packs that it references, at a place of its own: a folder or a bucket,
//! laid out like a store. Packs never change, so backups share them, and each backup copies only new ones. Not here:
//! the output of the commands. Start with [`Backups`].
//!
//! ```text
//! deployments/<id>/{data,manifest}   the packs of all backups
//! backups/<name>/dump                the output of pg_dump, sealed
//! backups/<name>/manifest            the manifest, signed; written last: a backup exists once its manifest does
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
use db::upkeep::{database, identity::is_unmigrated};
use domain::Clock;
use packs::{StoreError, objects::BlobStore};
use secrets::MasterKey;
use sqlx::PgPool;
use url::Url;

pub use self::{
    check::DamagedObject,
    create::CreatedBackup,
    manifest::{BackedUpPack, Manifest, ObjectContent},
    prune::{PruneReport, RetentionRule},
    restore::{RestoreOptions, RestoreReport},
};
use self::{copy::ObjectCopier, place::BackupPlace};

/// The subjects of the commands: the database, the store, and the place of the backups.
pub struct Backups {
    config: Arc<Config>,
    db: PgPool,
    key: MasterKey,
    clock: Clock,
    store: BlobStore,
    place: BackupPlace,
    copier: ObjectCopier,
    /// The database that the backups belong to, if the operator named one.
    of: Option<String>,
}

/// A backup at the place, as far as it can be read.
pub struct ListedBackup {
    /// The backup's name.
    pub name: String,
    /// The manifest, or the reason why it cannot be read.
    pub manifest: anyhow::Result<Manifest>,
}

impl Backups {
    /// Opens everything that the commands need. `url` is the place of the backups, by default the configured one; `of`
    /// names the database that they belong to, if it is not the configured one.
    pub fn open(config: Arc<Config>, url: Option<Url>, of: Option<String>) -> anyhow::Result<Self> {
        let url = url.or_else(|| config.backup.url.clone());
        let url = url.context("name the place of the backups as an argument, or set backup.url")?;
        anyhow::ensure!(url != config.store.url, "backups are kept outside the store, which they are to replace");
        let key = MasterKey::load(&config.secrets.master_key_file)?;
        Ok(Self {
            db: db::connect_directly(&config.postgres).context("postgres")?,
            store: BlobStore::open(&config.store).context("store.url")?,
            place: BackupPlace::open(&config.backup.store_at(url, &config.store), key.clone())?,
            copier: ObjectCopier::new(&config.backup),
            clock: Clock::system(),
            key,
            config,
            of,
        })
    }

    /// Returns every backup at the place, oldest first, including unreadable ones. Fails if one belongs to another
    /// database.
    pub async fn list(&self) -> anyhow::Result<Vec<ListedBackup>> {
        let mut found = Vec::new();
        for name in self.place.names().await? {
            let manifest = self.try_manifest(&name).await?;
            found.push(ListedBackup { name, manifest });
        }
        self.require_own_database(found.iter().filter_map(|listed| listed.manifest.as_ref().ok())).await?;
        Ok(found)
    }

    /// Returns the backup with this name, or the newest one. Fails if it belongs to another database. A damaged newest
    /// backup is not replaced by an older one: the error names the newest readable one.
    pub async fn find(&self, name: Option<&str>) -> anyhow::Result<Manifest> {
        let names = self.place.names().await?;
        let manifest = if let Some(name) = name {
            let name = names.iter().find(|known| *known == name).with_context(|| {
                format!("there is no backup {name} at {}; `admin backup list` names those there are", self.place.url())
            })?;
            self.place.manifest(name).await?
        } else {
            let newest = names.last().with_context(|| format!("there is no backup at {}", self.place.url()))?;
            match self.try_manifest(newest).await? {
                Ok(manifest) => manifest,
                Err(error) => return Err(self.with_older_backup(&names, error).await),
            }
        };
        self.require_own_database([&manifest]).await?;
        Ok(manifest)
    }

    /// Adds the newest readable older backup to the error of the newest one.
    async fn with_older_backup(&self, names: &[String], error: anyhow::Error) -> anyhow::Error {
        for older in names.iter().rev().skip(1) {
            match self.try_manifest(older).await {
                Ok(Ok(_)) => {
                    return anyhow::anyhow!(
                        "{error:#}; it is the newest, and nothing was done. The newest one that can be read is {older}: to take it, add \
                         `--at {older}`"
                    );
                }
                Ok(Err(_)) => {}
                Err(away) => return away,
            }
        }
        error.context("no backup there can be read")
    }

    async fn newest_readable(&self) -> anyhow::Result<Option<Manifest>> {
        let mut first = None;
        for name in self.place.names().await?.iter().rev() {
            match self.try_manifest(name).await? {
                Ok(manifest) => return Ok(Some(manifest)),
                Err(error) => {
                    tracing::warn!(backup = name, "a backup cannot be read and is passed over: {error:#}");
                    first.get_or_insert(error);
                }
            }
        }
        first.map_or(Ok(None), Err)
    }

    /// Reads a manifest. The outer error means that the place does not respond; the inner error concerns the manifest.
    async fn try_manifest(&self, name: &str) -> anyhow::Result<anyhow::Result<Manifest>> {
        match self.place.manifest(name).await {
            Err(error) if error.downcast_ref::<StoreError>().is_some_and(StoreError::is_transient) => Err(error),
            read => Ok(read),
        }
    }

    /// Fails if a backup belongs to a database other than the configured one, or the one that the operator named. A
    /// database without tables, as before a restore, has no name to compare; nor has one that does not respond.
    async fn require_own_database<'m>(&self, manifests: impl IntoIterator<Item = &'m Manifest>) -> anyhow::Result<()> {
        let own = match &self.of {
            Some(of) => of.clone(),
            None => match database::name(&self.db).await {
                Ok(own) => own,
                Err(error) if is_unmigrated(&error) => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, "the database does not say its name, so that whose the backups are is not checked");
                    return Ok(());
                }
            },
        };
        manifests.into_iter().try_for_each(|manifest| self.require_database(manifest, &own))
    }

    fn require_database(&self, manifest: &Manifest, own: &str) -> anyhow::Result<()> {
        anyhow::ensure!(
            manifest.database == own,
            "{} has backups of another database ({}) than {own}: name the place of this one's, or set postgres.url right; if the other's are \
             meant, `admin backup list|verify|prune` and `admin restore` take them with `--of {1}`",
            self.place.url(),
            manifest.database,
        );
        Ok(())
    }
}

impl std::fmt::Debug for ListedBackup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listed").field("name", &self.name).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Backups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backups").field("place", &self.place).finish_non_exhaustive()
    }
}
