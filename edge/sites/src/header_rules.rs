//! Applies a site's `_headers` to its responses.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE,
        EXPIRES, PRAGMA,
    },
};
use limits::{FIELD_OVERHEAD_BYTES, SITE_FIELDS_BYTES};
use packs::{
    manifest::HeaderRule,
    rules::{VALUE_BYTES, headers::rejection_reason, path::RequestPath},
};

use super::rules::RuleSet;

/// Headers of files that redirects do not carry: those about the body and about caching.
const OF_FILES: [HeaderName; 7] =
    [CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LANGUAGE, CONTENT_LOCATION, CONTENT_TYPE, EXPIRES, PRAGMA];

/// One block of `_headers`, ready to apply.
pub(crate) struct HeaderEdit {
    set: Vec<(HeaderName, HeaderText)>,
    unset: Vec<HeaderName>,
}

enum HeaderText {
    Fixed(HeaderValue),
    /// Contains `:names` of the pattern.
    Template(String),
}

impl HeaderEdit {
    /// Converts a rule. Omits invalid and reserved headers, and `Content-Encoding`, which is fixed at upload.
    pub(crate) fn new(rule: HeaderRule) -> Self {
        let is_said = |name: &HeaderName| rejection_reason(name.as_str()).is_none() && name != CONTENT_ENCODING;
        let name = |text: &str| text.parse::<HeaderName>().ok().filter(is_said);
        let names: Vec<_> = rule.pattern.names().collect();
        let set = rule.set.into_iter().filter_map(|(key, value)| {
            let is_template = names.iter().any(|name| value.contains(name));
            let value = if is_template { HeaderText::Template(value) } else { HeaderText::Fixed(value.parse().ok()?) };
            Some((name(&key)?, value))
        });
        let unset = rule.unset.iter().filter_map(|key| name(key));
        Self { set: set.collect(), unset: unset.collect() }
    }
}

/// Applies every rule that matches the request. A header set by several rules gets all their values. A value is left
/// out if it exceeds [`VALUE_BYTES`] with its placeholders filled in, or does not fit in [`SITE_FIELDS_BYTES`].
pub(crate) fn apply(rules: &RuleSet<HeaderEdit>, host: &str, path: &str, headers: &mut HeaderMap) {
    apply_except(rules, host, path, headers, &[]);
}

/// Applies every rule to a redirect, without the headers about the body and caching, which the platform decides.
pub(crate) fn apply_to_redirect(rules: &RuleSet<HeaderEdit>, host: &str, path: &str, headers: &mut HeaderMap) {
    apply_except(rules, host, path, headers, &OF_FILES);
}

fn apply_except(rules: &RuleSet<HeaderEdit>, host: &str, path: &str, headers: &mut HeaderMap, left_out: &[HeaderName]) {
    let path = RequestPath::new(path);
    let mut room = SITE_FIELDS_BYTES;
    let mut seen: Vec<&HeaderName> = Vec::new();
    for (_, change, captures) in rules.matching(host, &path) {
        for name in change.unset.iter().filter(|name| !left_out.contains(name)) {
            headers.remove(name);
        }
        for (name, value) in change.set.iter().filter(|(name, _)| !left_out.contains(name)) {
            // Computed before placeholders are filled in, so that no more is written than is sent.
            let Some(most) = room.checked_sub(name.as_str().len() + FIELD_OVERHEAD_BYTES) else { continue };
            let value = match value {
                HeaderText::Fixed(value) if value.len() <= most => Some(value.clone()),
                HeaderText::Fixed(_) => None,
                HeaderText::Template(text) => {
                    captures.substitute_in_header(text, most.min(VALUE_BYTES)).and_then(|text| text.parse().ok())
                }
            };
            let Some(value) = value else { continue };
            room = most - value.len();
            if seen.contains(&name) {
                headers.append(name, value);
            } else {
                headers.insert(name, value);
                seen.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::header::{CACHE_CONTROL, LINK, X_CONTENT_TYPE_OPTIONS};
    use packs::manifest::{PathPattern, PatternSegment};

    use super::*;

    fn rule(path: &str, set: &[(&str, &str)], unset: &[&str]) -> (PathPattern, HeaderEdit) {
        let splat = path.ends_with('*').then_some(PatternSegment::Splat);
        let literal = PatternSegment::Literal(path.trim_end_matches('*').to_owned());
        let pattern = PathPattern { host: None, segments: std::iter::once(literal).chain(splat).collect() };
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let unset = unset.iter().map(|name| (*name).to_owned()).collect();
        (pattern.clone(), HeaderEdit::new(HeaderRule { pattern, set, unset }))
    }

    #[test]
    fn rules_combine_and_cannot_break_the_framing() {
        let rules = RuleSet::new(vec![
            rule("/*", &[("X-One", "a"), ("Content-Length", "1"), ("Vary", "Cookie"), ("etag", "x")], &["Vary"]),
            rule("/a/*", &[("x-one", "b"), ("Link", "</:splat>; rel=next"), ("Transfer-Encoding", "chunked")], &[]),
            rule("/b", &[("x-one", "c")], &[]),
            rule("/a/*", &[("Cache-Control", "no-cache")], &["x-two", "Content-Length", "X-Content-Type-Options"]),
            rule("/a/*", &[("bad name", "x"), ("x-bad", "a\r\nb")], &[]),
        ]);
        let mut headers = HeaderMap::new();
        for (name, value) in [("content-length", "7"), ("vary", "Accept-Encoding"), ("x-two", "x"), ("x-one", "x")] {
            headers.insert(name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        }
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        apply(&rules, "x.example", "/a/next", &mut headers);
        let all = |name: &str| headers.get_all(name).iter().map(|v| v.to_str().unwrap()).collect::<Vec<_>>();
        assert_eq!(all("x-one"), ["a", "b"]);
        assert_eq!(all("content-length"), ["7"]);
        assert_eq!(all("vary"), ["Accept-Encoding"]);
        assert_eq!(all("cache-control"), ["no-cache"]);
        assert_eq!(all("x-content-type-options"), ["nosniff"]);
        assert_eq!(headers[LINK], "</next>; rel=next");
        for absent in ["transfer-encoding", "etag", "x-two", "x-bad"] {
            assert!(all(absent).is_empty(), "{absent}");
        }
    }

    fn bytes(headers: &HeaderMap) -> usize {
        headers.iter().map(|(name, value)| name.as_str().len() + value.len() + FIELD_OVERHEAD_BYTES).sum()
    }

    #[test]
    fn a_value_does_not_grow_with_the_path() {
        let rules = RuleSet::new(vec![rule("/*", &[("x-all", ":splat"), ("x-many", &":splat".repeat(300))], &[])]);
        let mut headers = HeaderMap::new();
        apply(&rules, "x.example", "/abc", &mut headers);
        assert_eq!((headers["x-all"].len(), headers["x-many"].len()), (3, 900));
        let mut headers = HeaderMap::new();
        apply(&rules, "x.example", &format!("/{}", "a".repeat(VALUE_BYTES)), &mut headers);
        assert_eq!((headers["x-all"].len(), headers.contains_key("x-many")), (VALUE_BYTES, false));
        let mut headers = HeaderMap::new();
        apply(&rules, "x.example", &format!("/{}", "a".repeat(VALUE_BYTES + 1)), &mut headers);
        assert!(headers.is_empty());
    }

    #[test]
    fn a_site_fills_no_more_than_its_part_of_an_answer() {
        let value = "a".repeat(1_000);
        let many: Vec<_> = (0..20).map(|n| (format!("x-{n}"), value.as_str())).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let rules = RuleSet::new(vec![
            rule("/*", &many, &[]),
            rule("/*", &[("x-small", "1")], &[]),
            rule("/*", &many, &["x-0"]),
            rule("/*", &[("x-smaller", "")], &["x-1"]),
        ]);
        let mut headers = HeaderMap::new();
        apply(&rules, "x.example", "/", &mut headers);
        assert!(bytes(&headers) <= SITE_FIELDS_BYTES, "{}", bytes(&headers));
        assert!(headers.contains_key("x-13") && !headers.contains_key("x-19"), "the first ones count");
        assert!(headers.contains_key("x-small"), "what still has room is sent");
        assert!(!headers.contains_key("x-0") && !headers.contains_key("x-1"), "taking away needs no room");
    }
}
