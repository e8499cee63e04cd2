//! Modification dates of files: a file that an upload does not change keeps its date.

use std::{collections::HashMap, sync::mpsc::Receiver};

use domain::DeploymentId;
use serde::Deserialize;

use super::{Manifest, PackStore, StoreError};

/// Seconds that a pack's date may be ahead of the clock in order to differ from the earlier pack's. An earlier pack
/// further ahead was written with a wrong clock.
const MOST_AHEAD: i64 = 60;

/// The files of an earlier pack by path, with their content and its date.
#[derive(Debug, Default)]
pub(super) struct FileDates {
    created_at: Option<i64>,
    files: HashMap<String, DatedFile>,
}

#[derive(Debug)]
struct DatedFile {
    sha256: [u8; 32],
    since: i64,
}

#[derive(Deserialize)]
struct DatedManifest {
    version: u32,
    created_at: i64,
    files: HashMap<String, DatedEntry>,
}

#[derive(Deserialize)]
struct DatedEntry {
    sha256: String,
    #[serde(default)]
    modified: Option<i64>,
}

impl FileDates {
    fn from_manifest(manifest: &[u8]) -> Result<Self, StoreError> {
        let manifest: DatedManifest =
            serde_json::from_slice(manifest).map_err(|error| StoreError::Damaged(format!("its manifest: {error}")))?;
        if !Manifest::is_readable(manifest.version) {
            return Err(StoreError::Damaged(format!("its manifest has form {}", manifest.version)));
        }
        let files = manifest.files.into_iter().filter_map(|(path, entry)| {
            let mut sha256 = [0; 32];
            hex::decode_to_slice(entry.sha256, &mut sha256).ok()?;
            let since = entry.modified.map_or(manifest.created_at, |modified| modified.min(manifest.created_at));
            Some((path, DatedFile { sha256, since }))
        });
        Ok(Self { created_at: Some(manifest.created_at), files: files.collect() })
    }

    /// Returns the date, in seconds since 1970, of a pack written at `now`. It is later than the earlier pack's, so
    /// that two contents of one path never share a date, however quickly they follow one another.
    pub(super) fn next(&self, now: i64) -> i64 {
        let next = self.created_at.and_then(|earlier| earlier.checked_add(1));
        next.filter(|next| *next <= now.saturating_add(MOST_AHEAD)).map_or(now, |next| next.max(now))
    }

    /// Returns the time, in seconds since 1970, since which `path` has had this content, if that is before `now`.
    pub(super) fn since(&self, path: &str, sha256: &[u8; 32], now: i64) -> Option<i64> {
        let before = self.files.get(path).filter(|before| before.sha256 == *sha256)?;
        Some(before.since).filter(|since| *since < now)
    }
}

impl FileDates {
    pub(super) fn is_changed(&self, path: &str, sha256: &[u8; 32]) -> bool {
        self.files.get(path).is_some_and(|before| before.sha256 != *sha256)
    }
}

impl PackStore {
    /// Reads the dates of an earlier pack. If that fails, the files of the upload count as new.
    pub(super) async fn dates(&self, earlier: Option<&DeploymentId>) -> FileDates {
        let Some(id) = earlier else { return FileDates::default() };
        let read = async {
            let json = self.manifest_json(id).await?;
            super::blocking(move || FileDates::from_manifest(&json)).await
        };
        read.await.unwrap_or_else(|error| {
            tracing::warn!(%error, deployment = %id, "the dates of unchanged files are not known");
            FileDates::default()
        })
    }
}

/// Waits for the dates from the task that reads them.
pub(super) fn wait_for_dates(dates: &Receiver<FileDates>) -> FileDates {
    // The sender always sends, unless it was dropped together with the request for the pack.
    dates.recv().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unchanged_file_keeps_its_date() {
        let (same, other) = ([0xab; 32], [0xcd; 32]);
        let manifest = format!(
            r#"{{"version":1,"created_at":200,"files":{{"new":{{"sha256":"{0}","x":1}},"old":{{"sha256":"{0}","modified":100}},
                "ahead":{{"sha256":"{0}","modified":900}},"odd":{{"sha256":"?"}}}}}}"#,
            hex::encode(same),
        );
        let dates = FileDates::from_manifest(manifest.as_bytes()).unwrap();
        for (path, sha256, now, expected) in [
            ("new", same, 300, Some(200)),
            ("old", same, 300, Some(100)),
            ("old", other, 300, None),
            ("ahead", same, 300, Some(200)),
            ("new", same, 200, None),
            ("odd", same, 300, None),
            ("gone", same, 300, None),
        ] {
            assert_eq!(dates.since(path, &sha256, now), expected, "{path} at {now}");
        }
        let changed = [("new", same), ("new", other), ("gone", other)].map(|(path, sha)| dates.is_changed(path, &sha));
        assert_eq!(changed, [false, true, false]);
    }

    #[test]
    fn a_pack_is_later_than_the_one_before_it() {
        for (earlier, now, expected) in [
            (None, 100, 100),
            (Some(99), 100, 100),
            (Some(100), 100, 101),
            (Some(103), 100, 104),
            (Some(159), 100, 160),
            (Some(160), 100, 100),
            (Some(i64::MAX), 100, 100),
        ] {
            let dates = FileDates { created_at: earlier, files: HashMap::new() };
            assert_eq!(dates.next(now), expected, "{earlier:?} {now}");
        }
    }
}
