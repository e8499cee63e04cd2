//! Insertion of captured values into redirect targets and header values.
//!
//! Captured values come from visitors, so they are always inserted as data: they cannot end a parameter, start a
//! fragment, lead to another host, or add to a list in a header.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};

use super::pattern::name_at;

/// Bytes that are encoded as `%XX` in a query or a fragment: those that separate parameters or mean a space.
const IN_QUERY: &AsciiSet = &UNRESERVED.remove(b'/').remove(b':').remove(b'@').remove(b'!').remove(b'$').remove(b',');
/// Bytes that are encoded as `%XX` in a header's value: those that separate or quote its parts.
const IN_HEADER: &AsciiSet = &IN_QUERY.remove(b'=').remove(b'&').remove(b'+').add(b',');
/// Bytes with a meaning somewhere in a URL. Escapes stay unchanged.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'%');

/// The captured values of a rule's wildcards, with the escapes of the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PathCaptures(Vec<(String, String)>);

/// The part of a template into which a value is inserted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TemplatePart {
    Path,
    Query,
    Header,
}

impl PathCaptures {
    /// Replaces every `:name` of this match in a redirect target, or returns `None` if the result would exceed `most`
    /// bytes.
    ///
    /// Never writes more than `most` bytes. A template that begins with `/` stays on this host: captured values cannot
    /// turn it into `//another.host`.
    pub fn substitute(&self, template: &str, most: usize) -> Option<String> {
        let path = template.find(['?', '#']).unwrap_or(template.len());
        let mut out = String::with_capacity(template.len().min(most));
        self.fill(&template[..path], TemplatePart::Path, &mut out, most)?;
        if template.starts_with('/') {
            let kept = out.trim_start_matches(['/', '\\']);
            if kept.len() + 1 < out.len() {
                out = format!("/{kept}");
            }
        }
        self.fill(&template[path..], TemplatePart::Query, &mut out, most)?;
        Some(out)
    }

    /// Replaces every `:name` of this match in a header's value, or returns `None` if it would exceed `most` bytes.
    pub fn substitute_in_header(&self, template: &str, most: usize) -> Option<String> {
        let mut out = String::with_capacity(template.len().min(most));
        self.fill(template, TemplatePart::Header, &mut out, most)?;
        Some(out)
    }

    fn fill(&self, template: &str, part: TemplatePart, out: &mut String, most: usize) -> Option<()> {
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
                Some((_, value)) if part == TemplatePart::Path => push(value)?,
                Some((_, value)) => {
                    let set = if part == TemplatePart::Query { IN_QUERY } else { IN_HEADER };
                    for piece in percent_encode(value.as_bytes(), set) {
                        push(piece)?;
                    }
                }
                None => push(&from_colon[..=name.len()])?,
            }
            rest = &from_colon[1 + name.len()..];
        }
        push(rest)
    }

    pub(super) fn add(&mut self, name: &str, value: String) {
        self.0.push((name.to_owned(), value));
    }

    /// Adds the value of a query placeholder. Characters with a meaning in a path are escaped, because the value was
    /// data. Returns `false` if the value cannot be part of a path.
    pub(super) fn add_query_value(&mut self, name: &str, value: &str) -> bool {
        let value = super::path::encoded(value.replace('+', "%20").as_bytes());
        let value = percent_encode(value.as_bytes(), UNRESERVED).to_string();
        let fits = !value.is_empty() && super::path::dots(&value) == 0;
        if fits {
            self.0.push((name.to_owned(), value));
        }
        fits
    }

    #[cfg(test)]
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{path::RequestPath, redirects},
        *,
    };

    fn captures(pairs: &[(&str, &str)]) -> PathCaptures {
        PathCaptures(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn captures_fill_templates() {
        let captures = captures(&[("splat", "a/b"), ("id", "7")]);
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
    fn what_a_visitor_wrote_is_data() {
        let captures = captures(&[("x", "a%26b&c=d+e;f,'g'(h)*%2F")]);
        for (template, wanted) in [
            ("/:x", "/a%26b&c=d+e;f,'g'(h)*%2F"),
            ("/?q=:x", "/?q=a%26b%26c%3Dd%2Be%3Bf,%27g%27%28h%29%2A%2F"),
            ("/#:x", "/#a%26b%26c%3Dd%2Be%3Bf,%27g%27%28h%29%2A%2F"),
        ] {
            assert_eq!(captures.substitute(template, 100).as_deref(), Some(wanted));
        }
        let header = captures.substitute_in_header("a; b=\":x\"", 100);
        assert_eq!(header.as_deref(), Some("a; b=\"a%26b&c=d+e%3Bf%2C%27g%27%28h%29%2A%2F\""));
        let mut query = PathCaptures::default();
        assert!(query.add_query_value("x", "a/b?c#d&e+f%2f%C3%A9"));
        assert_eq!(
            query.substitute("/:x?:x", 100).as_deref(),
            Some("/a%2Fb%3Fc%23d%26e%20f%2f%C3%A9?a%2Fb%3Fc%23d%26e%20f%2f%C3%A9")
        );
        for dots in ["", ".", "..", "%2e.", "%2E%2e"] {
            assert!(!query.add_query_value("y", dots), "{dots}");
        }
    }

    #[test]
    fn nothing_grows_beyond_its_bound() {
        let captures = captures(&[("x", &"a".repeat(7_000))]);
        let template = ":x".repeat(900);
        assert_eq!(captures.substitute(&template, 2_048), None);
        assert_eq!(captures.substitute(":x", 7_000).map(|value| value.len()), Some(7_000));
        assert_eq!(captures.substitute(":x", 6_999), None);
        assert_eq!(captures.substitute("12345", 4), None);
        assert_eq!(captures.substitute("a:y:b", 5).as_deref(), Some("a:y:b"));
    }

    #[test]
    fn captures_never_lead_to_another_host() {
        let (rules, _) = redirects::compile(b"/go/* /:splat", |_| false);
        for path in [
            "/go//evil.test",
            "/go/%2Fevil.test",
            "/go/%5Cevil.test",
            "/go///evil.test",
            "/go/\\evil.test",
            "/go/%09/evil.test",
        ] {
            let captures = rules[0].pattern.matches("h", &RequestPath::new(path)).expect("matches");
            let to = captures.substitute("/:splat", 100).expect("short");
            assert!(to.starts_with('/') && !to[1..].starts_with(['/', '\\']), "{path} leads to {to}");
            assert!(to.bytes().all(|b| b.is_ascii_graphic()), "{to}");
        }
    }
}
