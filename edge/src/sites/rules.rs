//! Which of a site's `_redirects` or `_headers` a request meets. What a pattern matches is decided in
//! [`packs::rules::pattern`]; here is the finding, which is quick where sites have thousands of rules.

use std::collections::HashMap;

use packs::{
    manifest::{Pattern, Segment},
    rules::pattern::Captures,
};

/// Rules in the order of their file. Those without wildcards are found by hash.
pub(crate) struct Rules<T> {
    in_order: Vec<(Pattern, T)>,
    exact: HashMap<String, Vec<usize>>,
    wild: Vec<usize>,
}

impl<T> Rules<T> {
    /// Of patterns and what holds for them.
    pub(crate) fn new(in_order: Vec<(Pattern, T)>) -> Self {
        let mut exact: HashMap<String, Vec<usize>> = HashMap::new();
        let mut wild = Vec::new();
        for (at, (pattern, _)) in in_order.iter().enumerate() {
            match literal(pattern) {
                Some(path) => exact.entry(path).or_default().push(at),
                None => wild.push(at),
            }
        }
        Self { in_order, exact, wild }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_order.is_empty()
    }

    /// The rules that a request for `path` meets, first in the file first, each with what its wildcards stand for.
    /// `path` is encoded as [`super::path::encode`] does it, which is how patterns are kept.
    pub(crate) fn met<'m>(&'m self, host: &'m str, path: &'m str) -> impl Iterator<Item = (&'m T, Captures)> {
        let mut exact = self.exact.get(path).map_or(&[][..], Vec::as_slice).iter().copied().peekable();
        let mut wild = self.wild.iter().copied().peekable();
        let order = std::iter::from_fn(move || match (exact.peek(), wild.peek()) {
            (Some(e), Some(w)) if e < w => exact.next(),
            (_, Some(_)) => wild.next(),
            (_, None) => exact.next(),
        });
        order.filter_map(move |at| {
            let (pattern, rule) = self.in_order.get(at)?;
            Some((rule, pattern.matches(host, path)?))
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

#[cfg(test)]
mod tests {
    use packs::rules::{VALUE_BYTES, redirects};

    use super::*;

    fn met(rules: &str, path: &str) -> Vec<String> {
        let (rules, warnings) = redirects::compile(rules.as_bytes());
        assert_eq!(warnings, Vec::<String>::new());
        let rules = Rules::new(rules.into_iter().map(|rule| (rule.pattern, rule.to)).collect());
        rules.met("a.example", path).map(|(to, captures)| captures.substitute(to, VALUE_BYTES).unwrap()).collect()
    }

    #[test]
    fn rules_are_met_in_the_order_of_their_file() {
        assert_eq!(met("/a /1\n/:x /2/:x\n/b /3\n/* /4/:splat", "/a"), ["/1", "/2/a", "/4/a"]);
        assert_eq!(met("/* /4/:splat\n/a /1", "/a"), ["/4/a", "/1"]);
        assert_eq!(met("/é/x /1\n/b /2", "/%C3%A9/x"), ["/1"]);
        assert!(met("/a /1\n/a/* /2", "/b").is_empty());
    }
}
