//! The decision: which of a site's names carry a hash, once it is known which of them the site refers to.
//!
//! One hash says nothing of the rest of a site: `public/` of a Vite site has pictures that people named, and `LinkedIn` has as many
//! letters as a hash. A generator is known by folder. In a folder that has proof of one (digits that nobody would write, or a name
//! that a generator gives), names of its form carry hashes too; elsewhere each needs proof of its own.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use super::{
    content::Verified,
    names::{Alphabet, BUNDLE_STEMS, Candidate, Class, Generator, Place, Strength},
    references::Search,
    words,
};
use crate::Span;

/// Length of the hashes that webpack alone writes, in any place.
const WEBPACK_LENGTH: usize = 20;
/// From this length on, hexadecimal digits are those of one generator wherever they stand in names.
const LONG_LENGTH: usize = 16;
/// Length of an MD5, which Expo and Docusaurus write.
const MD5_LENGTH: usize = 32;
/// Files of one form from which on that form is the folder's.
const SEVERAL: usize = 2;
/// Of a folder's pictures and fonts whose names have the form of a hash, those that must look random are one in so many.
const RANDOM_SHARE: usize = 4;
/// Folders into which generators sort pictures and fonts, beside those of scripts and styles.
const MEDIA_FOLDERS: [&str; 4] = ["img", "images", "fonts", "media"];
/// Folders into which generators sort scripts and styles.
const CODE_FOLDERS: [&str; 2] = ["js", "css"];

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

/// The names of one form in one folder.
#[derive(Default, Clone, Copy)]
struct Tally {
    /// The names whose hash has no other reading.
    strong: usize,
    /// Those of them that prove that a generator wrote them.
    proofs: usize,
}

/// The forms of a site's hashes, by folder.
#[derive(Default)]
struct Forms<'p> {
    /// Scripts and styles.
    code: HashMap<(&'p str, Form), Tally>,
    /// Pictures, fonts, sound and films.
    media: HashMap<(&'p str, Form), Tally>,
    /// Scripts and styles of the whole site that carry hashes.
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

impl<'p> Forms<'p> {
    fn of<'c>(referenced: impl Iterator<Item = &'c Candidate<'p>> + Clone) -> Self
    where
        'p: 'c,
    {
        let mut forms = Self::default();
        let strong = referenced.filter(|candidate| candidate.strength == Strength::Strong);
        for candidate in strong.clone() {
            forms.has_expo |= candidate.exclusive == Some(Generator::Expo);
            let tallies = if candidate.class == Class::Code { &mut forms.code } else { &mut forms.media };
            let tally = tallies.entry((candidate.folder, Form::of(candidate))).or_default();
            tally.strong += 1;
            tally.proofs += usize::from(proves_generator(candidate));
        }
        for candidate in strong.filter(|candidate| candidate.class == Class::Code) {
            if candidate.exclusive.is_some() || forms.is_code_hash(candidate) {
                let form = Form::of(candidate);
                for form in [form, Form { place: None, ..form }] {
                    *forms.counts.entry(form).or_default() += 1;
                }
            }
        }
        forms
    }

    /// The scripts and styles of the site whose hashes have the form of `candidate`'s.
    fn count(&self, place: Option<Place>, candidate: &Candidate<'_>) -> usize {
        let forms = Form { place, ..Form::of(candidate) }.or_wider();
        forms.map(|form| self.counts.get(&form).copied().unwrap_or_default()).sum()
    }

    /// The scripts and styles in `folder` whose hashes have the form of `candidate`'s.
    fn code_in(&self, folder: &str, candidate: &Candidate<'_>) -> Tally {
        Form::of(candidate).or_wider().fold(Tally::default(), |sum, form| {
            let tally = self.code.get(&(folder, form)).copied().unwrap_or_default();
            Tally { strong: sum.strong + tally.strong, proofs: sum.proofs + tally.proofs }
        })
    }

    /// Whether the hash of a script or a style, in a form that has no other reading, is one.
    fn is_code_hash(&self, candidate: &Candidate<'_>) -> bool {
        candidate.alphabet == Alphabet::Hex
            || self.code_in(candidate.folder, candidate).proofs > 0
            || self.is_beside_code(candidate, &CODE_FOLDERS)
    }

    /// Whether a folder beside the one of `candidate` has scripts or styles that prove a generator, which sorts what it writes: into
    /// folders of one folder, or into the folders called as `sorted`.
    fn is_beside_code(&self, candidate: &Candidate<'_>, sorted: &[&str]) -> bool {
        let (parent, name) = split(candidate.folder);
        self.code.iter().any(|((folder, form), tally)| {
            let (other_parent, other) = split(folder);
            tally.proofs >= SEVERAL
                && parent == other_parent
                && form.covers(&Form::of(candidate))
                && (sorted.contains(&name) && CODE_FOLDERS.contains(&other)
                    || candidate.class == Class::Code && !parent.is_empty())
        })
    }

    /// Whether the pictures and fonts in the folder of `candidate` prove by themselves that they are called as it is.
    fn is_among_random(&self, candidate: &Candidate<'_>) -> bool {
        let tally = self.media.get(&(candidate.folder, Form::of(candidate))).copied().unwrap_or_default();
        tally.proofs >= SEVERAL && tally.proofs * RANDOM_SHARE >= tally.strong
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
        let is_in = |wanted: &str| folder == wanted || folder.ends_with(&format!("/{wanted}"));
        let beside = self.code_in(folder, candidate);
        match (candidate.class, candidate.strength) {
            (_, Strength::Written) => false,
            (Class::Code, Strength::Strong) => self.is_code_hash(candidate),
            (Class::Code, Strength::Weak) => {
                let is_react = is_hex && place == Place::Dot && (is_in("static/js") || is_in("static/css"));
                beside.proofs >= if place == Place::Whole { SEVERAL } else { 1 } || is_react
            }
            (Class::Media, strength) => {
                // An MD5 alone may be that of somebody's address.
                let is_anywhere =
                    is_hex && hash.len() >= LONG_LENGTH && (place != Place::Whole || hash.len() < MD5_LENGTH);
                let is_react = is_hex && is_in("static/media");
                let is_docusaurus = place == Place::Dash && hash.len() == MD5_LENGTH && is_in("assets/images");
                let is_expo = self.has_expo && place == Place::Dot && hash.len() == MD5_LENGTH;
                let is_webpack = is_hex && hash.len() == WEBPACK_LENGTH;
                let is_known = is_react || is_docusaurus || is_expo || is_webpack;
                let is_of_site = self.count(Some(place), candidate) > 0;
                if strength == Strength::Strong {
                    let is_sorted = is_hex && place == Place::Dot && self.is_beside_code(candidate, &MEDIA_FOLDERS);
                    is_known
                        || beside.proofs > 0
                        || is_of_site && (is_sorted || self.is_among_random(candidate))
                        || is_anywhere && self.count(None, candidate) > 0
                } else {
                    let is_of_folder = beside.proofs >= SEVERAL || self.is_among_random(candidate) || is_react;
                    is_of_site && is_of_folder && (place == Place::Dot || (place == Place::Dash && !is_number(hash)))
                }
            }
        }
    }
}

impl Form {
    fn of(candidate: &Candidate<'_>) -> Self {
        Self { place: Some(candidate.place), len: candidate.hash.len(), alphabet: candidate.alphabet }
    }

    /// The forms in which a generator may have written a hash of this one.
    fn or_wider(self) -> impl Iterator<Item = Self> {
        let all = [Alphabet::Hex, Alphabet::Base32, Alphabet::Base36, Alphabet::Base64];
        all.into_iter().map(move |alphabet| Self { alphabet, ..self }).filter(move |form| form.covers(&self))
    }

    fn covers(&self, other: &Self) -> bool {
        self.place == other.place && self.len == other.len && self.alphabet.covers(other.alphabet)
    }
}

/// Whether a name with a hash that has no other reading is a generator's for sure.
fn proves_generator(candidate: &Candidate<'_>) -> bool {
    let Candidate { class, place, alphabet, hash, folder, stem, .. } = *candidate;
    let is_default = match alphabet {
        Alphabet::Hex | Alphabet::Base36 => true,
        // Vite and Rollup, unless they are told otherwise.
        Alphabet::Base64 => {
            place == Place::Dash && stem == "index" && (folder == "assets" || folder.ends_with("/assets"))
        }
        // esbuild and Angular.
        Alphabet::Base32 => place == Place::Dash && BUNDLE_STEMS.contains(&stem),
    };
    class == Class::Code && is_default || alphabet == Alphabet::Hex || words::is_random(hash)
}

/// A folder's parent and its own name.
fn split(folder: &str) -> (&str, &str) {
    folder.rsplit_once('/').unwrap_or(("", folder))
}

/// Whether people number files so.
fn is_number(hash: &str) -> bool {
    hash.bytes().all(|byte| byte.is_ascii_digit())
}
