//! Removes old backups, and the packs that no other backup needs.

use std::{collections::HashSet, time::Duration};

use anyhow::Context as _;
use db::upkeep::backups::BACK_UP;
use domain::{DeploymentId, Timestamp};
use packs::objects::pack_objects;

use super::{Backups, copy, leases, place::object_name};

/// The backups to keep: those that either criterion selects, and always the newest one.
#[derive(Debug, Clone, Copy)]
pub struct RetentionRule {
    /// Keeps this number of newest backups.
    pub last: Option<usize>,
    /// Keeps backups that are at most this many days old.
    pub days: Option<u32>,
}

/// The outcome of pruning.
#[derive(Debug, PartialEq, Eq)]
pub struct PruneReport {
    /// The names of the kept backups, oldest first.
    pub kept: Vec<String>,
    /// The names of the removed backups.
    pub removed: Vec<String>,
    /// The number of removed packs, which no kept backup needs.
    pub removed_packs: usize,
    /// The bytes of the removed packs.
    pub removed_bytes: u64,
}

impl Backups {
    /// Removes backups that need not be kept, and packs that no kept backup needs. It may be interrupted anywhere and
    /// run again.
    pub async fn prune(&self, keep: RetentionRule) -> anyhow::Result<PruneReport> {
        leases::with_leases(&self.db, &self.clock, &[BACK_UP], self.remove(keep)).await
    }

    async fn remove(&self, keep: RetentionRule) -> anyhow::Result<PruneReport> {
        let objects = self.place.objects();
        let mut backups = Vec::new();
        let mut needed: HashSet<DeploymentId> = HashSet::new();
        let names = self.place.names().await?;
        // Read all manifests first: the packs that an unreadable backup needs are unknown, so nothing may be removed.
        for (at, name) in names.iter().enumerate() {
            let manifest = self.place.manifest(name).await.with_context(|| {
                format!(
                    "nothing is removed, because not every backup can be read; if {name} is of no use any more, remove its folder \
                     backups/{name} by hand"
                )
            })?;
            self.require_own_database([&manifest]).await?;
            let is_kept = keep.is_kept(manifest.began_at, names.len() - at, self.clock.now());
            if is_kept {
                needed.extend(manifest.packs.into_iter().map(|pack| pack.id));
            }
            backups.push((name.clone(), is_kept));
        }
        let (kept, removed): (Vec<_>, Vec<_>) = backups.into_iter().partition(|(_, is_kept)| *is_kept);
        let [kept, removed] = [kept, removed].map(|some| some.into_iter().map(|(name, _)| name).collect::<Vec<_>>());

        // Remove the manifests first: from then on they are no backups, even if this is interrupted.
        for name in &removed {
            objects.remove(&object_name(name, "manifest")).await?;
        }
        // Remove the rest of those backups, and of incomplete ones.
        for (name, part) in self.place.objects_by_backup().await? {
            if !kept.contains(&name) {
                objects.remove(&object_name(&name, &part)).await?;
            }
        }
        let mut pruned = PruneReport { kept, removed, removed_packs: 0, removed_bytes: 0 };
        let mut stored: Vec<(String, u64)> = copy::pack_sizes(objects).await?.into_iter().collect();
        // A pack's manifest is removed before its data: without it the pack does not exist, even if this is
        // interrupted.
        stored.sort_by(|(one, _), (other, _)| other.cmp(one));
        for (name, bytes) in stored {
            let Some(id) = parse_deployment_id(&name) else { continue };
            let [data, manifest] = pack_objects(&id);
            // Keep both objects of a needed pack; a half-written one left by a killed backup is removed.
            if needed.contains(&id) && (name == data || name == manifest) {
                continue;
            }
            objects.remove(&name).await?;
            pruned.removed_packs += usize::from(name == manifest);
            pruned.removed_bytes += bytes;
        }
        Ok(pruned)
    }
}

impl RetentionRule {
    /// Returns whether the backup of this time is kept; there are `place - 1` newer ones.
    fn is_kept(self, began_at: Timestamp, place: usize, now: Timestamp) -> bool {
        let is_young = |days: u32| now.since(began_at) <= Duration::from_hours(24) * days;
        place == 1 || self.last.is_some_and(|last| place <= last) || self.days.is_some_and(is_young)
    }
}

fn parse_deployment_id(object: &str) -> Option<DeploymentId> {
    object.split('/').nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_and_the_young_are_kept() {
        let now = Timestamp::from_unix_millis(1_700_000_000_000);
        let days_ago = |days: u32| now - Duration::from_hours(24) * days;
        let of = |last, days| RetentionRule { last, days };
        assert!(of(Some(0), Some(0)).is_kept(days_ago(100), 1, now), "the newest always is");
        assert!(of(Some(2), None).is_kept(days_ago(100), 2, now));
        assert!(!of(Some(2), None).is_kept(days_ago(1), 3, now));
        assert!(of(None, Some(7)).is_kept(days_ago(7), 9, now));
        assert!(!of(None, Some(7)).is_kept(days_ago(8), 2, now));
        assert!(of(Some(2), Some(7)).is_kept(days_ago(8), 2, now), "one of the two is enough");
    }
}
