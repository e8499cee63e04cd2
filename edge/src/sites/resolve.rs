//! Which file a path means, and which paths redirect to a cleaner one.

use super::{
    answer::Asked,
    pack::{File, Pack},
};

/// The outcome of looking up a path.
pub(crate) enum Found<'p> {
    /// This file.
    File(&'p File),
    /// A file has this cleaner path (decoded, with exactly one leading slash).
    Cleaner(String),
    /// No file.
    Nothing,
}

/// Resolves the path of a request. No file has a name that cannot be one.
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

/// The file that a path means without any redirect: for rewrites, whose visitors never see the path.
pub(crate) fn target<'p>(pack: &'p Pack, path: &str) -> Option<&'p File> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() || path.ends_with('/') {
        return pack.file(&format!("{path}index.html"));
    }
    let page = || pack.file(&format!("{path}.html")).or_else(|| pack.file(&format!("{path}/index.html")));
    pack.file(path).or_else(page)
}

/// The nearest `404.html` up the tree.
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
    // A folder's own address, with its slash, always means its index.html, and keeps its relative links right.
    if let Some(folder) = index_of(path, "index.html") {
        return Found::Cleaner(format!("/{folder}"));
    }
    // `/x` means `x` first: where there is such a file, `x.html` has no other address than its own.
    if let Some(stem) = path.strip_suffix(".html").filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
        && pack.file(stem).is_none()
    {
        return Found::Cleaner(format!("/{stem}"));
    }
    Found::File(file)
}

/// Resolves a path that is no file's own: `x.html` answers in place, a folder at its address with the slash.
fn page<'p>(pack: &'p Pack, path: &str) -> Found<'p> {
    let has_index = || pack.file(&format!("{path}/index.html")).is_some();
    let Some(page) = pack.file(&format!("{path}.html")) else {
        // In place, its relative links would lead to the folder above, and the rules for what is below it would be passed by.
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
    // Only one slash too many, and only where `/x` means `x.html`.
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

/// Resolves a path once each run of slashes in it is one. The address it leads to begins with a single slash, so it never names another host.
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

/// The folder, with its slash, whose file `name` is at `path`; empty at the root.
fn index_of<'t>(path: &'t str, name: &str) -> Option<&'t str> {
    path.strip_suffix(name).filter(|folder| folder.is_empty() || folder.ends_with('/'))
}
