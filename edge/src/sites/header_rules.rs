//! What a site's `_headers` does to its answers.

use http::{
    HeaderMap, HeaderName, HeaderValue,
    header::{
        ACCEPT_RANGES, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, LAST_MODIFIED, TE,
        TRAILER, TRANSFER_ENCODING, UPGRADE, VARY, X_CONTENT_TYPE_OPTIONS,
    },
};
use packs::manifest::{HeaderRule, Segment};

use super::rules::Rules;

/// One block of `_headers`, ready to be applied.
pub(crate) struct HeaderChange {
    set: Vec<(HeaderName, Value)>,
    unset: Vec<HeaderName>,
}

enum Value {
    Fixed(HeaderValue),
    /// Holds `:names` of the pattern.
    Template(String),
}

/// Headers that say how the answer is framed, which form of the file it is, or that it is what it says it is. A site
/// that could change them could break its visitors' connections and caches.
fn is_ours(name: &HeaderName) -> bool {
    const OURS: [HeaderName; 13] = [
        ACCEPT_RANGES,
        CONNECTION,
        CONTENT_ENCODING,
        CONTENT_LENGTH,
        CONTENT_RANGE,
        DATE,
        ETAG,
        LAST_MODIFIED,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
        X_CONTENT_TYPE_OPTIONS,
    ];
    OURS.contains(name) || name.as_str().starts_with("proxy-") || name == "keep-alive" || name == "http2-settings"
}

impl HeaderChange {
    /// Of a rule. What cannot be a header, or is not the site's to say, is left out.
    pub(crate) fn new(rule: HeaderRule) -> Self {
        let name = |text: &str| text.parse::<HeaderName>().ok().filter(|name| !is_ours(name));
        let names: Vec<_> = rule.pattern.segments.iter().filter_map(placeholder).collect();
        let set = rule.set.into_iter().filter_map(|(key, value)| {
            let is_template = names.iter().any(|name| value.contains(name));
            let value = if is_template { Value::Template(value) } else { Value::Fixed(value.parse().ok()?) };
            Some((name(&key)?, value))
        });
        // Without Vary, shared caches would hand compressed bodies to clients that cannot read them.
        let unset = rule.unset.iter().filter_map(|key| name(key)).filter(|name| name != VARY);
        Self { set: set.collect(), unset: unset.collect() }
    }
}

/// The way in which values refer to what a segment matched.
fn placeholder(segment: &Segment) -> Option<String> {
    match segment {
        Segment::Literal(_) => None,
        Segment::Placeholder(name) => Some(format!(":{name}")),
        Segment::Splat => Some(":splat".to_owned()),
    }
}

/// Applies every rule that the request meets. A header set by several has all their values.
pub(crate) fn apply(rules: &Rules<HeaderChange>, host: &str, path: &str, headers: &mut HeaderMap) {
    // Adding to Vary, never replacing it: caches must go on telling our forms apart.
    let vary = VARY;
    let mut seen: Vec<&HeaderName> = vec![&vary];
    for (change, captures) in rules.met(host, path) {
        for name in &change.unset {
            headers.remove(name);
        }
        for (name, value) in &change.set {
            let value = match value {
                Value::Fixed(value) => Some(value.clone()),
                Value::Template(text) => captures.substitute(text).parse().ok(),
            };
            let Some(value) = value else { continue };
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
    use http::header::{CACHE_CONTROL, LINK};
    use packs::manifest::Pattern;

    use super::*;

    fn rule(path: &str, set: &[(&str, &str)], unset: &[&str]) -> (Pattern, HeaderChange) {
        let splat = path.ends_with('*').then_some(Segment::Splat);
        let literal = Segment::Literal(path.trim_end_matches('*').to_owned());
        let pattern = Pattern { host: None, segments: std::iter::once(literal).chain(splat).collect() };
        let set = set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let unset = unset.iter().map(|name| (*name).to_owned()).collect();
        (pattern.clone(), HeaderChange::new(HeaderRule { pattern, set, unset }))
    }

    #[test]
    fn rules_combine_and_cannot_break_the_framing() {
        let rules = Rules::new(vec![
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
        assert_eq!(all("vary"), ["Accept-Encoding", "Cookie"]);
        assert_eq!(all("cache-control"), ["no-cache"]);
        assert_eq!(all("x-content-type-options"), ["nosniff"]);
        assert_eq!(headers[LINK], "</next>; rel=next");
        for absent in ["transfer-encoding", "etag", "x-two", "x-bad"] {
            assert!(all(absent).is_empty(), "{absent}");
        }
    }
}
