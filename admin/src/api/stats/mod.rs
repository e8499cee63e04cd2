//! `/projects/:name/stats` and what is below it: reports on what the edges counted of a project's visits.
//!
//! Live statistics and the history are here, each other report in a file of its own. What they read is in
//! [`db::stats::report`].

pub mod audience;
pub mod bots;
pub mod errors;
pub mod export;
pub mod public;

use std::collections::HashMap;

use api::stats::{
    CacheCounts, CountryStats, DayStats, DeploymentMark, HistoryQuery, HostnameStats, HourStats, LiveQuery, LiveStats,
    PathStats, StatsHistory, StatsTotals, StatusCounts,
};
use axum::extract::State;
use config::StatsSource;
use db::{
    permits::{Member, ProjectPermit},
    stats::report::{self, DayRange, Grain, ListKind, Readable, TopLengths, Wanted},
};
use domain::{
    ProjectId, Timestamp,
    stats::{Days, Hours},
    traffic::{Count, HOUR, OTHER, Sums, hour_of},
};
use time::Date;

use self::bots::ClassCounts;
use crate::{
    app::App,
    auth::ProjectAccess,
    bounds::AccountTurn,
    error::{ApiError, Code},
    extract::{Json, Query},
};

/// The lengths of lists.
const LENGTHS: TopLengths = TopLengths { paths: 10, countries: 8 };
/// Deployments that a line of time is marked with, the newest.
const MARKS: i64 = 1_000;

/// Shows a project's traffic of the last hours.
///
/// Every answer of the project's sites counts, at the edge that gave it: files, redirects, gates and errors. What was
/// answered shows within five seconds. No cookie is set, and no address is kept. With `hostname`, only the requests to
/// that hostname and their bytes are known.
#[utoipa::path(
    get, path = "/projects/{name}/stats", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), LiveQuery),
    responses((status = 200, description = "The traffic", body = LiveStats)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or the project's owner, may have at a time",
    }))),
)]
pub async fn live(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<LiveQuery>,
) -> Result<Json<LiveStats>, ApiError> {
    begin_report(&app, &project.id).await?;
    let _turn = app.bounds.reports().of_account(&project.payer()).await?;
    let hours = query.hours.unwrap_or(Hours::DEFAULT);
    let to = app.clock.now();
    let from = hour_of(to) - HOUR * u32::from(hours.count() - 1);
    let wanted: Vec<Timestamp> = (0..u32::from(hours.count())).map(|number| from + HOUR * number).collect();
    let readable = Readable::from(&project);
    let deployments = deployments(&app, &readable, from).await?;
    let mut shown = LiveStats {
        project: project.name.clone(),
        from,
        to,
        totals: StatsTotals::default(),
        status: None,
        cache: None,
        hostnames: Vec::new(),
        timeline: Vec::new(),
        top_paths: None,
        top_countries: None,
        truncated: false,
        bots: None,
        deployments,
    };
    if let Some(hostname) = query.hostname.map(|name| name.to_ascii_lowercase()) {
        let found = report::live_of_hostname(&app.db, &readable, &wanted, &hostname).await.map_err(unreadable)?;
        let known: HashMap<Timestamp, Count> = found.into_iter().collect();
        let mut sum = Count::default();
        shown.timeline.extend(wanted.into_iter().map(|hour| {
            let of_hour = known.get(&hour).copied().unwrap_or_default();
            sum.add(of_hour);
            HourStats { hour, requests: of_hour.requests, bytes: of_hour.bytes, cache_hits: None }
        }));
        shown.totals = totals_of_hostname(sum);
        if sum.requests > 0 {
            shown.hostnames.push(HostnameStats { hostname, requests: sum.requests, bytes: sum.bytes });
        }
        return Ok(Json(shown));
    }
    let live = report::live(&app.db, &readable, &wanted, LENGTHS).await.map_err(unreadable)?;
    let mut sums = Sums::default();
    let known: HashMap<Timestamp, Sums> = live.hours.into_iter().collect();
    shown.timeline.extend(wanted.into_iter().map(|hour| {
        let of_hour = known.get(&hour).copied().unwrap_or_default();
        sums.add(&of_hour);
        let Sums { requests, bytes, cache_hits, .. } = of_hour;
        HourStats { hour, requests, bytes, cache_hits: Some(cache_hits) }
    }));
    let mut classes = ClassCounts::default();
    for (key, count) in &live.agents {
        classes.add(key, *count);
    }
    let [success, redirection, client_error, server_error, other] = sums.statuses;
    let of_hostname =
        |(hostname, Count { requests, bytes }): (String, Count)| HostnameStats { hostname, requests, bytes };
    let of_path = |(path, Count { requests, bytes }): (String, Count)| PathStats { path, requests, bytes };
    let of_country = |(country, count): (String, Count)| CountryStats { country, requests: count.requests };
    Ok(Json(LiveStats {
        totals: totals(&sums),
        status: Some(StatusCounts { success, redirection, client_error, server_error, other }),
        cache: Some(CacheCounts { hit: sums.cache_hits, miss: sums.cache_misses }),
        hostnames: live.hostnames.into_iter().map(of_hostname).collect(),
        top_paths: Some(live.paths.into_iter().map(of_path).collect()),
        top_countries: Some(live.countries.into_iter().map(of_country).collect()),
        truncated: live.is_truncated,
        bots: Some(classes.view()),
        ..shown
    }))
}

/// Shows a project's traffic by day, in UTC.
///
/// With `hostname`, only the requests to that hostname and their bytes are known.
#[utoipa::path(
    get, path = "/projects/{name}/stats/history", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), HistoryQuery),
    responses((status = 200, description = "The traffic", body = StatsHistory)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or the project's owner, may have at a time",
    }))),
)]
pub async fn history(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<StatsHistory>, ApiError> {
    let Asked { readable, range, days, to, turn: _turn } = Asked::of(&app, &project, query.days).await?;
    let deployments = deployments(&app, &readable, range.begin()).await?;
    let (totals, timeline) = if let Some(hostname) = query.hostname.map(|name| name.to_ascii_lowercase()) {
        let mut known: HashMap<Date, Count> = HashMap::new();
        let wanted = Wanted { lists: &[ListKind::Hostname], grain: Grain::Day, visitors: false };
        let read = report::days(&app.db, &readable, range, wanted, |entry| {
            if entry.key == hostname {
                known.entry(entry.begin.as_datetime().date()).or_default().add(entry.count);
            }
        });
        read.await.map_err(unreadable)?;
        let mut sum = Count::default();
        let timeline = range.days().map(|day| {
            let of_day = known.get(&day).copied().unwrap_or_default();
            sum.add(of_day);
            DayStats { day: day.to_string(), requests: of_day.requests, bytes: of_day.bytes, cache_hits: None }
        });
        let timeline = timeline.collect();
        (totals_of_hostname(sum), timeline)
    } else {
        let found = report::days(&app.db, &readable, range, Wanted::SUMS, |_| ()).await.map_err(unreadable)?;
        let mut sums = Sums::default();
        let known: HashMap<Date, Sums> = found.into_iter().map(|day| (day.day, day.sums)).collect();
        let timeline = range.days().map(|day| {
            let of_day = known.get(&day).copied().unwrap_or_default();
            sums.add(&of_day);
            let Sums { requests, bytes, cache_hits, .. } = of_day;
            DayStats { day: day.to_string(), requests, bytes, cache_hits: Some(cache_hits) }
        });
        let timeline = timeline.collect();
        (totals(&sums), timeline)
    };
    Ok(Json(StatsHistory {
        project: project.name.clone(),
        from: range.begin(),
        to,
        days: days.count(),
        totals,
        timeline,
        deployments,
    }))
}

fn totals(sums: &Sums) -> StatsTotals {
    StatsTotals { requests: sums.requests, bytes: sums.bytes, cache_hits: Some(sums.cache_hits) }
}

fn totals_of_hostname(sum: Count) -> StatsTotals {
    StatsTotals { requests: sum.requests, bytes: sum.bytes, cache_hits: None }
}

/// The deployments that went live since `from`.
async fn deployments(app: &App, project: &Readable, from: Timestamp) -> Result<Vec<DeploymentMark>, ApiError> {
    let marks = report::marks(&app.db, project, from, MARKS).await.map_err(unreadable)?;
    let view = |mark: report::Mark| DeploymentMark { id: mark.deployment, at: mark.at, git_sha: mark.git_sha };
    Ok(marks.into_iter().map(view).collect())
}

/// The days of a project that a report is asked for.
struct Asked<T> {
    readable: Readable,
    range: DayRange,
    /// The number of days asked for.
    days: Days,
    /// The end of the report, in the last of the days.
    to: Timestamp,
    /// The turn of whoever reads it, held until it was read.
    turn: T,
}

impl Asked<AccountTurn> {
    /// Returns the days that end now, as many as asked for, once it is the turn of the project's owner. Fails where nothing is
    /// counted.
    async fn of(app: &App, project: &ProjectPermit<Member>, days: Option<Days>) -> Result<Self, ApiError> {
        begin_report(app, &project.id).await?;
        let turn = app.bounds.reports().of_account(&project.payer()).await?;
        Ok(Self::ending_now(app, Readable::from(project), days, turn))
    }
}

impl<T> Asked<T> {
    fn ending_now(app: &App, readable: Readable, days: Option<Days>, turn: T) -> Self {
        let (days, to) = (days.unwrap_or(Days::DEFAULT), app.clock.now());
        Self { readable, range: DayRange::ending(to, days), days, to, turn }
    }
}

/// Has the edges send what the report is to show. Fails where nothing is counted.
async fn begin_report(app: &App, project: &ProjectId) -> Result<(), ApiError> {
    require_source(app)?;
    app.fresh_traffic.refresh(project).await;
    Ok(())
}

fn require_source(app: &App) -> Result<(), ApiError> {
    match app.config.stats.source {
        StatsSource::Edge => Ok(()),
        StatsSource::None => {
            Err(ApiError::new(Code::StatsUnavailable, "Visits are not counted here; the operator has turned it off."))
        }
    }
}

fn unreadable(error: sqlx::Error) -> ApiError {
    telemetry::metrics::postgres_failed("stats");
    ApiError::new(Code::CdnError, "The statistics cannot be read at the moment. Please try again.").caused_by(error)
}

/// Numbers by key, of which the highest are shown.
#[derive(Debug, Default)]
struct Ranking(HashMap<String, u64>);

impl Ranking {
    /// Adds to a key. Those that found no room of their own are no key.
    fn add(&mut self, key: &str, number: u64) {
        match self.0.get_mut(key) {
            Some(known) => *known += number,
            None if key == OTHER => {}
            None => {
                self.0.insert(key.to_owned(), number);
            }
        }
    }

    /// Returns the keys with the highest numbers, those first.
    fn top(self, length: usize) -> impl Iterator<Item = (String, u64)> {
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
        let mut ranking = Ranking::default();
        for (key, number) in [("/b", 2), ("/a", 2), (OTHER, 9), ("/c", 1), ("/c", 4)] {
            ranking.add(key, number);
        }
        assert_eq!(ranking.top(2).collect::<Vec<_>>(), [("/c".to_owned(), 5), ("/a".to_owned(), 2)]);
    }
}
