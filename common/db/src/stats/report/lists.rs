//! The lists of a day, read from its row or from the entries of its hours.

use std::{borrow::Cow, fmt};

use domain::{
    Timestamp,
    traffic::{OTHER, TrafficCount, TrafficEntryKind, ViewKey},
};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor},
};

/// A list of a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// Hostnames.
    Hostname,
    /// Paths that exist on the site.
    Path,
    /// Countries of all requests.
    Country,
    /// Pages viewed by people, by path.
    Page,
    /// Hosts that referred people.
    Referrer,
    /// Countries of page views by people.
    ViewCountry,
    /// Views as [`ViewKey`]s.
    View,
    /// Errors as [`ErrorKey`](domain::traffic::ErrorKey)s.
    Error,
    /// Clients as [`AgentKey`](domain::traffic::AgentKey)s.
    Agent,
    /// Pages requested by agents, by the agent's name.
    AgentPage,
    /// Requests that `robots.txt` disallows, by the agent's name.
    AgentDisallowed,
}

impl ListKind {
    /// Every list.
    pub const ALL: [Self; 11] = [
        Self::Hostname,
        Self::Path,
        Self::Country,
        Self::Page,
        Self::Referrer,
        Self::ViewCountry,
        Self::View,
        Self::Error,
        Self::Agent,
        Self::AgentPage,
        Self::AgentDisallowed,
    ];

    /// Returns the list's key in a day's row.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Referrer => "referrer",
            Self::ViewCountry => "view_country",
            stored => stored.entry_kind().as_str(),
        }
    }

    /// Returns the kind of the entries that make up the list.
    pub const fn entry_kind(self) -> TrafficEntryKind {
        match self {
            Self::Hostname => TrafficEntryKind::Hostname,
            Self::Path => TrafficEntryKind::Path,
            Self::Country => TrafficEntryKind::Country,
            Self::Page | Self::Referrer | Self::ViewCountry | Self::View => TrafficEntryKind::View,
            Self::Error => TrafficEntryKind::Error,
            Self::Agent => TrafficEntryKind::Agent,
            Self::AgentPage => TrafficEntryKind::AgentPage,
            Self::AgentDisallowed => TrafficEntryKind::AgentDisallowed,
        }
    }

    /// Returns the list's key for an entry with this key; `None` when the entry is not part of the list.
    fn list_key(self, key: &str) -> Option<&str> {
        let part = |part: for<'k> fn(ViewKey<'k>) -> &'k str| match ViewKey::parse(key) {
            Some(view) => Some(part(view)).filter(|part| !part.is_empty()),
            None => (key == OTHER).then_some(OTHER),
        };
        match self {
            Self::Page => part(|view| view.path),
            Self::Referrer => part(|view| view.referrer),
            Self::ViewCountry => part(|view| view.country),
            _ => Some(key),
        }
    }
}

/// A list entry, of a day or an hour.
#[derive(Debug, Clone, Copy)]
pub struct ListEntry<'e> {
    /// The beginning of the day or hour.
    pub begin: Timestamp,
    /// The end of the day or hour.
    pub end: Timestamp,
    /// The list.
    pub kind: ListKind,
    /// The key, or [`OTHER`].
    pub key: &'e str,
    /// The count.
    pub count: TrafficCount,
}

/// Calls `take` with every entry of the lists of `kinds` in a day's row.
pub(super) fn for_each_stored(
    text: &str,
    kinds: &[ListKind],
    take: impl FnMut(ListKind, &str, TrafficCount),
) -> Result<(), sqlx::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = StoredLists { kinds, take }.deserialize(&mut json).and_then(|()| json.end());
    read.map_err(|error| sqlx::Error::Decode(error.into()))
}

/// Reads `{"<kind>": [[key, requests, bytes], …]}`, skipping lists that were not requested.
struct StoredLists<'k, Take> {
    kinds: &'k [ListKind],
    take: Take,
}

#[derive(Deserialize)]
struct ParsedListEntry<'s>(#[serde(borrow)] Cow<'s, str>, u64, u64);

impl<'de, Take: FnMut(ListKind, &str, TrafficCount)> DeserializeSeed<'de> for StoredLists<'_, Take> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, Take: FnMut(ListKind, &str, TrafficCount)> Visitor<'de> for StoredLists<'_, Take> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lists of a day")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut lists: A) -> Result<(), A::Error> {
        while let Some(name) = lists.next_key::<Cow<'de, str>>()? {
            let Some(kind) = self.kinds.iter().copied().find(|kind| kind.as_str() == name) else {
                lists.next_value::<IgnoredAny>()?;
                continue;
            };
            for ParsedListEntry(key, requests, bytes) in lists.next_value::<Vec<ParsedListEntry<'de>>>()? {
                (self.take)(kind, &key, TrafficCount { requests, bytes });
            }
        }
        Ok(())
    }
}

/// Calls `take` with an hour entry for each of the lists of `kinds` that it belongs to.
pub(super) fn for_each_list(kinds: &[ListKind], stored_kind: &str, key: &str, mut take: impl FnMut(ListKind, &str)) {
    for &kind in kinds.iter().filter(|kind| kind.entry_kind().as_str() == stored_kind) {
        if let Some(key) = kind.list_key(key) {
            take(kind, key);
        }
    }
}

pub(super) fn entry_kinds(kinds: &[ListKind]) -> Vec<String> {
    let mut words: Vec<_> = kinds.iter().map(|kind| kind.entry_kind().as_str().to_owned()).collect();
    words.sort_unstable();
    words.dedup();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_counts_in_three_lists() {
        let of = |key: &str| {
            let mut found = Vec::new();
            let kinds = [ListKind::Page, ListKind::Referrer, ListKind::ViewCountry, ListKind::Path];
            for_each_list(&kinds, "view", key, |kind, key| found.push((kind, key.to_owned())));
            found
        };
        assert_eq!(
            of("/a\tnews.example\tDE\tdocs.example"),
            [
                (ListKind::Page, "/a".to_owned()),
                (ListKind::Referrer, "news.example".to_owned()),
                (ListKind::ViewCountry, "DE".to_owned()),
            ]
        );
        assert_eq!(of("/a\t\tDE\tdocs.example").len(), 2, "nobody led here");
        assert_eq!(of(OTHER).len(), 3);
        assert!(of("broken").is_empty());
    }

    #[test]
    fn stored_lists_are_read() {
        let text = r#"{"path": [["/a", 1, 2]], "page": [["/ü\t", 3, 20], ["(other)", 1, 2]], "newer": {"x": [1]}}"#;
        let mut found = Vec::new();
        for_each_stored(text, &[ListKind::Page, ListKind::Error], |kind, key, count| {
            found.push((kind, key.to_owned(), count));
        })
        .unwrap();
        assert_eq!(found[0], (ListKind::Page, "/ü\t".to_owned(), TrafficCount { requests: 3, bytes: 20 }));
        assert_eq!(found.len(), 2);
        for broken in ["", "[]", r#"{"page": [["/", -1, 0]]}"#, r#"{"page": [["/"]]}"#, "{} {}"] {
            assert!(for_each_stored(broken, &[ListKind::Page], |_, _, _| ()).is_err(), "{broken}");
        }
        assert_eq!(entry_kinds(&[ListKind::Page, ListKind::View, ListKind::Path]), ["path", "view"]);
    }
}
