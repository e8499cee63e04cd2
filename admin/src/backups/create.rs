//! Creates backups.

use std::collections::HashMap;

use anyhow::Context as _;
use db::upkeep::backups::{self, BACK_UP, DatabaseSnapshot, MadeBackup, TRASH_PACKS};
use domain::{DeploymentId, Timestamp};
use futures_util::{StreamExt as _, stream};
use packs::{StoreError, objects::pack_objects};
use secrets::master_key::TAG_LEN;

use super::{BackedUpPack, Backups, Manifest, ObjectContent, check::describe_difference, copy, dump, leases};

/// A completed backup.
#[derive(Debug)]
pub struct CreatedBackup {
    /// The backup's manifest.
    pub manifest: Manifest,
    /// The packs that the place did not have before.
    pub copied_packs: usize,
    /// The bytes of the copied packs and of the dump.
    pub copied_bytes: u64,
}

enum PackOutcome {
    Kept(BackedUpPack),
    Copied(BackedUpPack),
    /// The store does not have it.
    Missing(DeploymentId),
}

impl Backups {
    /// Creates a backup while everything runs. With `recheck`, packs that earlier backups have copied are read back,
    /// and copied again if they are damaged.
    pub async fn create(&self, recheck: bool) -> anyhow::Result<CreatedBackup> {
        let created = self.create_locked(recheck);
        leases::with_leases(&self.db, &self.clock, &[BACK_UP, TRASH_PACKS], created).await
    }

    async fn create_locked(&self, recheck: bool) -> anyhow::Result<CreatedBackup> {
        let former = self.newest_readable().await?;
        let began_at = self.clock.now();
        let mut snapshot = DatabaseSnapshot::begin(&self.db).await.context("the database cannot be read")?;
        let described = snapshot.describe().await?;
        if let Some(former) = &former {
            self.require_database(former, &described.name)?;
        }
        let wanted = snapshot.packs().await?;
        let name = backup_name(began_at);
        let dump =
            dump::write(&self.config, described.server, snapshot.id(), self.place.objects(), &name, &self.key).await?;
        // The snapshot is read completely, and a long one keeps Postgres from vacuuming.
        drop(snapshot);

        let mut manifest = Manifest {
            form: Manifest::FORM,
            name,
            began_at,
            ended_at: began_at,
            database: described.name,
            schema: described.schema,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            server: described.server,
            keys: self.keys(&described.sealed_by),
            roles: described.roles,
            packs: Vec::with_capacity(wanted.len()),
            missing: Vec::new(),
            dump,
        };
        let (mut copied_packs, mut copied_bytes) = (0, manifest.dump.bytes);
        for outcome in self.copy(wanted, former, recheck).await? {
            match outcome {
                PackOutcome::Kept(pack) => manifest.packs.push(pack),
                PackOutcome::Copied(pack) => {
                    copied_packs += 1;
                    copied_bytes += pack.bytes();
                    manifest.packs.push(pack);
                }
                PackOutcome::Missing(id) => manifest.missing.push(id),
            }
        }
        manifest.ended_at = self.clock.now();
        self.place.write_manifest(&manifest).await.context("the manifest could not be written")?;
        let created = CreatedBackup { manifest, copied_packs, copied_bytes };
        if let Err(error) = backups::record(&self.db, &created.record(self.place.url())).await {
            tracing::warn!(%error, "the backup is complete, and could not be noted in the database");
        }
        Ok(created)
    }

    /// Copies the packs that the place lacks, and returns the outcome for each pack, in the given order.
    async fn copy(
        &self,
        wanted: Vec<DeploymentId>,
        former: Option<Manifest>,
        recheck: bool,
    ) -> anyhow::Result<Vec<PackOutcome>> {
        let there =
            copy::pack_sizes(self.place.objects()).await.context("the place of the backups cannot be listed")?;
        let known = former.map(|manifest| manifest.packs).unwrap_or_default();
        let known: HashMap<DeploymentId, BackedUpPack> =
            known.into_iter().map(|pack| (pack.id.clone(), pack)).collect();
        let (there, known) = (&there, &known);
        let copies = stream::iter(wanted)
            .map(|id| async move {
                let known = known.get(&id);
                let is_there = match known {
                    Some(pack) => self.has_pack(pack, there, recheck).await?,
                    None => false,
                };
                let kept = known.filter(|_| is_there).cloned();
                let outcome = match kept {
                    Some(pack) => Ok(PackOutcome::Kept(pack)),
                    None => self.copy_pack(id.clone()).await,
                };
                outcome.with_context(|| format!("the pack of {id} could not be copied"))
            })
            .buffered(self.copier.at_once);
        let mut copies = std::pin::pin!(copies);
        let mut outcomes = Vec::new();
        while let Some(outcome) = copies.next().await {
            outcomes.push(outcome?);
        }
        Ok(outcomes)
    }

    async fn has_pack(&self, pack: &BackedUpPack, there: &HashMap<String, u64>, recheck: bool) -> anyhow::Result<bool> {
        for (object, content) in pack_objects(&pack.id).into_iter().zip(pack.contents()) {
            if there.get(&object) != Some(&content.bytes) {
                return Ok(false);
            }
            if recheck {
                let found = self.copier.digest(self.place.objects(), &object).await?;
                if let Some(reason) = describe_difference(&found, content) {
                    tracing::warn!(object, reason, "a pack of the backups is damaged; it is copied again");
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    async fn copy_pack(&self, id: DeploymentId) -> Result<PackOutcome, StoreError> {
        let [data, manifest] = pack_objects(&id);
        let copy = async |object: &str| self.copier.copy(&self.store, self.place.objects(), object).await;
        // A pack exists once its manifest does: without one there is nothing to copy.
        match self.store.read(&manifest).await {
            Ok(_) => {}
            Err(StoreError::NotFound) => return Ok(PackOutcome::Missing(id)),
            Err(error) => return Err(error),
        }
        let copied: Result<[ObjectContent; 2], StoreError> =
            async { Ok([copy(&data).await?, copy(&manifest).await?]) }.await;
        match copied {
            Ok([data, manifest]) => Ok(PackOutcome::Copied(BackedUpPack { id, data, manifest })),
            Err(StoreError::NotFound) => Ok(PackOutcome::Missing(id)),
            Err(error) => Err(error),
        }
    }

    /// Returns the ids of the keys that a backup needs: for its dump, and for sealed values.
    fn keys(&self, sealed_by: &[[u8; TAG_LEN]]) -> Vec<String> {
        let mut keys = vec![hex::encode(&self.key.tag()[1..])];
        for tag in sealed_by {
            let id = hex::encode(&tag[1..]);
            if !keys.contains(&id) {
                keys.push(id);
            }
        }
        keys
    }
}

impl CreatedBackup {
    fn record(&self, place: &url::Url) -> MadeBackup {
        let Manifest { name, began_at, ended_at, packs, .. } = &self.manifest;
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        MadeBackup {
            name: name.clone(),
            began_at: *began_at,
            ended_at: *ended_at,
            place: place.to_string(),
            packs: number(packs.len() as u64),
            bytes: number(self.manifest.bytes()),
            copied_bytes: number(self.copied_bytes),
        }
    }
}

/// Returns the name of a backup that began at this time, such as `20261128T113015.042Z`. Names sort by time.
fn backup_name(began_at: Timestamp) -> String {
    let at = began_at.as_datetime();
    format!(
        "{:04}{:02}{:02}T{:02}{:02}{:02}.{:03}Z",
        at.year(),
        u8::from(at.month()),
        at.day(),
        at.hour(),
        at.minute(),
        at.second(),
        at.millisecond()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_sort_by_time() {
        let names = [1_700_000_000_042, 1_700_000_000_100, 1_900_000_000_000]
            .map(|millis| backup_name(Timestamp::from_unix_millis(millis)));
        assert_eq!(names[0], "20231114T221320.042Z");
        assert!(names.is_sorted());
    }
}
