//! `_redirects` and `_headers`: which rules a request meets, and what they say with its parts filled in.

use std::{borrow::Cow, collections::HashMap};

use common::store::manifest::{Pattern, Segment};

use crate::limits::RULE_STEPS;

/// What a pattern's placeholders stand for in a path.
pub(crate) type Captures<'c> = Vec<(&'c str, &'c str)>;

/// Rules in the order of their file. Those without wildcards are found by hash: sites with thousands exist.
pub(crate) struct Rules<T> {
    rules: Vec<(Pattern, T)>,
    exact: HashMap<String, Vec<usize>>,
    wild: Vec<usize>,
}

impl<T> Rules<T> {
    /// Of patterns and what holds for them.
    pub(crate) fn new(rules: Vec<(Pattern, T)>) -> Self {
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut wild = Vec::new();
        for (at, (pattern, _)) in rules.iter().enumerate() {
            match literal(pattern) {
                Some(path) => exact.entry(path).or_default().push(at),
                None => wild.push(at),
            }
        }
        Self { rules, exact, wild }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rules that a request meets, first in the file first.
    pub(crate) fn met<'m>(&'m self, host: &'m str, path: &'m str) -> impl Iterator<Item = (&'m T, Captures<'m>)> {
        let mut steps = RULE_STEPS;
        let mut exact = self.exact.get(path).map_or(&[][..], Vec::as_slice).iter().copied().peekable();
        let mut wild = self.wild.iter().copied().peekable();
        let order = std::iter::from_fn(move || match (exact.peek(), wild.peek()) {
            (Some(e), Some(w)) if e < w => exact.next(),
            (_, Some(_)) => wild.next(),
            (_, None) => exact.next(),
        });
        order.filter_map(move |at| {
            let (pattern, rule) = self.rules.get(at)?;
            if pattern.host.as_deref().is_some_and(|wanted| !wanted.eq_ignore_ascii_case(host)) {
                return None;
            }
            let mut captures = Vec::new();
            meets(&pattern.segments, path, &mut captures, &mut steps).then_some((rule, captures))
        })
    }
}

/// The one path that a pattern without wildcards matches.
fn literal(pattern: &Pattern) -> Option<String> {
    let pieces = pattern.segments.iter().map(|segment| match segment {
        Segment::Literal(text) => Some(text.as_str()),
        Segment::Placeholder(_) | Segment::Splat => None,
    });
    pieces.collect()
}

/// Whether `path` is what `segments` describe. Greedy, going back where that fails; `steps` bounds the going back, or a
/// pattern made for it could keep a core busy for hours.
fn meets<'c>(segments: &'c [Segment], path: &'c str, captures: &mut Captures<'c>, steps: &mut u32) -> bool {
    let Some((first, rest)) = segments.split_first() else { return path.is_empty() };
    let (name, longest, shortest) = match first {
        Segment::Literal(text) => {
            return path.strip_prefix(text.as_str()).is_some_and(|path| meets(rest, path, captures, steps));
        }
        Segment::Placeholder(name) => (name.as_str(), path.find('/').unwrap_or(path.len()), 1),
        Segment::Splat => ("splat", path.len(), 0),
    };
    let ends = (shortest..=longest).rev().filter(|&end| path.is_char_boundary(end));
    for end in ends {
        let Some(left) = steps.checked_sub(1) else { return false };
        *steps = left;
        let (value, after) = path.split_at(end);
        captures.push((name, value));
        if meets(rest, after, captures, steps) {
            return true;
        }
        captures.pop();
    }
    false
}

/// `template` with its `:names` replaced by what they stand for, each through `write`. Unknown names stay.
pub(crate) fn filled<'t>(template: &'t str, captures: &Captures<'_>, write: impl Fn(&str) -> String) -> Cow<'t, str> {
    if captures.is_empty() || !template.contains(':') {
        return Cow::Borrowed(template);
    }
    let mut filled = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find(':') {
        let (before, from_colon) = rest.split_at(at);
        filled.push_str(before);
        let name = &from_colon[1..];
        let len = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        let (name, after) = name.split_at(len);
        match captures.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => filled.push_str(&write(value)),
            None => filled.extend([":", name]),
        }
        rest = after;
    }
    filled.push_str(rest);
    Cow::Owned(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        let mut segments = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (segment, len) = match rest.as_bytes()[0] {
                b'*' => (Segment::Splat, 1),
                b':' => {
                    let len = rest[1..].find(|c: char| !c.is_alphanumeric()).map_or(rest.len(), |at| at + 1);
                    (Segment::Placeholder(rest[1..len].into()), len)
                }
                _ => {
                    let len = rest.find([':', '*']).unwrap_or(rest.len());
                    (Segment::Literal(rest[..len].into()), len)
                }
            };
            segments.push(segment);
            rest = &rest[len..];
        }
        Pattern { host: None, segments }
    }

    fn first(rules: &[&str], path: &str) -> Option<(usize, String)> {
        let rules = Rules::new(rules.iter().enumerate().map(|(at, text)| (pattern(text), at)).collect());
        let (at, captures) = rules.met("a.example", path).next()?;
        Some((*at, captures.iter().map(|(name, value)| format!("{name}={value};")).collect()))
    }

    #[test]
    fn the_first_rule_in_the_file_is_met_with_its_parts() {
        let cases: [(&[&str], &str, Option<(usize, &str)>); 14] = [
            (&["/a"], "/a", Some((0, ""))),
            (&["/a"], "/a/", None),
            (&["/b", "/*", "/a"], "/a", Some((1, "splat=a;"))),
            (&["/a", "/*", "/a"], "/a", Some((0, ""))),
            (&["/blog/*"], "/blog/", Some((0, "splat=;"))),
            (&["/blog/*"], "/blog", None),
            (&["/blog/*"], "/blog/a/b", Some((0, "splat=a/b;"))),
            (&["/*/end"], "/x/end/end", Some((0, "splat=x/end;"))),
            (&["/:year/:slug"], "/2026/hello", Some((0, "year=2026;slug=hello;"))),
            (&["/:year/:slug"], "/2026/", None),
            (&["/:year/:slug"], "/2026/a/b", None),
            (&["/:a.html"], "/x.y.html", Some((0, "a=x.y;"))),
            (&["/:a/*"], "/é/ü/ö", Some((0, "a=é;splat=ü/ö;"))),
            (&["/:a-:b"], "/x-", None),
        ];
        for (rules, path, expected) in cases {
            assert_eq!(first(rules, path), expected.map(|(at, parts)| (at, parts.to_owned())), "{rules:?} {path}");
        }
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_given_up() {
        let hostile = format!("/{}end", (0..20).map(|n| format!(":p{n}-")).collect::<String>());
        assert_eq!(first(&[&hostile], &format!("/{}", "-".repeat(4000))), None);
    }

    #[test]
    fn hosts_are_compared() {
        let with_host = Pattern { host: Some("b.example".into()), ..pattern("/x") };
        let rules = Rules::new(vec![(with_host, ())]);
        assert!(rules.met("a.example", "/x").next().is_none());
        assert!(rules.met("b.example", "/x").next().is_some());
    }

    #[test]
    fn names_are_filled_in() {
        let captures = vec![("splat", "a b"), ("year", "2026")];
        let upper = |text: &str| text.to_uppercase();
        assert_eq!(filled("/n/:year/:splat?x=:other", &captures, upper), "/n/2026/A B?x=:other");
        assert_eq!(filled("https://b.example:8443/:splat", &captures, upper), "https://b.example:8443/A B");
        assert_eq!(filled("/x:", &captures, upper), "/x:");
    }
}
