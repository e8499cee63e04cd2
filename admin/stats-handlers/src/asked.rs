//! The requested period of a report, and what all reports share.

use std::collections::HashMap;

use admin_http::error::{ApiError, Code};
use api::stats::DeploymentMark;
use app::{App, auth::CliUser, bounds::AccountPermit};
use config::StatsSource;
use db::{
    permits::{Member, ProjectPermit},
    stats::report::{self, DayQuery, DayRange, ListKind, StatsPermit},
};
use domain::{
    ProjectId, Timestamp,
    stats::{CalendarDay, DateRangeError, DaySpan, DaysBack},
    traffic::{OTHER, TrafficSums},
};

/// The maximum number of deployments marked on a timeline; the newest are kept.
const MARKS: i64 = 1_000;

pub(super) async fn deployment_marks(
    app: &App,
    project: &StatsPermit,
    from: Timestamp,
    end: Timestamp,
) -> Result<Vec<DeploymentMark>, ApiError> {
    let marks = report::marks(&app.db, project, from, end, MARKS).await.map_err(read_error)?;
    let view = |mark: report::TimelineMark| DeploymentMark { id: mark.deployment, at: mark.at, git_sha: mark.git_sha };
    Ok(marks.into_iter().map(view).collect())
}

/// A part of the traffic that is counted separately: a hostname, a path or a country.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrafficFilter {
    pub(super) list: ListKind,
    pub(super) key: String,
}

impl TrafficFilter {
    /// Returns the requested part, or `None` for all traffic. Fails for several, whose combinations are not counted.
    pub(super) fn from_query(
        hostname: Option<String>,
        page: Option<String>,
        country: Option<String>,
    ) -> Result<Option<Self>, ApiError> {
        let parts = [
            hostname.map(|name| Self { list: ListKind::Hostname, key: name.to_ascii_lowercase() }),
            page.map(|path| Self { list: ListKind::Path, key: path }),
            country.map(|code| Self { list: ListKind::Country, key: code.to_ascii_uppercase() }),
        ];
        let mut parts = parts.into_iter().flatten();
        match (parts.next(), parts.next()) {
            (_, Some(_)) => Err(ApiError::invalid(
                "Requests are counted by `hostname`, by `page` and by `country`, not by two of them: ask for one. \
                 `/stats/audience` has views of people by all of them.",
            )),
            (part, None) => Ok(part),
        }
    }
}

/// The days of a project that a report covers.
pub(super) struct ReportRequest<T> {
    pub(super) readable: StatsPermit,
    pub(super) range: DayRange,
    /// The preceding period of the same length; `None` if it is no longer stored.
    pub(super) before: Option<DayRange>,
    pub(super) days: u16,
    /// The hours that have started, if the report is by the hour.
    pub(super) hours: Option<Vec<Timestamp>>,
    /// The end of the report: now, or the end of the last day.
    pub(super) to: Timestamp,
    /// The reader's permit, held until the report is read.
    pub(super) turn: T,
}

impl ReportRequest<AccountPermit> {
    /// Returns the requested days, after waiting for a permit of the caller. Fails if traffic is not counted.
    pub(super) async fn for_project(
        app: &App,
        caller: &CliUser,
        project: &ProjectPermit<Member>,
        days: Option<DaysBack>,
        from: Option<CalendarDay>,
        to: Option<CalendarDay>,
    ) -> Result<Self, ApiError> {
        let now = app.clock.now();
        let span = DaySpan::from_query(days, from, to, now.as_datetime().date()).map_err(invalid_period)?;
        refresh_traffic(app, &project.id).await?;
        let turn = app.bounds.reports().acquire_for_account(&caller.paying_account()).await?;
        Ok(Self::from_span(StatsPermit::from(project), span, now, turn))
    }
}

impl<T> ReportRequest<T> {
    /// Returns the given days as of `now`.
    pub(super) fn from_span(readable: StatsPermit, span: DaySpan, now: Timestamp, turn: T) -> Self {
        let range = DayRange::from(span);
        let before = span.previous(now.as_datetime().date()).map(DayRange::from);
        let (days, hours, to) = (span.count(), span.hours(now), range.end().min(now));
        Self { readable, range, before, days, hours, to, turn }
    }

    pub(super) async fn previous_sums(&self, app: &App) -> Result<Option<TrafficSums>, ApiError> {
        let Some(before) = self.before else { return Ok(None) };
        let found = report::days(&app.db, &self.readable, before, DayQuery::SUMS, |_| ()).await.map_err(read_error)?;
        let mut sums = TrafficSums::default();
        for day in &found {
            sums.add(&day.sums);
        }
        Ok(Some(sums))
    }
}

pub(super) fn invalid_period(error: DateRangeError) -> ApiError {
    ApiError::invalid(error.to_string())
}

/// Makes the edges send their latest counts of the project. Fails if traffic is not counted.
pub(super) async fn refresh_traffic(app: &App, project: &ProjectId) -> Result<(), ApiError> {
    require_source(app)?;
    app.fresh_traffic.refresh(project).await;
    Ok(())
}

pub(super) fn require_source(app: &App) -> Result<(), ApiError> {
    match app.config.stats.source {
        StatsSource::Edge => Ok(()),
        StatsSource::None => {
            Err(ApiError::new(Code::StatsUnavailable, "Visits are not counted here; the operator has turned it off."))
        }
    }
}

pub(super) fn read_error(error: sqlx::Error) -> ApiError {
    telemetry::metrics::postgres_failed("stats");
    ApiError::new(Code::CdnError, "The statistics cannot be read at the moment. Please try again.").caused_by(error)
}

/// Counts by key, of which the highest are shown.
#[derive(Debug, Default)]
pub(super) struct CountRanking(HashMap<String, u64>);

impl CountRanking {
    /// Adds to a key's count. Entries beyond the list's limit have no key and are ignored.
    pub(super) fn add(&mut self, key: &str, number: u64) {
        match self.0.get_mut(key) {
            Some(known) => *known += number,
            None if key == OTHER => {}
            None => {
                self.0.insert(key.to_owned(), number);
            }
        }
    }

    /// Raises a key's count to `number`, if it is lower.
    pub(super) fn raise(&mut self, key: &str, number: u64) {
        let known = self.0.get(key).copied().unwrap_or_default();
        self.add(key, number.saturating_sub(known));
    }

    /// Returns the keys with the highest counts, in descending order.
    pub(super) fn top(self, length: usize) -> impl Iterator<Item = (String, u64)> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_unstable_by(|(one, ones), (other, others)| others.cmp(ones).then_with(|| one.cmp(other)));
        all.into_iter().take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_come_first_and_the_rest_is_no_entry() {
        let mut ranking = CountRanking::default();
        for (key, number) in [("/b", 2), ("/a", 2), (OTHER, 9), ("/c", 1), ("/c", 4)] {
            ranking.add(key, number);
        }
        ranking.raise("/c", 3);
        assert_eq!(ranking.top(2).collect::<Vec<_>>(), [("/c".to_owned(), 5), ("/a".to_owned(), 2)]);
    }

    #[test]
    fn one_part_of_the_traffic_can_be_asked_for() {
        let text = |text: &str| Some(text.to_owned());
        let part = |list, key: &str| Some(TrafficFilter { list, key: key.to_owned() });
        assert_eq!(
            TrafficFilter::from_query(text("WWW.Example"), None, None).unwrap(),
            part(ListKind::Hostname, "www.example")
        );
        assert_eq!(TrafficFilter::from_query(None, text("/Docs"), None).unwrap(), part(ListKind::Path, "/Docs"));
        assert_eq!(TrafficFilter::from_query(None, None, text("de")).unwrap(), part(ListKind::Country, "DE"));
        assert_eq!(TrafficFilter::from_query(None, None, None).unwrap(), None);
        assert!(TrafficFilter::from_query(text("www.example"), None, text("DE")).is_err());
    }
}
