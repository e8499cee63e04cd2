//! Path rules, checked on the raw bytes.

use domain::gate;

use super::ArchiveError;

const PATH_BYTES: usize = 1_024;
const SHOWN_CHARS: usize = 120;

/// Endings of page files that addresses omit.
const PAGE_ENDINGS: [&str; 1] = [".html"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    /// A file in the site.
    File,
    /// An entry in the site, or the site's root itself.
    Folder,
}

/// Validates a path and returns its stored form: relative, with `/` between segments, none of which is empty or `.`.
pub(super) fn validate(raw: &[u8], names: PathKind) -> Result<String, ArchiveError> {
    let refuse = |why: &str| Err(ArchiveError::invalid(format!("the path {} {why}", shown(raw))));
    if raw.is_empty() {
        return Err(ArchiveError::invalid("an entry has no path"));
    }
    if raw.len() > PATH_BYTES {
        return refuse("is longer than 1,024 bytes");
    }
    if raw.contains(&0) {
        return refuse("holds a NUL byte");
    }
    if raw.contains(&b'\\') {
        return refuse(
            "holds a backslash; write / between folders (on Windows, make the zip with 7-Zip, PowerShell 7 or `tar -a -cf site.zip`)",
        );
    }
    let Ok(path) = std::str::from_utf8(raw) else { return refuse("is not UTF-8") };
    if path.chars().any(char::is_control) {
        return refuse("holds a control character");
    }
    if path.starts_with('/') || is_drive(path) {
        return refuse("is absolute; paths start at the site's root");
    }
    if path.split('/').any(|segment| segment == "..") {
        return refuse("has a `..` segment");
    }
    if names == PathKind::File && matches!(path.rsplit('/').next(), Some("" | ".")) {
        return refuse("is a file's but ends like a folder's");
    }
    let segments: Vec<&str> = path.split('/').filter(|segment| !matches!(*segment, "" | ".")).collect();
    Ok(segments.join("/"))
}

fn is_drive(path: &str) -> bool {
    let first = path.as_bytes();
    matches!(first, [letter, b':', b'/', ..] if letter.is_ascii_alphabetic())
}

/// Returns whether the file name is one that operating systems use for their own files.
pub(super) fn is_system_name(raw: &[u8]) -> bool {
    let name = raw.rsplit(|&b| b == b'/').next().unwrap_or_default();
    name == b"Icon\r" || name == b".DS_Store" || name.starts_with(b"._")
}

/// Returns the validated path of a file that an operating system created for itself, or `None` for other files.
///
/// macOS stores file metadata in separate archive entries (`._name`), and marks folders with `.DS_Store` and `Icon\r`.
pub(super) fn system_file(raw: &[u8]) -> Result<Option<String>, ArchiveError> {
    let name = raw.rsplit(|&b| b == b'/').next().unwrap_or_default();
    if let Some(icon) = raw.strip_suffix(b"\r").filter(|_| name == b"Icon\r") {
        return validate(icon, PathKind::File).map(Some);
    }
    if is_system_name(raw) {
        return validate(raw, PathKind::File).map(Some);
    }
    Ok(None)
}

/// Rejects paths at the platform's own addresses on every site, the password form and the ticket redemption, where they
/// would be unreachable. Such a path may be a file, a page without its ending, or a folder.
pub(super) fn check_reserved(path: &str) -> Result<(), ArchiveError> {
    let Some(rest) = path.strip_prefix(gate::PLATFORM_FOLDER) else { return Ok(()) };
    let first = rest.split('/').next().unwrap_or_default();
    let page = PAGE_ENDINGS.iter().find_map(|ending| first.strip_suffix(ending)).unwrap_or(first);
    if [gate::FORM_PATH, gate::ENTER_PATH].iter().any(|path| path.rsplit('/').next() == Some(page)) {
        let path = shown(path.as_bytes());
        return Err(ArchiveError::invalid(format!(
            "{path} cannot be published: /{}{page} is an address of the service on every site; rename it",
            gate::PLATFORM_FOLDER
        )));
    }
    Ok(())
}

/// Rejects a set of files in which one is also the folder of another.
pub(super) fn check_collisions(files: &mut [&str]) -> Result<(), ArchiveError> {
    // Sorting by segment puts a file directly before the contents of a folder of the same name.
    files.sort_unstable_by(|a, b| a.split('/').cmp(b.split('/')));
    for pair in files.windows(2) {
        let (one, other) = (pair[0], pair[1]);
        let rest = other.strip_prefix(one);
        if rest.is_some_and(|rest| rest.starts_with('/')) {
            let (one, other) = (shown(one.as_bytes()), shown(other.as_bytes()));
            return Err(ArchiveError::invalid(format!("{one} is a file and also the folder of {other}")));
        }
    }
    Ok(())
}

/// Returns a path in readable form, whatever its bytes are.
pub(crate) fn shown(raw: &[u8]) -> String {
    let end = raw.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1);
    let text = String::from_utf8_lossy(&raw[..end.min(PATH_BYTES)]);
    let mut escaped = String::new();
    for c in text.chars().take(SHOWN_CHARS) {
        match c {
            // Not escaped, because doubled backslashes would be misread.
            '\\' | '\'' | '"' => escaped.push(c),
            _ => escaped.extend(c.escape_debug()),
        }
    }
    if text.chars().nth(SHOWN_CHARS).is_some() {
        escaped.push('…');
    }
    format!("`{escaped}`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_paths_are_kept_in_one_spelling() {
        for (raw, wanted) in [
            ("a", "a"),
            ("./a", "a"),
            ("a//b", "a/b"),
            ("././a/./b.html", "a/b.html"),
            ("..a/b../c..d", "..a/b../c..d"),
            (".../x", ".../x"),
            (".well-known/x", ".well-known/x"),
            ("a:b/c", "a:b/c"),
            ("%2e%2e/x", "%2e%2e/x"),
            ("caf\u{e9} and more/\u{1f600}", "caf\u{e9} and more/\u{1f600}"),
        ] {
            assert_eq!(validate(raw.as_bytes(), PathKind::File), Ok(wanted.to_owned()), "{raw}");
        }
        for root in ["./", ".", "./."] {
            assert_eq!(validate(root.as_bytes(), PathKind::Folder), Ok(String::new()));
        }
        assert_eq!(validate("x/".repeat(512).as_bytes(), PathKind::Folder).map(|path| path.len()), Ok(1_023));
    }

    #[test]
    fn bad_paths_are_refused() {
        let long = "x".repeat(1_025);
        for raw in [
            &b""[..],
            b"/",
            b"/a",
            b"//a",
            b"C:/a",
            b"..",
            b"../a",
            b"a/..",
            b"a/../b",
            b"./../a",
            b"a//../b",
            b"a\\b",
            b"..\\a",
            b"\\\\host\\a",
            b"a\0b",
            b"a\nb",
            b"a\x7fb",
            b"a\xc2\x85b",
            b"\xff",
            b"\xc0\xae\xc0\xae/a",
            b"a/",
            b"a/.",
            b".",
            b"./",
            long.as_bytes(),
        ] {
            assert!(validate(raw, PathKind::File).is_err(), "{}", raw.escape_ascii());
        }
    }

    #[test]
    fn files_that_systems_make_are_known() {
        let known = |raw: &str| system_file(raw.as_bytes()).map_err(|_| ());
        for raw in ["._index.html", "a/._b", "./.DS_Store", "a/Icon\r", "__MACOSX/a/._b"] {
            assert!(known(raw).unwrap().is_some(), "{raw:?}");
        }
        for raw in ["a._b", "._a/b", ".DS_Store/a", "Icon", "DS_Store", "icon\r", "my-Icon\r"] {
            assert_eq!(known(raw), Ok(None), "{raw:?}");
        }
        for raw in ["../._x", "/.DS_Store", "a\\b/Icon\r", "a\n/._b"] {
            assert_eq!(known(raw), Err(()), "{raw:?}");
        }
    }

    #[test]
    fn addresses_of_the_platform_are_refused() {
        for path in [".svc/gate", ".svc/enter", ".svc/gate.html", ".svc/gate/index.html", ".svc/enter/a/b"] {
            assert!(check_reserved(path).is_err(), "{path}");
        }
        for path in [".svc/up.json", ".svc/gateway", ".svc/gate.txt", "a/.svc/gate", "svc/gate", ".svc", "gate"] {
            assert_eq!(check_reserved(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn collisions() {
        let check = |files: &[&str]| check_collisions(&mut files.to_vec()).map_err(|e| e.to_string());
        assert_eq!(check(&["a/b", "a.b", "a-b", "a0", "ab/c", "A/b", "b"]), Ok(()));
        assert_eq!(check(&["a/b/c", "a.b", "a-b", "a"]), Err("`a` is a file and also the folder of `a/b/c`".into()));
    }

    #[test]
    fn messages_show_paths_safely() {
        assert_eq!(shown(b"a\nb\x1b[31m\xff\0\0"), "`a\\nb\\u{1b}[31m\u{fffd}`");
        assert!(shown("\u{1f600}".repeat(5_000).as_bytes()).chars().count() <= SHOWN_CHARS + 3);
    }
}
