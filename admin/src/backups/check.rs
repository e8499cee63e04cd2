//! Checks objects against a backup's manifest.

use std::fmt;

use futures_util::{StreamExt as _, stream};
use packs::{
    StoreError,
    objects::{BlobStore, pack_objects},
};

use super::{BackedUpPack, Backups, Manifest, ObjectContent, copy::ObjectCopier, dump};

/// A damaged object of a backup, or of a store restored from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedObject {
    /// The object's name.
    pub object: String,
    /// The kind of damage, as a sentence for the operator.
    pub reason: String,
}

impl fmt::Display for DamagedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.reason)
    }
}

impl Backups {
    /// Reads a whole backup, and returns its damaged objects.
    pub async fn verify(&self, manifest: &Manifest) -> anyhow::Result<Vec<DamagedObject>> {
        manifest.check_keys(&self.key)?;
        let mut damages: Vec<DamagedObject> = self.verify_dump(manifest).await?.into_iter().collect();
        damages.extend(damaged_packs(&self.copier, self.place.objects(), manifest.packs.iter()).await?);
        Ok(damages)
    }

    /// Reads the dump of a backup, and returns its damage, if any.
    pub(super) async fn verify_dump(&self, manifest: &Manifest) -> anyhow::Result<Option<DamagedObject>> {
        let (objects, mut nowhere) = (self.place.objects(), tokio::io::sink());
        match dump::open(&self.copier, objects, &self.key, manifest, &mut nowhere).await {
            Ok(()) => Ok(None),
            Err(dump::OpenDumpError::Store(error)) if !is_damage(&error) => Err(error.into()),
            Err(error) => {
                let object = super::place::object_name(&manifest.name, "dump");
                Ok(Some(DamagedObject { object, reason: error.to_string() }))
            }
        }
    }
}

pub(super) async fn damaged_packs(
    copier: &ObjectCopier,
    objects: &BlobStore,
    packs: impl Iterator<Item = &BackedUpPack>,
) -> anyhow::Result<Vec<DamagedObject>> {
    let checks =
        stream::iter(packs).map(|wanted| damaged_objects(copier, objects, wanted)).buffer_unordered(copier.at_once);
    let mut damages = Vec::new();
    let mut checks = std::pin::pin!(checks);
    while let Some(found) = checks.next().await {
        damages.extend(found?);
    }
    damages.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(damages)
}

async fn damaged_objects(
    copier: &ObjectCopier,
    objects: &BlobStore,
    pack: &BackedUpPack,
) -> Result<Vec<DamagedObject>, StoreError> {
    let mut damages = Vec::new();
    for (object, content) in pack_objects(&pack.id).into_iter().zip(pack.contents()) {
        let reason = match copier.digest(objects, &object).await {
            Ok(found) => describe_difference(&found, content),
            Err(error) if is_damage(&error) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        damages.extend(reason.map(|reason| DamagedObject { object, reason }));
    }
    Ok(damages)
}

pub(super) fn describe_difference(found: &ObjectContent, written: &ObjectContent) -> Option<String> {
    if found.bytes != written.bytes {
        return Some(format!("it has {} bytes instead of {}", found.bytes, written.bytes));
    }
    (found.sha256 != written.sha256).then(|| "its digest is wrong".to_owned())
}

/// Returns whether the error concerns the object, and not the whole place.
fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound | StoreError::Damaged(_))
}
