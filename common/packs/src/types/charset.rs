//! Detects whether a text is UTF-8, by its bytes and by its own declaration.

/// Bytes at the beginning of a text that may declare its charset: browsers look no further.
const SEARCHED_BYTES: usize = 1024;

#[derive(Debug, Default)]
pub(in super::super) struct CharsetCheck {
    is_broken: bool,
    /// The beginning of a character that continues in the next chunk.
    pending: Vec<u8>,
    beginning: Vec<u8>,
}

impl CharsetCheck {
    pub(in super::super) fn update(&mut self, mut chunk: &[u8]) {
        let room = SEARCHED_BYTES - self.beginning.len();
        self.beginning.extend_from_slice(&chunk[..chunk.len().min(room)]);
        while !self.is_broken && !self.pending.is_empty() {
            let Some((&next, rest)) = chunk.split_first() else { return };
            self.pending.push(next);
            chunk = rest;
            match std::str::from_utf8(&self.pending) {
                Ok(_) => self.pending.clear(),
                Err(error) => self.is_broken = error.error_len().is_some(),
            }
        }
        if self.is_broken {
            return;
        }
        if let Err(error) = std::str::from_utf8(chunk) {
            match error.error_len() {
                Some(_) => self.is_broken = true,
                None => self.pending = chunk[error.valid_up_to()..].to_vec(),
            }
        }
    }

    /// Returns whether the text is known to be UTF-8. It is not if it declares another charset, or has a NUL in its
    /// first [`SEARCHED_BYTES`]: then it is UTF-16 without a byte order mark, or not text at all.
    pub(in super::super) fn finish(self) -> bool {
        !self.is_broken && self.pending.is_empty() && !self.beginning.contains(&0) && !names_another(&self.beginning)
    }
}

/// Returns whether a document's beginning declares another charset than UTF-8. A byte order mark overrides that.
fn names_another(beginning: &[u8]) -> bool {
    if beginning.starts_with(b"\xef\xbb\xbf") {
        return false;
    }
    let text = String::from_utf8_lossy(beginning).to_ascii_lowercase();
    let named = declared(&text, "<meta", "charset")
        .or_else(|| text.starts_with("<?xml").then(|| declared(&text, "<?xml", "encoding")).flatten())
        .or_else(|| text.strip_prefix("@charset").map(value));
    named.is_some_and(|charset| !matches!(charset, "" | "utf-8" | "utf8" | "unicode-1-1-utf-8"))
}

/// Returns the value of `name` in the first element of `text` that begins with `element` and has it.
fn declared<'t>(text: &'t str, element: &str, name: &str) -> Option<&'t str> {
    text.split(element).skip(1).find_map(|rest| {
        let tag = rest.split('>').next().unwrap_or_default();
        let (_, after) = tag.split_once(name)?;
        after.trim_start().strip_prefix('=').map(value)
    })
}

/// Returns the word at the beginning of `text`, quoted or not.
fn value(text: &str) -> &str {
    let text = text.trim_start().trim_start_matches(['"', '\'']);
    text.split(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c))).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], size: usize) -> bool {
        let mut check = CharsetCheck::default();
        bytes.chunks(size).for_each(|chunk| check.update(chunk));
        check.finish()
    }

    #[test]
    fn utf8_is_seen_across_chunks() {
        for size in 1..6 {
            assert!(check("a\u{e9}\u{20ac}\u{1f600}z".as_bytes(), size), "{size}");
            for broken in [&b"a\xe9"[..], b"\xc3\x28", b"\xf0\x9f\x98", b"\xff", b"a\xe2\x82a", b"\xc0\xae"] {
                assert!(!check(broken, size), "{} by {size}", broken.escape_ascii());
            }
        }
    }

    #[test]
    fn a_text_that_names_another_charset_is_not_called_utf8() {
        for (text, is_utf8) in [
            ("<!doctype html><title>x</title>", true),
            ("<meta charset=utf-8>", true),
            ("<META CHARSET='UTF8'>", true),
            ("<meta name=viewport content=x><meta charset=\"utf-8\">", true),
            ("<meta charset=iso-2022-jp>", false),
            ("<head><meta http-equiv=Content-Type content=\"text/html; charset=windows-1252\">", false),
            ("<meta charset = 'Shift_JIS'>", false),
            ("\u{feff}<meta charset=iso-8859-1>", true),
            ("<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><a/>", false),
            ("<?xml version='1.0' encoding='utf-8'?><a/>", true),
            ("<?xml version='1.0'?><a encoding='latin1'/>", true),
            ("@charset \"euc-jp\"; a{}", false),
            ("@charset \"utf-8\"; a{}", true),
            ("let charset = 'latin1';", true),
            ("<\0h\0t\0m\0l\0>\0", false),
        ] {
            assert_eq!(check(text.as_bytes(), 7), is_utf8, "{text:?}");
        }
        let late = format!("{}<meta charset=iso-8859-1>", " ".repeat(SEARCHED_BYTES));
        assert!(check(late.as_bytes(), 100));
    }
}
