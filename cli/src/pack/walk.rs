//! Selects what is published: every regular file of the folder that no rule excludes.
//!
//! A symlink stands for its target, as in a browser that opens the folder: a file or folder inside the published one,
//! or a file elsewhere once the person has agreed ([`LinkedFile`]). It is left out if it leads to a folder elsewhere (which
//! may be the whole disk), into something hidden (where secrets are), in a circle, or nowhere.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::Context as _;
use domain::limits;
use ignore::WalkBuilder;

use super::left_out::{self, ExclusionRules, IGNORE_FILE, SkippedFiles, SkippedRecord};
use crate::{
    failure::{Failure, FailureClass},
    output::{count, size},
};

/// Folders in which build tools put the generated site.
const BUILD_FOLDERS: [&str; 4] = ["dist", "build", "out", "_site"];
/// The maximum number of files that are collected, far more than may be published.
const MOST_LISTED: usize = 10 * *limits::ARCHIVE_FILES.end();
/// The reason for leaving out a symlink without a target.
const BROKEN: &str = "broken symlink";
const PAGE_EXTENSIONS: [&str; 3] = ["html", "htm", "xhtml"];
/// Archive extensions, and their media types.
const ARCHIVE_ENDINGS: [(&str, &str); 5] = [
    (".zip", "application/zip"),
    (".tar.gz", "application/gzip"),
    (".tgz", "application/gzip"),
    (".tar.zst", "application/zstd"),
    (".tzst", "application/zstd"),
];

/// A file on disk and its path on the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SiteFile {
    pub(crate) source: PathBuf,
    /// The path on the site: relative, with `/` between its parts.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A symlink in the folder to a file outside it. The folder's author chose which file of this machine that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LinkedFile {
    pub(crate) name: String,
    pub(crate) target: PathBuf,
}

/// The files to publish, sorted by name, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) entries: Vec<SiteFile>,
    pub(crate) bytes: u64,
    /// The files and folders that were left out although the person did not exclude them, by reason. For those that are
    /// never published, such as `.git`, the reason is their name.
    pub(crate) skipped: BTreeMap<String, SkippedFiles>,
    /// The symlinks to files outside the folder.
    pub(crate) linked: Vec<LinkedFile>,
    /// Generated rules of the site, which are not a file of the person's.
    pub(crate) redirects: Option<String>,
    /// The archive that is published unchanged, instead of files.
    pub(crate) archive: Option<(PathBuf, &'static str)>,
    /// Warnings about likely mistakes.
    pub(crate) warnings: Vec<String>,
}

/// Selects the files of `path`, and fails if they exceed the service's limits.
pub(crate) fn select(path: &Path, anyway: bool) -> anyhow::Result<Selection> {
    let metadata = path.metadata().map_err(|error| unreadable(path, &error))?;
    if path.canonicalize().is_ok_and(|path| path.parent().is_none()) {
        let failure = Failure::usage(format!("{} is the whole of this machine.", path.display()));
        return Err(failure.with_hint("Name the folder that holds your index.html.").into());
    }
    if !metadata.is_dir() && !metadata.is_file() {
        let message = format!("{} is neither a file nor a folder.", path.display());
        let failure = Failure::new(FailureClass::Refused, "not_a_file", message);
        return Err(failure.with_hint("Write what it gives into a file, and publish that.").into());
    }
    if let Some(kind) = left_out::private_kind(path).filter(|_| !anyway && metadata.is_file()) {
        let message = format!("{} looks like {}, which visitors should not read.", path.display(), kind.noun());
        let failure = Failure::new(FailureClass::Refused, "private_file", message);
        return Err(failure.with_hint("Add --anyway to publish it all the same.").into());
    }
    let selection = if metadata.is_dir() { select_folder(path)? } else { select_file(path, metadata.len())? };
    if selection.archive.is_some() {
        return Ok(selection);
    }
    check_limits(path, &selection)?;
    Ok(selection)
}

/// Returns the build folder that was probably meant, if `path` holds `package.json` and a built site in `dist/` etc.
pub(crate) fn likely_build_folder(path: &Path) -> Option<&'static str> {
    path.join("package.json").is_file().then_some(())?;
    BUILD_FOLDERS.into_iter().find(|folder| path.join(folder).join("index.html").is_file())
}

/// Selects a single file. A page becomes `index.html`, and an archive is published as its contents. Any other file
/// keeps its name, and thereby its type, and is served at `/`.
fn select_file(path: &Path, bytes: u64) -> Result<Selection, Failure> {
    let file_name = path.file_name().unwrap_or_default();
    let lower = file_name.to_string_lossy().to_ascii_lowercase();
    if let Some((_, media_type)) = ARCHIVE_ENDINGS.iter().find(|(ending, _)| lower.ends_with(ending)) {
        return Ok(Selection { archive: Some((path.to_owned(), media_type)), bytes, ..Selection::default() });
    }
    let extension = lower.rsplit_once('.').map_or("", |(_, extension)| extension);
    let (name, redirects) = if PAGE_EXTENSIONS.contains(&extension) {
        ("index.html".to_owned(), None)
    } else {
        let name = site_name(Path::new(file_name))?;
        let redirects = format!("/ /{} 200\n", url_encode(&name));
        (name, Some(redirects))
    };
    let entry = SiteFile { source: path.to_owned(), name, bytes };
    Ok(Selection { entries: vec![entry], bytes, redirects, ..Selection::default() })
}

/// Encodes a name for a URL and for the target of a rule.
fn url_encode(name: &str) -> String {
    name.bytes().fold(String::new(), |mut address, byte| {
        match byte {
            b'.' | b'-' | b'_' | b'~' => address.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => address.push(byte.into()),
            _ => address.extend(['%', hex_digit(byte >> 4), hex_digit(byte & 15)]),
        }
        address
    })
}

fn hex_digit(digit: u8) -> char {
    char::from_digit(digit.into(), 16).unwrap_or('0').to_ascii_uppercase()
}

fn select_folder(root: &Path) -> anyhow::Result<Selection> {
    // A folder may be named through a symlink.
    let root = root.canonicalize().map_err(|error| unreadable(root, &error))?;
    let skipped = SkippedRecord::new(&root);
    let left_out = skipped.clone();
    let rules = Arc::new(ExclusionRules::new(&root));
    let warning = rules.warning();
    let inside = root.clone();
    let walk = WalkBuilder::new(&root)
        .standard_filters(false)
        .add_custom_ignore_filename(IGNORE_FILE)
        .follow_links(true)
        .filter_entry(move |entry| {
            if entry.depth() == 0 {
                return true;
            }
            if let Some(reason) = rules.reason(entry.path(), entry.file_type().is_some_and(|kind| kind.is_dir())) {
                if let Some(label) = reason.label() {
                    left_out.add(label, entry.path());
                }
                return false;
            }
            match entry.path_is_symlink().then(|| why_not_followed(&inside, &rules, entry)).flatten() {
                Some(why) => {
                    left_out.add(why, entry.path());
                    false
                }
                None => true,
            }
        })
        .build();

    let mut selection = Selection::default();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let Some((why, link)) = broken_link(&error) else {
                    return Err(error).context("Cannot read the folder");
                };
                skipped.add(why, link);
                continue;
            }
        };
        if !entry.file_type().is_some_and(|kind| kind.is_file()) {
            continue;
        }
        let bytes = entry.metadata().with_context(|| format!("Cannot read {}", entry.path().display()))?.len();
        let name = site_name(entry.path().strip_prefix(&root)?)?;
        if entry.path_is_symlink()
            && let Ok(target) = entry.path().canonicalize()
            && !target.starts_with(&root)
        {
            selection.linked.push(LinkedFile { name: name.clone(), target });
        }
        selection.bytes += bytes;
        selection.entries.push(SiteFile { source: entry.into_path(), name, bytes });
        // Folders reached through symlinks multiply; there is no need to count beyond the limit.
        if selection.entries.len() > MOST_LISTED {
            break;
        }
    }
    selection.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    selection.skipped = skipped.into_inner();
    selection.warnings.extend(warning);
    if let Some(build) = likely_build_folder(&root) {
        selection.warnings.push(format!("This is a source folder. Did you mean its {build}/ folder?"));
    }
    Ok(selection)
}

/// Returns why a symlink to a file or folder is left out, or `None` if it is followed.
fn why_not_followed(root: &Path, rules: &ExclusionRules, link: &ignore::DirEntry) -> Option<&'static str> {
    let Ok(target) = link.path().canonicalize() else { return Some(BROKEN) };
    let is_inside = target.starts_with(root);
    if !is_inside && link.file_type().is_some_and(|kind| kind.is_dir()) {
        return Some("symlink to a folder elsewhere");
    }
    let is_hidden = if is_inside {
        // Hidden files such as .well-known are published like any other.
        rules.reason_within(&target).is_some()
    } else {
        // Ignore the common parent of both paths: a site may be built somewhere below ~/.cache.
        let shared = root.iter().zip(&target).take_while(|(a, b)| a == b).count();
        let mut parts = target.iter().skip(shared).map(|part| part.to_string_lossy());
        parts.any(|part| part.starts_with('.') || left_out::is_private_name(&part)) || left_out::has_key(&target)
    };
    is_hidden.then_some("symlink to something hidden")
}

/// Returns the symlink at which the walk failed and the reason to report, or `None` for other failures.
fn broken_link(error: &ignore::Error) -> Option<(&'static str, &Path)> {
    match error {
        ignore::Error::WithDepth { err, .. } => broken_link(err),
        ignore::Error::Loop { child, .. } => Some(("symlink in a circle", child)),
        ignore::Error::WithPath { path, .. } if path.is_symlink() => Some((BROKEN, path)),
        _ => None,
    }
}

fn site_name(relative: &Path) -> Result<String, Failure> {
    let refuse = |why: &str| {
        let message = format!("{} cannot be published: its name {why}.", relative.display());
        Failure::new(FailureClass::Refused, "bad_file_name", message)
            .with_hint(format!("Rename it, or leave it out with a line in {IGNORE_FILE}."))
    };
    let parts: Option<Vec<&str>> = relative.iter().map(|part| part.to_str()).collect();
    let name = parts.ok_or_else(|| refuse("is not UTF-8"))?.join("/");
    if name.contains('\\') {
        return Err(refuse("contains a backslash"));
    }
    if name.chars().any(char::is_control) {
        return Err(refuse("contains a control character"));
    }
    Ok(name)
}

fn check_limits(path: &Path, selection: &Selection) -> Result<(), Failure> {
    let instead = likely_build_folder(path).map(|folder| format!("Did you mean {}?", path.join(folder).display()));
    let advise = |failure: Failure, otherwise: String| failure.with_hint(instead.clone().unwrap_or(otherwise));
    let leave_out = || format!("List what the site does not need in {IGNORE_FILE} (gitignore syntax).");

    if selection.entries.is_empty() {
        let message = format!("{} holds no file to publish.", path.display());
        let failure = Failure::new(FailureClass::Refused, "empty_folder", message);
        return Err(advise(failure, "Name the folder that holds your index.html.".to_owned()));
    }
    let most = *limits::ARCHIVE_FILES.end();
    if selection.entries.len() > most {
        let (found, allowed) = (count(selection.entries.len() as u64, "file"), count(most as u64, "file"));
        return Err(advise(Failure::limit(format!("{found} are too many: at most {allowed}.")), leave_out()));
    }
    if let Some(large) = selection.entries.iter().find(|entry| entry.bytes > limits::FILE_BYTES) {
        let most = size(limits::FILE_BYTES);
        let message = format!("{} is larger than {most}, which a single file may be at most.", large.source.display());
        return Err(advise(Failure::limit(message), leave_out()));
    }
    if selection.bytes > limits::DEPLOYMENT_BYTES {
        let most = size(limits::DEPLOYMENT_BYTES);
        let message = format!("The files are larger than {most} together, which a site may be at most.");
        return Err(advise(Failure::limit(message), leave_out()));
    }
    Ok(())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    if error.kind() == std::io::ErrorKind::NotFound {
        Failure::new(FailureClass::Usage, "no_such_path", format!("{} does not exist.", path.display()))
            .with_hint("Name the folder (or single file) to publish.")
    } else {
        Failure::new(FailureClass::Refused, "unreadable", format!("Cannot read {}: {error}.", path.display()))
    }
}

#[cfg(test)]
mod tests;
