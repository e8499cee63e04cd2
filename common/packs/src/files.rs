//! Classification of files by name.

/// Returns whether the file at `path` is a page, by its name.
pub(super) fn is_page(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let extension = name.rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| ["html", "htm", "xhtml"].iter().any(|page| extension.eq_ignore_ascii_case(page)))
}
