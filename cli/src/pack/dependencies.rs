//! Decides which `node_modules` folders are installed packages, and which are part of a site.
//!
//! A package manager installs next to `package.json`, and those folders are left out. Bundlers that keep the folders of
//! their inputs create others (`assets/node_modules` of Expo, one at the root with Vite's `preserveModules`), without a
//! `package.json` next to them. At the root of the published folder, such a folder may still be installed packages, so
//! it is published only if the files next to it refer to it.

use std::{
    fs::File,
    io::Read as _,
    path::{Path, PathBuf},
};

use ignore::WalkBuilder;

use super::left_out::IGNORE_FILE;

pub(super) const NODE_MODULES: &str = "node_modules";
const PACKAGE_FILE: &str = "package.json";
/// The text by which a file refers to the folder.
const REFERENCE: &[u8] = b"node_modules/";
const PAGES: [&str; 3] = ["html", "htm", "xhtml"];
/// Extensions of files besides pages that may refer to the folder in a bundler's output.
const CODE: [&str; 4] = ["js", "mjs", "cjs", "css"];
/// The number of bytes of a file that are searched for references.
const SEARCHED_BYTES: u64 = 1024 * 1024;
/// The maximum number of files that are searched.
const SEARCHED_FILES: usize = 2_000;

pub(super) struct InstalledPackages {
    root: PathBuf,
    /// The first file that refers to the folder at the root, if any.
    referring: Option<String>,
}

impl InstalledPackages {
    /// Inspects the folder `root`. Files are searched for references only if `node_modules` is at its root.
    pub(super) fn for_folder(root: &Path) -> Self {
        let referring = root.join(NODE_MODULES).is_dir().then(|| first_reference(root)).flatten();
        Self { root: root.to_owned(), referring }
    }

    /// Returns whether the `node_modules` folder at `path` holds installed packages.
    pub(super) fn is_installed(&self, path: &Path) -> bool {
        let parent = path.parent().unwrap_or(path);
        let within = parent.strip_prefix(&self.root).unwrap_or(parent);
        // A folder within a published `node_modules` is published too.
        !within.iter().any(|part| part == NODE_MODULES)
            && (is_package(parent) || parent == self.root && self.referring.is_none())
    }

    /// Returns the page that refers to installed packages, which are left out.
    pub(super) fn page_with_missing(&self) -> Option<&str> {
        self.referring.as_deref().filter(|_| is_package(&self.root))
    }
}

fn is_package(folder: &Path) -> bool {
    folder.join(PACKAGE_FILE).is_file()
}

/// Returns the first file that refers to the folder: a page or, without a package at the root, a script or style sheet.
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
        .find(|entry| has_reference(entry.path()))
        .map(|entry| entry.path().strip_prefix(root).unwrap_or(entry.path()).display().to_string())
}

fn has_reference(path: &Path) -> bool {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(SEARCHED_BYTES).read_to_end(&mut text));
    read.is_ok() && text.windows(REFERENCE.len()).any(|window| window == REFERENCE)
}
