//! Maps a path to a file, or to a cleaner path to redirect to.

use super::{
    answer::Asked,
    pack::{File, Pack},
};

pub(crate) enum Found<'p> {
    File(&'p File),
    /// A file has this cleaner path (decoded, with exactly one leading slash).
    Cleaner(String),
    Nothing,
}

/// Resolves the path of a request. A path that is not nameable has no file.
pub(crate) fn resolve_asked<'p>(pack: &'p Pack, asked: Asked<'_>) -> Found<'p> {
    if asked.is_nameable { resolve(pack, asked.path) } else { Found::Nothing }
}

/// Resolves a decoded path with its leading slash.
pub(crate) fn resolve<'p>(pack: &'p Pack, path: &str) -> Found<'p> {
    let name = path.strip_prefix('/').unwrap_or(path);
    let found = if name.is_empty() || name.ends_with('/') { folder(pack, name) } else { named(pack, name) };
    match found {
        Found::Nothing if path.contains("//") => merged(pack, path),
        found => found,
    }
}

/// Returns the file of a path without any redirect. Used for rewrites, whose visitors never see the path.
pub(crate) fn target<'p>(pack: &'p Pack, path: &str) -> Option<&'p File> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() || path.ends_with('/') {
        return pack.file(&format!("{path}index.html"));
    }
    let page = || pack.file(&format!("{path}.html")).or_else(|| pack.file(&format!("{path}/index.html")));
    pack.file(path).or_else(page)
}

/// Returns the nearest `404.html` up the tree.
pub(crate) fn not_found_page<'p>(pack: &'p Pack, path: &str) -> Option<&'p File> {
    let mut folder = path.strip_prefix('/').unwrap_or(path);
    loop {
        folder = folder.rfind('/').map_or("", |at| &folder[..at]);
        let page = if folder.is_empty() { pack.file("404.html") } else { pack.file(&format!("{folder}/404.html")) };
        if page.is_some() || folder.is_empty() {
            return page;
        }
    }
}

/// Resolves a path without its leading slash and without a trailing one.
fn named<'p>(pack: &'p Pack, path: &str) -> Found<'p> {
    let Some(file) = pack.file(path) else { return page(pack, path) };
    // A folder's address, with its slash, always means its `index.html`; this keeps relative links right.
    if let Some(folder) = index_of(path, "index.html") {
        return Found::Cleaner(format!("/{folder}"));
    }
    // `/x` means the file `x` first: if it exists, `x.html` has only its own address.
    if let Some(stem) = path.strip_suffix(".html").filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
        && pack.file(stem).is_none()
    {
        return Found::Cleaner(format!("/{stem}"));
    }
    Found::File(file)
}

/// Resolves a path that is not a file's own name: `x.html` is served in place, a folder redirects to its slash.
fn page<'p>(pack: &'p Pack, path: &str) -> Found<'p> {
    let has_index = || pack.file(&format!("{path}/index.html")).is_some();
    let Some(page) = pack.file(&format!("{path}.html")) else {
        // In place, its relative links would resolve against the parent, and rules for paths below it would not apply.
        return if has_index() { Found::Cleaner(format!("/{path}/")) } else { Found::Nothing };
    };
    match index_of(path, "index") {
        Some(_) if has_index() => Found::Cleaner(format!("/{path}/")),
        Some(folder) => Found::Cleaner(format!("/{folder}")),
        None => Found::File(page),
    }
}

/// Resolves a path that is empty or ends with a slash, without its leading one.
fn folder<'p>(pack: &'p Pack, folder: &str) -> Found<'p> {
    if let Some(index) = pack.file(&format!("{folder}index.html")) {
        return Found::File(index);
    }
    let name = folder.trim_end_matches('/');
    // Only one extra slash, and only where `/x` means `x.html`.
    let is_page = !name.is_empty()
        && name.len() + 1 == folder.len()
        && pack.file(name).is_none()
        && pack.file(&format!("{name}.html")).is_some();
    match index_of(name, "index") {
        _ if !is_page => Found::Nothing,
        Some(folder) => Found::Cleaner(format!("/{folder}")),
        None => Found::Cleaner(format!("/{name}")),
    }
}

/// Resolves a path with runs of slashes merged. The result begins with a single slash, so it never names another host.
fn merged<'p>(pack: &'p Pack, path: &str) -> Found<'p> {
    let mut merged = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !merged.ends_with('/') {
            merged.push(c);
        }
    }
    match resolve(pack, &merged) {
        Found::File(_) => Found::Cleaner(merged),
        found => found,
    }
}

/// Returns the folder, with its slash, whose file `name` is at `path`; empty at the root.
fn index_of<'t>(path: &'t str, name: &str) -> Option<&'t str> {
    path.strip_suffix(name).filter(|folder| folder.is_empty() || folder.ends_with('/'))
}
