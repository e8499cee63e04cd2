//! Maps a path to a file, or to a cleaner path to redirect to.

use super::{
    answer::FileRequest,
    pack::{LoadedPack, PackFile},
};

pub(crate) enum Resolution<'p> {
    File(&'p PackFile),
    /// A file has this cleaner path (decoded, with exactly one leading slash).
    Cleaner(String),
    Nothing,
}

/// Resolves the path of a request. A path that is not nameable has no file.
pub(crate) fn resolve_request<'p>(pack: &'p LoadedPack, asked: FileRequest<'_>) -> Resolution<'p> {
    if asked.is_nameable { resolve(pack, asked.path) } else { Resolution::Nothing }
}

/// Resolves a decoded path with its leading slash.
pub(crate) fn resolve<'p>(pack: &'p LoadedPack, path: &str) -> Resolution<'p> {
    let name = path.strip_prefix('/').unwrap_or(path);
    let found =
        if name.is_empty() || name.ends_with('/') { resolve_folder(pack, name) } else { resolve_name(pack, name) };
    match found {
        Resolution::Nothing if path.contains("//") => resolve_merged(pack, path),
        found => found,
    }
}

/// Returns the file of a path without any redirect. Used for rewrites, whose visitors never see the path.
pub(crate) fn rewrite_target<'p>(pack: &'p LoadedPack, path: &str) -> Option<&'p PackFile> {
    let path = path.strip_prefix('/').unwrap_or(path);
    if path.is_empty() || path.ends_with('/') {
        return pack.file(&format!("{path}index.html"));
    }
    let page = || pack.file(&format!("{path}.html")).or_else(|| pack.file(&format!("{path}/index.html")));
    pack.file(path).or_else(page)
}

/// Returns the nearest `404.html` up the tree.
pub(crate) fn not_found_page<'p>(pack: &'p LoadedPack, path: &str) -> Option<&'p PackFile> {
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
fn resolve_name<'p>(pack: &'p LoadedPack, path: &str) -> Resolution<'p> {
    let Some(file) = pack.file(path) else { return resolve_page(pack, path) };
    // A folder's address, with its slash, always means its `index.html`; this keeps relative links right.
    if let Some(folder) = index_folder(path, "index.html") {
        return Resolution::Cleaner(format!("/{folder}"));
    }
    // `/x` means the file `x` first: if it exists, `x.html` has only its own address.
    if let Some(stem) = path.strip_suffix(".html").filter(|stem| !stem.is_empty() && !stem.ends_with('/'))
        && pack.file(stem).is_none()
    {
        return Resolution::Cleaner(format!("/{stem}"));
    }
    Resolution::File(file)
}

/// Resolves a path that is not a file's own name: `x.html` is served in place, a folder redirects to its slash.
fn resolve_page<'p>(pack: &'p LoadedPack, path: &str) -> Resolution<'p> {
    let has_index = || pack.file(&format!("{path}/index.html")).is_some();
    let Some(page) = pack.file(&format!("{path}.html")) else {
        // In place, its relative links would resolve against the parent, and rules for paths below it would not apply.
        return if has_index() { Resolution::Cleaner(format!("/{path}/")) } else { Resolution::Nothing };
    };
    match index_folder(path, "index") {
        Some(_) if has_index() => Resolution::Cleaner(format!("/{path}/")),
        Some(folder) => Resolution::Cleaner(format!("/{folder}")),
        None => Resolution::File(page),
    }
}

/// Resolves a path that is empty or ends with a slash, without its leading one.
fn resolve_folder<'p>(pack: &'p LoadedPack, folder: &str) -> Resolution<'p> {
    if let Some(index) = pack.file(&format!("{folder}index.html")) {
        return Resolution::File(index);
    }
    let name = folder.trim_end_matches('/');
    // Only one extra slash, and only where `/x` means `x.html`.
    let is_page = !name.is_empty()
        && name.len() + 1 == folder.len()
        && pack.file(name).is_none()
        && pack.file(&format!("{name}.html")).is_some();
    match index_folder(name, "index") {
        _ if !is_page => Resolution::Nothing,
        Some(folder) => Resolution::Cleaner(format!("/{folder}")),
        None => Resolution::Cleaner(format!("/{name}")),
    }
}

/// Resolves a path with runs of slashes merged. The result begins with a single slash, so it never names another host.
fn resolve_merged<'p>(pack: &'p LoadedPack, path: &str) -> Resolution<'p> {
    let mut merged = String::with_capacity(path.len());
    for c in path.chars() {
        if c != '/' || !merged.ends_with('/') {
            merged.push(c);
        }
    }
    match resolve(pack, &merged) {
        Resolution::File(_) => Resolution::Cleaner(merged),
        found => found,
    }
}

/// Returns the folder, with its slash, whose file `name` is at `path`; empty at the root.
fn index_folder<'t>(path: &'t str, name: &str) -> Option<&'t str> {
    path.strip_suffix(name).filter(|folder| folder.is_empty() || folder.ends_with('/'))
}
