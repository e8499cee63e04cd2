//! Warnings about files that were probably published by mistake. They never block publishing.

use std::collections::BTreeMap;

use domain::private_files::{self, PrivateKind};

use super::{archive::shown, manifest::RedirectRule, rules::path::RequestPath};

/// Replaced files that warnings name; the rest are only counted.
const REPLACED_NAMED: usize = 20;
/// The page at a site's own address.
const INDEX: &str = "index.html";
/// The page for every address without a file.
const FALLBACK: &str = "200.html";

/// Files that occurred again with different content.
#[derive(Debug, Default)]
pub(super) struct ReplacedFiles {
    paths: Vec<String>,
    unnamed: usize,
}

impl ReplacedFiles {
    pub(super) fn add(&mut self, path: &str) {
        if self.paths.len() < REPLACED_NAMED {
            self.paths.push(path.to_owned());
        } else {
            self.unnamed += 1;
        }
    }

    pub(super) fn is_any(&self) -> bool {
        !self.paths.is_empty()
    }

    pub(super) fn into_warnings(self) -> impl Iterator<Item = String> {
        let Self { paths, unnamed } = self;
        let named = paths.into_iter().map(|path| {
            format!("`{path}` is in the archive more than once, with different contents: the last one is published")
        });
        let others = (unnamed > 0).then(|| format!("{unnamed} more files are in the archive more than once"));
        named.chain(others)
    }
}

/// Warns if a site has nothing at its own address, and suggests the folder that was probably meant. `paths` are sorted.
pub(super) fn missing_index<'p>(
    paths: impl Iterator<Item = &'p str> + Clone,
    redirects: &[RedirectRule],
) -> Option<String> {
    let is_answered = paths.clone().any(|path| path == INDEX || path == FALLBACK)
        || redirects.iter().any(|rule| rule.pattern.matches_path(&RequestPath::new("/")));
    if is_answered {
        return None;
    }
    let said = "the site has no `index.html`, so its address answers 404";
    let similar =
        paths.clone().find(|path| ["index.html", "index.htm"].iter().any(|name| path.eq_ignore_ascii_case(name)));
    if let Some(similar) = similar {
        return Some(format!("{said}; {} must be named so", shown(similar.as_bytes())));
    }
    let mut folders: Vec<&str> = paths.filter_map(|path| path.strip_suffix(INDEX)?.strip_suffix('/')).collect();
    folders.sort_unstable_by_key(|folder| folder.len());
    let Some((outer, others)) = folders.split_first() else { return Some(said.to_owned()) };
    let is_only = others.iter().all(|folder| folder.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/')));
    if !is_only {
        return Some(said.to_owned());
    }
    let (page, folder) = (shown(format!("{outer}/{INDEX}").as_bytes()), shown(outer.as_bytes()));
    Some(format!("{said}; {page} is there: was {folder} meant?"))
}

/// Warns about files whose names look like a hash of their content, if the content changed but the name did not.
pub(super) fn changed_under_hash(mut paths: Vec<String>) -> Option<String> {
    paths.sort_unstable();
    let first = shown(paths.first()?.as_bytes());
    let files = match paths.len() {
        1 => format!("{first} has changed and kept its name, which looks"),
        more => format!("{first} and {} more files have changed and kept their names, which look", more - 1),
    };
    Some(format!(
        "{files} like a hash of the content: browsers that have the file may keep it for a year; give what changes another name"
    ))
}

/// Returns one warning per kind of private file. The `bool` says whether the file contains a private key.
pub(super) fn private_files<'p>(paths: impl Iterator<Item = (&'p str, bool)>) -> impl Iterator<Item = String> {
    let mut kinds: BTreeMap<PrivateKind, (&str, u64)> = BTreeMap::new();
    for (path, has_key) in paths {
        if let Some(kind) = private_files::possible_kind_by_path(path).or(has_key.then_some(PrivateKind::Keys)) {
            kinds.entry(kind).or_insert((path, 0)).1 += 1;
        }
    }
    kinds.into_iter().map(|(kind, (first, count))| {
        let (first, noun) = (shown(first.as_bytes()), kind.noun());
        let (files, leave) = match count {
            1 => (format!("{first} is published, and looks like {noun}"), "leave it out"),
            2 => (format!("{first} and one more file are published, and look like {noun}"), "leave them out"),
            _ => {
                let more = count - 1;
                (format!("{first} and {more} more files are published, and look like {noun}"), "leave them out")
            }
        };
        format!("{files}: {leave}, and change what visitors may have read")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::redirects;

    fn index(paths: &[&str], rules: &str) -> Option<String> {
        missing_index(paths.iter().copied(), &redirects::compile(rules.as_bytes(), |path| paths.contains(&path)).0)
    }

    #[test]
    fn a_site_without_an_index_is_told_where_one_is() {
        for answered in [&["index.html"][..], &["200.html", "a/index.html"], &["a/b", "index.html"]] {
            assert_eq!(index(answered, ""), None);
        }
        assert_eq!(index(&["start.html"], "/ /start 302"), None);
        for (paths, hint) in [
            (
                &["package.json", "dist/index.html", "dist/docs/index.html"][..],
                "`dist/index.html` is there: was `dist` meant?",
            ),
            (&["a/b/index.html"], "was `a/b` meant?"),
            (&["Index.html"], "`Index.html` must be named so"),
            (&["INDEX.HTM", "a/index.html"], "`INDEX.HTM` must be named so"),
            (&["a/index.html", "b/index.html"], "answers 404"),
            (&["a/index.html", "ab/index.html"], "answers 404"),
        ] {
            let warning = index(paths, "/a /b 302").expect("a warning");
            assert!(warning.ends_with(hint), "{warning}");
        }
        assert_eq!(index(&["a.pdf"], ""), Some("the site has no `index.html`, so its address answers 404".into()));
    }

    #[test]
    fn each_kind_of_private_file_has_one_warning() {
        let paths =
            [(".env", false), ("a/.env.local", false), ("a/.env.test", false), (".npmrc", false), ("x.pem", true)];
        let warnings: Vec<String> = private_files(paths.into_iter().chain([("index.html", false)])).collect();
        assert_eq!(
            warnings,
            [
                "`.env` and 2 more files are published, and look like environment variables: leave them out, and change what \
                 visitors may have read",
                "`.npmrc` is published, and looks like credentials: leave it out, and change what visitors may have read",
                "`x.pem` is published, and looks like private keys: leave it out, and change what visitors may have read",
            ]
        );
    }
}
