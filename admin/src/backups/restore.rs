//! Restores backups: the packs into the store, then the dump into the database.

use std::process::Stdio;

use anyhow::Context as _;
use db::upkeep::{
    database::{self, CopyId},
    restores,
};
use domain::DeploymentId;
use futures_util::{StreamExt as _, stream};
use packs::{RULER_OBJECT, StoreRuler, objects::pack_objects};

use super::{BackedUpPack, Backups, DamagedObject, Manifest, check, copy, dump, programs};

const RULER_BYTES: u64 = 4 * 1024;

/// The options of a restore.
#[derive(Debug, Clone, Default)]
pub struct RestoreOptions {
    /// Whether to read back everything afterwards.
    pub verify: bool,
    /// The name of the database whose tables may be replaced.
    pub overwrite: Option<String>,
}

/// The outcome of a restore.
#[derive(Debug, Default)]
pub struct RestoreReport {
    /// The packs that the store did not have.
    pub copied_packs: usize,
    /// The bytes of the copied packs.
    pub copied_bytes: u64,
    /// The live sites whose pack the store does not have: the project, and the deployment.
    pub missing: Vec<(String, DeploymentId)>,
    /// The packs that the verification after the restore found damaged.
    pub damaged: Vec<DamagedObject>,
    /// The schema that now holds the former tables.
    pub set_aside: Option<String>,
    /// The roles that the server does not have, so that their rights were left out.
    pub missing_roles: Vec<String>,
    /// Whether another copy of the database rules the store, so that this one moves or deletes nothing in it.
    pub is_ruled_elsewhere: bool,
}

impl Backups {
    /// Restores a backup, after checking that everything needed is undamaged; nothing is written before.
    pub async fn restore(&self, manifest: &Manifest, options: &RestoreOptions) -> anyhow::Result<RestoreReport> {
        manifest.check_keys(&self.key)?;
        let newest = db::migrations::newest();
        anyhow::ensure!(
            manifest.schema <= newest,
            "the backup {} has migration {}, and this program (svc {}) knows none beyond {newest}: restore it with svc {}",
            manifest.name,
            manifest.schema,
            env!("CARGO_PKG_VERSION"),
            manifest.program
        );
        let target = restores::find_target(&self.db).await.context("the database cannot be read")?;
        if target.has_tables {
            anyhow::ensure!(
                options.overwrite.as_deref() == Some(&*target.name),
                "the database {0} has tables already: restore into an empty one, or replace them with --overwrite {0}",
                target.name
            );
        }
        let missing_roles = restores::missing_roles(&self.db, &manifest.roles).await?;
        let wanted = self.missing_packs(manifest).await?;
        self.check(manifest, &wanted).await?;

        let mut restored = RestoreReport { missing_roles, ..RestoreReport::default() };
        for pack in self.copy_packs(wanted).await? {
            restored.copied_packs += 1;
            restored.copied_bytes += pack.bytes();
        }
        let aside = target
            .has_tables
            .then(|| format!("before_{}", schema_suffix(&manifest.name, self.clock.now().unix_millis())));
        if let Some(aside) = &aside {
            restores::set_aside(&self.db, aside).await.context("the present tables cannot be set aside")?;
        }
        if let Err(error) = self.restore_dump(manifest, target.server, &target.name, &restored).await {
            if let Some(aside) = &aside {
                restores::put_back(&self.db, aside).await.with_context(|| {
                    format!("the former tables are in the schema {aside}; the restore failed: {error:#}")
                })?;
            }
            return Err(error);
        }
        restored.set_aside = aside;
        restores::end_leases(&self.db).await?;
        restored.is_ruled_elsewhere = !self.claim_store().await.context("the ruler of the store")?;
        self.find_missing(manifest, options, &mut restored).await?;
        Ok(restored)
    }

    /// Makes the restored database the ruler of the store if the former ruler is known to be gone: the store is new, or
    /// its ruler was a database of this server that no longer exists. Returns whether this database rules the store.
    async fn claim_store(&self) -> anyhow::Result<bool> {
        let own = database::copy_id(&self.db).await?;
        let ruler = self.store.read_whole(RULER_OBJECT, RULER_BYTES).await?;
        if let Some(json) = ruler {
            let former = serde_json::from_slice(&json).ok().and_then(|ruler: StoreRuler| CopyId::parse(&ruler.copy));
            let Some(former) = former else { return Ok(false) };
            let is_gone = former.is_beside(&own) && !database::exists(&self.db, &former).await?;
            if !is_gone && !former.is_same(&own) {
                return Ok(false);
            }
        }
        let ruler = serde_json::to_vec(&StoreRuler::new(own.to_string(), self.clock.now()))?;
        self.store.write_whole(RULER_OBJECT, ruler).await?;
        Ok(true)
    }

    async fn missing_packs<'m>(&self, manifest: &'m Manifest) -> anyhow::Result<Vec<&'m BackedUpPack>> {
        let there = copy::pack_sizes(&self.store).await.context("the store cannot be listed")?;
        let has = |pack: &BackedUpPack| {
            let mut objects = pack_objects(&pack.id).into_iter().zip(pack.contents());
            objects.all(|(object, content)| there.get(&object) == Some(&content.bytes))
        };
        Ok(manifest.packs.iter().filter(|pack| !has(pack)).collect())
    }

    /// Fails if a needed part of the backup is damaged.
    async fn check(&self, manifest: &Manifest, wanted: &[&BackedUpPack]) -> anyhow::Result<()> {
        let mut damages: Vec<DamagedObject> = self.verify_dump(manifest).await?.into_iter().collect();
        damages.extend(check::damaged_packs(&self.copier, self.place.objects(), wanted.iter().copied()).await?);
        if let Some(first) = damages.first() {
            anyhow::bail!(
                "the backup {} is damaged in {}, and nothing was written; {first}. `admin backup verify --at {0}` names \
                 all of them; `admin backup list` names other backups",
                manifest.name,
                telemetry::format_count(damages.len(), "place", "places")
            );
        }
        Ok(())
    }

    async fn copy_packs<'m>(&self, wanted: Vec<&'m BackedUpPack>) -> anyhow::Result<Vec<&'m BackedUpPack>> {
        let copies = stream::iter(wanted)
            .map(|pack| async move {
                for (object, content) in pack_objects(&pack.id).into_iter().zip(pack.contents()) {
                    let copied = self.copier.copy(self.place.objects(), &self.store, &object).await;
                    let copied = copied.with_context(|| format!("{object} could not be put back"))?;
                    if let Some(reason) = check::describe_difference(&copied, content) {
                        self.store.remove(&object).await?;
                        anyhow::bail!("{object} changed while it was put back: {reason}");
                    }
                }
                Ok(pack)
            })
            .buffered(self.copier.at_once);
        let mut copies = std::pin::pin!(copies);
        let mut packs = Vec::new();
        while let Some(pack) = copies.next().await {
            packs.push(pack?);
        }
        Ok(packs)
    }

    /// Fills the database from the dump, in one transaction.
    async fn restore_dump(
        &self,
        manifest: &Manifest,
        server: i32,
        database: &str,
        restored: &RestoreReport,
    ) -> anyhow::Result<()> {
        let database = format!("--dbname={database}");
        let mut arguments = vec![
            "--single-transaction",
            "--exit-on-error",
            "--no-owner",
            "--no-password",
            "--format=custom",
            &database,
        ];
        if !restored.missing_roles.is_empty() {
            arguments.push("--no-privileges");
        }
        let mut command = programs::command(&self.config, "pg_restore", server, &arguments).await?;
        let mut child = programs::start(command.stdin(Stdio::piped()))?;
        let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
        let feeding = async {
            let mut stdin = stdin.context("pg_restore takes no input")?;
            // `stdin` is dropped at the end, so that pg_restore sees the end of its input.
            dump::open(&self.copier, self.place.objects(), &self.key, manifest, &mut stdin).await?;
            Ok::<_, anyhow::Error>(())
        };
        let watching = async {
            let complaint = dump::read_stderr(stderr).await;
            (child.wait().await, complaint)
        };
        let (fed, (status, complaint)) = tokio::join!(feeding, watching);
        let status = status?;
        if !status.success() {
            let fed = fed.err().map(|error| format!(" ({error:#})")).unwrap_or_default();
            anyhow::bail!("pg_restore failed ({status}), and changed nothing: {}{fed}", complaint.trim());
        }
        fed
    }

    async fn find_missing(
        &self,
        manifest: &Manifest,
        options: &RestoreOptions,
        restored: &mut RestoreReport,
    ) -> anyhow::Result<()> {
        let there = copy::pack_sizes(&self.store).await?;
        for live in restores::list_live(&self.db).await? {
            if pack_objects(&live.id).iter().any(|object| !there.contains_key(object)) {
                restored.missing.push((live.project.to_string(), live.id));
            }
        }
        if options.verify {
            restored.damaged = check::damaged_packs(&self.copier, &self.store, manifest.packs.iter()).await?;
        }
        Ok(())
    }
}

fn schema_suffix(backup: &str, now: u64) -> String {
    let digits: String = backup.chars().filter(char::is_ascii_digit).collect();
    format!("{digits}_{now}")
}
