//! Checks objects against a backup's manifest.

use std::fmt;

use futures_util::{StreamExt as _, stream};
use packs::{
    StoreError,
    objects::{Objects, pack_objects},
};

use super::{Backups, Content, Manifest, Pack, copy::Copier, dump};

/// A damaged object of a backup, or of a store restored from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The object's name.
    pub object: String,
    /// The kind of damage, as a sentence for the operator.
    pub reason: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.object, self.reason)
    }
}

impl Backups {
    /// Reads a whole backup, and returns its damaged objects.
    pub async fn verify(&self, manifest: &Manifest) -> anyhow::Result<Vec<Damage>> {
        manifest.check_keys(&self.key)?;
        let mut damages: Vec<Damage> = self.verify_dump(manifest).await?.into_iter().collect();
        damages.extend(packs(&self.copier, self.place.objects(), manifest.packs.iter()).await?);
        Ok(damages)
    }

    /// Reads the dump of a backup, and returns its damage, if any.
    pub(super) async fn verify_dump(&self, manifest: &Manifest) -> anyhow::Result<Option<Damage>> {
        let (objects, mut nowhere) = (self.place.objects(), tokio::io::sink());
        match dump::open(&self.copier, objects, &self.key, manifest, &mut nowhere).await {
            Ok(()) => Ok(None),
            Err(dump::OpenDumpError::Store(error)) if !is_damage(&error) => Err(error.into()),
            Err(error) => {
                let object = super::place::object(&manifest.name, "dump");
                Ok(Some(Damage { object, reason: error.to_string() }))
            }
        }
    }
}

pub(super) async fn packs(
    copier: &Copier,
    objects: &Objects,
    packs: impl Iterator<Item = &Pack>,
) -> anyhow::Result<Vec<Damage>> {
    let checks = stream::iter(packs).map(|wanted| pack(copier, objects, wanted)).buffer_unordered(copier.at_once);
    let mut damages = Vec::new();
    let mut checks = std::pin::pin!(checks);
    while let Some(found) = checks.next().await {
        damages.extend(found?);
    }
    damages.sort_by(|a, b| a.object.cmp(&b.object));
    Ok(damages)
}

async fn pack(copier: &Copier, objects: &Objects, pack: &Pack) -> Result<Vec<Damage>, StoreError> {
    let mut damages = Vec::new();
    for (object, content) in pack_objects(&pack.id).into_iter().zip(pack.contents()) {
        let reason = match copier.digest(objects, &object).await {
            Ok(found) => difference(&found, content),
            Err(error) if is_damage(&error) => Some(error.to_string()),
            Err(error) => return Err(error),
        };
        damages.extend(reason.map(|reason| Damage { object, reason }));
    }
    Ok(damages)
}

pub(super) fn difference(found: &Content, written: &Content) -> Option<String> {
    if found.bytes != written.bytes {
        return Some(format!("it has {} bytes instead of {}", found.bytes, written.bytes));
    }
    (found.sha256 != written.sha256).then(|| "its digest is wrong".to_owned())
}

/// Returns whether the error concerns the object, and not the whole place.
fn is_damage(error: &StoreError) -> bool {
    matches!(error, StoreError::NotFound | StoreError::Damaged(_))
}
