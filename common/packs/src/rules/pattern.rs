//! Path patterns: which requests a rule is for, and what its `*` and `:placeholders` stood for.
//!
//! A pattern has at most one `*`, and no two wildcards share a path segment, so matching never goes back: it takes
//! time linear in the path, whatever the pattern.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};

use crate::manifest::{Pattern, Segment};

/// Bytes of a path that are written as `%XX`. What is left is harmless in a URL and in a header. Whoever compares a path
/// with a pattern encodes it by this.
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

/// The name under which templates refer to what `*` stood for.
const SPLAT: &str = "splat";

/// The parts of a path that the wildcards of a pattern matched, percent-encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Captures(Vec<(String, String)>);

impl Pattern {
    /// Parses `/path/:with/*` or `https://host/path`. The error says what is wrong.
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
        let segments = parse_path(path)?;
        Ok(Self { host, segments })
    }

    /// Whether the pattern has wildcards.
    pub fn is_dynamic(&self) -> bool {
        self.segments.iter().any(|segment| !matches!(segment, Segment::Literal(_)))
            || self.host.as_ref().is_some_and(|host| host.contains(':'))
    }

    /// Matches a request for `path`, as it was sent but without its query, at `host`. Returns what the wildcards
    /// matched.
    pub fn matches(&self, host: &str, path: &str) -> Option<Captures> {
        let mut captures = Captures::default();
        if let Some(pattern) = &self.host
            && !matches_host(pattern, host, &mut captures)
        {
            return None;
        }
        let path = canonical(path);
        let splat = self.segments.iter().position(|segment| matches!(segment, Segment::Splat));
        let Some(splat) = splat else {
            return consume(&self.segments, &path, &mut captures)?.is_empty().then_some(captures);
        };
        let rest = consume(&self.segments[..splat], &path, &mut captures)?;
        let (end, after) = split_after_splat(&self.segments[splat + 1..]);
        // The segments after the splat are the last ones of the path.
        let slashes = after.iter().map(|piece| literal(piece).matches('/').count()).sum::<usize>();
        let tail = match slashes {
            0 => rest.len(),
            _ => rest.rmatch_indices('/').nth(slashes - 1)?.0,
        };
        captures.add(SPLAT, rest[..tail].strip_suffix(end)?);
        consume(&after, &rest[tail..], &mut captures)?.is_empty().then_some(captures)
    }
}

impl Captures {
    /// Replaces every `:name` of this match in `template`; none when the result would have more than `most` bytes, of
    /// which no more than `most` are ever written. A template that begins with `/` stays on this host: what was captured
    /// cannot turn it into `//another.host`.
    pub fn substitute(&self, template: &str, most: usize) -> Option<String> {
        let mut out = String::with_capacity(template.len().min(most));
        let mut push = |text: &str| {
            let fits = out.len() + text.len() <= most;
            fits.then(|| out.push_str(text))
        };
        let mut rest = template;
        while let Some(colon) = rest.find(':') {
            let (before, from_colon) = rest.split_at(colon);
            push(before)?;
            let name = name_at(&from_colon[1..]);
            match self.0.iter().find(|(known, _)| known == name) {
                Some((_, value)) => push(value)?,
                None => push(&from_colon[..=name.len()])?,
            }
            rest = &from_colon[1 + name.len()..];
        }
        push(rest)?;
        if template.starts_with('/') {
            let path = out.trim_start_matches(['/', '\\']);
            if path.len() + 1 < out.len() {
                return Some(format!("/{path}"));
            }
        }
        Some(out)
    }

    fn add(&mut self, name: &str, value: &str) {
        self.0.push((name.to_owned(), value.to_owned()));
    }
}

/// The one spelling of a path: decoded, then encoded where it must be.
pub(super) fn canonical(path: &str) -> Cow<'_, str> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(&b);
    if path.bytes().all(plain) {
        return Cow::Borrowed(path);
    }
    let decoded: Vec<u8> = percent_decode_str(path).collect();
    Cow::Owned(percent_encode(&decoded, ENCODED).to_string())
}

/// The placeholder name that `text` begins with; empty when there is none.
pub(super) fn name_at(text: &str) -> &str {
    if !text.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return "";
    }
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(text.len());
    &text[..end]
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

fn parse_path(path: &str) -> Result<Vec<Segment>, &'static str> {
    let mut pieces: Vec<Segment> = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let mut text = String::new();
    let mut wildcard_in_segment = false;
    let mut rest = path;
    while let Some(c) = rest.chars().next() {
        let name = if c == ':' { name_at(&rest[1..]) } else { "" };
        if c == '*' || !name.is_empty() {
            if wildcard_in_segment {
                return Err("two wildcards share a path segment; put a / between them");
            }
            wildcard_in_segment = true;
            let name = if c == '*' { SPLAT } else { name };
            if names.contains(&name) {
                return Err(if c == '*' { "only one * is allowed" } else { "a placeholder is named twice" });
            }
            names.push(name);
            if !text.is_empty() {
                pieces.push(Segment::Literal(canonical(&text).into_owned()));
                text.clear();
            }
            if c == '*' {
                pieces.push(Segment::Splat);
                rest = &rest[1..];
            } else {
                pieces.push(Segment::Placeholder(name.to_owned()));
                rest = &rest[1 + name.len()..];
            }
            continue;
        }
        wildcard_in_segment &= c != '/';
        text.push(c);
        rest = &rest[c.len_utf8()..];
    }
    if !text.is_empty() {
        pieces.push(Segment::Literal(canonical(&text).into_owned()));
    }
    Ok(pieces)
}

fn matches_host(pattern: &str, host: &str, captures: &mut Captures) -> bool {
    let mut labels = host.split('.');
    for wanted in pattern.split('.') {
        let Some(label) = labels.next() else { return false };
        match wanted.strip_prefix(':') {
            Some(name) if !label.is_empty() => captures.add(name, &canonical(label)),
            None if wanted.eq_ignore_ascii_case(label) => {}
            _ => return false,
        }
    }
    labels.next().is_none()
}

/// Takes what `pieces` (without a splat) match off the beginning of `text`, and gives the rest.
fn consume<'t>(pieces: &[Segment], mut text: &'t str, captures: &mut Captures) -> Option<&'t str> {
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            Segment::Literal(literal) => text = text.strip_prefix(literal.as_str())?,
            Segment::Placeholder(name) => {
                // It takes its whole path segment but for the literal that ends the segment.
                let (segment, _) = text.split_at(text.find('/').unwrap_or(text.len()));
                let next = pieces.get(at + 1).map_or("", literal);
                let end = &next[..next.find('/').unwrap_or(next.len())];
                let value = segment.strip_suffix(end).filter(|value| !value.is_empty())?;
                captures.add(name, value);
                text = &text[value.len()..];
            }
            Segment::Splat => return None,
        }
    }
    Some(text)
}

/// Splits the pieces after a splat: the literal that ends the splat's own segment, and the segments that follow.
fn split_after_splat(pieces: &[Segment]) -> (&str, Vec<Segment>) {
    let Some(Segment::Literal(first)) = pieces.first() else { return ("", pieces.to_vec()) };
    let (end, next) = first.split_at(first.find('/').unwrap_or(first.len()));
    let mut after = pieces.to_vec();
    match after.first_mut() {
        Some(piece) if !next.is_empty() => *piece = Segment::Literal(next.to_owned()),
        _ => drop(after.drain(..1)),
    }
    (end, after)
}

fn literal(piece: &Segment) -> &str {
    match piece {
        Segment::Literal(text) => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(pattern: &str, path: &str) -> Option<Vec<(String, String)>> {
        Pattern::parse(pattern).expect(pattern).matches("my.site.test", path).map(|captures| captures.0)
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
            ("https://my.site.test/*", "/x", Some("splat=x")),
            ("https://MY.site.test/x", "/x", Some("")),
            ("https://other.site.test/*", "/x", None),
            ("https://:sub.site.test/x", "/x", Some("sub=my")),
            ("https://:sub.my.site.test/x", "/x", None),
        ] {
            let wanted = wanted.map(|text| {
                text.split_whitespace()
                    .map(|pair| pair.split_once('=').expect("name=value"))
                    .map(|(name, value)| (name.to_owned(), value.to_owned()))
                    .collect::<Vec<_>>()
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
            "/:a:b",
            "/:a*",
            "http://x/y",
            "https:///x",
            "https://x:1/y",
            "/a?b",
            "https://*.x/",
        ] {
            assert!(Pattern::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn captures_fill_templates() {
        let captures = Captures(vec![("splat".into(), "a/b".into()), ("id".into(), "7".into())]);
        for (template, wanted) in [
            ("/new/:splat", "/new/a/b"),
            ("/new/:splat?id=:id", "/new/a/b?id=7"),
            ("https://x.test:8080/:id", "https://x.test:8080/7"),
            ("/:unknown/:id", "/:unknown/7"),
            ("/:idx", "/:idx"),
            ("/a:", "/a:"),
        ] {
            assert_eq!(captures.substitute(template, 100).as_deref(), Some(wanted));
        }
    }

    #[test]
    fn nothing_grows_beyond_its_bound() {
        let captures = Captures(vec![("x".into(), "a".repeat(7_000))]);
        let template = ":x".repeat(900);
        assert_eq!(captures.substitute(&template, 2_048), None);
        assert_eq!(captures.substitute(":x", 7_000).map(|value| value.len()), Some(7_000));
        assert_eq!(captures.substitute(":x", 6_999), None);
        assert_eq!(captures.substitute("12345", 4), None);
        assert_eq!(captures.substitute("a:y:b", 5).as_deref(), Some("a:y:b"));
    }

    #[test]
    fn captures_never_lead_to_another_host() {
        for (pattern, path) in [
            ("/go/*", "/go//evil.test"),
            ("/go/*", "/go/%2Fevil.test"),
            ("/go/*", "/go/%5Cevil.test"),
            ("/go/*", "/go///evil.test"),
            ("/go/*", "/go/\\evil.test"),
            ("/go/*", "/go/%09/evil.test"),
        ] {
            let captures = Pattern::parse(pattern).expect("valid").matches("h", path).expect("matches");
            let to = captures.substitute("/:splat", 100).expect("short");
            assert!(to.starts_with('/') && !to[1..].starts_with(['/', '\\']), "{path} leads to {to}");
            assert!(to.bytes().all(|b| b.is_ascii_graphic()), "{to}");
        }
    }

    #[test]
    fn matching_takes_linear_time() {
        let pattern = Pattern::parse("/*a/:x-b/:y-c/d").expect("valid");
        let path = format!("/{}", "a/-b-".repeat(200_000));
        assert_eq!(pattern.matches("h", &path), None);
    }
}
