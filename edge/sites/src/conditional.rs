//! Conditional requests (RFC 9110, section 13).

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::{
    HeaderMap, HeaderName,
    header::{IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_RANGE, IF_UNMODIFIED_SINCE},
};

/// The validators of the form of a file that would be sent.
#[derive(Debug, Clone, Copy)]
pub struct FormValidators<'v> {
    /// The entity tag, with its quotes.
    pub etag: &'v str,
    /// The time since which the URL has had this content. `None` where other content may have the same date there, for
    /// example where a rule or the request selects the file: clients then use the entity tag alone.
    pub modified: Option<SystemTime>,
    /// Whether the file has no other form: a date does not tell forms apart.
    pub is_only_form: bool,
}

/// The result of the conditions of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConditionOutcome {
    /// The file is sent, whole or in part.
    Send,
    /// 304: the visitor already has the content.
    NotModified,
    /// 412: the content is not what the visitor expects.
    Failed,
}

/// Converts Unix seconds to a time, as HTTP dates have it.
pub(crate) fn from_unix_seconds(unix_seconds: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(u64::try_from(unix_seconds).unwrap_or(0))
}

impl FormValidators<'_> {
    /// Evaluates the conditions in the order that the RFC requires.
    pub fn evaluate(self, headers: &HeaderMap) -> ConditionOutcome {
        if headers.contains_key(IF_MATCH) {
            if !self.is_listed(headers, &IF_MATCH, TagComparison::Strong) {
                return ConditionOutcome::Failed;
            }
        } else if date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|since| self.modified.is_some_and(|at| at > since)) {
            return ConditionOutcome::Failed;
        }
        let not_modified = if headers.contains_key(IF_NONE_MATCH) {
            self.is_listed(headers, &IF_NONE_MATCH, TagComparison::Weak)
        } else {
            // Compared for equality: after a rollback, older content than the visitor's is the current one.
            date(headers, &IF_MODIFIED_SINCE).is_some_and(|since| self.modified == Some(since))
        };
        if not_modified { ConditionOutcome::NotModified } else { ConditionOutcome::Send }
    }

    /// Returns whether a range may be sent. `If-Range` must be absent or name exactly this form, and so must the date
    /// of an `If-Unmodified-Since`. Otherwise the whole file is sent, which is always correct.
    pub(crate) fn allows_range(self, headers: &HeaderMap) -> bool {
        let is_date = |date: SystemTime| self.is_only_form && self.modified == Some(date);
        if !headers.contains_key(IF_MATCH) && date(headers, &IF_UNMODIFIED_SINCE).is_some_and(|since| !is_date(since)) {
            return false;
        }
        let Some(value) = headers.get(IF_RANGE) else { return true };
        let Ok(value) = value.to_str() else { return false };
        value.trim() == self.etag || httpdate::parse_http_date(value).is_ok_and(is_date)
    }

    fn is_listed(self, headers: &HeaderMap, name: &HeaderName, comparison: TagComparison) -> bool {
        headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).any(|line| {
            line.trim() == "*"
                || entity_tags(line).any(|(weak, tag)| tag == self.etag && !(weak && comparison.is_strong()))
        })
    }
}

#[derive(Clone, Copy)]
enum TagComparison {
    Strong,
    Weak,
}

impl TagComparison {
    const fn is_strong(self) -> bool {
        matches!(self, Self::Strong)
    }
}

fn date(headers: &HeaderMap, name: &HeaderName) -> Option<SystemTime> {
    httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok()
}

/// Returns the entity tags of a list, each with whether it is weak. Stops at the first malformed tag.
fn entity_tags(line: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut rest = line;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches([' ', '\t', ',']);
        let (weak, quoted) = rest.strip_prefix("W/").map_or((false, rest), |quoted| (true, quoted));
        let len = quoted.strip_prefix('"')?.find('"')? + 2;
        let (tag, after) = quoted.split_at(len);
        rest = after;
        Some((weak, tag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PUBLISHED: i64 = 784_111_777; // Sun, 06 Nov 1994 08:49:37 GMT
    const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const EARLIER: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const LATER: &str = "Sunday, 06-Nov-94 08:49:38 GMT";

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn conditions_are_weighed_in_order() {
        let validators =
            FormValidators { etag: "\"a,b\"", modified: Some(from_unix_seconds(PUBLISHED)), is_only_form: true };
        let cases: [(&[(&str, &str)], ConditionOutcome); 24] = [
            (&[], ConditionOutcome::Send),
            (&[("if-none-match", "\"a,b\"")], ConditionOutcome::NotModified),
            (&[("if-none-match", "W/\"a,b\"")], ConditionOutcome::NotModified),
            (&[("if-none-match", "\"x\" , ,W/\"y\", \"a,b\"")], ConditionOutcome::NotModified),
            (&[("if-none-match", "*")], ConditionOutcome::NotModified),
            (&[("if-none-match", "\"x\""), ("if-none-match", "\"a,b\"")], ConditionOutcome::NotModified),
            (&[("if-none-match", "\"x\"")], ConditionOutcome::Send),
            (&[("if-none-match", "a,b")], ConditionOutcome::Send),
            (&[("if-none-match", "\"a,b")], ConditionOutcome::Send),
            (&[("if-none-match", "w/\"a,b\"")], ConditionOutcome::Send),
            (&[("if-none-match", "\"x\""), ("if-modified-since", SAME)], ConditionOutcome::Send),
            (&[("if-modified-since", SAME)], ConditionOutcome::NotModified),
            (&[("if-modified-since", LATER)], ConditionOutcome::Send),
            (&[("if-modified-since", EARLIER)], ConditionOutcome::Send),
            (&[("if-modified-since", "yesterday")], ConditionOutcome::Send),
            (&[("if-match", "\"a,b\"")], ConditionOutcome::Send),
            (&[("if-match", "*")], ConditionOutcome::Send),
            (&[("if-match", "W/\"a,b\"")], ConditionOutcome::Failed),
            (&[("if-match", "\"x\"")], ConditionOutcome::Failed),
            (&[("if-match", "\"x\""), ("if-none-match", "\"a,b\"")], ConditionOutcome::Failed),
            (&[("if-match", "\"a,b\""), ("if-unmodified-since", EARLIER)], ConditionOutcome::Send),
            (&[("if-unmodified-since", EARLIER)], ConditionOutcome::Failed),
            (&[("if-unmodified-since", SAME)], ConditionOutcome::Send),
            (&[("if-unmodified-since", "never")], ConditionOutcome::Send),
        ];
        for (lines, expected) in cases {
            assert_eq!(validators.evaluate(&headers(lines)), expected, "{lines:?}");
        }
        let undated = FormValidators { modified: None, ..validators };
        for (lines, expected) in [
            (&[("if-modified-since", SAME)][..], ConditionOutcome::Send),
            (&[("if-modified-since", LATER)], ConditionOutcome::Send),
            (&[("if-unmodified-since", EARLIER)], ConditionOutcome::Send),
            (&[("if-none-match", "\"a,b\""), ("if-modified-since", EARLIER)], ConditionOutcome::NotModified),
        ] {
            assert_eq!(undated.evaluate(&headers(lines)), expected, "{lines:?} without a date");
        }
    }

    #[test]
    fn a_range_is_for_exactly_the_form_that_the_visitor_has() {
        let validators =
            FormValidators { etag: "\"a\"", modified: Some(from_unix_seconds(PUBLISHED)), is_only_form: true };
        let cases = [("\"a\"", true), ("W/\"a\"", false), ("\"b\"", false), (SAME, true), (LATER, false), ("x", false)];
        for (value, expected) in cases {
            assert_eq!(validators.allows_range(&headers(&[("if-range", value)])), expected, "{value}");
        }
        assert!(validators.allows_range(&HeaderMap::new()));
        for (since, expected) in [(SAME, true), (LATER, false), ("x", true)] {
            assert_eq!(validators.allows_range(&headers(&[("if-unmodified-since", since)])), expected, "{since}");
        }
        for other in
            [FormValidators { modified: None, ..validators }, FormValidators { is_only_form: false, ..validators }]
        {
            assert!(!other.allows_range(&headers(&[("if-range", SAME)])), "a date that says too little");
            assert!(other.allows_range(&headers(&[("if-range", "\"a\"")])));
        }
    }
}
