//! The format of a month's row: `MessagePack`, compressed with Zstandard. A list stores each key once, and refers to it
//! by index in each day's counts.

use std::{
    collections::{BTreeMap, HashMap},
    io::Read as _,
};

use domain::traffic::TrafficCount;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

/// The compression level. A month is compressed once, and read for a year.
const LEVEL: i32 = 9;
/// The maximum decompressed size of a column, enough for a month of full lists.
const MOST_BYTES: u64 = 1 << 28;

/// A group of lists that one report reads together, stored in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::stats) enum ListGroup {
    Audience,
    Views,
    Requests,
    Errors,
    Agents,
}

impl ListGroup {
    pub(in crate::stats) const ALL: [Self; 5] =
        [Self::Audience, Self::Views, Self::Requests, Self::Errors, Self::Agents];

    /// Returns the group of a list, by the list's stored name. Unknown lists are stored with those of requests.
    pub(in crate::stats) fn for_list(list: &str) -> Self {
        match list {
            "page" | "referrer" | "view_country" => Self::Audience,
            "view" => Self::Views,
            "error" => Self::Errors,
            "agent" | "agent_page" | "agent_disallowed" => Self::Agents,
            _ => Self::Requests,
        }
    }
}

/// The stored figures of a day: its number in the month, its sums, its visitors.
#[derive(Serialize, Deserialize)]
struct StoredDay(u8, Vec<i64>, i64);

/// A list entry: the index of its key, requests, bytes.
type StoredEntry = (u32, u64, u64);

/// A list: its name, its keys, and the entries of each day.
#[derive(Default, Serialize, Deserialize)]
struct StoredList(String, Vec<String>, Vec<(u8, Vec<StoredEntry>)>);

/// A day's figures, with lists by their stored name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DayFigures {
    sums: Vec<i64>,
    visitors: i64,
    lists: BTreeMap<String, Vec<(String, u64, u64)>>,
}

impl DayFigures {
    pub(super) fn from_row(sums: Vec<i64>, visitors: i64, lists: &str) -> Result<Self, sqlx::Error> {
        let lists = serde_json::from_str(lists).map_err(|error| sqlx::Error::Decode(error.into()))?;
        Ok(Self { sums, visitors, lists })
    }

    /// Returns requests and bytes, which only grow.
    fn volume(&self) -> &[i64] {
        self.sums.get(..2).unwrap_or_default()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct MonthDays(BTreeMap<u8, DayFigures>);

pub(super) struct MonthColumns {
    days: Vec<u8>,
    groups: BTreeMap<ListGroup, Vec<u8>>,
}

impl MonthColumns {
    pub(super) fn days(&self) -> &[u8] {
        &self.days
    }

    pub(super) fn group(&self, group: ListGroup) -> Option<&[u8]> {
        self.groups.get(&group).map(Vec::as_slice)
    }
}

impl MonthDays {
    /// Adds a day, unless the existing one has at least as much traffic.
    pub(super) fn add(&mut self, number: u8, day: DayFigures) {
        if self.0.get(&number).is_none_or(|known| known.volume() < day.volume()) {
            self.0.insert(number, day);
        }
    }

    pub(super) fn encode(&self) -> Result<MonthColumns, sqlx::Error> {
        let days: Vec<_> =
            self.0.iter().map(|(&number, day)| StoredDay(number, day.sums.clone(), day.visitors)).collect();
        let mut lists: BTreeMap<&str, (StoredList, HashMap<&str, u32>)> = BTreeMap::new();
        for (&number, day) in &self.0 {
            for (name, entries) in &day.lists {
                let (StoredList(_, keys, days), places) = lists.entry(name).or_default();
                let entries = entries.iter().map(|(key, requests, bytes)| {
                    let place = *places.entry(key).or_insert_with(|| {
                        keys.push(key.clone());
                        u32::try_from(keys.len() - 1).unwrap_or(u32::MAX)
                    });
                    (place, *requests, *bytes)
                });
                let entries = entries.collect();
                days.push((number, entries));
            }
        }
        let mut groups: BTreeMap<ListGroup, Vec<StoredList>> = BTreeMap::new();
        for (name, (StoredList(_, keys, days), _)) in lists {
            groups.entry(ListGroup::for_list(name)).or_default().push(StoredList(name.to_owned(), keys, days));
        }
        let groups = groups.into_iter().map(|(group, lists)| Ok((group, pack(&lists)?)));
        Ok(MonthColumns { days: pack(&days)?, groups: groups.collect::<Result<_, sqlx::Error>>()? })
    }

    pub(super) fn decode<'c>(days: &[u8], groups: impl Iterator<Item = &'c [u8]>) -> Result<Self, sqlx::Error> {
        let days = unpack::<Vec<StoredDay>>(days)?.into_iter();
        let day = |StoredDay(number, sums, visitors)| (number, DayFigures { sums, visitors, lists: BTreeMap::new() });
        let mut days: BTreeMap<u8, DayFigures> = days.map(day).collect();
        for group in groups {
            for StoredList(name, keys, of_days) in unpack::<Vec<StoredList>>(group)? {
                for (number, entries) in of_days {
                    let Some(day) = days.get_mut(&number) else { continue };
                    let entries = entries.into_iter().filter_map(|(place, requests, bytes)| {
                        Some((keys.get(place as usize)?.clone(), requests, bytes))
                    });
                    day.lists.insert(name.clone(), entries.collect());
                }
            }
        }
        Ok(Self(days))
    }
}

/// Reads the column of days: for each its number in the month, its sums as stored, and its visitors.
pub(in crate::stats) fn parse_day_sums(column: &[u8]) -> Result<Vec<(u8, Vec<i64>, i64)>, sqlx::Error> {
    let days: Vec<StoredDay> = unpack(column)?;
    Ok(days.into_iter().map(|StoredDay(number, sums, visitors)| (number, sums, visitors)).collect())
}

/// Calls `take` with every entry of a column of lists: the list's stored name, the number of the day, the key, the count.
pub(in crate::stats) fn for_each_group_entry(
    column: &[u8],
    mut take: impl FnMut(&str, u8, &str, TrafficCount),
) -> Result<(), sqlx::Error> {
    for StoredList(name, keys, days) in unpack::<Vec<StoredList>>(column)? {
        for (number, entries) in days {
            for (place, requests, bytes) in entries {
                if let Some(key) = keys.get(place as usize) {
                    take(&name, number, key, TrafficCount { requests, bytes });
                }
            }
        }
    }
    Ok(())
}

fn pack(value: &impl Serialize) -> Result<Vec<u8>, sqlx::Error> {
    let packed = rmp_serde::to_vec(value).map_err(|error| sqlx::Error::Encode(error.into()))?;
    // A column that could not be read again is not written, and its days keep their own rows.
    if packed.len() as u64 > MOST_BYTES {
        return Err(sqlx::Error::Encode(format!("a month of {} bytes is too large", packed.len()).into()));
    }
    zstd::encode_all(&*packed, LEVEL).map_err(sqlx::Error::Io)
}

fn unpack<T: DeserializeOwned>(column: &[u8]) -> Result<T, sqlx::Error> {
    let mut packed = Vec::new();
    let decoder = zstd::Decoder::new(column).map_err(|error| sqlx::Error::Decode(error.into()))?;
    decoder.take(MOST_BYTES).read_to_end(&mut packed).map_err(|error| sqlx::Error::Decode(error.into()))?;
    rmp_serde::from_slice(&packed).map_err(|error| sqlx::Error::Decode(error.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(requests: i64, lists: &str) -> DayFigures {
        DayFigures::from_row(vec![requests, requests * 100, 0, 0, 0, 0, 0, 0, 0, 1, 2], 7, lists).unwrap()
    }

    fn month() -> MonthDays {
        let mut month = MonthDays::default();
        month.add(1, day(3, r#"{"path": [["/a\t", 2, 200], ["(other)", 1, 100]], "agent_page": [["ü", 1, 0]]}"#));
        month.add(31, day(9, r#"{"path": [["(other)", 8, 1], ["/b", 1, 0]], "newer": [["x", 1, 1]], "page": []}"#));
        month.add(7, day(0, "{}"));
        month
    }

    #[test]
    fn a_month_is_read_back() {
        let columns = month().encode().unwrap();
        let groups = ListGroup::ALL.map(|group| columns.group(group));
        assert_eq!(groups.map(|group| group.is_some()), [true, false, true, false, true]);
        assert_eq!(MonthDays::decode(columns.days(), groups.into_iter().flatten()).unwrap(), month());
        assert_eq!(
            parse_day_sums(columns.days()).unwrap().iter().map(|(n, s, v)| (*n, s[0], *v)).collect::<Vec<_>>(),
            [(1, 3, 7), (7, 0, 7), (31, 9, 7)]
        );
        let mut paths = Vec::new();
        let take = |list: &str, number, key: &str, count: TrafficCount| {
            if list == "path" {
                paths.push((number, key.to_owned(), count.requests, count.bytes));
            }
        };
        for_each_group_entry(columns.group(ListGroup::Requests).unwrap(), take).unwrap();
        let path = |number, key: &str, requests, bytes| (number, key.to_owned(), requests, bytes);
        assert_eq!(
            paths,
            [path(1, "/a\t", 2, 200), path(1, "(other)", 1, 100), path(31, "(other)", 8, 1), path(31, "/b", 1, 0)]
        );
    }

    #[test]
    fn the_day_that_knows_more_stays() {
        let mut known = month();
        known.add(31, day(8, "{}"));
        assert_eq!(known, month());
        known.add(31, day(10, "{}"));
        assert_eq!(known.0[&31], day(10, "{}"));
    }

    #[test]
    fn what_is_broken_is_an_error() {
        assert!(parse_day_sums(b"").is_err());
        assert!(parse_day_sums(&zstd::encode_all(&b"\xc1"[..], 1).unwrap()).is_err());
        assert!(DayFigures::from_row(Vec::new(), 0, "[]").is_err());
    }
}
