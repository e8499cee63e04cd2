//! Files that are never published unless an ignore file asks for them: secrets, repositories, installed packages, and
//! the files of operating systems and editors.
//!
//! A line of an ignore file that begins with `!` and names such a file includes it. Lines that include everything, such
//! as `!*/`, do not count as naming it, because they were written with other files in mind.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use domain::private_files::{self, PrivateKind};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::dependencies::{InstalledPackages, NODE_MODULES};

/// The name of the files with patterns of what is not published, in gitignore's syntax. They apply in every folder.
pub(super) const IGNORE_FILE: &str = ".svcignore";
/// Our own folder. Its files belong to this machine, and its addresses on a site to the service.
const OWN_FOLDER: &str = ".svc";
/// The prefix of the names under which macOS stores file attributes that other disks cannot hold.
const APPLE_DOUBLE: &str = "._";
/// The name of the file in which macOS stores a folder's icon.
const FOLDER_ICON: &str = "Icon\r";
/// Lower-case names of files that systems, editors and other servers create and that no site needs.
const FOREIGN: [&str; 12] = [
    ".ds_store",
    "thumbs.db",
    "ehthumbs.db",
    "desktop.ini",
    ".spotlight-v100",
    ".trashes",
    ".fseventsd",
    ".temporaryitems",
    "__macosx",
    ".idea",
    ".vscode",
    ".htaccess",
];

/// The files or folders that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkippedFiles {
    pub(crate) times: u64,
    /// The first of their paths below the published folder, by name.
    pub(crate) first: PathBuf,
}

/// The record of what a walk left out, shared between clones.
#[derive(Clone)]
pub(super) struct SkippedRecord {
    root: PathBuf,
    by_reason: Arc<Mutex<BTreeMap<String, SkippedFiles>>>,
}

impl SkippedRecord {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), by_reason: Arc::default() }
    }

    pub(super) fn add(&self, why: &str, path: &Path) {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        let mut by_reason = self.by_reason.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped =
            by_reason.entry(why.to_owned()).or_insert_with(|| SkippedFiles { times: 0, first: path.to_owned() });
        skipped.times += 1;
        if path < skipped.first {
            path.clone_into(&mut skipped.first);
        }
    }

    pub(super) fn into_inner(self) -> BTreeMap<String, SkippedFiles> {
        std::mem::take(&mut *self.by_reason.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Why a file or folder is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SkipReason {
    /// It belongs to svc, and is not reported.
    Own,
    /// Its name, as reported.
    Name(String),
    /// It contains a private key.
    Key,
}

impl SkipReason {
    /// Returns the word to report; `None` for what is not reported.
    pub(super) fn label(&self) -> Option<&str> {
        match self {
            Self::Own => None,
            Self::Name(name) => Some(name),
            Self::Key => Some("private key"),
        }
    }
}

pub(super) struct ExclusionRules {
    root: PathBuf,
    dependencies: InstalledPackages,
    /// The lines of ignore files that name something, by folder.
    lines: Mutex<HashMap<PathBuf, Arc<Gitignore>>>,
}

impl ExclusionRules {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), dependencies: InstalledPackages::for_folder(root), lines: Mutex::default() }
    }

    /// Returns why the file or folder at `path` is left out, or `None` if it is published.
    pub(super) fn reason(&self, path: &Path, is_folder: bool) -> Option<SkipReason> {
        let name = path.file_name()?.to_string_lossy();
        if name == IGNORE_FILE || name == crate::project::PROJECT_FILE {
            return Some(SkipReason::Own);
        }
        if name == OWN_FOLDER {
            return Some(SkipReason::Name(OWN_FOLDER.to_owned()));
        }
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let is_left_out = if name == NODE_MODULES {
            is_folder && self.dependencies.is_installed(path)
        } else {
            is_foreign(&name) || private_files::kind_in(&folder, &name).is_some()
        };
        let reason = if is_left_out {
            SkipReason::Name(label(&name).to_owned())
        } else if !is_folder && has_key(path) {
            SkipReason::Key
        } else {
            return None;
        };
        (!self.is_included(path, is_folder)).then_some(reason)
    }

    /// Returns why the file at `path`, or a folder that contains it within the published folder, is left out.
    pub(super) fn reason_within(&self, path: &Path) -> Option<SkipReason> {
        let within = path.strip_prefix(&self.root).ok()?;
        let mut at = self.root.clone();
        within.iter().find_map(|part| {
            at.push(part);
            self.reason(&at, at.is_dir())
        })
    }

    /// Returns a warning about packages that are left out, if there is a reason for one.
    pub(super) fn warning(&self) -> Option<String> {
        let page = self.dependencies.page_with_missing()?;
        let is_included = self.is_included(&self.root.join(NODE_MODULES), true);
        (!is_included).then(|| {
            format!(
                "{page} refers to {NODE_MODULES}/, which is left out because package.json stands beside it. \
                 The line !{NODE_MODULES}/ in {IGNORE_FILE} publishes it."
            )
        })
    }

    /// Returns whether a line of an ignore file includes the path by name. The closest folder takes precedence.
    fn is_included(&self, path: &Path, is_folder: bool) -> bool {
        let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(&self.root));
        let said = folders.map(|folder| match self.ignore_lines_in(folder).matched(path, is_folder) {
            Match::None => None,
            Match::Ignore(_) => Some(false),
            Match::Whitelist(_) => Some(true),
        });
        said.flatten().next() == Some(true)
    }

    fn ignore_lines_in(&self, folder: &Path) -> Arc<Gitignore> {
        let mut known = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lines) = known.get(folder) {
            return Arc::clone(lines);
        }
        let text = std::fs::read_to_string(folder.join(IGNORE_FILE)).unwrap_or_default();
        let mut builder = GitignoreBuilder::new(folder);
        for line in text.lines().filter(|line| !line.starts_with('!') || is_specific_pattern(line)) {
            // The walk itself reports invalid lines.
            let _ = builder.add_line(None, line);
        }
        let lines = Arc::new(builder.build().unwrap_or_else(|_| Gitignore::empty()));
        known.insert(folder.to_owned(), Arc::clone(&lines));
        lines
    }
}

/// Returns whether a symlink out of the folder should not be followed because of this part of its target.
pub(super) fn is_private_name(name: &str) -> bool {
    name == NODE_MODULES || name == OWN_FOLDER || is_foreign(name) || private_files::kind_by_name(name).is_some()
}

/// Returns the kind of private content of the file at `path`, judged by its name, its folder's name or its content.
pub(super) fn private_kind(path: &Path) -> Option<PrivateKind> {
    let name = path.file_name()?.to_string_lossy();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    private_files::kind_in(&folder, &name)
        .or_else(|| private_files::kind_by_name(&folder))
        .or_else(|| has_key(path).then_some(PrivateKind::Keys))
}

pub(super) fn has_key(path: &Path) -> bool {
    let Some(name) = path.file_name().map(|name| name.to_string_lossy()) else { return false };
    // Opening a named pipe would block.
    if !private_files::may_hold_key(&name) || !path.is_file() {
        return false;
    }
    let mut beginning = Vec::new();
    let read =
        File::open(path).and_then(|file| file.take(private_files::KEY_SEARCH_BYTES as u64).read_to_end(&mut beginning));
    read.is_ok() && private_files::holds_key(&name, &beginning)
}

fn is_foreign(name: &str) -> bool {
    name == FOLDER_ICON || name.starts_with(APPLE_DOUBLE) || FOREIGN.contains(&&*name.to_ascii_lowercase())
}

/// Returns whether a pattern matches particular names, not just any.
fn is_specific_pattern(pattern: &str) -> bool {
    let name = pattern.trim_end().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    name.chars().any(char::is_alphanumeric)
}

/// Returns the name to report. macOS creates many names, some of which cannot be displayed.
fn label(name: &str) -> &str {
    match name {
        FOLDER_ICON => "Icon\\r",
        _ if name.starts_with(APPLE_DOUBLE) => "._*",
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_that_include_everything_name_nothing() {
        for pattern in ["!*", "!*/", "!**/", "!.*", "!*.*", "!/", "!a/*", "!?"] {
            assert!(!is_specific_pattern(pattern), "{pattern}");
        }
        for pattern in ["!.env", "!node_modules/", "!/a/.git", "!*.pem", "!.env*", "!id_*"] {
            assert!(is_specific_pattern(pattern), "{pattern}");
        }
    }
}
