//! Decides which of the names that a site refers to carry a hash.
//!
//! One hash says nothing about the rest of a site: `public/` of a Vite site has pictures that people named, and
//! `LinkedIn` has as many letters as a hash. Generators are detected by folder. In a folder with proof of one (digits
//! that nobody would write, or a name that a generator gives), other names of the same form carry hashes too; elsewhere
//! each name needs its own proof.

use std::{
    collections::{HashMap, HashSet},
    io,
};

use super::{
    content::ContentVerifier,
    names::{AssetClass, BUNDLE_STEMS, HashAlphabet, HashCandidate, HashPosition, HashStrength, SiteGenerator},
    references::TokenSearch,
    words,
};
use crate::Span;

/// Length of hashes that only webpack writes, anywhere.
const WEBPACK_LENGTH: usize = 20;
/// Minimum length at which hexadecimal digits come from one generator wherever they are in names.
const LONG_LENGTH: usize = 16;
/// Length of an MD5, which Expo and Docusaurus write.
const MD5_LENGTH: usize = 32;
/// Number of files of one form that establish it for the folder.
const SEVERAL: usize = 2;
/// At least one in this many of a folder's media files with hash-like names must look random.
const RANDOM_SHARE: usize = 4;
/// Folders into which generators sort pictures and fonts, next to those of scripts and styles.
const MEDIA_FOLDERS: [&str; 4] = ["img", "images", "fonts", "media"];
/// Folders into which generators sort scripts and styles.
const CODE_FOLDERS: [&str; 2] = ["js", "css"];

/// Maximum bytes of a site that are searched for references. Files that name many others are searched first.
const SEARCHED_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy)]
pub(in super::super) struct SiteFile<'p> {
    pub(in super::super) path: &'p str,
    pub(in super::super) span: Span,
}

/// Finds the fingerprinted files of a site.
pub(in super::super) struct FingerprintFinder<'p> {
    files: Vec<SiteFile<'p>>,
    /// Candidates with their indices in `files`.
    candidates: Vec<(usize, HashCandidate<'p>)>,
}

/// The form in which a generator writes its hashes.
#[derive(PartialEq, Eq, Hash, Clone, Copy)]
struct HashForm {
    /// `None` if the length alone suffices.
    place: Option<HashPosition>,
    len: usize,
    alphabet: HashAlphabet,
}

/// The names of one form in one folder.
#[derive(Default, Clone, Copy)]
struct FormTally {
    /// Names whose hash has no other reading.
    strong: usize,
    /// The strong names that prove a generator.
    proofs: usize,
}

/// The forms of a site's hashes, by folder.
#[derive(Default)]
struct SiteHashForms<'p> {
    code: HashMap<(&'p str, HashForm), FormTally>,
    /// Pictures, fonts, audio and video.
    media: HashMap<(&'p str, HashForm), FormTally>,
    /// The number of scripts and styles with hashes in the whole site.
    counts: HashMap<HashForm, usize>,
    has_expo: bool,
}

impl<'p> FingerprintFinder<'p> {
    /// Finds the candidates among the names of `files`.
    pub(in super::super) fn new(files: Vec<SiteFile<'p>>) -> Self {
        let candidates =
            files.iter().enumerate().filter_map(|(at, file)| Some((at, HashCandidate::find(file.path)?))).collect();
        Self { files, candidates }
    }

    /// Returns the paths of the fingerprinted files, reading file contents as needed.
    pub(in super::super) fn decide(&self, mut content: ContentVerifier<'_>) -> io::Result<HashSet<&'p str>> {
        if self.candidates.is_empty() {
            return Ok(HashSet::new());
        }
        let is_referenced = self.find_references(&content)?;
        let referenced = || self.candidates.iter().zip(&is_referenced).filter(|(_, is)| **is).map(|(found, _)| found);
        let forms = SiteHashForms::from_candidates(referenced().map(|(_, candidate)| candidate));
        let mut fingerprinted = HashSet::new();
        for (at, candidate) in referenced() {
            let SiteFile { path, span } = self.files[*at];
            let is_hash = forms.accept(candidate)
                || (candidate.alphabet == HashAlphabet::Hex && content.is_hash_prefix(candidate.hash, span)?);
            if is_hash {
                fingerprinted.insert(path);
            }
        }
        // A source map is named like its script and refers only to it.
        let maps = self
            .files
            .iter()
            .map(|file| file.path)
            .filter(|path| path.strip_suffix(".map").is_some_and(|script| fingerprinted.contains(script)));
        let maps: Vec<&str> = maps.collect();
        fingerprinted.extend(maps);
        Ok(fingerprinted)
    }

    /// Returns for each candidate whether another file of the site refers to it.
    fn find_references(&self, content: &ContentVerifier<'_>) -> io::Result<Vec<bool>> {
        let tokens: Vec<&str> = self.candidates.iter().map(|(_, candidate)| candidate.token).collect();
        let mut own: HashMap<Span, Vec<usize>> = HashMap::new();
        for (token, (at, _)) in self.candidates.iter().enumerate() {
            own.entry(self.files[*at].span).or_default().push(token);
        }
        let mut search = TokenSearch::new(&tokens);
        let mut seen = HashSet::new();
        let mut sources: Vec<_> = self.files.iter().filter_map(|file| Some((weight(file.path)?, file))).collect();
        // A runtime or a manifest names everything in one place; pages repeat one another.
        sources.sort_by_key(|(weight, file)| (*weight, file.path.matches('/').count()));
        let mut bytes_left = SEARCHED_BYTES;
        for (_, SiteFile { span, .. }) in sources {
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

/// Returns the search priority of the file at `path`, lowest first, or `None` if its references do not count.
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

impl<'p> SiteHashForms<'p> {
    fn from_candidates<'c>(referenced: impl Iterator<Item = &'c HashCandidate<'p>> + Clone) -> Self
    where
        'p: 'c,
    {
        let mut forms = Self::default();
        let strong = referenced.filter(|candidate| candidate.strength == HashStrength::Strong);
        for candidate in strong.clone() {
            forms.has_expo |= candidate.exclusive == Some(SiteGenerator::Expo);
            let tallies = if candidate.class == AssetClass::Code { &mut forms.code } else { &mut forms.media };
            let tally = tallies.entry((candidate.folder, HashForm::from_candidate(candidate))).or_default();
            tally.strong += 1;
            tally.proofs += usize::from(proves_generator(candidate));
        }
        for candidate in strong.filter(|candidate| candidate.class == AssetClass::Code) {
            if candidate.exclusive.is_some() || forms.is_code_hash(candidate) {
                let form = HashForm::from_candidate(candidate);
                for form in [form, HashForm { place: None, ..form }] {
                    *forms.counts.entry(form).or_default() += 1;
                }
            }
        }
        forms
    }

    /// Returns the number of scripts and styles of the site whose hashes have the form of `candidate`'s.
    fn count(&self, place: Option<HashPosition>, candidate: &HashCandidate<'_>) -> usize {
        let forms = HashForm { place, ..HashForm::from_candidate(candidate) }.or_wider();
        forms.map(|form| self.counts.get(&form).copied().unwrap_or_default()).sum()
    }

    /// Returns the tally of scripts and styles in `folder` whose hashes have the form of `candidate`'s.
    fn code_in(&self, folder: &str, candidate: &HashCandidate<'_>) -> FormTally {
        HashForm::from_candidate(candidate).or_wider().fold(FormTally::default(), |sum, form| {
            let tally = self.code.get(&(folder, form)).copied().unwrap_or_default();
            FormTally { strong: sum.strong + tally.strong, proofs: sum.proofs + tally.proofs }
        })
    }

    /// Returns whether a strong hash of a script or a style is accepted.
    fn is_code_hash(&self, candidate: &HashCandidate<'_>) -> bool {
        candidate.alphabet == HashAlphabet::Hex
            || self.code_in(candidate.folder, candidate).proofs > 0
            || self.is_beside_code(candidate, &CODE_FOLDERS)
    }

    /// Returns whether a sibling folder of `candidate`'s has scripts or styles that prove a generator which sorts its
    /// output: into folders of a common parent, or into the folders named in `sorted`.
    fn is_beside_code(&self, candidate: &HashCandidate<'_>, sorted: &[&str]) -> bool {
        let (parent, name) = split(candidate.folder);
        self.code.iter().any(|((folder, form), tally)| {
            let (other_parent, other) = split(folder);
            tally.proofs >= SEVERAL
                && parent == other_parent
                && form.covers(&HashForm::from_candidate(candidate))
                && (sorted.contains(&name) && CODE_FOLDERS.contains(&other)
                    || candidate.class == AssetClass::Code && !parent.is_empty())
        })
    }

    /// Returns whether enough media files in the folder of `candidate` have random-looking hashes of its form.
    fn is_among_random(&self, candidate: &HashCandidate<'_>) -> bool {
        let tally =
            self.media.get(&(candidate.folder, HashForm::from_candidate(candidate))).copied().unwrap_or_default();
        tally.proofs >= SEVERAL && tally.proofs * RANDOM_SHARE >= tally.strong
    }

    /// Returns whether the candidate, in a name that the site refers to, is accepted as a hash.
    fn accept(&self, candidate: &HashCandidate<'_>) -> bool {
        let HashCandidate { place, alphabet, hash, folder, .. } = *candidate;
        if candidate.exclusive.is_some() {
            return true;
        }
        let is_hex = alphabet == HashAlphabet::Hex;
        // `fromJSON.js` is an ordinary name.
        if place == HashPosition::Whole && !is_hex {
            return false;
        }
        let is_in = |wanted: &str| folder == wanted || folder.ends_with(&format!("/{wanted}"));
        let beside = self.code_in(folder, candidate);
        match (candidate.class, candidate.strength) {
            (_, HashStrength::Written) => false,
            (AssetClass::Code, HashStrength::Strong) => self.is_code_hash(candidate),
            (AssetClass::Code, HashStrength::Weak) => {
                let is_react = is_hex && place == HashPosition::Dot && (is_in("static/js") || is_in("static/css"));
                beside.proofs >= if place == HashPosition::Whole { SEVERAL } else { 1 } || is_react
            }
            (AssetClass::Media, strength) => {
                // An MD5 as the whole name may be the hash of an email address (Gravatar).
                let is_anywhere =
                    is_hex && hash.len() >= LONG_LENGTH && (place != HashPosition::Whole || hash.len() < MD5_LENGTH);
                let is_react = is_hex && is_in("static/media");
                let is_docusaurus = place == HashPosition::Dash && hash.len() == MD5_LENGTH && is_in("assets/images");
                let is_expo = self.has_expo && place == HashPosition::Dot && hash.len() == MD5_LENGTH;
                let is_webpack = is_hex && hash.len() == WEBPACK_LENGTH;
                let is_known = is_react || is_docusaurus || is_expo || is_webpack;
                let is_of_site = self.count(Some(place), candidate) > 0;
                if strength == HashStrength::Strong {
                    let is_sorted =
                        is_hex && place == HashPosition::Dot && self.is_beside_code(candidate, &MEDIA_FOLDERS);
                    is_known
                        || beside.proofs > 0
                        || is_of_site && (is_sorted || self.is_among_random(candidate))
                        || is_anywhere && self.count(None, candidate) > 0
                } else {
                    let is_of_folder = beside.proofs >= SEVERAL || self.is_among_random(candidate) || is_react;
                    is_of_site
                        && is_of_folder
                        && (place == HashPosition::Dot || (place == HashPosition::Dash && !is_number(hash)))
                }
            }
        }
    }
}

impl HashForm {
    fn from_candidate(candidate: &HashCandidate<'_>) -> Self {
        Self { place: Some(candidate.place), len: candidate.hash.len(), alphabet: candidate.alphabet }
    }

    /// Returns the forms of generators that may have written a hash of this form.
    fn or_wider(self) -> impl Iterator<Item = Self> {
        let all = [HashAlphabet::Hex, HashAlphabet::Base32, HashAlphabet::Base36, HashAlphabet::Base64];
        all.into_iter().map(move |alphabet| Self { alphabet, ..self }).filter(move |form| form.covers(&self))
    }

    fn covers(&self, other: &Self) -> bool {
        self.place == other.place && self.len == other.len && self.alphabet.covers(other.alphabet)
    }
}

/// Returns whether a strong name is certain to come from a generator.
fn proves_generator(candidate: &HashCandidate<'_>) -> bool {
    let HashCandidate { class, place, alphabet, hash, folder, stem, .. } = *candidate;
    let is_default = match alphabet {
        HashAlphabet::Hex | HashAlphabet::Base36 => true,
        // The defaults of Vite and Rollup.
        HashAlphabet::Base64 => {
            place == HashPosition::Dash && stem == "index" && (folder == "assets" || folder.ends_with("/assets"))
        }
        // esbuild and Angular.
        HashAlphabet::Base32 => place == HashPosition::Dash && BUNDLE_STEMS.contains(&stem),
    };
    class == AssetClass::Code && is_default || alphabet == HashAlphabet::Hex || words::is_random(hash)
}

fn split(folder: &str) -> (&str, &str) {
    folder.rsplit_once('/').unwrap_or(("", folder))
}

fn is_number(hash: &str) -> bool {
    hash.bytes().all(|byte| byte.is_ascii_digit())
}
