//! The text of `_headers` and `_redirects` that is stored for downloads of the deployment.
//!
//! Passwords of `Basic-Auth` are stored only as hashes, so they are removed from the text. A line without them closes
//! its path: publishing a download again opens nothing that was closed.

use super::{REDIRECTS_BYTES, RULES_BYTES, headers::has_passwords, is_utf16_or_utf32};

/// The note at the beginning of a text whose passwords were removed.
const NOTE: &str = "# The names and passwords of Basic-Auth are not kept: write them again before you publish this.";

/// Returns the text of `_headers` to store, or `None` if it is not UTF-8, where passwords cannot be recognized.
pub fn headers(text: &[u8]) -> Option<Vec<u8>> {
    if is_utf16_or_utf32(text) {
        return None;
    }
    let text = complete_lines(text, RULES_BYTES);
    let mut kept = Vec::with_capacity(text.len());
    let mut is_cut = false;
    // Lines end at either character: other programs may recognize line ends that we do not.
    for line in text.split_inclusive(|byte| matches!(byte, b'\n' | b'\r')) {
        let colon = line.iter().position(|&byte| byte == b':');
        match colon.filter(|_| has_passwords(&String::from_utf8_lossy(line))) {
            None => kept.extend_from_slice(line),
            Some(colon) => {
                is_cut = true;
                let end = line.iter().rposition(|byte| !matches!(byte, b'\n' | b'\r')).map_or(0, |last| last + 1);
                kept.extend_from_slice(&line[..=colon]);
                kept.extend_from_slice(&line[end..]);
            }
        }
    }
    if is_cut {
        // A classic Mac file has only `\r`; a `\n` would turn all of it into one line.
        let end: &[u8] = if kept.contains(&b'\n') || !kept.contains(&b'\r') { b"\n" } else { b"\r" };
        kept.splice(0..0, NOTE.bytes().chain(end.iter().copied()));
    }
    Some(kept)
}

/// Returns the text of `_redirects` to store.
pub fn redirects(text: &[u8]) -> &[u8] {
    complete_lines(text, REDIRECTS_BYTES)
}

/// Returns the complete lines within the first `most` bytes of a text.
fn complete_lines(text: &[u8], most: usize) -> &[u8] {
    let Some(counted) = text.get(..most).filter(|_| text.len() > most) else { return text };
    &counted[..counted.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::headers::compile;

    fn kept(text: &[u8]) -> String {
        String::from_utf8(headers(text).unwrap()).unwrap()
    }

    #[test]
    fn what_has_no_passwords_is_kept_as_it_is() {
        for text in ["", "/*\n  X-A: b\n", "\u{feff}/a\r\n X-B: c:d\r\n# note: x", "/a\r X-B: c\r", "authors: x"] {
            assert_eq!(kept(text.as_bytes()), text);
        }
        let latin = b"/caf\xe9\n X-A: b\n";
        assert_eq!(headers(latin).unwrap(), latin);
    }

    #[test]
    fn passwords_are_left_out_and_their_paths_stay_shut() {
        for text in [
            "/a\n  Basic-Auth: ann:sesame bob:ses:ame\n  X-A: b\n",
            "/a\r\n\tbasic-AUTH :ann:sesame\r\n  X-A: b\r\n",
            "/a\r  Basic-Auth: ann:sesame\r  X-A: b\r",
            "/a\n X-A: b\n Basic-Auth: ann: sesame",
            "/a\n X-A: b\n Basic-Auth: ann:sesame\u{fffd}",
            "/a\n X-A: b\n Basic-Auth:sesame\n# Basic-Auth: ann:sesame\n ! Basic-Auth: sesame\n",
        ] {
            let kept = kept(text.as_bytes());
            assert!(kept.starts_with(NOTE) && !kept.contains("sesame"), "{kept:?}");
            let compiled = compile(kept.as_bytes());
            assert_eq!((compiled.access.guards.len(), compiled.access.accounts.len()), (1, 0), "{kept:?}");
            assert_eq!(compiled.rules.len(), 1, "{kept:?}");
        }
        assert!(!kept(b"/a\n Authorization: Basic sesame\n").contains("sesame"));
        assert!(headers(b"\xff\xfe/\0a\0").is_none());
    }

    #[test]
    fn no_more_is_kept_than_counts() {
        let line = "/a /b\n";
        let text = line.repeat(REDIRECTS_BYTES / line.len() + 2);
        let kept = redirects(text.as_bytes());
        assert!(kept.len() <= REDIRECTS_BYTES && kept.ends_with(b"/b\n") && kept.len() > REDIRECTS_BYTES - line.len());
        assert_eq!(redirects(b"/a /b"), b"/a /b");
    }
}
