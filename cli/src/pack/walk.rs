//! The selection of what is published: every regular file of the folder that no rule excludes.
//!
//! A symlink stands for what it leads to, as in a browser that opens the folder: a file or a folder inside the published
//! one; and a file elsewhere, once the person has agreed to it ([`Linked`]). It is left out when it leads to a folder elsewhere
//! (which may be the whole disk), into what is hidden (where secrets lie), around in a circle, or nowhere.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::Context as _;
use domain::limits;
use ignore::WalkBuilder;

use crate::{
    failure::{Failure, Kind},
    output::{count, size},
};

/// The name of the files that hold patterns of what is not published, in gitignore's syntax. Honoured in every folder.
const IGNORE_FILE: &str = ".svcignore";
/// Names of files and folders that are never published: version control, secrets, dependencies, our own files.
const NEVER: [&str; 11] = [
    ".git",
    ".hg",
    ".svn",
    ".svc",
    IGNORE_FILE,
    crate::project::PROJECT_FILE,
    ".DS_Store",
    FOLDER_ICON,
    "Thumbs.db",
    "node_modules",
    ".env",
];
/// The beginning of the names under which macOS keeps what other disks cannot hold of a file.
const APPLE_DOUBLE: &str = "._";
/// The name of the file in which macOS keeps the picture of a folder.
const FOLDER_ICON: &str = "Icon\r";
/// Folders in which build tools put the site they make.
const BUILD_FOLDERS: [&str; 4] = ["dist", "build", "out", "_site"];
/// Most files that are collected: one more than may be published.
const MOST_LISTED: usize = 10 * *limits::ARCHIVE_FILES.end();
/// The reason given for leaving out a symlink that leads nowhere.
const BROKEN: &str = "broken symlink";
const PAGE_EXTENSIONS: [&str; 3] = ["html", "htm", "xhtml"];

/// A file on disk and its path on the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) source: PathBuf,
    /// The path on the site: relative, with `/` between its parts.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// A symlink in the folder to a file outside it. Whoever made the folder chose which file of this machine that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Linked {
    /// The symlink's path on the site.
    pub(crate) name: String,
    pub(crate) target: PathBuf,
}

/// The files to publish, sorted by name, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub(crate) entries: Vec<Entry>,
    pub(crate) bytes: u64,
    /// The files and folders that were left out although the person did not exclude them, by the reason. Of those that are never
    /// published, such as `.git`, that is their name.
    pub(crate) skipped: BTreeMap<String, Skipped>,
    /// The files that lie elsewhere.
    pub(crate) linked: Vec<Linked>,
    /// Warnings about what the person may not have intended.
    pub(crate) warnings: Vec<String>,
}

/// Files or folders that were left out for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skipped {
    pub(crate) times: u64,
    /// The first of their paths below the published folder, by name.
    pub(crate) first: PathBuf,
}

/// Selects the files of `path`, and fails when they exceed the service's limits.
pub(crate) fn select(path: &Path) -> anyhow::Result<Selection> {
    let metadata = path.metadata().map_err(|error| unreadable(path, &error))?;
    let selection = if metadata.is_dir() { folder(path)? } else { single(path, metadata.len()) };
    judge(path, &selection)?;
    Ok(selection)
}

/// The build folder that was probably meant: when `folder` holds `package.json`, and a built site in `dist/` or its
/// like.
pub(crate) fn likely_build_folder(path: &Path) -> Option<&'static str> {
    path.join("package.json").is_file().then_some(())?;
    BUILD_FOLDERS.into_iter().find(|folder| path.join(folder).join("index.html").is_file())
}

fn single(path: &Path, bytes: u64) -> Selection {
    let mut warnings = Vec::new();
    let extension = path.extension().and_then(|text| text.to_str()).unwrap_or_default();
    if !PAGE_EXTENSIONS.iter().any(|page| extension.eq_ignore_ascii_case(page)) {
        warnings.push(format!(
            "{} is published as index.html, so browsers read it as a web page. To keep its type, publish a folder.",
            path.display()
        ));
    }
    let entry = Entry { source: path.to_owned(), name: "index.html".to_owned(), bytes };
    Selection { entries: vec![entry], bytes, warnings, ..Selection::default() }
}

fn folder(root: &Path) -> anyhow::Result<Selection> {
    // A folder that was named through a symlink is still the folder the person named.
    let root = root.canonicalize().map_err(|error| unreadable(root, &error))?;
    let skipped = LeftOut::new(&root);
    let left_out = skipped.clone();
    let inside = root.clone();
    let walk = WalkBuilder::new(&root)
        .standard_filters(false)
        .add_custom_ignore_filename(IGNORE_FILE)
        .follow_links(true)
        .filter_entry(move |entry| {
            if entry.depth() == 0 {
                return true;
            }
            let name = entry.file_name().to_string_lossy();
            if is_never_published(&name) {
                if name != IGNORE_FILE && name != crate::project::PROJECT_FILE {
                    left_out.add(label(&name), entry.path());
                }
                return false;
            }
            match entry.path_is_symlink().then(|| why_not_followed(&inside, entry)).flatten() {
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
            selection.linked.push(Linked { name: name.clone(), target });
        }
        selection.bytes += bytes;
        selection.entries.push(Entry { source: entry.into_path(), name, bytes });
        // Folders that are reached through symlinks multiply; more than may be published need not be counted.
        if selection.entries.len() > MOST_LISTED {
            break;
        }
    }
    selection.entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    selection.skipped = skipped.into_inner();
    if let Some(build) = likely_build_folder(&root) {
        selection.warnings.push(format!("This is a source folder. Did you mean its {build}/ folder?"));
    }
    Ok(selection)
}

/// What the walk left out. Clones share it.
#[derive(Clone)]
struct LeftOut {
    root: PathBuf,
    by_reason: Arc<Mutex<BTreeMap<String, Skipped>>>,
}

impl LeftOut {
    fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), by_reason: Arc::default() }
    }

    fn add(&self, why: &str, path: &Path) {
        let path = path.strip_prefix(&self.root).unwrap_or(path);
        let mut by_reason = self.by_reason.lock().unwrap_or_else(PoisonError::into_inner);
        let skipped = by_reason.entry(why.to_owned()).or_insert_with(|| Skipped { times: 0, first: path.to_owned() });
        skipped.times += 1;
        if path < skipped.first {
            path.clone_into(&mut skipped.first);
        }
    }

    fn into_inner(self) -> BTreeMap<String, Skipped> {
        std::mem::take(&mut *self.by_reason.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn is_never_published(name: &str) -> bool {
    NEVER.contains(&name) || name.starts_with(".env.") || name.starts_with(APPLE_DOUBLE)
}

/// The name under which what was left out is reported. Names that macOS makes are many, or cannot be shown.
fn label(name: &str) -> &str {
    match name {
        FOLDER_ICON => "Icon\\r",
        _ if name.starts_with(APPLE_DOUBLE) => "._*",
        _ => name,
    }
}

/// The reason for leaving out a symlink that leads to a file or a folder; none when it is followed.
fn why_not_followed(root: &Path, link: &ignore::DirEntry) -> Option<&'static str> {
    let Ok(target) = link.path().canonicalize() else { return Some(BROKEN) };
    let is_inside = target.starts_with(root);
    if !is_inside && link.file_type().is_some_and(|kind| kind.is_dir()) {
        return Some("symlink to a folder elsewhere");
    }
    // Only what lies beyond the folder that both have in common: a site may well be built somewhere below ~/.cache.
    let shared = root.iter().zip(&target).take_while(|(a, b)| a == b).count();
    let is_hidden = target.iter().skip(shared).map(|part| part.to_string_lossy()).any(|part| {
        // Inside, hidden files such as .well-known are published like any other.
        is_never_published(&part) || (!is_inside && part.starts_with('.'))
    });
    is_hidden.then_some("symlink to something hidden")
}

/// The reason to report when the walk failed at a symlink, and that symlink; none for other failures.
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
        Failure::new(Kind::Refused, "bad_file_name", message)
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

fn judge(path: &Path, selection: &Selection) -> Result<(), Failure> {
    let instead = likely_build_folder(path).map(|folder| format!("Did you mean {}?", path.join(folder).display()));
    let advise = |failure: Failure, otherwise: String| failure.with_hint(instead.clone().unwrap_or(otherwise));
    let leave_out = || format!("List what the site does not need in {IGNORE_FILE} (gitignore syntax).");

    if selection.entries.is_empty() {
        let message = format!("{} holds no file to publish.", path.display());
        let failure = Failure::new(Kind::Refused, "empty_folder", message);
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
        Failure::new(Kind::Usage, "no_such_path", format!("{} does not exist.", path.display()))
            .with_hint("Name the folder (or single file) to publish.")
    } else {
        Failure::new(Kind::Refused, "unreadable", format!("Cannot read {}: {error}.", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn site(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, body) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, body).unwrap();
        }
        dir
    }

    fn names(selection: &Selection) -> Vec<&str> {
        selection.entries.iter().map(|entry| entry.name.as_str()).collect()
    }

    #[test]
    fn ignored_files_and_what_never_belongs_are_left_out() {
        let dir = site(&[
            ("index.html", "x"),
            ("a/b.css", "x"),
            ("a/draft.md", "x"),
            ("a/keep.md", "x"),
            (".well-known/security.txt", "x"),
            (".svcignore", "*.md\n!keep.md\n/private/\n"),
            ("private/x.html", "x"),
            ("a/private/y.html", "x"),
            (".gitignore", "index.html"),
            (".git/config", "x"),
            (".env", "x"),
            (".env.local", "x"),
            (".svc/up.json", "x"),
            ("node_modules/x/y.js", "x"),
            (".svcproject", "docs"),
            ("._index.html", "x"),
            ("a/._b.css", "x"),
            ("a/Icon\r", "x"),
            ("a/.DS_Store", "x"),
        ]);
        let selection = select(dir.path()).unwrap();
        assert_eq!(
            names(&selection),
            [".gitignore", ".well-known/security.txt", "a/b.css", "a/keep.md", "a/private/y.html", "index.html"]
        );
        let skipped: Vec<&str> = selection.skipped.keys().map(String::as_str).collect();
        assert_eq!(skipped, [".DS_Store", "._*", ".env", ".env.local", ".git", ".svc", "Icon\\r", "node_modules"]);
    }

    #[test]
    fn a_single_file_becomes_index_html() {
        let dir = site(&[("page.html", "hello"), ("picture.png", "x")]);
        let selection = select(&dir.path().join("page.html")).unwrap();
        assert_eq!((names(&selection), selection.bytes), (vec!["index.html"], 5));
        assert!(selection.warnings.is_empty());
        assert_eq!(select(&dir.path().join("picture.png")).unwrap().warnings.len(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_to_files_and_to_folders_inside_are_followed() {
        let dir = site(&[("site/v3/index.html", "three"), ("site/index.html", "x"), ("share/jquery.js", "jquery")]);
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, dir.path().join(at)).unwrap();
        link("v3", "site/latest");
        link("../share/jquery.js", "site/jquery.js");
        link("v3/index.html", "site/three.html");
        link("site", "named");
        let selection = select(&dir.path().join("named")).unwrap();
        let wanted = ["index.html", "jquery.js", "latest/index.html", "three.html", "v3/index.html"];
        assert_eq!(names(&selection), wanted);
        assert_eq!(selection.bytes, 1 + 6 + 3 * 5);
        assert!(selection.skipped.is_empty(), "{:?}", selection.skipped);
        let target = dir.path().canonicalize().unwrap().join("share/jquery.js");
        assert_eq!(selection.linked, [Linked { name: "jquery.js".into(), target }]);
    }

    #[cfg(unix)]
    #[test]
    fn symlinks_that_lead_astray_are_left_out() {
        let dir = site(&[
            ("site/index.html", "x"),
            ("site/a/page.html", "a"),
            ("site/b/page.html", "b"),
            ("site/.env", "secret"),
            ("site/.well-known/x", "public"),
            ("elsewhere/page.html", "x"),
            (".ssh/key", "secret"),
        ]);
        let link = |to: &str, at: &str| std::os::unix::fs::symlink(to, dir.path().join(at)).unwrap();
        link("../elsewhere", "site/elsewhere");
        link("/", "site/root");
        link("../.ssh/key", "site/key");
        link(".env", "site/settings");
        link("nowhere", "site/broken");
        link("loop", "site/loop");
        link("..", "site/a/up");
        link("../b", "site/a/b");
        link("../a", "site/b/a");
        link(".well-known/x", "site/x");
        let selection = select(&dir.path().join("site")).unwrap();
        assert_eq!(
            names(&selection),
            [".well-known/x", "a/b/page.html", "a/page.html", "b/a/page.html", "b/page.html", "index.html", "x"]
        );
        let describe = |(what, Skipped { times, first })| (what, times, first.display().to_string());
        let skipped: Vec<_> = selection.skipped.into_iter().map(describe).collect();
        let skipped: Vec<(&str, u64, &str)> =
            skipped.iter().map(|(what, times, first)| (&**what, *times, &**first)).collect();
        assert_eq!(
            skipped,
            [
                (".env", 1, ".env"),
                ("broken symlink", 2, "broken"),
                ("symlink in a circle", 4, "a/b/a"),
                ("symlink to a folder elsewhere", 2, "elsewhere"),
                ("symlink to something hidden", 2, "key")
            ]
        );
        assert!(selection.linked.is_empty());
    }

    #[test]
    fn an_empty_source_folder_points_to_the_build() {
        let dir = site(&[(".git/config", "x")]);
        let failure = crate::failure::of(&select(dir.path()).unwrap_err());
        assert_eq!(failure.code, "empty_folder");

        let dir = site(&[("package.json", "{}"), ("dist/index.html", "x"), (".svcignore", "*\n")]);
        let failure = crate::failure::of(&select(dir.path()).unwrap_err());
        assert!(failure.hint.unwrap().contains("dist"));
    }

    #[test]
    fn a_file_over_the_limit_is_named() {
        let dir = site(&[("index.html", "x")]);
        fs::File::create(dir.path().join("film.mp4")).unwrap().set_len(limits::FILE_BYTES + 1).unwrap();
        let failure = crate::failure::of(&select(dir.path()).unwrap_err());
        assert_eq!(failure.kind, Kind::Limit);
        assert!(failure.message.contains("film.mp4"), "{}", failure.message);
    }

    #[test]
    fn a_missing_path_is_a_mistake_of_usage() {
        let failure = crate::failure::of(&select(Path::new("/no/such/folder")).unwrap_err());
        assert_eq!(failure.kind, Kind::Usage);
    }

    #[cfg(unix)]
    #[test]
    fn a_backslash_in_a_name_is_refused_before_the_upload() {
        let dir = site(&[("index.html", "x"), ("a\\b", "x")]);
        assert_eq!(crate::failure::of(&select(dir.path()).unwrap_err()).code, "bad_file_name");
    }
}
