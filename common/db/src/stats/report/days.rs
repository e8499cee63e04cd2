//! Traffic by day. Each day is read from its own row, from its month or, where they have more, from its hours.

use std::collections::HashMap;

use domain::{
    Timestamp,
    month::{Month, midnight, next_midnight},
    stats::DaySpan,
    traffic::{
        HOUR, HOURS_KEPT, TrafficCount, TrafficSums,
        sketch::{SketchRegister, VisitorSketch},
    },
};
use sqlx::{PgConnection, PgPool};
use time::{Date, Duration};

use super::{
    StatsPermit, count,
    lists::{self, ListEntry, ListKind},
    parse_sums,
};
use crate::stats::months::{self, ListGroup};

/// The number of days whose lists are in memory at a time.
const DAYS_AT_A_TIME: usize = 64;

/// Consecutive UTC days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayRange {
    first: Date,
    last: Date,
}

impl From<DaySpan> for DayRange {
    fn from(DaySpan { first, last }: DaySpan) -> Self {
        Self { first, last }
    }
}

impl DayRange {
    /// Creates a range of one day.
    pub fn single(day: Date) -> Self {
        Self { first: day, last: day }
    }

    /// Extends the range by a number of preceding days.
    #[must_use]
    pub fn extend_back(self, days: u16) -> Self {
        Self { first: self.first.saturating_sub(Duration::days(days.into())), ..self }
    }

    /// Returns the beginning of the first day.
    pub fn begin(self) -> Timestamp {
        midnight(self.first)
    }

    /// Returns the end of the last day.
    pub fn end(self) -> Timestamp {
        next_midnight(midnight(self.last))
    }

    /// Returns the days, in order.
    pub fn days(self) -> impl Iterator<Item = Date> {
        std::iter::successors(Some(self.first), |day| day.next_day()).take_while(move |day| *day <= self.last)
    }

    /// Returns the hours of those days whose hours may still be stored.
    fn hours(self) -> Vec<Timestamp> {
        let (oldest, end) = (midnight(self.last) - HOURS_KEPT, self.end());
        std::iter::successors(Some(self.begin().max(oldest)), |hour| Some(*hour + HOUR))
            .take_while(|hour| *hour < end)
            .collect()
    }
}

/// A day's traffic.
#[derive(Debug, Clone, Copy)]
pub struct DayTraffic {
    /// The UTC day.
    pub day: Date,
    /// The sums.
    pub sums: TrafficSums,
    /// The estimated number of visitors; 0 unless requested.
    pub visitors: u64,
    /// The table that the day is read from.
    pub(super) source: DaySource,
}

/// The source of a day's figures, ordered from the most to the least data to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum DaySource {
    Hours,
    Day,
    Month,
}

/// The finest resolution of entries, where stored at that resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryResolution {
    /// An hour.
    Hour,
    /// A day.
    Day,
}

/// The parts of days to read in addition to their sums.
#[derive(Debug, Clone, Copy)]
pub struct DayQuery<'w> {
    /// The lists to read.
    pub lists: &'w [ListKind],
    /// The finest resolution of list entries.
    pub grain: EntryResolution,
    /// Whether to estimate visitors.
    pub visitors: bool,
}

impl DayQuery<'_> {
    /// Only the sums.
    pub const SUMS: Self = Self { lists: &[], grain: EntryResolution::Day, visitors: false };
}

/// Returns the traffic of those days that had any, in order, and calls `take` with every entry of the requested lists,
/// in no order. All figures are from one snapshot.
pub async fn days(
    pool: &PgPool,
    project: &StatsPermit,
    range: DayRange,
    wanted: DayQuery<'_>,
    mut take: impl FnMut(ListEntry<'_>),
) -> Result<Vec<DayTraffic>, sqlx::Error> {
    let mut snapshot = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let mut found = sums(&mut snapshot, project, range).await?;
    if !wanted.lists.is_empty() {
        read_day_lists(&mut snapshot, project, &found, wanted.lists, &mut take).await?;
        read_hour_lists(&mut snapshot, project, &by_hour(range, &found), wanted, &mut take).await?;
    }
    if wanted.visitors {
        let sketches = sketches(&mut snapshot, project, &found, &by_hour(range, &found)).await?;
        for day in found.iter_mut().filter(|day| day.source == DaySource::Hours) {
            day.visitors = sketches.get(&day.day).map_or(0, VisitorSketch::estimate);
        }
    }
    snapshot.commit().await?;
    Ok(found)
}

fn days_from(found: &[DayTraffic], source: DaySource) -> Vec<Date> {
    found.iter().filter(|day| day.source == source).map(|day| day.day).collect()
}

/// Returns the hours of the days that are read by hour.
pub(super) fn by_hour(range: DayRange, found: &[DayTraffic]) -> Vec<Timestamp> {
    let mut hours = range.hours();
    hours.retain(|hour| {
        let day = hour.as_datetime().date();
        found.binary_search_by_key(&day, |found| found.day).is_ok_and(|place| found[place].source == DaySource::Hours)
    });
    hours
}

/// Returns the sums of the days that had any traffic, in order.
///
/// If a day has several sources, the largest is right: a row may lack later traffic, and hours may be partly deleted.
pub(super) async fn sums(
    conn: &mut PgConnection,
    project: &StatsPermit,
    range: DayRange,
) -> Result<Vec<DayTraffic>, sqlx::Error> {
    let (days, hours): (Vec<Date>, _) = (range.days().collect(), range.hours());
    let rows = sqlx::query!(
        r#"SELECT day AS "day!", true AS "is_rolled!", visitors AS "visitors!",
                  ARRAY[requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx, status_5xx,
                        status_other, pageviews, people_bytes] AS "sums!"
           FROM traffic_days WHERE day = ANY($2) AND project_id = $1
           UNION ALL
           SELECT (hour AT TIME ZONE 'UTC')::date, false, 0,
                  ARRAY[sum(s1), sum(s2), sum(s3), sum(s4), sum(s5), sum(s6), sum(s7), sum(s8), sum(s9), sum(s10),
                        sum(s11)]::bigint[]
           FROM (SELECT hour, requests, bytes, cache_hits, cache_misses, status_2xx, status_3xx, status_4xx, status_5xx,
                        status_other, pageviews, people_bytes
                 FROM traffic_hours WHERE hour = ANY($3) AND project_id = $1
                 UNION ALL
                 SELECT hour, sums[1], sums[2], sums[3], sums[4], sums[5], sums[6], sums[7], sums[8], sums[9], sums[10],
                        sums[11]
                 FROM traffic_recent WHERE project_id = $1 AND hour = ANY($3))
                AS parts (hour, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11)
           GROUP BY 1"#,
        project.0.as_str(),
        &days,
        &hours as &[Timestamp],
    )
    .fetch_all(&mut *conn)
    .await?;
    let mut found: Vec<DayTraffic> = rows
        .into_iter()
        .map(|row| DayTraffic {
            day: row.day,
            sums: parse_sums(&row.sums),
            visitors: count(row.visitors),
            source: if row.is_rolled { DaySource::Day } else { DaySource::Hours },
        })
        .collect();
    found.extend(read_month_sums(conn, project, range).await?);
    // Keep the largest of each day or, of equal ones, the one that is cheapest to read.
    let rank = |day: &DayTraffic| (day.sums.requests, day.sums.bytes, day.sums.pageviews, day.source);
    found.sort_by(|one, other| one.day.cmp(&other.day).then_with(|| rank(other).cmp(&rank(one))));
    found.dedup_by_key(|day| day.day);
    Ok(found)
}

async fn read_month_sums(
    conn: &mut PgConnection,
    project: &StatsPermit,
    range: DayRange,
) -> Result<Vec<DayTraffic>, sqlx::Error> {
    let rows = sqlx::query!(
        "SELECT month, days FROM traffic_months WHERE project_id = $1 AND month = ANY($2)",
        project.0.as_str(),
        &month_starts(range.days()),
    )
    .fetch_all(conn)
    .await?;
    let mut found = Vec::new();
    for row in rows {
        for (number, sums, visitors) in months::parse_day_sums(&row.days)? {
            let day = row.month.replace_day(number).ok().filter(|day| range.first <= *day && *day <= range.last);
            found.extend(day.map(|day| DayTraffic {
                day,
                sums: parse_sums(&sums),
                visitors: count(visitors),
                source: DaySource::Month,
            }));
        }
    }
    Ok(found)
}

fn month_starts(days: impl Iterator<Item = Date>) -> Vec<Date> {
    let mut months: Vec<Date> = days.map(|day| Month::from_date(day).first_day()).collect();
    months.dedup();
    months
}

/// Calls `take` with every list entry of the days that are read from their own rows or their months.
pub(super) async fn read_day_lists(
    conn: &mut PgConnection,
    project: &StatsPermit,
    found: &[DayTraffic],
    kinds: &[ListKind],
    take: &mut impl FnMut(ListEntry<'_>),
) -> Result<(), sqlx::Error> {
    read_month_lists(conn, project, &days_from(found, DaySource::Month), kinds, take).await?;
    for days in days_from(found, DaySource::Day).chunks(DAYS_AT_A_TIME) {
        let rows = sqlx::query!(
            r#"SELECT day, lists::text AS "lists!" FROM traffic_days WHERE day = ANY($2) AND project_id = $1"#,
            project.0.as_str(),
            days,
        )
        .fetch_all(&mut *conn)
        .await?;
        for row in rows {
            let begin = midnight(row.day);
            let end = next_midnight(begin);
            lists::for_each_stored(&row.lists, kinds, |kind, key, count| {
                take(ListEntry { begin, end, kind, key, count });
            })?;
        }
    }
    Ok(())
}

async fn read_month_lists(
    conn: &mut PgConnection,
    project: &StatsPermit,
    days: &[Date],
    kinds: &[ListKind],
    take: &mut impl FnMut(ListEntry<'_>),
) -> Result<(), sqlx::Error> {
    if days.is_empty() {
        return Ok(());
    }
    let [audience, views, requests, errors, agents] =
        ListGroup::ALL.map(|group| kinds.iter().any(|kind| ListGroup::for_list(kind.as_str()) == group));
    let rows = sqlx::query!(
        "SELECT month, CASE WHEN $3 THEN audience END AS audience, CASE WHEN $4 THEN views END AS views,
                CASE WHEN $5 THEN requests END AS requests, CASE WHEN $6 THEN errors END AS errors,
                CASE WHEN $7 THEN agents END AS agents
         FROM traffic_months WHERE project_id = $1 AND month = ANY($2)",
        project.0.as_str(),
        &month_starts(days.iter().copied()),
        audience,
        views,
        requests,
        errors,
        agents,
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let groups = [row.audience, row.views, row.requests, row.errors, row.agents];
        for column in groups.iter().flatten() {
            months::for_each_group_entry(column, |list, number, key, count| {
                let kind = kinds.iter().copied().find(|kind| kind.as_str() == list);
                let day = row.month.replace_day(number).ok().filter(|day| days.binary_search(day).is_ok());
                if let (Some(kind), Some(day)) = (kind, day) {
                    let begin = midnight(day);
                    take(ListEntry { begin, end: next_midnight(begin), kind, key, count });
                }
            })?;
        }
    }
    Ok(())
}

async fn read_hour_lists(
    conn: &mut PgConnection,
    project: &StatsPermit,
    hours: &[Timestamp],
    wanted: DayQuery<'_>,
    take: &mut impl FnMut(ListEntry<'_>),
) -> Result<(), sqlx::Error> {
    if hours.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query!(
        r#"SELECT CASE WHEN $4 THEN hour ELSE date_trunc('day', hour, 'UTC') END AS "begin!", kind AS "kind!",
                  key AS "key!", sum(requests)::bigint AS "requests!", sum(bytes)::bigint AS "bytes!"
           FROM (SELECT hour, kind, key, requests, bytes FROM traffic_hour_entries
                 WHERE hour = ANY($2) AND project_id = $1 AND kind = ANY($3)
                 UNION ALL
                 SELECT recent.hour, entry.kind, entry.key, entry.requests, entry.bytes
                 FROM traffic_recent AS recent,
                      unnest(recent.kinds, recent.keys, recent.requests, recent.bytes)
                          AS entry (kind, key, requests, bytes)
                 WHERE recent.project_id = $1 AND recent.hour = ANY($2) AND entry.kind = ANY($3)) AS parts
           GROUP BY 1, 2, 3"#,
        project.0.as_str(),
        hours as &[Timestamp],
        &lists::entry_kinds(wanted.lists),
        wanted.grain == EntryResolution::Hour,
    )
    .fetch_all(conn)
    .await?;
    for row in rows {
        let begin: Timestamp = row.begin;
        let end = if wanted.grain == EntryResolution::Hour { begin + HOUR } else { next_midnight(begin) };
        let count = TrafficCount { requests: count(row.requests), bytes: count(row.bytes) };
        lists::for_each_list(wanted.lists, &row.kind, &row.key, |kind, key| {
            take(ListEntry { begin, end, kind, key, count });
        });
    }
    Ok(())
}

/// Returns the visitor sketches of the days that are read by hour.
async fn sketches(
    conn: &mut PgConnection,
    project: &StatsPermit,
    found: &[DayTraffic],
    hours: &[Timestamp],
) -> Result<HashMap<Date, VisitorSketch>, sqlx::Error> {
    let days: Vec<Date> = days_from(found, DaySource::Hours);
    let rows = sqlx::query!(
        r#"SELECT day AS "day!", registers AS "registers!"
           FROM traffic_visitors WHERE day = ANY($2) AND project_id = $1
           UNION ALL
           SELECT (hour AT TIME ZONE 'UTC')::date, visitors
           FROM traffic_recent WHERE project_id = $1 AND hour = ANY($3) AND cardinality(visitors) > 0"#,
        project.0.as_str(),
        &days,
        hours as &[Timestamp],
    )
    .fetch_all(conn)
    .await?;
    let mut sketches: HashMap<Date, VisitorSketch> = HashMap::new();
    for row in rows {
        sketches.entry(row.day).or_default().extend(row.registers.into_iter().filter_map(SketchRegister::from_stored));
    }
    Ok(sketches)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(now: &str, days: &str) -> DayRange {
        let now = time::OffsetDateTime::parse(now, &time::format_description::well_known::Rfc3339).unwrap();
        DaySpan::ending(now.date(), days.parse().unwrap()).into()
    }

    #[test]
    fn a_range_ends_today_and_has_hours_for_a_week() {
        let one = range("2026-03-01T00:00:00Z", "1");
        assert_eq!(one.days().map(|day| day.to_string()).collect::<Vec<_>>(), ["2026-03-01"]);
        assert_eq!((one.hours().len(), one.hours()[0]), (24, one.begin()));
        let two = range("2026-03-01T23:59:59Z", "2");
        assert_eq!(two.days().map(|day| day.to_string()).collect::<Vec<_>>(), ["2026-02-28", "2026-03-01"]);
        assert_eq!(two.hours().len(), 48);
        let year = range("2026-03-01T12:00:00Z", "365");
        assert_eq!((year.days().count(), year.hours().len()), (365, 8 * 24));
        assert_eq!(one.extend_back(7).days().count(), 8);
    }
}
