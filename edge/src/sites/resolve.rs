//! Which file a path means, and which paths redirect to a cleaner one.

use super::pack::{File, Pack};

/// The outcome of looking up a path.
pub(crate) enum Found<'p> {
    /// This file.
    File(&'p File),
    /// The same file has this cleaner path (decoded, with its leading slash).
    Cleaner(String),
    /// No file.
    Nothing,
}

/// Resolves a decoded path with its leading slash.
pub(crate) fn resolve<'p>(pack: &'p Pack, path: &str) -> Found<'p> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() || path.ends_with('/') {
        return folder(pack, path);
    }
    let Some(file) = pack.file(path) else { return named(pack, path).map_or(Found::Nothing, Found::File) };
    // A folder's own address, with its slash, always means its index.html, and keeps its relative links right.
    if let Some(folder) = path.strip_suffix("index.html").filter(|folder| folder.is_empty() || folder.ends_with('/')) {
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

/// The file that a path means without any redirect: for rewrites, whose visitors never see the path.
pub(crate) fn target<'p>(pack: &'p Pack, path: &str) -> Option<&'p File> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() || path.ends_with('/') {
        pack.file(&format!("{path}index.html"))
    } else {
        pack.file(path).or_else(|| named(pack, path))
    }
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

fn named<'p>(pack: &'p Pack, path: &str) -> Option<&'p File> {
    pack.file(&format!("{path}.html")).or_else(|| pack.file(&format!("{path}/index.html")))
}

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
    if is_page { Found::Cleaner(format!("/{name}")) } else { Found::Nothing }
}
