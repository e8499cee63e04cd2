//! The decision: which of a site's names carry a hash, once it is known which of them the site refers to.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use super::{
    content::Verified,
    names::{Alphabet, Candidate, Class, Generator, Place, Strength},
    references::Search,
};
use crate::Span;

/// Length of the hashes that webpack alone writes, in any place.
const WEBPACK_LENGTH: usize = 20;
/// From this length on, hexadecimal digits are those of one generator wherever they stand in names.
const LONG_LENGTH: usize = 16;
/// Length of an MD5, which Expo and Docusaurus write.
const MD5_LENGTH: usize = 32;
/// Files of one form from which on that form is the site's.
const SEVERAL: usize = 2;

/// Bytes of a site that are searched for references, at most. What names everything is searched first.
const SEARCHED_BYTES: u64 = 64 * 1024 * 1024;

/// A file of the site.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Source<'p> {
    pub(in super::super) path: &'p str,
    pub(in super::super) span: Span,
}

/// Finds the fingerprinted files of a site.
pub(in super::super) struct Fingerprints<'p> {
    files: Vec<Source<'p>>,
    /// By their places in `files`.
    candidates: Vec<(usize, Candidate<'p>)>,
}

/// The form in which a generator writes its hashes.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct Form {
    /// None where the length says enough.
    place: Option<Place>,
    len: usize,
    alphabet: Alphabet,
}

/// The forms of a site's scripts and styles, with the number of files whose hash has no other reading.
#[derive(Default)]
struct Forms {
    counts: HashMap<Form, usize>,
    has_expo: bool,
}

impl<'p> Fingerprints<'p> {
    /// Looks at the names of `files`.
    pub(in super::super) fn new(files: Vec<Source<'p>>) -> Self {
        let candidates =
            files.iter().enumerate().filter_map(|(at, file)| Some((at, Candidate::find(file.path)?))).collect();
        Self { files, candidates }
    }

    /// Decides, reading what it needs of the files. Returns the paths of those that are fingerprinted.
    pub(in super::super) fn decide(&self, mut content: Verified<'_>) -> io::Result<HashSet<&'p str>> {
        if self.candidates.is_empty() {
            return Ok(HashSet::new());
        }
        let is_referenced = self.find_references(&content)?;
        let referenced = || self.candidates.iter().zip(&is_referenced).filter(|(_, is)| **is).map(|(found, _)| found);
        let forms = Forms::of(referenced().map(|(_, candidate)| candidate));
        let mut fingerprinted = HashSet::new();
        for (at, candidate) in referenced() {
            let Source { path, span } = self.files[*at];
            let is_hash = forms.accept(candidate)
                || (candidate.alphabet == Alphabet::Hex && content.is_hash_of(candidate.hash, span)?);
            if is_hash {
                fingerprinted.insert(path);
            }
        }
        // A source map is called as its script is, and refers to nothing but it.
        let maps = self
            .files
            .iter()
            .map(|file| file.path)
            .filter(|path| path.strip_suffix(".map").is_some_and(|script| fingerprinted.contains(script)));
        let maps: Vec<&str> = maps.collect();
        fingerprinted.extend(maps);
        Ok(fingerprinted)
    }

    /// For each candidate, whether another file of the site refers to it.
    fn find_references(&self, content: &Verified<'_>) -> io::Result<Vec<bool>> {
        let tokens: Vec<&str> = self.candidates.iter().map(|(_, candidate)| candidate.token).collect();
        let mut own: HashMap<Span, Vec<usize>> = HashMap::new();
        for (token, (at, _)) in self.candidates.iter().enumerate() {
            own.entry(self.files[*at].span).or_default().push(token);
        }
        let mut search = Search::new(&tokens);
        let mut seen = HashSet::new();
        let mut sources: Vec<_> = self.files.iter().filter_map(|file| Some((weight(file.path)?, file))).collect();
        // A runtime or a manifest names everything at once; pages repeat one another.
        sources.sort_by_key(|(weight, file)| (*weight, file.path.matches('/').count()));
        let mut bytes_left = SEARCHED_BYTES;
        for (_, Source { span, .. }) in sources {
            if search.is_done() {
                break;
            }
            if span.len > bytes_left || !seen.insert(*span) {
                continue;
            }
            bytes_left -= span.len;
            let own = own.get(span).map_or(&[][..], Vec::as_slice);
            content.read(*span, |chunk| {
                search.feed(chunk, own);
                !search.is_done()
            })?;
            search.end(own);
        }
        Ok(search.into_found())
    }
}

/// How late the file at `path` is searched for references; none if it makes none that count.
fn weight(path: &str) -> Option<u8> {
    let (_, extension) = path.rsplit_once('.')?;
    match extension {
        "html" | "htm" if !path.contains('/') => Some(0),
        "js" | "mjs" | "cjs" => Some(1),
        "css" | "webmanifest" => Some(2),
        "json" => Some(3),
        "html" | "htm" | "xhtml" | "svg" => Some(4),
        _ => None,
    }
}

impl Forms {
    fn of<'c>(referenced: impl Iterator<Item = &'c Candidate<'c>>) -> Self {
        let mut forms = Self::default();
        for candidate in referenced {
            forms.has_expo |= candidate.exclusive == Some(Generator::Expo);
            if candidate.class == Class::Code && candidate.strength == Strength::Strong {
                for place in [Some(candidate.place), None] {
                    let form = Form { place, len: candidate.hash.len(), alphabet: candidate.alphabet };
                    *forms.counts.entry(form).or_default() += 1;
                }
            }
        }
        forms
    }

    /// The scripts and styles whose hashes have the form of `candidate`'s.
    fn count(&self, place: Option<Place>, candidate: &Candidate<'_>) -> usize {
        let wider = [Alphabet::Hex, Alphabet::Base32, Alphabet::Base36, Alphabet::Base64];
        let forms = wider.into_iter().filter(|alphabet| alphabet.covers(candidate.alphabet));
        let counts = forms.map(|alphabet| self.counts.get(&Form { place, len: candidate.hash.len(), alphabet }));
        counts.map(|count| count.copied().unwrap_or_default()).sum()
    }

    /// Whether what stands in the place of a hash, in a name that the site refers to, is one.
    fn accept(&self, candidate: &Candidate<'_>) -> bool {
        let Candidate { place, alphabet, hash, folder, .. } = *candidate;
        if candidate.exclusive.is_some() {
            return true;
        }
        let is_hex = alphabet == Alphabet::Hex;
        // `fromJSON.js` is a name.
        if place == Place::Whole && !is_hex {
            return false;
        }
        let alike = self.count(Some(place), candidate);
        let is_in = |wanted: &str| folder == wanted || folder.ends_with(&format!("/{wanted}"));
        match (candidate.class, candidate.strength) {
            (_, Strength::Written) => false,
            (Class::Code, Strength::Strong) if is_hex => true,
            (Class::Code, Strength::Strong) => alike >= SEVERAL || candidate.is_bundle,
            (Class::Code, Strength::Weak) => {
                let is_react = is_hex && place == Place::Dot && (is_in("static/js") || is_in("static/css"));
                alike >= if place == Place::Whole { SEVERAL } else { 1 } || is_react
            }
            (Class::Media, _) => {
                // An MD5 alone may be that of somebody's address.
                let is_anywhere =
                    is_hex && hash.len() >= LONG_LENGTH && (place != Place::Whole || hash.len() < MD5_LENGTH);
                let is_alike = if is_anywhere { self.count(None, candidate) > 0 } else { alike > 0 };
                let is_react = is_hex && is_in("static/media");
                let is_docusaurus = place == Place::Dash && hash.len() == MD5_LENGTH && is_in("assets/images");
                let is_expo = self.has_expo && place == Place::Dot && hash.len() == MD5_LENGTH;
                let is_webpack = is_hex && hash.len() == WEBPACK_LENGTH;
                let is_known = is_react || is_docusaurus || is_expo || is_webpack;
                if candidate.strength == Strength::Strong {
                    is_alike || is_known
                } else {
                    alike >= SEVERAL && (place == Place::Dot || (place == Place::Dash && !is_number(hash)))
                }
            }
        }
    }
}

/// Whether people number files so.
fn is_number(hash: &str) -> bool {
    hash.bytes().all(|byte| byte.is_ascii_digit())
}
