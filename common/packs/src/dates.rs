//! Since when files have had their contents: a file that an upload does not change keeps its date.

use std::{collections::HashMap, sync::mpsc::Receiver};

use domain::DeploymentId;
use serde::Deserialize;

use super::{Manifest, PackStore, StoreError};

/// The files of an earlier pack, by path: what they hold, and since when.
#[derive(Debug, Default)]
pub(super) struct Dates(HashMap<String, Dated>);

#[derive(Debug)]
struct Dated {
    sha256: [u8; 32],
    since: i64,
}

/// The part of a manifest that is read.
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

impl Dates {
    /// Reads those of a stored manifest. One that cannot be read has none.
    fn of(manifest: &[u8]) -> Result<Self, StoreError> {
        let manifest: DatedManifest =
            serde_json::from_slice(manifest).map_err(|error| StoreError::Damaged(format!("its manifest: {error}")))?;
        if manifest.version != Manifest::VERSION {
            return Err(StoreError::Damaged(format!("its manifest has form {}", manifest.version)));
        }
        let files = manifest.files.into_iter().filter_map(|(path, entry)| {
            let mut sha256 = [0; 32];
            hex::decode_to_slice(entry.sha256, &mut sha256).ok()?;
            let since = entry.modified.map_or(manifest.created_at, |modified| modified.min(manifest.created_at));
            Some((path, Dated { sha256, since }))
        });
        Ok(Self(files.collect()))
    }

    /// The time since when `path` has had this content, if it had it before `now`. In seconds since 1970.
    pub(super) fn since(&self, path: &str, sha256: &[u8; 32], now: i64) -> Option<i64> {
        let before = self.0.get(path).filter(|before| before.sha256 == *sha256)?;
        Some(before.since).filter(|since| *since < now)
    }
}

impl Dates {
    /// Whether `path` had another content.
    pub(super) fn is_changed(&self, path: &str, sha256: &[u8; 32]) -> bool {
        self.0.get(path).is_some_and(|before| before.sha256 != *sha256)
    }
}

impl PackStore {
    /// Reads the dates of an earlier pack. An upload does not fail for them: without, its files are new.
    pub(super) async fn dates(&self, earlier: Option<&DeploymentId>) -> Dates {
        let Some(id) = earlier else { return Dates::default() };
        let read = async {
            let json = self.manifest_json(id).await?;
            super::blocking(move || Dates::of(&json)).await
        };
        read.await.unwrap_or_else(|error| {
            tracing::warn!(%error, deployment = %id, "the dates of unchanged files are not known");
            Dates::default()
        })
    }
}

/// Waits for dates that are read elsewhere.
pub(super) fn received(dates: &Receiver<Dates>) -> Dates {
    // The reader sends something, unless it was dropped, and with it whatever wants the pack.
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
        let dates = Dates::of(manifest.as_bytes()).unwrap();
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
        assert!(Dates::of(br#"{"version":2,"created_at":1,"files":{}}"#).is_err());
    }
}
