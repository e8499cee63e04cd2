//! Candidate hashes in file names, and the generators that write them.
//!
//! | generator | where | form |
//! |---|---|---|
//! | Vite, Rollup, Rolldown | `assets/`, and as the site configures | `name-` and 8 of base64url; `.` before it in `VitePress` and others |
//! | `SvelteKit` | `_app/immutable/` | `name.`, or nothing, and 8 of base64url or hexadecimal |
//! | Astro | `_astro/` | `name.` and 8 of base64url, for images `_` and a transformation |
//! | Nuxt | `_nuxt/` | 8 of base64url, or 7 or 8 hexadecimal |
//! | Next | `_next/static/` | 8, 16 or 20 hexadecimal, 13 of base 38, or a folder named after the build |
//! | webpack, Angular, Vue CLI, Create React App | anywhere | `name.` or nothing, 8, 16, 20 or 32 hexadecimal, `.chunk` |
//! | Docusaurus | `assets/js`, `assets/css`, `assets/images` | 8 hexadecimal; `name-` and 32 for images |
//! | Parcel | anywhere | `name.` and 8 hexadecimal |
//! | esbuild, Angular since 17 | anywhere | `name-` and 8 of base32 in capitals |
//! | Expo | `_expo/static/`, `assets/` | `name-` and 32 hexadecimal; `name.` and 32 for fonts and images |
//! | Rails, Django, Phoenix, Hugo, gulp-rev, Trunk | anywhere | `-` or `.` and 8, 10, 12, 16, 32, 40 or 64 hexadecimal |
//! | .NET | `_framework/` | `name.` and 10 of base 36 |
//! | Flutter | | none: its names stay the same |

use super::words::{self, HexAppearance};
use crate::types;

/// Folders in which every file of the generator has a hash in its name.
const EXCLUSIVE: [(&str, SiteGenerator); 5] = [
    ("_next/static", SiteGenerator::Next),
    ("_app/immutable", SiteGenerator::SvelteKit),
    ("_astro", SiteGenerator::Astro),
    ("_nuxt", SiteGenerator::Nuxt),
    ("_expo/static", SiteGenerator::Expo),
];
/// Folder of .NET's compiled programs.
const DOTNET_FOLDER: &str = "_framework";
/// Parts of a name that may follow the hash.
const MODIFIERS: [&str; 16] = [
    "min", "chunk", "lean", "bundle", "p", "s", "module", "legacy", "modern", "worker", "entry", "esm", "umd", "prod",
    "async", "global",
];
/// Suffixes of a hash within its part: Next's font subsets, and `wasm-bindgen`'s.
const SUFFIXES: [&str; 2] = ["-s", "_bg"];
const HEX_LENGTHS: [usize; 8] = [8, 10, 12, 16, 20, 32, 40, 64];
/// Length of hashes in other alphabets.
const SHORT_LENGTH: usize = 8;
/// Lengths of hashes that only one generator writes.
const NUXT_HEX_LENGTH: usize = 7;
const TURBOPACK_LENGTH: usize = 13;
const DOTNET_LENGTH: usize = 10;
/// Length of the name that Next gives to a build.
const NEXT_BUILD_LENGTH: usize = 21;
/// Lengths of the image transformation that Astro appends to a hash.
const TRANSFORM_LENGTHS: std::ops::RangeInclusive<usize> = 3..=8;
/// First words of generated bundle names.
pub(super) const BUNDLE_STEMS: [&str; 18] = [
    "index",
    "main",
    "app",
    "application",
    "vendor",
    "vendors",
    "chunk",
    "entry",
    "runtime",
    "polyfills",
    "styles",
    "style",
    "scripts",
    "bundle",
    "common",
    "manifest",
    "client",
    "root",
];
/// A generator with a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SiteGenerator {
    Next,
    SvelteKit,
    Astro,
    Nuxt,
    Expo,
}

/// The role of a file in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AssetClass {
    /// Scripts, styles and programs: generators hash the name of each.
    Code,
    /// Fonts, images, audio and video: files of other origin may be among the generator's.
    Media,
}

/// The position of a hash in its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum HashPosition {
    Whole,
    Dot,
    /// After a hyphen or an underscore.
    Dash,
}

/// The alphabet of a hash, smallest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum HashAlphabet {
    Hex,
    /// Capital letters and 2 to 7.
    Base32,
    /// Lower-case letters and digits.
    Base36,
    Base64,
}

impl HashAlphabet {
    /// Returns the smallest alphabet that contains `text`.
    fn smallest_for(text: &str) -> Option<Self> {
        let all = |is: fn(u8) -> bool| text.bytes().all(is);
        if all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            Some(Self::Hex)
        } else if all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7')) {
            Some(Self::Base32)
        } else if all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'z')) {
            Some(Self::Base36)
        } else if all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')) {
            Some(Self::Base64)
        } else {
            None
        }
    }

    /// Returns whether a generator with this alphabet may have written a hash in `other`.
    pub(super) fn covers(self, other: Self) -> bool {
        self == other || self == Self::Base64 || (self == Self::Base36 && other == Self::Hex)
    }
}

/// The certainty, judged by the characters alone, that a candidate is a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HashStrength {
    /// A person could have written it.
    Written,
    /// A hash if others of its form are.
    Weak,
    Strong,
}

/// A name that may carry a hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct HashCandidate<'p> {
    pub(super) hash: &'p str,
    /// The hash, together with the rest of its part up to the next dot, as references contain it.
    pub(super) token: &'p str,
    pub(super) place: HashPosition,
    pub(super) alphabet: HashAlphabet,
    pub(super) strength: HashStrength,
    pub(super) class: AssetClass,
    /// The generator that owns the folder.
    pub(super) exclusive: Option<SiteGenerator>,
    pub(super) stem: &'p str,
    pub(super) folder: &'p str,
}

impl<'p> HashCandidate<'p> {
    /// Finds the hash in the name of the file at `path`, if files of its class can have one.
    pub(super) fn find(path: &'p str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name_of_encoded = name.strip_suffix(".br").or_else(|| name.strip_suffix(".gz"));
        let class = class(types::essence(name_of_encoded.unwrap_or(name)))?;
        let (stem, _) = name_of_encoded.unwrap_or(name).rsplit_once('.')?;
        let exclusive = EXCLUSIVE.iter().find(|(within, _)| is_within(folder, within)).map(|(_, generator)| *generator);
        let seen = Self {
            hash: "",
            token: "",
            place: HashPosition::Whole,
            alphabet: HashAlphabet::Hex,
            strength: HashStrength::Weak,
            class,
            exclusive,
            stem: "",
            folder,
        };
        if exclusive == Some(SiteGenerator::Next)
            && stem.starts_with('_')
            && let Some(build) = folder.rsplit('/').next().filter(|build| is_next_build(build))
        {
            return Some(Self {
                hash: build,
                token: build,
                alphabet: HashAlphabet::Base64,
                strength: HashStrength::Strong,
                ..seen
            });
        }
        let mut parts: Vec<&str> = stem.split('.').collect();
        while let [_, .., last] = parts.as_slice()
            && MODIFIERS.contains(last)
        {
            parts.pop();
        }
        let part = parts.last()?;
        let part = part.rsplit_once('@').filter(|(_, scale)| is_scale(scale)).map_or(*part, |(part, _)| part);
        if has_uuid(part) {
            return None;
        }
        let (place, hash, token) = hash_in(part, parts.len() == 1, folder, exclusive)?;
        let alphabet = HashAlphabet::smallest_for(hash)?;
        let first = parts.first()?.split(['-', '_', '~']).next()?;
        Some(Self { hash, token, place, alphabet, strength: strength(hash, alphabet, class), stem: first, ..seen })
    }
}

/// Returns the class of a media type, or `None` for documents, data and downloads.
pub(super) fn class(essence: &str) -> Option<AssetClass> {
    match essence {
        "text/javascript" | "text/css" | "application/wasm" => Some(AssetClass::Code),
        "application/vnd.ms-fontobject" => Some(AssetClass::Media),
        _ if ["font/", "image/", "audio/", "video/"].iter().any(|kind| essence.starts_with(kind)) => {
            Some(AssetClass::Media)
        }
        _ => None,
    }
}

/// Finds the hash and the [`HashCandidate::token`] in `part`, the last dot-separated part of a name.
fn hash_in<'p>(
    part: &'p str,
    is_whole: bool,
    folder: &str,
    exclusive: Option<SiteGenerator>,
) -> Option<(HashPosition, &'p str, &'p str)> {
    let place = if is_whole { HashPosition::Whole } else { HashPosition::Dot };
    let inner = SUFFIXES.iter().find_map(|suffix| part.strip_suffix(suffix)).unwrap_or(part);
    let alphabet = HashAlphabet::smallest_for(inner)?;
    let is_hex =
        |text: &str| HEX_LENGTHS.contains(&text.len()) && HashAlphabet::smallest_for(text) == Some(HashAlphabet::Hex);
    if is_hex(inner) {
        return Some((place, inner, part));
    }
    let is_own = match exclusive {
        Some(SiteGenerator::Nuxt) => inner.len() == NUXT_HEX_LENGTH && alphabet == HashAlphabet::Hex,
        Some(SiteGenerator::Next) => inner.len() == TURBOPACK_LENGTH,
        _ => {
            is_within(folder, DOTNET_FOLDER)
                && inner.len() == DOTNET_LENGTH
                && !is_whole
                && alphabet <= HashAlphabet::Base36
        }
    };
    if is_own || inner.len() == SHORT_LENGTH {
        return Some((place, inner, part));
    }
    let after = |at: usize| inner.get(at..).map(|hash| (HashPosition::Dash, hash, part.get(at..).unwrap_or(hash)));
    if let Some(at) = inner.rfind(['-', '_']).filter(|at| is_hex(&inner[at + 1..])) {
        return after(at + 1);
    }
    let short = inner.len().checked_sub(SHORT_LENGTH)?;
    if inner[..short].ends_with('-') {
        return after(short);
    }
    if exclusive == Some(SiteGenerator::Next)
        && let Some(at) = inner.len().checked_sub(TURBOPACK_LENGTH).filter(|at| inner[..*at].ends_with('-'))
    {
        return after(at);
    }
    let (hash, transform) = inner.split_at_checked(SHORT_LENGTH)?;
    let is_transformed = exclusive == Some(SiteGenerator::Astro)
        && transform.strip_prefix('_').is_some_and(|rest| TRANSFORM_LENGTHS.contains(&rest.len()));
    is_transformed.then_some((place, hash, part))
}

fn strength(hash: &str, alphabet: HashAlphabet, class: AssetClass) -> HashStrength {
    if alphabet == HashAlphabet::Hex {
        return match words::hex(hash) {
            HexAppearance::Mixed => HashStrength::Strong,
            HexAppearance::Plain => HashStrength::Weak,
            HexAppearance::Written => HashStrength::Written,
        };
    }
    // In an esbuild site, scripts whose names end in capitals and several digits are generated.
    let has_number = hash.bytes().filter(u8::is_ascii_digit).count() >= 2;
    if alphabet == HashAlphabet::Base32 && class == AssetClass::Code && has_number && words::runs(hash) == 2 {
        return HashStrength::Weak;
    }
    if words::is_wordlike(hash) || (class == AssetClass::Media && words::is_name(hash)) {
        return HashStrength::Written;
    }
    let has = |is: fn(&u8) -> bool| hash.as_bytes().iter().any(is);
    let is_strong = match alphabet {
        HashAlphabet::Base64 => has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase),
        HashAlphabet::Base32 => has(u8::is_ascii_digit) && words::runs(hash) >= 3,
        HashAlphabet::Base36 | HashAlphabet::Hex => words::runs(hash) >= 4,
    };
    // In lower case, words with a number are not a hash.
    let is_written = !is_strong && alphabet == HashAlphabet::Base36 && words::is_words_only(hash);
    match (is_strong, is_written) {
        (true, _) => HashStrength::Strong,
        (_, true) => HashStrength::Written,
        _ => HashStrength::Weak,
    }
}

/// Returns whether `folder` is `wanted` or below it, at any depth of the site.
fn is_within(folder: &str, wanted: &str) -> bool {
    folder.match_indices(wanted).any(|(at, _)| {
        let end = at + wanted.len();
        (at == 0 || folder.as_bytes().get(at - 1) == Some(&b'/'))
            && matches!(folder.as_bytes().get(end), None | Some(b'/'))
    })
}

/// Returns whether `scale` is the scale of a high-resolution image: `2x` of `logo@2x`.
fn is_scale(scale: &str) -> bool {
    scale.strip_suffix('x').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns whether `part` contains a UUID, which identifies a file but not its content.
fn has_uuid(part: &str) -> bool {
    let groups: Vec<&str> = part.split(['-', '_']).collect();
    groups.windows(5).any(|five| {
        five.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && five.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// Returns whether a folder is named like a Next build, by Next itself or after a commit.
fn is_next_build(folder: &str) -> bool {
    match folder.len() {
        NEXT_BUILD_LENGTH => {
            HashAlphabet::smallest_for(folder) == Some(HashAlphabet::Base64) && words::runs(folder) >= 5
        }
        40 => HashAlphabet::smallest_for(folder) == Some(HashAlphabet::Hex),
        _ => false,
    }
}
