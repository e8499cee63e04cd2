//! Language preferences from `Accept-Language` (RFC 9110, section 12.5.4), and their effect on caching.

use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT_LANGUAGE, CACHE_CONTROL, VARY},
};
use http_types::quality;
use limits::LANGUAGES;

/// For responses that depend on the visitor: only the visitor's own browser may keep them.
const PRIVATE: HeaderValue = HeaderValue::from_static("private, max-age=0, must-revalidate");

/// The languages of a visitor, and the weight of the best one that the site offers.
#[derive(Debug, Default)]
pub(crate) struct LanguagePreferences {
    /// Language ranges in lower case, with their weights in thousandths.
    ranges: Vec<(String, u16)>,
    best: u16,
}

impl LanguagePreferences {
    /// Parses the request's header. Without it, no language is preferred.
    pub(crate) fn from_headers(headers: &HeaderMap) -> Self {
        let lines = headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok());
        let items = lines.flat_map(|line| line.split(',')).map(str::trim).filter(|item| !item.is_empty());
        let ranges = items.take(LANGUAGES).map(|item| {
            let (range, parameters) = item.split_once(';').unwrap_or((item, ""));
            (range.trim().to_ascii_lowercase(), quality(parameters))
        });
        Self { ranges: ranges.collect(), best: 0 }
    }

    /// Adds one offer of the site: its languages are equivalent.
    pub(crate) fn offer(&mut self, languages: &[String]) {
        self.best = self.best.max(self.weight(languages));
    }

    /// Returns whether the visitor accepts one of these languages and prefers no other offer. An empty list suits all.
    pub(crate) fn prefers(&self, languages: &[String]) -> bool {
        languages.is_empty() || (self.best > 0 && self.weight(languages) == self.best)
    }

    fn weight(&self, languages: &[String]) -> u16 {
        languages.iter().map(|tag| self.tag_weight(tag)).max().unwrap_or(0)
    }

    /// Returns the weight of the longest range that covers `tag`, or of a narrower range: a visitor who lists `en-GB`
    /// also reads `en`. `*` expresses no preference.
    fn tag_weight(&self, tag: &str) -> u16 {
        let is_in = |tag: &str, range: &str| {
            tag.strip_prefix(range).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
        };
        let covering = self.ranges.iter().filter(|(range, _)| is_in(tag, range)).max_by_key(|(range, _)| range.len());
        let narrower = || self.ranges.iter().filter(|(range, _)| is_in(range, tag)).map(|(_, weight)| *weight).max();
        covering.map(|(_, weight)| *weight).or_else(narrower).unwrap_or(0)
    }
}

/// The visitor's properties that a response depends on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct VaryingBy {
    pub(crate) by_language: bool,
    pub(crate) by_country: bool,
}

impl VaryingBy {
    /// Sets `Vary` and `Cache-Control` accordingly.
    pub(crate) fn apply_to(self, headers: &mut HeaderMap) {
        if self.by_language {
            headers.append(VARY, HeaderValue::from_static("Accept-Language"));
        }
        // A `no-store` set by the site is stricter and stays.
        let is_kept = headers.get(CACHE_CONTROL).and_then(|value| value.to_str().ok());
        let is_kept = !is_kept.is_some_and(|value| value.contains("no-store"));
        if is_kept && (self.by_language || self.by_country) {
            super::remove_cache_headers(headers);
            headers.insert(CACHE_CONTROL, PRIVATE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_language_that_is_liked_best_of_those_on_offer() {
        for (sent, offers, expected) in [
            ("en", &["en", "de"][..], Some(0)),
            ("de;q=0.5, en;q=0.8", &["de", "en"], Some(1)),
            ("fr-CH, fr;q=0.9, en;q=0.8, de;q=0.7, *;q=0.5", &["de", "en"], Some(1)),
            ("en-GB", &["en"], Some(0)),
            ("en", &["en-gb"], Some(0)),
            ("eng", &["en"], None),
            ("EN-us;Q=1.0", &["en-us"], Some(0)),
            ("en;q=0, en-US", &["en-us"], Some(0)),
            ("en;q=0, en-US", &["en"], None),
            ("*", &["en"], None),
            ("en;q=0", &["en"], None),
            ("en;q=2, de;q=x", &["en", "de"], None),
            ("de, en", &["en", "de"], Some(0)),
            ("", &["en"], None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, sent.parse().unwrap());
            let mut languages = LanguagePreferences::from_headers(&headers);
            let offers: Vec<_> = offers.iter().map(|offer| vec![(*offer).to_owned()]).collect();
            for offer in &offers {
                languages.offer(offer);
            }
            assert_eq!(offers.iter().position(|offer| languages.prefers(offer)), expected, "{sent} {offers:?}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_LANGUAGE, "de,".repeat(LANGUAGES + 9).parse().unwrap());
        assert_eq!(LanguagePreferences::from_headers(&headers).ranges.len(), LANGUAGES);
    }
}
