//! Searches a site's pages, scripts, styles and manifests for references to names, by their hashes.
//!
//! Every reference contains the hash, whereas a script may assemble the rest of the name, as webpack's runtime and
//! Vite's map of chunks do. A hash counts if it ends a run of letters, digits, `-`, `_` and `~`, and begins that run or
//! follows one of the marks.

use std::collections::HashMap;

/// Bytes at the end of a run that are examined. Tokens are shorter.
const RUN_BYTES: usize = 256;
/// Bits of the filter that rejects most runs.
const FILTER_BITS: usize = 1 << 16;
/// Bytes of the key that tokens are indexed by; the shortest token has one less.
const KEY_BYTES: usize = 8;
const FEWEST: usize = KEY_BYTES - 1;
/// An odd multiplier that spreads keys over the filter.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Ends of escaped slashes before a name.
const ESCAPED_SLASHES: [&[u8]; 4] = [b"u002F", b"u002f", b"2F", b"2f"];

pub(super) struct TokenSearch<'t> {
    tokens: &'t [&'t str],
    by_key: HashMap<u64, Vec<usize>>,
    filter: Box<[u64]>,
    found: Vec<bool>,
    missing: usize,
    has_short: bool,
    /// The run that continues in the next chunk.
    run: Vec<u8>,
}

impl<'t> TokenSearch<'t> {
    /// Creates a search for `tokens`, which may contain duplicates.
    pub(super) fn new(tokens: &'t [&'t str]) -> Self {
        let mut by_key: HashMap<u64, Vec<usize>> = HashMap::new();
        let mut filter = vec![0; FILTER_BITS / 64].into_boxed_slice();
        for (at, token) in tokens.iter().enumerate() {
            let key = key(token.as_bytes(), KEY_BYTES.min(token.len()));
            by_key.entry(key).or_default().push(at);
            let (word, bit) = place(key);
            filter[word] |= bit;
        }
        let has_short = tokens.iter().any(|token| token.len() < KEY_BYTES);
        Self {
            tokens,
            by_key,
            filter,
            found: vec![false; tokens.len()],
            missing: tokens.len(),
            has_short,
            run: Vec::new(),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.missing == 0
    }

    /// Searches the next chunk of a text. Matches of the tokens `own` do not count: a file may contain its own name.
    pub(super) fn feed(&mut self, chunk: &[u8], own: &[usize]) {
        let mut rest = chunk;
        if !self.run.is_empty() {
            let end = rest.iter().position(|byte| !is_run(*byte)).unwrap_or(rest.len());
            let (more, after) = rest.split_at(end);
            self.continue_run(more);
            if after.is_empty() {
                return;
            }
            self.end(own);
            rest = after;
        }
        // The byte before `at` is not in a run. If the last byte of the next `FEWEST` bytes is not in a run either, a
        // run within them would be too short, so all of them are skipped. This skips most of a text.
        let mut at = 0;
        while let Some(&probe) = rest.get(at + FEWEST - 1) {
            if !is_run(probe) {
                at += FEWEST;
                continue;
            }
            let start = run_start(rest, at, at + FEWEST - 1);
            let end = (at + FEWEST..rest.len()).find(|end| !is_run(rest[*end])).unwrap_or(rest.len());
            if end == rest.len() {
                at = start;
                break;
            }
            if end - start >= FEWEST {
                self.match_run(&rest[start..end], own);
            }
            at = end + 1;
        }
        let start = run_start(rest, at.min(rest.len()), rest.len());
        self.continue_run(&rest[start..]);
    }

    pub(super) fn end(&mut self, own: &[usize]) {
        let run = std::mem::take(&mut self.run);
        self.match_run(&run, own);
    }

    /// Returns for each token whether it was found.
    pub(super) fn into_found(self) -> Vec<bool> {
        self.found
    }

    fn continue_run(&mut self, more: &[u8]) {
        self.run.extend_from_slice(&more[more.len().saturating_sub(RUN_BYTES)..]);
        let surplus = self.run.len().saturating_sub(RUN_BYTES);
        self.run.drain(..surplus);
    }

    fn match_run(&mut self, run: &[u8], own: &[usize]) {
        if run.len() >= KEY_BYTES {
            self.match_key(key(run, KEY_BYTES), run, own);
        }
        if self.has_short && run.len() >= FEWEST {
            self.match_key(key(run, FEWEST), run, own);
        }
    }

    fn match_key(&mut self, key: u64, run: &[u8], own: &[usize]) {
        let (word, bit) = place(key);
        if self.filter[word] & bit == 0 {
            return;
        }
        let Some(places) = self.by_key.get(&key) else { return };
        for &at in places {
            let token = self.tokens[at].as_bytes();
            let is_there = !self.found[at]
                && run.strip_suffix(token).is_some_and(is_boundary)
                && !own.iter().any(|own| self.tokens[*own].as_bytes() == token);
            if is_there {
                self.found[at] = true;
                self.missing -= 1;
            }
        }
    }
}

/// Returns whether the text before a token within its run separates it.
fn is_boundary(before: &[u8]) -> bool {
    before.last().is_none_or(|last| matches!(last, b'-' | b'_' | b'~'))
        || ESCAPED_SLASHES.iter().any(|slash| before.ends_with(slash))
}

/// Returns the start, at `from` or later, of the run that ends before `end`.
fn run_start(text: &[u8], from: usize, end: usize) -> usize {
    (from..end).rev().find(|at| !is_run(text[*at])).map_or(from, |at| at + 1)
}

fn is_run(byte: u8) -> bool {
    IS_RUN[usize::from(byte)]
}

const IS_RUN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        table[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'~');
        byte += 1;
    }
    table
};

/// Returns the last `bytes` of `text` as a number.
fn key(text: &[u8], bytes: usize) -> u64 {
    text[text.len() - bytes..].iter().fold(0, |key, byte| key << 8 | u64::from(*byte))
}

fn place(key: u64) -> (usize, u64) {
    let bit = (key.wrapping_mul(SPREAD) >> 48) as usize % FILTER_BITS;
    (bit / 64, 1 << (bit % 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_however_they_are_written() {
        let tokens = ["BkX3d9aQ", "-QdMvsKi", "3f2a9c1", "0884a5c2d1d2d99b_bg", "3f2a9c1b"];
        for (text, wanted) in [
            ("<script src=/assets/index-BkX3d9aQ.js>", vec![0]),
            ("{12:\"3f2a9c1b\"}[e]+\".js\"", vec![4]),
            ("\"\\u002Fassets\\u002FBkX3d9aQ.js\"", vec![0]),
            ("%2FBkX3d9aQ.js", vec![0]),
            ("\"\\/assets\\/x--QdMvsKi.css\"", vec![1]),
            ("import('./3f2a9c1.js')", vec![2]),
            ("app-0884a5c2d1d2d99b_bg.wasm", vec![3]),
            ("vendors~BkX3d9aQ", vec![0]),
            ("xBkX3d9aQ.js BkX3d9aQx.js bkx3d9aq", vec![]),
            ("0884a5c2d1d2d99b", vec![]),
        ] {
            for size in [1, 3, 7, 1000] {
                let mut search = TokenSearch::new(&tokens);
                text.as_bytes().chunks(size).for_each(|chunk| search.feed(chunk, &[]));
                search.end(&[]);
                let found: Vec<usize> =
                    search.into_found().iter().enumerate().filter(|(_, is)| **is).map(|(at, _)| at).collect();
                assert_eq!(found, wanted, "{text} by {size}");
            }
        }
    }

    #[test]
    fn a_files_own_name_and_a_run_across_files_are_no_references() {
        let tokens = ["BkX3d9aQ", "BkX3d9aQ", "3f2a9c1b"];
        let mut search = TokenSearch::new(&tokens);
        search.feed(b"//# sourceMappingURL=index-BkX3d9aQ.js.map", &[0]);
        search.end(&[0]);
        search.feed(b"3f2a", &[]);
        search.end(&[]);
        search.feed(b"9c1b", &[]);
        search.end(&[]);
        assert_eq!(search.into_found(), [false; 3]);
    }
}
