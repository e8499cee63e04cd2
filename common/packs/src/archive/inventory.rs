//! The inventory of an archive: every entry is added before its content is read, whatever the archive's format.

use std::collections::{BTreeMap, HashMap};

use domain::{
    limits::{ARCHIVE_FILES, DEPLOYMENT_BYTES, FILE_BYTES},
    size,
};

use super::{
    ArchiveError, ArchiveSummary, PublishRoot,
    path::{self, PathKind, shown},
};
use crate::rules;

/// Maximum number of skipped paths that a warning names per reason.
const NAMED: usize = 20;

/// The files of an archive so far, and the bytes read from it.
#[derive(Debug)]
pub(super) struct ArchiveInventory {
    root: PublishRoot,
    sizes: HashMap<String, u64>,
    bytes: u64,
    /// Bytes of unpublished files.
    rest: u64,
    overhead: u64,
    /// The number of skipped system files, and the first of them.
    left_out: (u64, Option<String>),
    /// Skipped entries by reason.
    faults: BTreeMap<SkipReason, NamedPaths>,
    /// Whether data follows the end of the archive.
    has_rest: bool,
    /// The number of names in the DOS code page, and the first of them.
    foreign: (u64, Option<String>),
    /// Whether some programs stop before the next entry.
    is_past_end: bool,
}

/// A reason for skipping an entry that is reported to the user.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum SkipReason {
    Symlink,
    /// A device or the like.
    Special,
    /// A misplaced file of rules, with its proper name.
    Rules(&'static str),
}

#[derive(Debug, Default)]
struct NamedPaths {
    paths: Vec<String>,
    count: usize,
}

#[derive(Debug)]
pub(super) struct EnteredFile {
    /// The published path, or the archive path of an unpublished file.
    pub(super) path: String,
    pub(super) is_published: bool,
    pub(super) bytes: u64,
}

impl ArchiveInventory {
    pub(super) fn new(root: PublishRoot) -> Self {
        Self {
            root,
            sizes: HashMap::new(),
            bytes: 0,
            rest: 0,
            overhead: 0,
            left_out: (0, None),
            faults: BTreeMap::new(),
            has_rest: false,
            foreign: (0, None),
            is_past_end: false,
        }
    }

    /// Marks that some programs stop before the next entry: from here on, files may only repeat earlier ones.
    pub(super) fn set_past_end(&mut self) {
        self.is_past_end = true;
    }

    /// Returns whether some programs stop before the current entry.
    pub(super) fn is_past_end(&self) -> bool {
        self.is_past_end
    }

    /// Adds a file by its path in the archive. It replaces an earlier file of the same path.
    pub(super) fn enter(&mut self, raw: &[u8]) -> Result<EnteredFile, ArchiveError> {
        let file = self.validate_file(raw)?;
        if file.is_published {
            self.count_replaced(&file.path)?;
        }
        Ok(file)
    }

    fn validate_file(&mut self, raw: &[u8]) -> Result<EnteredFile, ArchiveError> {
        let (path, is_wanted) = match path::system_file(raw)? {
            Some(path) => (path, false),
            None => (path::validate(raw, PathKind::File)?, true),
        };
        let published = self.root.published(&path)?.map(str::to_owned);
        if published.is_some() && !is_wanted {
            self.left_out.0 += 1;
            self.left_out.1.get_or_insert_with(|| path.clone());
        }
        let published = published.filter(|_| is_wanted);
        let meant_for = published.as_deref().and_then(rules::proper_name);
        if let (Some(file), Some(path)) = (meant_for, &published) {
            self.leave_out(SkipReason::Rules(file), path);
        }
        let published = published.filter(|_| meant_for.is_none());
        let is_published = published.is_some();
        let path = published.unwrap_or(path);
        if is_published {
            path::check_reserved(&path)?;
            self.check_room(&path)?;
        }
        Ok(EnteredFile { path, is_published, bytes: 0 })
    }

    /// Adds another path of an earlier file. Returns both paths, unless the link is not published.
    pub(super) fn enter_link(&mut self, raw: &[u8], target: &[u8]) -> Result<Option<(String, String)>, ArchiveError> {
        let link = self.validate_file(raw)?;
        // The target is validated even if the link is not published.
        let aim = path::validate(target, PathKind::File)?;
        let aim = self.root.published(&aim)?;
        if !link.is_published {
            return Ok(None);
        }
        let aim = aim.and_then(|target| self.sizes.get_key_value(target));
        let Some((aim, bytes)) = aim.map(|(aim, bytes)| (aim.clone(), *bytes)) else {
            let (link, target) = (shown(raw), shown(target));
            let why =
                format!("{link} is a hard link to {target}, which is no file that stands before it in the archive");
            return Err(ArchiveError::invalid(why));
        };
        if aim == link.path {
            return Ok(None); // it is there already
        }
        self.count_replaced(&link.path)?;
        self.count_bytes(bytes)?;
        let path = link.path.clone();
        self.keep(EnteredFile { bytes, ..link });
        Ok(Some((path, aim)))
    }

    /// Skips a symlink and records it.
    pub(super) fn enter_symlink(&mut self, raw: &[u8]) -> Result<(), ArchiveError> {
        self.skip_entry(SkipReason::Symlink, raw)
    }

    /// Skips a device or the like and records it.
    pub(super) fn enter_special(&mut self, raw: &[u8]) -> Result<(), ArchiveError> {
        self.skip_entry(SkipReason::Special, raw)
    }

    fn skip_entry(&mut self, fault: SkipReason, raw: &[u8]) -> Result<(), ArchiveError> {
        let path = path::validate(raw, PathKind::Folder)?;
        let published = self.root.published(&path).ok().flatten().filter(|path| !path.is_empty());
        if let Some(path) = published.filter(|_| !path::is_system_name(raw)) {
            self.leave_out(fault, path);
        }
        Ok(())
    }

    pub(super) fn note_rest(&mut self) {
        self.has_rest = true;
    }

    fn leave_out(&mut self, fault: SkipReason, path: &str) {
        let named = self.faults.entry(fault).or_default();
        named.count += 1;
        if named.paths.len() < NAMED {
            named.paths.push(shown(path.as_bytes()));
        }
    }

    pub(super) fn has_file(&self, path: &str) -> bool {
        self.sizes.contains_key(path)
    }

    /// Records a file whose name was not in UTF-8.
    pub(super) fn note_foreign_name(&mut self, path: &str) {
        self.foreign.0 += 1;
        self.foreign.1.get_or_insert_with(|| path.to_owned());
    }

    /// Validates the path of a skipped entry that is not a file.
    pub(super) fn check_path(raw: &[u8]) -> Result<(), ArchiveError> {
        path::validate(raw, PathKind::Folder).map(drop)
    }

    pub(super) fn count(&mut self, file: &mut EnteredFile, read: u64) -> Result<(), ArchiveError> {
        if !file.is_published {
            return self.count_rest(read);
        }
        file.bytes += read;
        if file.bytes > FILE_BYTES {
            let (path, limit) = (shown(file.path.as_bytes()), size(FILE_BYTES));
            return Err(ArchiveError::TooLarge(format!("{path} is larger than {limit}")));
        }
        self.count_bytes(read)
    }

    /// Keeps a file whose body was read.
    pub(super) fn keep(&mut self, file: EnteredFile) {
        if file.is_published {
            self.sizes.insert(file.path, file.bytes);
        }
    }

    pub(super) fn count_overhead(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.overhead = self.overhead.saturating_add(bytes);
        let limit = self.root.overhead_bytes();
        if self.overhead > limit {
            let limit = size(limit);
            let why = format!("the archive has more than {limit} of headers, folders and padding");
            return Err(ArchiveError::TooLarge(why));
        }
        Ok(())
    }

    /// Validates the files as a whole, at the end.
    pub(super) fn finish(self) -> Result<ArchiveSummary, ArchiveError> {
        if self.sizes.is_empty() {
            return Err(ArchiveError::invalid(self.root.no_files_message()));
        }
        let mut paths: Vec<&str> = self.sizes.keys().map(String::as_str).collect();
        path::check_collisions(&mut paths)?;
        let mut notes = Vec::new();
        if let (count, Some(first)) = self.left_out {
            let files = and_more(&first, count);
            notes.push(format!("{files} not published: systems make such files for themselves"));
        }
        notes.extend(self.faults.into_iter().map(|(fault, named)| named.into_note(&fault)));
        if self.has_rest {
            let why =
                "what follows the end of the archive was left out: of two archives in one file the first is published";
            notes.push(why.to_owned());
        }
        if let (count, Some(first)) = self.foreign {
            let files = and_more(&first, count);
            notes.push(format!("{files} named in the code page of DOS, from which the name was guessed: use UTF-8"));
        }
        Ok(ArchiveSummary { files: self.sizes.len(), bytes: self.bytes, notes })
    }

    fn check_room(&self, path: &str) -> Result<(), ArchiveError> {
        if self.is_past_end && !self.sizes.contains_key(path) {
            return Err(ArchiveError::past_end(path));
        }
        if self.sizes.len() == *ARCHIVE_FILES.end() && !self.sizes.contains_key(path) {
            let why = format!("the archive has more than {} files", ARCHIVE_FILES.end());
            return Err(ArchiveError::invalid(why));
        }
        Ok(())
    }

    /// Moves a file that is about to be replaced to the unpublished bytes. This happens before its successor is read,
    /// so that a site at the limit may contain a file twice.
    fn count_replaced(&mut self, path: &str) -> Result<(), ArchiveError> {
        let Some(before) = self.sizes.get_mut(path).map(std::mem::take) else { return Ok(()) };
        self.bytes -= before;
        self.count_rest(before)
    }

    fn count_bytes(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.bytes += bytes;
        if self.bytes > DEPLOYMENT_BYTES {
            let limit = size(DEPLOYMENT_BYTES);
            return Err(ArchiveError::TooLarge(format!("the files are larger than {limit} together")));
        }
        Ok(())
    }

    fn count_rest(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.rest += bytes;
        let limit = self.root.rest_bytes();
        if self.rest > limit { Err(ArchiveError::TooLarge(self.root.too_large_message())) } else { Ok(()) }
    }
}

impl NamedPaths {
    fn into_note(self, fault: &SkipReason) -> String {
        let Self { paths, count } = self;
        let (names, more) = (paths.join(", "), count - paths.len());
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        let were = if count == 1 { "was" } else { "were" };
        match fault {
            SkipReason::Symlink => format!(
                "{names}{others} {were} left out: symlinks of an archive are skipped; `svc deploy` publishes what those of a folder lead to"
            ),
            SkipReason::Special => {
                format!("{names}{others} {were} left out: only files are published, no devices and pipes")
            }
            SkipReason::Rules(file) => format!(
                "{names}{others} {were} left out, without effect: the rules of a site are in one file, called `{file}`, at its root"
            ),
        }
    }
}

/// Returns `first` and the number of further files, as the subject of a sentence.
fn and_more(first: &str, count: u64) -> String {
    let first = shown(first.as_bytes());
    match count {
        0 | 1 => format!("{first} was"),
        2 => format!("{first} and one more file were"),
        more => format!("{first} and {} more files were", more - 1),
    }
}
