//! Makes days of hours of traffic, and deletes what is old or of deleted projects.

use std::time::Duration;

use db::stats::upkeep;
use domain::{
    Timestamp,
    month::midnight,
    traffic::{HOUR, HOURS_KEPT},
};
use time::Date;

use super::{Batch, Job};
use crate::app::App;

/// Length of a day.
const DAY: Duration = Duration::from_hours(24);
/// Days that are kept.
const DAYS_KEPT: i64 = 400;
/// Time after which an edge that sends nothing is forgotten. It sends no batch again by then.
const EDGES_KEPT: Duration = Duration::from_hours(7 * 24);
/// Time after a project's deletion by which no edge is writing traffic of it any more.
const SETTLED_AFTER: Duration = Duration::from_mins(10);
/// Hours in one batch of days.
const HOURS: i64 = 200;
/// Rows in one batch of deletions.
const ROWS: i64 = 5_000;

/// Makes days of the hours of days that have ended. What is recorded later makes its day anew.
pub(super) struct Roll;

impl Job for Roll {
    const NAME: &'static str = "make days of traffic";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let today = midnight(app.clock.now().as_datetime().date());
        let made = upkeep::roll(&app.db, today, HOURS).await?;
        Ok(Batch { done: made, full: made > 0 })
    }
}

/// Deletes hours and days that are older than they are kept.
pub(super) struct Expire;

impl Job for Expire {
    const NAME: &'static str = "delete old traffic";
    const EVERY: Duration = Duration::from_mins(10);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        let today = now.as_datetime().date();
        let first_day = today.checked_sub(time::Duration::days(DAYS_KEPT)).unwrap_or(today);
        let counts = [
            upkeep::delete_hours(&app.db, midnight(today) - HOURS_KEPT, ROWS).await?,
            upkeep::delete_days(&app.db, first_day, ROWS).await?,
            upkeep::delete_edges(&app.db, now - EDGES_KEPT, ROWS).await?,
        ];
        Ok(Batch { done: counts.iter().sum(), full: counts.iter().any(|&count| count > 0) })
    }
}

/// Deletes the traffic of projects that were deleted.
pub(super) struct Remove;

impl Job for Remove {
    const NAME: &'static str = "delete traffic of deleted projects";
    const EVERY: Duration = Duration::from_mins(1);

    async fn run(&self, app: &App) -> anyhow::Result<Batch> {
        let now = app.clock.now();
        let today = now.as_datetime().date();
        // Beyond what is kept, for what a job has not deleted yet; and ahead, for an edge whose clock is.
        let days: Vec<Date> =
            (-1..=DAYS_KEPT + 1).filter_map(|back| today.checked_sub(time::Duration::days(back))).collect();
        let first = midnight(today) - HOURS_KEPT - 2 * DAY;
        let hours: Vec<Timestamp> = std::iter::successors(Some(first), |hour| Some(*hour + HOUR))
            .take_while(|hour| *hour < now + DAY)
            .collect();
        let deleted = upkeep::delete_removed(&app.db, &hours, &days, now - SETTLED_AFTER, ROWS).await?;
        Ok(Batch { done: deleted, full: deleted > 0 })
    }
}
