//! Which folders called `node_modules` are installed packages, and which are parts of a site.
//!
//! A package manager installs beside `package.json`: what stands there is left out. Bundlers that keep the folders of what they
//! bundle make others (`assets/node_modules` of Expo, a root of its own with Vite's `preserveModules`), without a `package.json`
//! beside them. At the root of what is published, where a folder without it may still be installed packages, the files beside it
//! must refer to it.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use ignore::WalkBuilder;

use super::left_out::IGNORE_FILE;

/// The name of the folders.
pub(super) const NODE_MODULES: &str = "node_modules";
const PACKAGE_FILE: &str = "package.json";
/// What a file holds that refers to one.
const REFERENCE: &[u8] = b"node_modules/";
const PAGES: [&str; 3] = ["html", "htm", "xhtml"];
/// Endings of other files that refer to one, in what a bundler made.
const CODE: [&str; 4] = ["js", "mjs", "cjs", "css"];
/// Bytes of a file that are searched for references.
const SEARCHED_BYTES: u64 = 1024 * 1024;
/// Files that are searched, at most.
const SEARCHED_FILES: usize = 2_000;

/// The packages of a folder that is published.
pub(super) struct Dependencies {
    root: PathBuf,
    /// The first file that refers to the folder at the root, if there is one.
    referring: Option<String>,
}

impl Dependencies {
    /// Looks at the folder `root`. Only one that has the folder at its root is searched for references.
    pub(super) fn of(root: &Path) -> Self {
        let referring = root.join(NODE_MODULES).is_dir().then(|| first_reference(root)).flatten();
        Self { root: root.to_owned(), referring }
    }

    /// Whether the folder at `path`, which is called `node_modules`, holds installed packages.
    pub(super) fn are_at(&self, path: &Path) -> bool {
        let parent = path.parent().unwrap_or(path);
        let within = parent.strip_prefix(&self.root).unwrap_or(parent);
        // What is within one that is published goes with it.
        !within.iter().any(|part| part == NODE_MODULES)
            && (is_package(parent) || parent == self.root && self.referring.is_none())
    }

    /// The page that refers to installed packages, which are left out.
    pub(super) fn missing_from(&self) -> Option<&str> {
        self.referring.as_deref().filter(|_| is_package(&self.root))
    }
}

fn is_package(folder: &Path) -> bool {
    folder.join(PACKAGE_FILE).is_file()
}

/// The first file that refers to the folder at the root: a page, or where no package is developed, a script or a style.
fn first_reference(root: &Path) -> Option<String> {
    let is_source = is_package(root);
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .add_custom_ignore_filename(IGNORE_FILE)
        .filter_entry(|entry| entry.depth() == 0 || !matches!(entry.file_name().to_str(), Some(NODE_MODULES | ".git")))
        .sort_by_file_name(Ord::cmp)
        .build();
    walk.filter_map(Result::ok)
        .filter(|entry| {
            let extension = entry.path().extension().and_then(|text| text.to_str()).unwrap_or_default();
            let is_one_of = |endings: &[&str]| endings.iter().any(|ending| extension.eq_ignore_ascii_case(ending));
            is_one_of(&PAGES) || !is_source && is_one_of(&CODE)
        })
        .take(SEARCHED_FILES)
        .find(|entry| refers(entry.path()))
        .map(|entry| entry.path().strip_prefix(root).unwrap_or(entry.path()).display().to_string())
}

fn refers(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SEARCHED_BYTES).read_to_end(&mut text));
    read.is_ok() && text.windows(REFERENCE.len()).any(|window| window == REFERENCE)
}
