//! File names that are the same text in another Unicode form. macOS writes `é` as two characters, where a link has one.

use std::collections::HashMap;

use unicode_normalization::{UnicodeNormalization as _, is_nfc};

/// Approximate overhead of another spelling in memory, in bytes.
const SPELLING_WEIGHT: usize = 64;

/// Maps paths in normal form C to those of a pack that are not.
pub(crate) struct UnicodeSpellings(HashMap<Box<str>, Box<str>>);

impl UnicodeSpellings {
    pub(crate) fn from_paths<'p>(paths: impl Iterator<Item = &'p str>) -> Self {
        let decomposed = paths.filter(|path| !path.is_ascii() && !is_nfc(path));
        Self(decomposed.map(|path| (composed(path).into_boxed_str(), path.into())).collect())
    }

    /// Finds the pack's entry at another spelling of `path` with `find`. Costs nothing for ASCII paths.
    pub(crate) fn find<'f, T>(&self, path: &str, find: impl Fn(&str) -> Option<&'f T>) -> Option<&'f T> {
        if path.is_ascii() {
            return None;
        }
        let composed = composed(path);
        find(&composed).or_else(|| find(self.0.get(&*composed)?))
    }

    pub(crate) fn weight(&self) -> usize {
        self.0.iter().map(|(composed, path)| composed.len() + path.len() + SPELLING_WEIGHT).sum()
    }
}

fn composed(path: &str) -> String {
    path.nfc().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_found_in_every_form() {
        let paths = ["caf\u{e9}.txt", "ame\u{301}lie/e\u{301}.txt", "both\u{e9}", "bothe\u{301}", "plain"];
        let spellings = UnicodeSpellings::from_paths(paths.iter().copied());
        let find = |path: &str| spellings.find(path, |name| paths.iter().find(|known| **known == name)).copied();
        for (path, expected) in [
            ("cafe\u{301}.txt", Some("caf\u{e9}.txt")),
            ("am\u{e9}lie/\u{e9}.txt", Some("ame\u{301}lie/e\u{301}.txt")),
            ("am\u{e9}lie/e\u{301}.txt", Some("ame\u{301}lie/e\u{301}.txt")),
            ("cafe.txt", None),
            ("Caf\u{e9}.txt", None),
            ("\u{fb01}", None),
            ("plain", None),
        ] {
            assert_eq!(find(path), expected, "{path}");
        }
        assert_eq!(UnicodeSpellings::from_paths(["a", "\u{e9}"].into_iter()).weight(), 0);
    }
}
