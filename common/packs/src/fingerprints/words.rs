//! Checks whether letters and digits could have been written by a person.

/// For each letter, a bit set of the letters that follow it in the 3,000 most common words of technical prose.
const FOLLOWERS: [u32; 26] = [
    33_471_854, 1_460_497, 18_763_157, 20_343_129, 33_552_895, 18_499_889, 1_468_881, 18_501_905, 45_022_335, 16_401,
    1_321_232, 20_770_109, 1_366_291, 20_774_269, 25_099_647, 18_794_905, 1_048_576, 20_905_343, 22_871_477,
    22_989_213, 981_375, 16_657, 418_193, 557_333, 848_146, 17,
];
/// Words and names of hexadecimal digits that people put before or after a number.
const HEX_WORDS: [&str; 59] = [
    "abba", "abbe", "abc", "abed", "accede", "acdc", "ace", "aced", "ada", "add", "added", "baa", "babe", "bad",
    "bade", "bbc", "bcd", "bead", "beaded", "bed", "bedded", "bee", "beef", "beefed", "cab", "cad", "cafe", "caff",
    "cbc", "cdc", "cede", "ceded", "dab", "dace", "dad", "dada", "dead", "deaf", "deb", "dec", "decade", "decaf",
    "deed", "def", "deface", "ebb", "ebbed", "efface", "fab", "facade", "face", "faced", "fad", "fade", "faded", "feb",
    "fed", "fee", "feed",
];
/// Minimum letters of a hash that is recognizable on its own. Versions, models and dates have fewer.
const RANDOM_LETTERS: usize = 6;
/// Minimum number of capitalized word beginnings, more than any name this short has.
const RANDOM_WORDS: usize = 4;

/// Counts the runs of lower-case letters, capitals, digits and marks. A capital joins the lower-case run after it.
pub(super) fn runs(text: &str) -> usize {
    let mut runs = 0;
    let mut last = None;
    for byte in text.bytes() {
        let kind = CharClass::from_byte(byte);
        if last != Some(kind) && (last, kind) != (Some(CharClass::Upper), CharClass::Lower) {
            runs += 1;
        }
        last = Some(kind);
    }
    runs
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum CharClass {
    Upper,
    Lower,
    Digit,
    Mark,
}

impl CharClass {
    fn from_byte(byte: u8) -> Self {
        match byte {
            b'A'..=b'Z' => Self::Upper,
            b'a'..=b'z' => Self::Lower,
            b'0'..=b'9' => Self::Digit,
            _ => Self::Mark,
        }
    }
}

/// Returns whether `text` could be words and numbers: `SemiBold`, `iPhone15`, `big-icon`, `IMG_0042`.
pub(super) fn is_wordlike(text: &str) -> bool {
    if !text.contains(['-', '_']) {
        return is_compound(text);
    }
    // Words joined by marks each have one case.
    let mut parts = text.split(['-', '_']);
    let has_word = || {
        text.split(['-', '_']).any(|part| {
            let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
            (letters.len() >= 4 && is_word(letters)) || (part.len() >= 3 && is_number(part))
        })
    };
    let is_lower = !text.bytes().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    parts.all(is_single_case) && (is_lower || has_word())
}

/// Returns whether `part` is a number, or letters of one case with an optional number.
fn is_single_case(part: &str) -> bool {
    let letters = part.trim_end_matches(|c: char| c.is_ascii_digit());
    let rest = letters.get(1..).unwrap_or_default();
    let all = |is: fn(u8) -> bool, text: &str| text.bytes().all(is);
    !part.is_empty()
        && all(|byte| byte.is_ascii_alphabetic(), letters)
        && (all(|byte| byte.is_ascii_lowercase(), rest) || all(|byte| byte.is_ascii_uppercase(), letters))
}

/// Returns whether `text` could be one or two words and a number: `Overview`, `JohnDoe1`, `SVGImage`, `1200x630`.
fn is_compound(text: &str) -> bool {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if is_number(text) || (letters.len() <= 3 && is_single_case(text)) {
        return true;
    }
    if text.split_once('x').is_some_and(|(width, height)| is_number(width) && is_number(height)) {
        return true;
    }
    let is_caps = |word: &str| word.bytes().all(|byte| byte.is_ascii_uppercase());
    match *split_words(letters).collect::<Vec<_>>() {
        // Lower-case letters without a digit count as a word even without meaning: no generator's hash looks like that.
        [word] => word.bytes().all(|byte| byte.is_ascii_lowercase()) && word.len() == text.len() || is_word(word),
        [first, second] if is_caps(first) => first.len() <= 4 && is_word(second) && !is_caps(second),
        [first, second] if is_caps(second) => second.len() >= 3 && first.len() >= 4 && is_word(first),
        [first, second] => is_word(second) && (first.len() <= 2 || is_word(first)),
        [first, second, third] => {
            let is_lead = first.len() == 1 && !is_caps(second) && !is_caps(third);
            is_lead && [second, third].into_iter().all(|word| word.len() == 3 && is_word(word))
        }
        _ => false,
    }
}

/// Returns whether `text` (letters, digits, `-` and `_`) is something that nobody writes: mostly letters, no word among
/// them, and either consonants only or capitals in between. True for more than half of all hashes of eight characters,
/// and false for `LinkedIn`, `2024Q3v2` or `en_US_v2`.
pub(super) fn is_random(text: &str) -> bool {
    let runs = text.split(|c: char| !c.is_ascii_alphabetic());
    let words: Vec<&str> = runs.flat_map(split_words).collect();
    let letters: usize = words.iter().map(|word| word.len()).sum();
    let vowels = |word: &str| word.bytes().filter(|byte| b"aeiouy".contains(&byte.to_ascii_lowercase())).count();
    let is_readable = |word: &&str| word.len() >= 4 && (is_word(word) || vowels(word) * 3 >= word.len());
    let is_unreadable = |word: &&str| word.len() >= 3 && vowels(word) == 0;
    letters >= RANDOM_LETTERS
        && !words.iter().any(is_readable)
        && (words.len() >= RANDOM_WORDS || words.iter().any(is_unreadable))
}

/// Returns whether `text` is two pronounceable names with an optional number, from any letters: `JohnDoe1`.
pub(super) fn is_name(text: &str) -> bool {
    let letters = text.trim_end_matches(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = split_words(letters).collect();
    words.len() == 2
        && words
            .iter()
            .all(|word| word.len() >= 3 && is_single_case(word) && word.contains(['a', 'e', 'i', 'o', 'u', 'y']))
}

/// Returns whether each run of letters in `text` is a word or at most two letters.
pub(super) fn is_words_only(text: &str) -> bool {
    text.split(|c: char| c.is_ascii_digit()).all(|run| run.len() <= 2 || is_word(run))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Splits `MyModule` into `My` and `Module`, `SVGIcon` into `SVG` and `Icon`.
fn split_words(text: &str) -> impl Iterator<Item = &str> {
    let bytes = text.as_bytes();
    let is_upper = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
    let is_lower = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_lowercase);
    let mut start = 0;
    std::iter::from_fn(move || {
        if start >= bytes.len() {
            return None;
        }
        let mut end = start + 1;
        while end < bytes.len() {
            let is_break = is_upper(end) && (!is_upper(end - 1) || is_lower(end + 1));
            if is_break {
                break;
            }
            end += 1;
        }
        let word = &text[start..end];
        start = end;
        Some(word)
    })
}

/// Returns whether `word` is pronounceable.
fn is_word(word: &str) -> bool {
    let letters: Vec<u8> = word.bytes().map(|byte| byte.to_ascii_lowercase()).collect();
    if word.len() < 3
        || !letters.iter().all(u8::is_ascii_lowercase)
        || !letters.iter().any(|byte| b"aeiouy".contains(byte))
    {
        return false;
    }
    word.len() == 3
        || letters.windows(2).all(|pair| {
            let follows = FOLLOWERS.get(usize::from(pair[0] - b'a')).copied().unwrap_or_default();
            follows >> (pair[1] - b'a') & 1 == 1
        })
}

/// The appearance of hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HexAppearance {
    /// Unlike anything that a person would write.
    Mixed,
    /// Like the end of a name with a number, or a number; some hashes look like this.
    Plain,
    /// A word, a date, a word and a number, or one repeated digit.
    Written,
}

/// Classifies lower-case hexadecimal digits.
pub(super) fn hex(text: &str) -> HexAppearance {
    let letters: Vec<&str> = text.split(|c: char| c.is_ascii_digit()).filter(|run| !run.is_empty()).collect();
    let has_word = letters.iter().any(|run| is_hex_word(run, text.len() - run.len()));
    let distinct = text.bytes().fold(0_u128, |seen, byte| seen | 1 << (byte & 127)).count_ones();
    match runs(text) {
        _ if distinct <= 2 => HexAppearance::Written,
        1 if letters.is_empty() => {
            if text.len() == 8 && !is_date(text) {
                HexAppearance::Plain
            } else {
                HexAppearance::Written
            }
        }
        1 => HexAppearance::Written,
        2 if has_word || ends_in_year(text) || text.len() > 12 => HexAppearance::Written,
        2 => HexAppearance::Plain,
        3 if has_word => HexAppearance::Plain,
        _ => HexAppearance::Mixed,
    }
}

/// Returns whether `run` is a word next to `digits` digits. A short word next to a long number is more likely a hash.
fn is_hex_word(run: &str, digits: usize) -> bool {
    (HEX_WORDS.contains(&run) && (run.len() > 3 || digits <= 4)) || (run.len() >= 4 && is_word(run))
}

fn ends_in_year(text: &str) -> bool {
    let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
    digits.len() == 4 && (digits.starts_with("19") || digits.starts_with("20"))
}

/// Returns whether eight digits are a date of the last or this century, in one of the three orders.
fn is_date(digits: &str) -> bool {
    let number =
        |from: usize, to: usize| digits.get(from..to).and_then(|text| text.parse::<u32>().ok()).unwrap_or_default();
    let is = |year: u32, one: u32, other: u32| {
        (1900..2100).contains(&year)
            && (1..=31).contains(&one)
            && (1..=31).contains(&other)
            && (one <= 12 || other <= 12)
    };
    is(number(0, 4), number(4, 6), number(6, 8)) || is(number(4, 8), number(0, 2), number(2, 4))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_told_from_hashes() {
        for text in [
            "iPhone15", "iPadPro4", "SemiBold", "MyModule", "Settings", "overview", "VERSION2", "release2", "Calendar",
            "UserList", "DataGrid", "big-icon", "IMG_0042", "DSC_0042", "img_0042", "v2-Final", "SVG-Icon", "ile-name",
            "to-start", "my_photo", "HomePage",
        ] {
            assert!(is_wordlike(text), "{text}");
        }
        for text in [
            "BkX3d9aQ", "DfGhJkLm", "C_7zZ-1a", "5QRT2ZXK", "-QdMvsKi", "B_TqY17P", "DmDZ0-yr", "Cz3FdIBi", "SHDqe9XR",
            "BwdlfHaE", "k3-x9_ab", "t5CeUkWN", "6osJUigr", "--------",
        ] {
            assert!(!is_wordlike(text), "{text}");
        }
    }

    #[test]
    fn hexadecimal_words_dates_and_numbers_are_told_from_hashes() {
        for (text, wanted) in [
            ("3f2a9c1b", HexAppearance::Mixed),
            ("7e37652d", HexAppearance::Mixed),
            ("c654bf0a4dcb4117785d", HexAppearance::Mixed),
            ("0884a5c2d1d2d99b", HexAppearance::Mixed),
            ("42954947", HexAppearance::Plain),
            ("a1234567", HexAppearance::Plain),
            ("1decade2", HexAppearance::Plain),
            ("cafe2024", HexAppearance::Written),
            ("decade80", HexAppearance::Written),
            ("feed2024", HexAppearance::Written),
            ("acdc1980", HexAppearance::Written),
            ("abef2024", HexAppearance::Written),
            ("20240101", HexAppearance::Written),
            ("31122024", HexAppearance::Written),
            ("12312024", HexAppearance::Written),
            ("deadbeef", HexAppearance::Written),
            ("00000000", HexAppearance::Written),
            ("ff00ff00", HexAppearance::Written),
            ("1700000000", HexAppearance::Written),
            ("202401011230", HexAppearance::Written),
        ] {
            assert_eq!(hex(text), wanted, "{text}");
        }
    }
}
