//! Compiled `robots.txt` (RFC 9309): paths that a site asks programs not to crawl. Not enforced; statistics show
//! compliance.

use percent_encoding::percent_decode_str;
use serde::{Deserialize, Serialize};

/// The file's path.
pub const ROBOTS_FILE: &str = "robots.txt";
const RULES: usize = 2_000;
const NAMES: usize = 2_000;
/// Maximum bytes of a name or a path; longer ones are skipped.
const TEXT_BYTES: usize = 1_024;
/// Approximate bytes of memory of a rule or a name, in addition to its text.
const ENTRY_WEIGHT: usize = 48;

/// The paths that a site asks programs not to crawl.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RobotsRules {
    groups: Vec<AgentGroup>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct AgentGroup {
    /// Names in lower case; `*` matches agents that are not named in any group.
    agents: Vec<String>,
    rules: Vec<RobotsRule>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct RobotsRule {
    allow: bool,
    /// The decoded path. `*` matches anything, and a trailing `$` the end.
    path: String,
}

impl RobotsRules {
    /// Parses the file. Invalid lines are skipped, as the standard requires.
    pub fn compile(text: &[u8]) -> Self {
        let text = String::from_utf8_lossy(text);
        let (mut groups, mut is_naming) = (Vec::<AgentGroup>::new(), false);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((field, value)) = line.split_once(':') else { continue };
            let (field, value) = (field.trim(), value.trim());
            if field.eq_ignore_ascii_case("user-agent") {
                if !is_naming {
                    groups.push(AgentGroup::default());
                    is_naming = true;
                }
                if let Some(group) = groups.last_mut() {
                    group.agents.push(value.to_ascii_lowercase());
                }
            } else if let Some(allow) = allows(field) {
                is_naming = false;
                // `Disallow:` without a path disallows nothing.
                if let Some(group) = groups.last_mut().filter(|_| !value.is_empty()) {
                    group.rules.push(RobotsRule { allow, path: decode(value) });
                }
            }
        }
        Self { groups }.within_bounds()
    }

    /// Drops entries beyond the limits.
    #[must_use]
    pub fn within_bounds(mut self) -> Self {
        let (mut names, mut rules) = (NAMES, RULES);
        for group in &mut self.groups {
            group.agents.retain(|name| name.len() <= TEXT_BYTES);
            group.agents.truncate(names);
            names -= group.agents.len();
            group.rules.retain(|rule| rule.path.len() <= TEXT_BYTES);
            group.rules.truncate(rules);
            rules -= group.rules.len();
        }
        self.groups.retain(|group| !group.agents.is_empty());
        self
    }

    /// Returns whether there are no groups.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the approximate bytes of memory used.
    pub fn weight(&self) -> usize {
        let of = |group: &AgentGroup| {
            let texts = group.agents.iter().map(String::len).chain(group.rules.iter().map(|rule| rule.path.len()));
            texts.map(|len| len + ENTRY_WEIGHT).sum::<usize>() + ENTRY_WEIGHT
        };
        self.groups.iter().map(of).sum()
    }

    /// Returns whether an agent with one of `names` is asked not to crawl `path`, which may have a query.
    pub fn is_disallowed(&self, names: &[&str], path: &str) -> bool {
        if self.is_empty() || path == "/robots.txt" {
            return false;
        }
        let is_named = |group: &&AgentGroup| {
            let is_name =
                |named: &String| names.iter().any(|name| name.trim_end_matches('/').eq_ignore_ascii_case(named));
            group.agents.iter().any(is_name)
        };
        let is_for_others = |group: &&AgentGroup| group.agents.iter().any(|agent| agent == "*");
        let path = decode(path);
        if self.groups.iter().any(|group| is_named(&group)) {
            is_longest_disallow(self.groups.iter().filter(is_named), &path)
        } else {
            is_longest_disallow(self.groups.iter().filter(is_for_others), &path)
        }
    }
}

/// Returns whether the longest matching rule disallows the path. Among rules of equal length, one that allows wins.
fn is_longest_disallow<'g>(groups: impl Iterator<Item = &'g AgentGroup>, path: &str) -> bool {
    let met = groups.flat_map(|group| &group.rules).filter(|rule| is_match(rule.path.as_bytes(), path.as_bytes()));
    met.max_by_key(|rule| (rule.path.len(), rule.allow)).is_some_and(|rule| !rule.allow)
}

fn allows(field: &str) -> Option<bool> {
    if field.eq_ignore_ascii_case("disallow") {
        return Some(false);
    }
    field.eq_ignore_ascii_case("allow").then_some(true)
}

fn decode(path: &str) -> String {
    percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Returns whether `path` begins with a match of `pattern`, in at most as many steps as the product of both lengths.
fn is_match(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, is_whole) = match pattern.strip_suffix(b"$") {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let (mut at, mut seen, mut star) = (0, 0, None);
    loop {
        match pattern.get(at) {
            None if !is_whole || seen == path.len() => return true,
            Some(b'*') => {
                star = Some((at + 1, seen));
                at += 1;
                continue;
            }
            Some(byte) if path.get(seen) == Some(byte) => {
                (at, seen) = (at + 1, seen + 1);
                continue;
            }
            _ => {}
        }
        // Lets the last `*` match one more byte.
        match star {
            Some((after, from)) if from < path.len() => {
                star = Some((after, from + 1));
                (at, seen) = (after, from + 1);
            }
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_of_an_agent_are_those_of_its_groups() {
        let robots = RobotsRules::compile(
            b"\xef\xbb\xbf# to all\r\nUser-Agent: *\r\nDisallow: /private/ # not this\r\nAllow: /private/open\r\n\r\n\
              user-agent: GPTBot\nUser-agent: ClaudeBot\nDisallow: /\nAllow: /$\n\nSitemap: https://a.example/s.xml\n\
              User-agent: curl\nDisallow:\n\nUser-agent: GPTBot\nAllow: /llms.txt\nnonsense\n",
        );
        for (names, path, is_disallowed) in [
            (&["Bingbot"][..], "/", false),
            (&["Bingbot"], "/private/x", true),
            (&["Bingbot"], "/private/open/x", false),
            (&["Bingbot"], "/%70rivate/x", true),
            (&["GPTBot", "gptbot"], "/", false),
            (&["GPTBot", "gptbot"], "/page?a=b", true),
            (&["GPTBot", "gptbot"], "/llms.txt", false),
            (&["GPTBot", "gptbot"], "/robots.txt", false),
            (&["claudebot"], "/llms.txt", true),
            (&["curl", "curl/"], "/private/x", false),
            (&["something", "curl/"], "/private/x", false),
        ] {
            assert_eq!(robots.is_disallowed(names, path), is_disallowed, "{names:?} {path}");
        }
        assert!(!RobotsRules::compile(b"Disallow: /\n").is_disallowed(&["curl"], "/"), "rules of nobody");
        assert!(RobotsRules::compile(b"<html>").is_empty());
    }

    #[test]
    fn patterns_have_stars_and_an_end() {
        for (pattern, path, is_it) in [
            ("/a", "/ab", true),
            ("/a$", "/ab", false),
            ("/a$", "/a", true),
            ("/*.pdf$", "/x/y.pdf", true),
            ("/*.pdf$", "/x.pdf?download", false),
            ("/*.pdf", "/x.pdf?download", true),
            ("/*a*b*c$", "/aabbcc", true),
            ("/*a*b*c$", "/aabbccd", false),
            ("*", "/", true),
            ("/x*$", "/xyz", true),
            ("", "/", true),
            ("/long", "/lo", false),
        ] {
            assert_eq!(is_match(pattern.as_bytes(), path.as_bytes()), is_it, "{pattern} {path}");
        }
    }

    #[test]
    fn a_long_file_is_kept_within_bounds() {
        let names = (0..3 * NAMES).map(|name| format!("User-agent: bot{name}"));
        let rules = (0..3 * RULES).map(|rule| format!("Disallow: /{rule}"));
        let lines: Vec<_> = names.chain(rules).collect();
        let robots = RobotsRules::compile(lines.join("\n").as_bytes());
        let (names, rules) = (robots.groups[0].agents.len(), robots.groups[0].rules.len());
        assert_eq!((robots.groups.len(), names, rules), (1, NAMES, RULES));
        assert!(robots.weight() < 1024 * 1024);
        let read: RobotsRules = serde_json::from_str(&serde_json::to_string(&robots).unwrap()).unwrap();
        assert_eq!(read, robots);
    }
}
