//! The contents of a pack for people: paged file lists, differences between two packs, and uploaded files.
//!
//! A manifest is read entry by entry, keeping only what is needed. Entries are written sorted by the bytes of their
//! paths; an unsorted manifest is damaged.

use std::{collections::BTreeMap, fmt, vec};

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};

use super::{FileEntry, Manifest, StoreError, uploaded::UploadedFile};

/// A file of a pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedFile {
    /// The path, as in [`Manifest::files`].
    pub path: String,
    /// Bytes of the file as uploaded.
    pub size: u64,
    /// SHA-256 of the file, 64 hexadecimal digits.
    pub sha256: String,
    /// The media type of the file.
    pub content_type: String,
}

/// A file that only one of two packs has, or that differs between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    /// The path.
    pub path: String,
    /// Bytes of the file; `None` if it was removed.
    pub size: Option<u64>,
    /// Bytes of the earlier file; `None` if the file was added.
    pub size_before: Option<u64>,
}

/// Files that changed in one way, sorted by path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedFiles {
    /// The first of these files.
    pub first: Vec<ChangedFile>,
    /// The total number of files.
    pub count: u32,
}

/// The difference between a pack and the one before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackChanges {
    /// Files that the earlier pack lacks.
    pub added: ChangedFiles,
    /// Files with different content.
    pub changed: ChangedFiles,
    /// Files that only the earlier pack has.
    pub removed: ChangedFiles,
}

/// Lists at most `most` files of a manifest after `after`.
pub(super) fn files(manifest: &[u8], after: Option<&str>, most: usize) -> Result<Vec<ListedFile>, StoreError> {
    let mut listed = Vec::new();
    each_file(manifest, |path, file| {
        if listed.len() < most && after.is_none_or(|after| path.as_str() > after) {
            let FileEntry { content_type, sha256, identity, .. } = file;
            listed.push(ListedFile { path, size: identity.len, sha256, content_type });
        }
    })?;
    Ok(listed)
}

/// Returns the entries of `paths` that the manifest has, by path.
pub(super) fn entries(manifest: &[u8], paths: &[&str]) -> Result<BTreeMap<String, FileEntry>, StoreError> {
    let mut found = BTreeMap::new();
    each_file(manifest, |path, file| {
        if paths.contains(&path.as_str()) {
            found.insert(path, file);
        }
    })?;
    Ok(found)
}

/// Lists the uploaded files sorted by path: the served files of a manifest, and the unserved ones.
pub(super) fn uploaded(manifest: &[u8]) -> Result<Vec<UploadedFile>, StoreError> {
    let mut files = Vec::new();
    each_stored_file(manifest, |path, file| {
        files.extend(file.bodies().next().map(|(_, body)| UploadedFile { path: path.into_boxed_str(), body }));
    })?;
    files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

/// Returns the end of the data of a manifest's files.
pub(super) fn data_end(manifest: &[u8]) -> Result<u64, StoreError> {
    let mut end = 0;
    each_stored_file(manifest, |_, file| {
        let spans = std::iter::once(file.identity).chain(file.variants.iter().map(|(_, span)| *span));
        end = spans.map(|span| span.offset.saturating_add(span.len)).fold(end, u64::max);
    })?;
    Ok(end)
}

/// The parts of a pack to compare: paths, sizes and hashes.
pub(super) struct PackOutline(Vec<OutlinedFile>);

struct OutlinedFile {
    path: Box<str>,
    size: u64,
    sha256: Box<str>,
}

impl PackOutline {
    pub(super) fn empty() -> Self {
        Self(Vec::new())
    }

    /// Reads the outline of a manifest.
    pub(super) fn from_manifest(manifest: &[u8]) -> Result<Self, StoreError> {
        let mut files = Vec::new();
        each_file(manifest, |path, file| {
            let (path, sha256) = (path.into_boxed_str(), file.sha256.into_boxed_str());
            files.push(OutlinedFile { path, size: file.identity.len, sha256 });
        })?;
        Ok(Self(files))
    }

    /// Compares a manifest with this outline of the earlier pack, naming at most `most` files per kind.
    pub(super) fn changes_to(self, manifest: &[u8], most: usize) -> Result<PackChanges, StoreError> {
        let mut comparison =
            PackComparison { before: self.0.into_iter(), next: None, changes: PackChanges::default(), most };
        comparison.next = comparison.before.next();
        each_file(manifest, |path, file| comparison.compare_next(path, &file))?;
        Ok(comparison.finish())
    }
}

/// A merge of two sorted lists of files.
struct PackComparison {
    before: vec::IntoIter<OutlinedFile>,
    next: Option<OutlinedFile>,
    changes: PackChanges,
    most: usize,
}

impl PackComparison {
    fn compare_next(&mut self, path: String, file: &FileEntry) {
        let size = Some(file.identity.len);
        while let Some(before) = self.next.take_if(|before| *before.path < *path) {
            self.remove(before);
        }
        let Some(before) = self.next.take_if(|before| *before.path == *path) else {
            return self.changes.added.push(ChangedFile { path, size, size_before: None }, self.most);
        };
        self.next = self.before.next();
        if *before.sha256 != *file.sha256 {
            self.changes.changed.push(ChangedFile { path, size, size_before: Some(before.size) }, self.most);
        }
    }

    fn remove(&mut self, before: OutlinedFile) {
        let removed = ChangedFile { path: before.path.into(), size: None, size_before: Some(before.size) };
        self.changes.removed.push(removed, self.most);
        self.next = self.before.next();
    }

    fn finish(mut self) -> PackChanges {
        while let Some(before) = self.next.take() {
            self.remove(before);
        }
        self.changes
    }
}

impl ChangedFiles {
    fn push(&mut self, file: ChangedFile, most: usize) {
        self.count += 1;
        if self.first.len() < most {
            self.first.push(file);
        }
    }
}

/// Passes each served file of a manifest to `each`, sorted by path.
fn each_file(manifest: &[u8], each: impl FnMut(String, FileEntry)) -> Result<(), StoreError> {
    read_files(manifest, each, false)
}

/// Passes each file of a manifest to `each`: first the served ones, then the unserved ones, each sorted by path.
fn each_stored_file(manifest: &[u8], each: impl FnMut(String, FileEntry)) -> Result<(), StoreError> {
    read_files(manifest, each, true)
}

fn read_files(manifest: &[u8], each: impl FnMut(String, FileEntry), with_unserved: bool) -> Result<(), StoreError> {
    let mut json = serde_json::Deserializer::from_slice(manifest);
    let read = ManifestSeed { each, with_unserved }.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| StoreError::Damaged(format!("its manifest: {error}")))
}

struct ManifestSeed<F> {
    each: F,
    with_unserved: bool,
}

struct FilesSeed<'f, F>(&'f mut F);

impl<'de, F: FnMut(String, FileEntry)> DeserializeSeed<'de> for ManifestSeed<F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(String, FileEntry)> Visitor<'de> for ManifestSeed<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a manifest")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<(), A::Error> {
        let mut version = None;
        while let Some(name) = fields.next_key::<String>()? {
            match name.as_str() {
                "version" => version = Some(fields.next_value::<u32>()?),
                "files" => fields.next_value_seed(FilesSeed(&mut self.each))?,
                "unserved" if self.with_unserved => fields.next_value_seed(FilesSeed(&mut self.each))?,
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        if version.is_some_and(Manifest::is_readable) { Ok(()) } else { Err(A::Error::custom("its form is unknown")) }
    }
}

impl<'de, F: FnMut(String, FileEntry)> DeserializeSeed<'de> for FilesSeed<'_, F> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(String, FileEntry)> Visitor<'de> for FilesSeed<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("files by path")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut files: A) -> Result<(), A::Error> {
        let mut last: Option<String> = None;
        while let Some((path, file)) = files.next_entry::<String, FileEntry>()? {
            if last.as_deref().is_some_and(|last| last >= path.as_str()) {
                return Err(A::Error::custom("its files are not sorted"));
            }
            last = Some(path.clone());
            (self.0)(path, file);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Span;

    fn manifest(files: &[(&str, &str)]) -> Vec<u8> {
        let entry = |content: &str| FileEntry {
            content_type: "text/plain".into(),
            sha256: hex::encode(content),
            fingerprinted: false,
            encoded: None,
            identity: Span { offset: 0, len: content.len() as u64 },
            variants: Vec::new(),
            loads_parts: false,
            modified: None,
            digests: Vec::new(),
        };
        let files: BTreeMap<_, _> = files.iter().map(|(path, content)| ((*path).to_owned(), entry(content))).collect();
        let manifest = Manifest {
            version: Manifest::VERSION,
            created_at: 0,
            files,
            fingerprints: Manifest::FINGERPRINTS,
            headers: Vec::new(),
            redirects: Vec::new(),
            extended_redirects: Vec::new(),
            access: crate::manifest::AccessRules::default(),
            robots: crate::rules::robots::RobotsRules::default(),
            unserved: BTreeMap::new(),
        };
        serde_json::to_vec(&manifest).unwrap()
    }

    fn paths(files: &[ChangedFile]) -> Vec<&str> {
        files.iter().map(|file| file.path.as_str()).collect()
    }

    #[test]
    fn pages_follow_one_another() {
        let json = manifest(&[("b", "2"), ("a/b", "1"), ("a.b", "0"), ("é", "33"), ("z", "4")]);
        let mut seen = Vec::new();
        loop {
            let page = files(&json, seen.last().map(|file: &ListedFile| file.path.as_str()), 2).unwrap();
            if page.is_empty() {
                break;
            }
            seen.extend(page);
        }
        assert_eq!(seen.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["a.b", "a/b", "b", "z", "é"]);
        assert_eq!((seen[4].size, seen[4].sha256.as_str(), seen[4].content_type.as_str()), (2, "3333", "text/plain"));
    }

    #[test]
    fn two_packs_are_compared_by_content() {
        let before = manifest(&[("a", "same"), ("b", "old"), ("c", "gone"), ("y", "gone"), ("z", "gone")]);
        let after = manifest(&[("0", "new"), ("a", "same"), ("b", "newer"), ("d", "new"), ("e", "new")]);
        let changes = PackOutline::from_manifest(&before).unwrap().changes_to(&after, 2).unwrap();
        assert_eq!((paths(&changes.added.first), changes.added.count), (vec!["0", "d"], 3));
        assert_eq!((paths(&changes.removed.first), changes.removed.count), (vec!["c", "y"], 3));
        let changed = ChangedFile { path: "b".into(), size: Some(5), size_before: Some(3) };
        assert_eq!((changes.changed.first, changes.changed.count), (vec![changed], 1));
        assert_eq!(PackOutline::from_manifest(&after).unwrap().changes_to(&after, 2).unwrap(), PackChanges::default());
        assert_eq!(PackOutline::empty().changes_to(&after, 9).unwrap().added.count, 5);
    }

    #[test]
    fn what_is_no_manifest_is_damaged() {
        let of = |json: &str| files(json.as_bytes(), None, 1);
        let entry = r#"{"content_type":"x","sha256":"y","fingerprinted":false,"identity":{"offset":0,"len":0}}"#;
        let sorted = format!(r#"{{"version":1,"created_at":0,"more":[1],"files":{{"a":{entry},"b":{entry}}}}}"#);
        assert!(of(&sorted).is_ok());
        for json in [
            "",
            "{}",
            "[]",
            r#"{"version":3,"files":{}}"#,
            r#"{"version":1,"files":[]}"#,
            &sorted.replace("\"a\"", "\"b\""),
            &format!("{sorted}x"),
        ] {
            assert!(matches!(of(json), Err(StoreError::Damaged(_))), "{json}");
        }
    }
}
