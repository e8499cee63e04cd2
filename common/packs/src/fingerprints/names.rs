//! What in a file's name may be a hash, and which generators write it so.
//!
//! | generator | where | form |
//! |---|---|---|
//! | Vite, Rollup, Rolldown | `assets/`, and what the site says | `name-` and 8 of base64url; `.` before it in `VitePress` and others |
//! | `SvelteKit` | `_app/immutable/` | `name.`, or nothing, and 8 of base64url or hexadecimal |
//! | Astro | `_astro/` | `name.` and 8 of base64url, for images `_` and a transformation |
//! | Nuxt | `_nuxt/` | 8 of base64url, or 7 or 8 hexadecimal |
//! | Next | `_next/static/` | 8, 16 or 20 hexadecimal, 13 of base 38, or a folder called as the build is |
//! | webpack, Angular, Vue CLI, Create React App | anywhere | `name.` or nothing, 8, 16, 20 or 32 hexadecimal, `.chunk` |
//! | Docusaurus | `assets/js`, `assets/css`, `assets/images` | 8 hexadecimal; `name-` and 32 for images |
//! | Parcel | anywhere | `name.` and 8 hexadecimal |
//! | esbuild, Angular since 17 | anywhere | `name-` and 8 of base32 in capitals |
//! | Expo | `_expo/static/`, `assets/` | `name-` and 32 hexadecimal; `name.` and 32 for fonts and images |
//! | Rails, Django, Phoenix, Hugo, gulp-rev, Trunk | anywhere | `-` or `.` and 8, 10, 12, 16, 32, 40 or 64 hexadecimal |
//! | .NET | `_framework/` | `name.` and 10 of base 36 |
//! | Flutter | | none: its names stay the same |

use super::words::{self, Hex};
use crate::types;

/// Folders into which a generator writes nothing but what has a hash in its name.
const EXCLUSIVE: [(&str, Generator); 5] = [
    ("_next/static", Generator::Next),
    ("_app/immutable", Generator::SvelteKit),
    ("_astro", Generator::Astro),
    ("_nuxt", Generator::Nuxt),
    ("_expo/static", Generator::Expo),
];
/// Folder of the programs that .NET compiles.
const DOTNET_FOLDER: &str = "_framework";
/// Parts of a name that may follow the hash.
const MODIFIERS: [&str; 16] = [
    "min", "chunk", "lean", "bundle", "p", "s", "module", "legacy", "modern", "worker", "entry", "esm", "umd", "prod",
    "async", "global",
];
/// What may follow the hash within its part: Next's subsets of fonts, and what `wasm-bindgen` adds.
const SUFFIXES: [&str; 2] = ["-s", "_bg"];
/// Lengths of hashes in hexadecimal digits.
const HEX_LENGTHS: [usize; 8] = [8, 10, 12, 16, 20, 32, 40, 64];
/// Length of the hashes in other digits.
const SHORT_LENGTH: usize = 8;
/// Lengths of hashes that one generator alone writes.
const NUXT_HEX_LENGTH: usize = 7;
const TURBOPACK_LENGTH: usize = 13;
const DOTNET_LENGTH: usize = 10;
/// Characters of the name that Next gives to a build.
const NEXT_BUILD_LENGTH: usize = 21;
/// Characters that Astro adds to a hash for an image's transformation.
const TRANSFORM_LENGTHS: std::ops::RangeInclusive<usize> = 3..=8;
/// Words with which generators begin the names of what they bundle.
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
/// A generator that has a folder of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Generator {
    Next,
    SvelteKit,
    Astro,
    Nuxt,
    Expo,
}

/// What a file is to a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Scripts, styles and programs: generators put a hash into the name of each.
    Code,
    /// Fonts, images, sound and films: others lie among those of the generator.
    Media,
}

/// Where in its name a hash stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Place {
    /// It is the name.
    Whole,
    /// After a point.
    Dot,
    /// After a hyphen or a low line.
    Dash,
}

/// The digits of a hash, from the fewest to the most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Alphabet {
    Hex,
    /// Capitals and 2 to 7.
    Base32,
    /// Small letters and digits.
    Base36,
    Base64,
}

impl Alphabet {
    /// Returns the smallest one that `text` is written in.
    fn of(text: &str) -> Option<Self> {
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

    /// Whether a generator that writes hashes in these digits may have written one in `other`.
    pub(super) fn covers(self, other: Self) -> bool {
        self == other || self == Self::Base64 || (self == Self::Base36 && other == Self::Hex)
    }
}

/// How sure it is, by itself, that what stands at a hash's place is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Strength {
    /// A person could have written it.
    Written,
    /// It is one if others of its form are.
    Weak,
    Strong,
}

/// A name that may carry a hash.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'p> {
    pub(super) hash: &'p str,
    /// The hash, with what a reference to it has between it and the next point.
    pub(super) token: &'p str,
    pub(super) place: Place,
    pub(super) alphabet: Alphabet,
    pub(super) strength: Strength,
    pub(super) class: Class,
    /// The generator whose own folder it is in.
    pub(super) exclusive: Option<Generator>,
    /// The first word of its name.
    pub(super) stem: &'p str,
    pub(super) folder: &'p str,
}

impl<'p> Candidate<'p> {
    /// Finds the hash in the name of the file at `path`, if what the file is can have one.
    pub(super) fn find(path: &'p str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let name_of_encoded = name.strip_suffix(".br").or_else(|| name.strip_suffix(".gz"));
        let class = class(types::essence(name_of_encoded.unwrap_or(name)))?;
        let (stem, _) = name_of_encoded.unwrap_or(name).rsplit_once('.')?;
        let exclusive = EXCLUSIVE.iter().find(|(within, _)| is_within(folder, within)).map(|(_, generator)| *generator);
        let seen = Self {
            hash: "",
            token: "",
            place: Place::Whole,
            alphabet: Alphabet::Hex,
            strength: Strength::Weak,
            class,
            exclusive,
            stem: "",
            folder,
        };
        if exclusive == Some(Generator::Next)
            && stem.starts_with('_')
            && let Some(build) = folder.rsplit('/').next().filter(|build| is_next_build(build))
        {
            return Some(Self {
                hash: build,
                token: build,
                alphabet: Alphabet::Base64,
                strength: Strength::Strong,
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
        let alphabet = Alphabet::of(hash)?;
        let first = parts.first()?.split(['-', '_', '~']).next()?;
        Some(Self { hash, token, place, alphabet, strength: strength(hash, alphabet, class), stem: first, ..seen })
    }
}

/// What a file of a media type is to a page; none for documents, data and downloads.
pub(super) fn class(essence: &str) -> Option<Class> {
    match essence {
        "text/javascript" | "text/css" | "application/wasm" => Some(Class::Code),
        "application/vnd.ms-fontobject" => Some(Class::Media),
        _ if ["font/", "image/", "audio/", "video/"].iter().any(|kind| essence.starts_with(kind)) => Some(Class::Media),
        _ => None,
    }
}

/// Finds the hash in `part`, the last part of a name between points, and `token` as [`Candidate`] has it.
fn hash_in<'p>(
    part: &'p str,
    is_whole: bool,
    folder: &str,
    exclusive: Option<Generator>,
) -> Option<(Place, &'p str, &'p str)> {
    let place = if is_whole { Place::Whole } else { Place::Dot };
    let inner = SUFFIXES.iter().find_map(|suffix| part.strip_suffix(suffix)).unwrap_or(part);
    let alphabet = Alphabet::of(inner)?;
    let is_hex = |text: &str| HEX_LENGTHS.contains(&text.len()) && Alphabet::of(text) == Some(Alphabet::Hex);
    if is_hex(inner) {
        return Some((place, inner, part));
    }
    let is_own = match exclusive {
        Some(Generator::Nuxt) => inner.len() == NUXT_HEX_LENGTH && alphabet == Alphabet::Hex,
        Some(Generator::Next) => inner.len() == TURBOPACK_LENGTH,
        _ => {
            is_within(folder, DOTNET_FOLDER)
                && inner.len() == DOTNET_LENGTH
                && !is_whole
                && alphabet <= Alphabet::Base36
        }
    };
    if is_own || inner.len() == SHORT_LENGTH {
        return Some((place, inner, part));
    }
    let after = |at: usize| inner.get(at..).map(|hash| (Place::Dash, hash, part.get(at..).unwrap_or(hash)));
    if let Some(at) = inner.rfind(['-', '_']).filter(|at| is_hex(&inner[at + 1..])) {
        return after(at + 1);
    }
    let short = inner.len().checked_sub(SHORT_LENGTH)?;
    if inner[..short].ends_with('-') {
        return after(short);
    }
    if exclusive == Some(Generator::Next)
        && let Some(at) = inner.len().checked_sub(TURBOPACK_LENGTH).filter(|at| inner[..*at].ends_with('-'))
    {
        return after(at);
    }
    let (hash, transform) = inner.split_at_checked(SHORT_LENGTH)?;
    let is_transformed = exclusive == Some(Generator::Astro)
        && transform.strip_prefix('_').is_some_and(|rest| TRANSFORM_LENGTHS.contains(&rest.len()));
    is_transformed.then_some((place, hash, part))
}

fn strength(hash: &str, alphabet: Alphabet, class: Class) -> Strength {
    if alphabet == Alphabet::Hex {
        return match words::hex(hash) {
            Hex::Mixed => Strength::Strong,
            Hex::Plain => Strength::Weak,
            Hex::Written => Strength::Written,
        };
    }
    // Scripts whose names end in capitals and several digits are esbuild's, in a site of its.
    let has_number = hash.bytes().filter(u8::is_ascii_digit).count() >= 2;
    if alphabet == Alphabet::Base32 && class == Class::Code && has_number && words::runs(hash) == 2 {
        return Strength::Weak;
    }
    if words::is_wordlike(hash) || (class == Class::Media && words::is_name(hash)) {
        return Strength::Written;
    }
    let has = |is: fn(&u8) -> bool| hash.as_bytes().iter().any(is);
    let is_strong = match alphabet {
        Alphabet::Base64 => has(u8::is_ascii_uppercase) && has(u8::is_ascii_lowercase),
        Alphabet::Base32 => has(u8::is_ascii_digit) && words::runs(hash) >= 3,
        Alphabet::Base36 | Alphabet::Hex => words::runs(hash) >= 4,
    };
    // Words and a number are no hash in small letters.
    let is_written = !is_strong && alphabet == Alphabet::Base36 && words::is_made_of_words(hash);
    match (is_strong, is_written) {
        (true, _) => Strength::Strong,
        (_, true) => Strength::Written,
        _ => Strength::Weak,
    }
}

/// Whether `folder` is `wanted` or below it, at any depth of the site.
fn is_within(folder: &str, wanted: &str) -> bool {
    folder.match_indices(wanted).any(|(at, _)| {
        let end = at + wanted.len();
        (at == 0 || folder.as_bytes().get(at - 1) == Some(&b'/'))
            && matches!(folder.as_bytes().get(end), None | Some(b'/'))
    })
}

/// Whether `part` ends as the name of an image for screens of many points does: `2x` of `logo@2x`.
fn is_scale(scale: &str) -> bool {
    scale.strip_suffix('x').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A UUID names a file, and says nothing of its content.
fn has_uuid(part: &str) -> bool {
    let groups: Vec<&str> = part.split(['-', '_']).collect();
    groups.windows(5).any(|five| {
        five.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12])
            && five.iter().all(|group| group.bytes().all(|byte| byte.is_ascii_hexdigit()))
    })
}

/// Whether a folder is called as Next calls a build, by itself or after a commit.
fn is_next_build(folder: &str) -> bool {
    match folder.len() {
        NEXT_BUILD_LENGTH => Alphabet::of(folder) == Some(Alphabet::Base64) && words::runs(folder) >= 5,
        40 => Alphabet::of(folder) == Some(Alphabet::Hex),
        _ => false,
    }
}
