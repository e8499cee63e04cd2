//! Path patterns, which select the requests of a rule and capture the values of `*` and `:placeholders`.
//!
//! A pattern has at most one `*`; a placeholder matches part of one path segment. See also [`super::matching`].

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS};

use super::{
    matching::{SPLAT, match_path, split},
    path::RequestPath,
    template::PathCaptures,
};
use crate::manifest::{PathPattern, PatternSegment};

/// Bytes of a path that are encoded as `%XX`. The others are harmless in a URL and in a header.
pub const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

const WILDCARDS: usize = 20;
impl PathPattern {
    /// Parses `/path/:with/*` or `https://host/path`. The error is a message for people.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        let (host, path) = match text.split_once("://") {
            Some(("https", rest)) => {
                let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
                (Some(parse_host(host)?), if path.is_empty() { "/" } else { path })
            }
            Some(_) if !text.starts_with('/') => return Err("a pattern with a host starts with https://"),
            _ => (None, text),
        };
        if !path.starts_with('/') {
            return Err("a pattern starts with / or https://");
        }
        if path.contains(['?', '#']) {
            return Err("a pattern has no query and no fragment");
        }
        let mut names: Vec<&str> = host.iter().flat_map(|host| host_names(host)).collect();
        let segments = parse_path(&without_dot_segments(path), &mut names)?;
        Ok(Self { host, segments })
    }

    /// Returns whether the pattern has wildcards.
    pub fn is_dynamic(&self) -> bool {
        self.segments.iter().any(|segment| !matches!(segment, PatternSegment::Literal(_)))
            || self.host.as_ref().is_some_and(|host| host.contains(':'))
    }

    /// Returns the only path that a pattern without wildcards matches, in canonical spelling.
    pub fn literal(&self) -> Option<String> {
        let pieces = self.segments.iter().map(|segment| match segment {
            PatternSegment::Literal(text) => Some(text.as_str()),
            PatternSegment::Placeholder(_) | PatternSegment::Splat => None,
        });
        pieces.collect()
    }

    /// Returns the names of the pattern's captures, with their colons.
    pub fn names(&self) -> impl Iterator<Item = String> {
        let path = self.segments.iter().filter_map(|segment| match segment {
            PatternSegment::Literal(_) => None,
            PatternSegment::Placeholder(name) => Some(format!(":{name}")),
            PatternSegment::Splat => Some(format!(":{SPLAT}")),
        });
        path.chain(self.host.iter().flat_map(|host| host_names(host)).map(|name| format!(":{name}")))
    }

    /// Matches a request for `path` on `host`. Returns the captured values.
    pub fn matches(&self, host: &str, path: &RequestPath<'_>) -> Option<PathCaptures> {
        let text = path.canonical();
        // Most patterns differ from the path at its beginning.
        if let Some(PatternSegment::Literal(first)) = self.segments.first()
            && !text.starts_with(first.as_str())
        {
            return None;
        }
        let mut captures = PathCaptures::default();
        if let Some(pattern) = &self.host
            && !matches_host(pattern, host, &mut captures)
        {
            return None;
        }
        for (name, range) in match_path(&split(&self.segments), text)? {
            captures.add(name, path.sent(range)?);
        }
        Some(captures)
    }

    /// Returns whether the pattern matches `path` on some host.
    pub fn matches_path(&self, path: &RequestPath<'_>) -> bool {
        match_path(&split(&self.segments), path.canonical()).is_some()
    }
}

/// Resolves `.` and `..` in `path`, as browsers do before they send it.
pub(super) fn without_dot_segments(path: &str) -> Cow<'_, str> {
    if !super::path::has_dot_segment(path) {
        return Cow::Borrowed(path);
    }
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.split('/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let is_last = segments.peek().is_none();
        match super::path::dots(segment) {
            0 => kept.push(segment),
            dots => {
                if dots == 2 {
                    kept.pop();
                }
                if is_last {
                    kept.push("");
                }
            }
        }
    }
    Cow::Owned(format!("/{}", kept.join("/")))
}

/// Returns the placeholder name that `text` begins with, or an empty text if there is none.
pub(super) fn name_at(text: &str) -> &str {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return "";
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
}

fn host_names(host: &str) -> impl Iterator<Item = &str> {
    host.split('.').filter_map(|label| label.strip_prefix(':'))
}

fn parse_host(host: &str) -> Result<String, &'static str> {
    if host.is_empty() {
        return Err("the host is missing");
    }
    for label in host.split('.') {
        let name = label.strip_prefix(':').unwrap_or(label);
        let is_placeholder = name.len() < label.len();
        if is_placeholder && name_at(name) != name {
            return Err("a placeholder stands for a whole label of the host");
        }
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
            return Err("the host is a name, without port; `:name` stands for one of its labels");
        }
    }
    Ok(host
        .split('.')
        .map(|l| if l.starts_with(':') { l.to_owned() } else { l.to_ascii_lowercase() })
        .collect::<Vec<_>>()
        .join("."))
}

/// Parses a path. `names` are the names that the host already uses.
fn parse_path<'p>(path: &'p str, names: &mut Vec<&'p str>) -> Result<Vec<PatternSegment>, &'static str> {
    let mut pieces: Vec<PatternSegment> = Vec::new();
    let mut text = String::new();
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        let name = if c == ':' { name_at(&rest[1..]) } else { "" };
        if c != '*' && name.is_empty() {
            text.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let name = if c == '*' { SPLAT } else { name };
        if names.contains(&name) {
            return Err(if c == '*' { "only one * is allowed" } else { "a placeholder is named twice" });
        }
        if names.len() >= WILDCARDS {
            return Err("a pattern has 20 wildcards at most");
        }
        names.push(name);
        if !text.is_empty() {
            pieces.push(PatternSegment::Literal(RequestPath::new(&text).into_canonical()));
            text.clear();
        }
        if c == '*' {
            pieces.push(PatternSegment::Splat);
            rest = &rest[1..];
        } else {
            pieces.push(PatternSegment::Placeholder(name.to_owned()));
            rest = &rest[1 + name.len()..];
        }
    }
    if !text.is_empty() {
        pieces.push(PatternSegment::Literal(RequestPath::new(&text).into_canonical()));
    }
    Ok(pieces)
}

fn matches_host(pattern: &str, host: &str, captures: &mut PathCaptures) -> bool {
    let mut labels = host.split('.');
    for wanted in pattern.split('.') {
        let Some(label) = labels.next() else { return false };
        match wanted.strip_prefix(':') {
            Some(name) if !label.is_empty() => captures.add(name, super::path::encoded(label.as_bytes())),
            None if wanted.eq_ignore_ascii_case(label) => {}
            _ => return false,
        }
    }
    labels.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
        let captures = PathPattern::parse(pattern).expect(pattern).matches("my.site.test", &RequestPath::new(path))?;
        let mut pairs = captures.pairs().to_vec();
        pairs.sort();
        Some(pairs)
    }

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, path, wanted) in [
            ("/", "/", Some("")),
            ("/", "/a", None),
            ("/a", "/a", Some("")),
            ("/a", "/a/", None),
            ("/a", "/ab", None),
            ("/*", "/", Some("splat=")),
            ("/*", "/a/b", Some("splat=a/b")),
            ("/a/*", "/a", None),
            ("/a/*", "/a/", Some("splat=")),
            ("/a/*", "/a//x", Some("splat=/x")),
            ("/a*", "/abc/d", Some("splat=bc/d")),
            ("/*.jpg", "/x/y.jpg", Some("splat=x/y")),
            ("/*.jpg", "/x/y.png", None),
            ("/a/*/z", "/a/b/c/z", Some("splat=b/c")),
            ("/a/*/z", "/a/z", None),
            ("/a/*/:last", "/a/b/c/d", Some("splat=b/c last=d")),
            ("/*x/:a/y", "/px/q/y", Some("splat=p a=q")),
            ("/*x/:a/y", "/p/q/y", None),
            ("/m/:title", "/m/dune", Some("title=dune")),
            ("/m/:title", "/m/", None),
            ("/m/:title", "/m/a/b", None),
            ("/m/:title/", "/m/a/", Some("title=a")),
            ("/m/:title.html", "/m/a.b.html", Some("title=a.b")),
            ("/m/:title.html", "/m/.html", None),
            ("/:a/x/:b", "/1/x/2", Some("a=1 b=2")),
            ("/12:30", "/12:30", Some("")),
            ("/caf\u{e9}", "/caf%C3%A9", Some("")),
            ("/caf\u{e9}", "/caf%c3%a9", Some("")),
            ("/a b", "/a%20b", Some("")),
            ("/admin/*", "/%61dmin/x", Some("splat=x")),
            ("/p/:code/:name", "/p/a%26b/c%2f%2Fd", Some("code=a%26b name=c%2f%2Fd")),
            ("/p/:code", "/p/a%2Fb/c", None),
            ("/%2Fx/:a", "/%2fx/1", Some("a=1")),
            ("/%2Fx", "//x", None),
            ("/b/:y-:m-:d-:slug", "/b/2020-01-02-foo", Some("y=2020 m=01 d=02 slug=foo")),
            ("/b/:y-:m-:d-:slug", "/b/2020-01-02-foo-bar", Some("y=2020-01 m=02 d=foo slug=bar")),
            ("/b/:y-:m-:d-:slug", "/b/2020-01-02", None),
            ("/b/:y-:m", "/b/--", None),
            ("/b/:y-:m", "/b/---", Some("y=- m=-")),
            ("/:a:b", "/xyz", Some("a=xy b=z")),
            ("/:a:b", "/x%C3%A9", Some("a=x%C3 b=%A9")),
            ("/:a:b", "/x", None),
            ("/*2:b", "/x%2Fy2z", Some("splat=x%2Fy b=z")),
            ("/*2:b", "/x%2Fy", None),
            ("/v:major.:minor/x", "/v1.2/x", Some("major=1 minor=2")),
            ("/:a*", "/xy/z", Some("a=xy splat=/z")),
            ("/:a-*", "/p-q-r/s-t", Some("a=p-q splat=r/s-t")),
            ("/:a-*-z", "/p-q-z", Some("a=p splat=q")),
            ("/:a-*-z", "/p-z", None),
            ("/:a-*-z", "/p--z", Some("a=p splat=")),
            ("/*:a", "/x/yz", Some("splat=x/y a=z")),
            ("/*-:a/b", "/x/y-z-w/b", Some("splat=x/y-z a=w")),
            ("/*.:ext", "/a.b/c.tar.gz", Some("splat=a.b/c.tar ext=gz")),
            ("/a/../b/./:x", "/b/1", Some("x=1")),
            ("https://my.site.test/*", "/x", Some("splat=x")),
            ("https://MY.site.test/x", "/x", Some("")),
            ("https://other.site.test/*", "/x", None),
            ("https://:sub.site.test/x", "/x", Some("sub=my")),
            ("https://:sub.my.site.test/x", "/x", None),
        ] {
            let wanted = wanted.map(|text| {
                let mut pairs: Vec<_> = text
                    .split_whitespace()
                    .map(|pair| pair.split_once('=').expect("name=value"))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect();
                pairs.sort();
                pairs
            });
            assert_eq!(captured(pattern, path), wanted, "{pattern} {path}");
        }
    }

    #[test]
    fn what_cannot_be_a_pattern_says_why() {
        for text in [
            "",
            "a",
            "/*/*",
            "/:a/:a",
            "/*/:splat",
            "https://:a.x/:a",
            "http://x/y",
            "https:///x",
            "https://x:1/y",
            "/a?b",
            "https://*.x/",
        ] {
            assert!(PathPattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn matching_takes_linear_time() {
        let pattern = PathPattern::parse("/*a/:x-b/:y-c/d").expect("valid");
        let path = format!("/{}", "a/-b-".repeat(200_000));
        assert_eq!(pattern.matches("h", &RequestPath::new(&path)), None);
        let pattern = PathPattern::parse(&format!("/{}*{}/d", ":a22".replace('a', "b"), "-:c")).expect("valid");
        for text in ["%22", "22", "-"] {
            assert_eq!(pattern.matches("h", &RequestPath::new(&format!("/{}/e", text.repeat(200_000)))), None);
        }
    }
}
