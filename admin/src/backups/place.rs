//! The place where backups are kept.

use anyhow::Context as _;
use packs::objects::BlobStore;
use secrets::MasterKey;
use url::Url;

use super::Manifest;

const BACKUPS: &str = "backups";
/// The largest manifest that is read: that of a backup of a million packs.
const MANIFEST_BYTES: u64 = 512 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct BackupPlace {
    objects: BlobStore,
    url: Url,
    key: MasterKey,
}

impl BackupPlace {
    pub(super) fn open(place: &config::Store, key: MasterKey) -> anyhow::Result<Self> {
        let objects = BlobStore::open(place).context("the place of the backups (backup.url)")?;
        Ok(Self { objects, url: place.url.clone(), key })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    pub(super) fn objects(&self) -> &BlobStore {
        &self.objects
    }

    /// Returns the names of the complete backups, oldest first.
    pub(super) async fn names(&self) -> anyhow::Result<Vec<String>> {
        let all = self.objects_by_backup().await?;
        let mut names: Vec<String> =
            all.into_iter().filter(|(_, object)| object == "manifest").map(|(name, _)| name).collect();
        names.sort();
        Ok(names)
    }

    /// Returns the objects of all backups, complete or not, as pairs of backup name and object name.
    pub(super) async fn objects_by_backup(&self) -> anyhow::Result<Vec<(String, String)>> {
        let listed = self.objects.list(BACKUPS).await.with_context(|| format!("{} cannot be listed", self.url))?;
        let split = listed.into_iter().filter_map(|object| {
            let (name, object) = object.name.strip_prefix(BACKUPS)?.strip_prefix('/')?.split_once('/')?;
            Some((name.to_owned(), object.to_owned()))
        });
        Ok(split.collect())
    }

    pub(super) async fn manifest(&self, name: &str) -> anyhow::Result<Manifest> {
        let damaged = || format!("the manifest of the backup {name} at {} cannot be read", self.url);
        let object = object_name(name, "manifest");
        let text = self.objects.read_whole(&object, MANIFEST_BYTES).await.with_context(damaged)?;
        let text = text.with_context(|| format!("there is no backup {name} at {}", self.url))?;
        Manifest::decode(&text, &self.key).with_context(damaged)
    }

    /// Writes the manifest, which completes a backup.
    pub(super) async fn write_manifest(&self, manifest: &Manifest) -> anyhow::Result<()> {
        let text = manifest.encode(&self.key)?;
        Ok(self.objects.write_whole(&object_name(&manifest.name, "manifest"), text).await?)
    }
}

pub(super) fn object_name(backup: &str, object: &str) -> String {
    format!("{BACKUPS}/{backup}/{object}")
}
