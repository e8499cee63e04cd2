//! Reads a `User-Agent` as the name of a program or of a browser.
//!
//! One pass searches for all names and words of the table of agents; the first in the table wins. Without a match, the
//! text is a browser's if it names an operating system that people use. Start with [`read`].

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use domain::traffic::agents::{AGENTS, INNOCENT_WORDS, KnownAgent, UNLISTED_PROGRAM};

use super::memo::ParsedAgent;

/// Operating systems that people use, and browsers that name none.
const SYSTEMS: [&str; 73] = [
    "windows",
    "win32",
    "win64",
    "win98",
    "win95",
    "winnt",
    "win10",
    "macintosh",
    "mac os",
    "mac_",
    "macos",
    "iphone",
    "ipad",
    "ipod",
    "ios",
    "android",
    "linux",
    "x11",
    "cros",
    "cfnetwork",
    "darwin",
    "dalvik",
    "midp",
    "cldc",
    "symbian",
    "series60",
    "j2me",
    "amiga",
    "morphos",
    "aros",
    "playstation",
    "nintendo",
    "xbox",
    "roku",
    "tizen",
    "webos",
    "web0s",
    "hpwos",
    "blackberry",
    "bb10",
    "playbook",
    "bsd",
    "sunos",
    "haiku",
    "beos",
    "os/2",
    "risc os",
    "syllable",
    "inferno",
    "cygwin",
    "nokia",
    "samsung",
    "sonyericsson",
    "htc",
    "mot-",
    "lg-",
    "kaios",
    "smarttv",
    "smart-tv",
    "crkey",
    "fuchsia",
    "ucweb",
    "up.browser",
    "palm",
    "avantgo",
    "qtver",
    "arm64",
    "lynx/",
    "links (",
    "w3m/",
    "msoffice",
    "mozacfetch",
    "icedragon/",
];
/// An app of a browser whose text has lost its beginning.
const BROKEN: &str = "duckduckgo/5";

#[derive(Clone, Copy)]
enum PatternMeaning {
    /// Identifies an agent, if the match has the required position and boundaries.
    Agent { agent: &'static KnownAgent, at_start: bool, letter_before: bool, letter_after: bool },
    /// Hides any agent word within the match.
    Innocent,
    /// An operating system or a browser.
    System,
}

struct AgentPatterns {
    automaton: AhoCorasick,
    meanings: Vec<PatternMeaning>,
}

/// Browsers whose request fields are known. Less is known of other programs with the same engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BrowserKind {
    /// Chrome, Edge or Opera, by the version of Chromium.
    Chromium(u16),
    Firefox(u16),
    Safari(u16),
    Other,
}

static PATTERNS: LazyLock<Option<AgentPatterns>> = LazyLock::new(|| {
    let of_agents = AGENTS.iter().map(|agent| {
        let (text, at_start) = agent.pattern.strip_prefix('^').map_or((agent.pattern, false), |text| (text, true));
        let (letter_before, letter_after) = (!text.starts_with('|'), !text.ends_with('|'));
        (text.trim_matches('|'), PatternMeaning::Agent { agent, at_start, letter_before, letter_after })
    });
    let innocent = INNOCENT_WORDS.iter().map(|word| (*word, PatternMeaning::Innocent));
    let systems = SYSTEMS.iter().chain([&BROKEN]).map(|word| (*word, PatternMeaning::System));
    let (texts, meanings): (Vec<_>, Vec<_>) = of_agents.chain(innocent).chain(systems).unzip();
    let automaton = AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .build(texts);
    automaton.ok().map(|automaton| AgentPatterns { automaton, meanings })
});

pub(super) fn read(text: &[u8]) -> ParsedAgent {
    let Some(patterns) = &*PATTERNS else { return ParsedAgent::Browser(BrowserKind::Other) };
    let is_word = |place: Option<usize>| place.and_then(|place| text.get(place)).is_some_and(u8::is_ascii_alphanumeric);
    let is_letter = |place: usize| text.get(place).is_some_and(u8::is_ascii_alphabetic);
    let (mut found, mut innocent, mut names_system) = (Vec::new(), Vec::new(), false);
    for hit in patterns.automaton.find_overlapping_iter(text) {
        match patterns.meanings[hit.pattern().as_usize()] {
            PatternMeaning::System => names_system = true,
            PatternMeaning::Innocent => innocent.push(hit.span()),
            PatternMeaning::Agent { agent, at_start, letter_before, letter_after } => {
                if (!at_start || hit.start() == 0)
                    && (letter_before || !is_word(hit.start().checked_sub(1)))
                    && (letter_after || !is_letter(hit.end()))
                {
                    found.push((hit.pattern(), hit.span(), agent));
                }
            }
        }
    }
    let is_within = |span: &aho_corasick::Span| {
        innocent.iter().any(|outer: &aho_corasick::Span| outer.start <= span.start && span.end <= outer.end)
    };
    let first = found.iter().filter(|(_, span, _)| !is_within(span)).min_by_key(|(pattern, ..)| *pattern);
    if let Some((.., agent)) = first {
        return ParsedAgent::Agent(agent);
    }
    let says_more = if starts_with(text, b"mozilla/") || starts_with(text, b"opera/") {
        text.contains(&b'(')
    } else {
        text.iter().any(|byte| matches!(byte, b'/' | b'(' | b'['))
    };
    if names_system && says_more {
        ParsedAgent::Browser(parse_browser(text))
    } else {
        ParsedAgent::Agent(&UNLISTED_PROGRAM)
    }
}

fn starts_with(text: &[u8], start: &[u8]) -> bool {
    text.get(..start.len()).is_some_and(|found| found.eq_ignore_ascii_case(start))
}

/// Identifies the browser only if the whole text matches: a program that adds a word may also send other fields.
fn parse_browser(text: &[u8]) -> BrowserKind {
    let known = || {
        let text = str::from_utf8(text).ok()?.strip_prefix("Mozilla/5.0 (")?;
        let (system, rest) = text.split_once(") ")?;
        if system.ends_with("; wv") {
            return None;
        }
        if let Some(words) = rest.strip_prefix("Gecko/") {
            let (_, version) = words.split_once(" Firefox/")?;
            return major(version).map(BrowserKind::Firefox);
        }
        let (_, words) = rest.strip_prefix("AppleWebKit/")?.split_once(" (KHTML, like Gecko) ")?;
        let (mut chromium, mut safari) = (None, None);
        for word in words.split(' ') {
            match word.split_once('/') {
                Some(("Chrome", version)) => chromium = Some(major(version)?),
                Some(("Version", version)) => safari = Some(major(version)?),
                Some(("Safari" | "Mobile" | "Edg" | "EdgA" | "OPR", _)) => {}
                None if word == "Mobile" => {}
                _ => return None,
            }
        }
        match (chromium, safari) {
            (Some(version), None) => Some(BrowserKind::Chromium(version)),
            (None, Some(version)) => Some(BrowserKind::Safari(version)),
            _ => None,
        }
    };
    known().unwrap_or(BrowserKind::Other)
}

/// Returns the first number of a version that consists of numbers only.
fn major(version: &str) -> Option<u16> {
    let is_version = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    is_version.then(|| version.split('.').next()?.parse().ok()).flatten()
}
