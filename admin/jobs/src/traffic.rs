//! Folds batches of traffic into hours, hours into days and days into months, and deletes traffic that is old or
//! belongs to deleted projects.

use std::time::Duration;

use app::App;
use db::stats::{
    months::{self, CondensableMonth},
    salts,
    upkeep::{self, PartitionedTable},
};
use domain::{
    Timestamp,
    month::{Month, midnight},
    stats::DAYS_KEPT,
    traffic::{HOUR, HOURS_KEPT},
};
use futures_util::{StreamExt as _, stream};
use time::Date;

use super::{BatchOutcome, Job};

const DAY: Duration = Duration::from_hours(24);
/// The days after today, and the months after this one, that have a partition in advance: admin may be away for a
/// while.
const DAYS_AHEAD: usize = 2;
const MONTHS_AHEAD: usize = 1;
/// The time after which a silent edge is forgotten. By then it does not repeat a batch.
const EDGES_KEPT: Duration = Duration::from_hours(7 * 24);
/// The time after midnight by which the clock of every edge has passed it.
const SALTS_KEPT: Duration = Duration::from_mins(10);
/// The time after a project's deletion by which edges have stopped writing its traffic.
const SETTLED_AFTER: Duration = Duration::from_mins(10);
const PARTS: i64 = 10_000;
const HOURS: i64 = 200;
/// The months before this one whose days stay separate rows: they are read most, and plans are checked against them.
const MONTHS_IN_DAYS: usize = 1;
/// The project months in one batch, and those condensed concurrently: each needs the memory of a project's month of
/// lists.
const MONTHS: i64 = 1_000;
const MONTHS_AT_ONCE: usize = 4;
const ROWS: i64 = 5_000;
/// The hours of a deleted project in one batch. Each may have some thousand entries.
const REMOVED_HOURS: i64 = 2;

/// Folds the edges' batches into hours, for one shard of the projects.
pub(super) struct FoldTraffic<const SHARD: usize>;

/// The job names, one for each shard: each has its own lease, so that shards run concurrently, at one admin or several.
const FOLDS: [&str; 4] = [
    "fold traffic into hours, 1 of 4",
    "fold traffic into hours, 2 of 4",
    "fold traffic into hours, 3 of 4",
    "fold traffic into hours, 4 of 4",
];

impl<const SHARD: usize> Job for FoldTraffic<SHARD> {
    const NAME: &'static str = FOLDS[SHARD];
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let [shard, shards] = [SHARD, FOLDS.len()].map(|number| i32::try_from(number).unwrap_or(i32::MAX));
        let folded = upkeep::fold(&app.db, PARTS, shard, shards).await?;
        Ok(BatchOutcome { done: folded, full: folded >= PARTS.unsigned_abs() })
    }
}

/// Folds the hours of ended days into days. A later record folds its day again.
pub(super) struct RollHoursIntoDays;

impl Job for RollHoursIntoDays {
    const NAME: &'static str = "roll traffic into days";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let today = midnight(app.clock.now().as_datetime().date());
        let made = upkeep::roll(&app.db, today, HOURS).await?;
        Ok(BatchOutcome { done: made, full: made > 0 })
    }
}

/// Moves the days of past months, except the most recent, into months.
pub(super) struct CondenseMonths;

impl Job for CondenseMonths {
    const NAME: &'static str = "condense traffic into months";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let until = first_day_in_rows(app.clock.now().as_datetime().date());
        let found = months::list_condensable(&app.db, until, MONTHS).await?;
        let dropped = found.is_empty() && months::drop_partition(&app.db, until).await?;
        let making = stream::iter(found).map(|month| condense_month(app, month)).buffer_unordered(MONTHS_AT_ONCE);
        let done = making.fold(0, async |done, is_made| done + u64::from(is_made)).await;
        Ok(BatchOutcome { done: done + u64::from(dropped), full: done > 0 || dropped })
    }
}

/// Condenses one month, and returns whether that succeeded. A faulty project does not stop the others.
async fn condense_month(app: &App, month: CondensableMonth) -> bool {
    let made = months::condense(&app.db, &month).await;
    if let Err(error) = &made {
        tracing::warn!(project = %month.project, month = %month.month, %error, "a month of traffic could not be made");
    }
    made.is_ok()
}

fn first_day_in_rows(today: Date) -> Date {
    let mut first = Month::from_date(today).first_day();
    for _ in 0..MONTHS_IN_DAYS {
        first = Month::from_date(first.previous_day().unwrap_or(first)).first_day();
    }
    first
}

pub(super) struct AddPartitions;

impl Job for AddPartitions {
    const NAME: &'static str = "divide traffic";
    const EVERY: Duration = Duration::from_hours(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let today = app.clock.now().as_datetime().date();
        let (mut day, mut month, mut made) = (today, Month::from_date(today), 0);
        for _ in 0..=DAYS_AHEAD {
            made += u64::from(upkeep::add_partition(&app.db, PartitionedTable::Hours, day).await?);
            made += u64::from(upkeep::add_partition(&app.db, PartitionedTable::HourEntries, day).await?);
            day = day.next_day().unwrap_or(day);
        }
        for _ in 0..=MONTHS_AHEAD {
            made += u64::from(upkeep::add_partition(&app.db, PartitionedTable::Days, month.first_day()).await?);
            month = month.next();
        }
        Ok(BatchOutcome { done: made, full: false })
    }
}

pub(super) struct ExpireTraffic;

impl Job for ExpireTraffic {
    const NAME: &'static str = "expire traffic";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let today = now.as_datetime().date();
        let first_hour = midnight(today) - HOURS_KEPT;
        let first_day = today.checked_sub(time::Duration::days(DAYS_KEPT.into())).unwrap_or(today);
        let salts = salts::delete_before(&app.db, (now - SALTS_KEPT).as_datetime().date()).await?;
        let counts = [
            upkeep::delete_unpartitioned(&app.db, first_hour, first_day, ROWS).await?,
            upkeep::delete_visitors(&app.db, first_hour.as_datetime().date(), ROWS).await?,
            upkeep::delete_payer_hours(&app.db, first_hour, ROWS).await?,
            upkeep::delete_edges(&app.db, now - EDGES_KEPT, ROWS).await?,
            months::delete_before(&app.db, first_day, ROWS).await?,
        ];
        let mut dropped = 0;
        for table in PartitionedTable::ALL {
            let until = if table == PartitionedTable::Days { midnight(first_day) } else { first_hour };
            dropped += u64::from(upkeep::drop_partition(&app.db, table, until).await?);
        }
        Ok(BatchOutcome {
            done: salts + dropped + counts.iter().sum::<u64>(),
            full: dropped > 0 || counts.iter().any(|&count| count > 0),
        })
    }
}

pub(super) struct DeleteProjectTraffic;

impl Job for DeleteProjectTraffic {
    const NAME: &'static str = "remove traffic of deleted projects";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let now = app.clock.now();
        let today = now.as_datetime().date();
        // The range exceeds the retention, because the job that enforces it may be behind, and includes the future, for
        // edges with a fast clock.
        let days: Vec<Date> =
            (-1..=i64::from(DAYS_KEPT) + 31).filter_map(|back| today.checked_sub(time::Duration::days(back))).collect();
        let first = midnight(today) - HOURS_KEPT - 2 * DAY;
        let hours: Vec<Timestamp> = std::iter::successors(Some(first), |hour| Some(*hour + HOUR))
            .take_while(|hour| *hour < now + DAY)
            .collect();
        let settled = now - SETTLED_AFTER;
        let deleted = upkeep::delete_removed(&app.db, &hours, &days, settled, ROWS, REMOVED_HOURS).await?;
        Ok(BatchOutcome { done: deleted, full: deleted > 0 })
    }
}
