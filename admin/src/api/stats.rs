//! `/projects/:name/stats` and `/projects/:name/stats/history`: what the edges counted of a project's visits.

use std::collections::HashMap;

use api::stats::{
    CacheCounts, CountryStats, DayStats, HistoryQuery, HostnameStats, HourStats, LiveQuery, LiveStats, PathStats,
    StatsHistory, StatsTotals, StatusCounts,
};
use axum::extract::State;
use config::StatsSource;
use db::{
    permits::Member,
    stats::report::{self, TopLengths},
};
use domain::{
    Timestamp,
    month::midnight,
    stats::{Days, Hours},
    traffic::{Count, HOUR, HOURS_KEPT, Sums, hour_of},
};
use time::Date;

use crate::{
    app::App,
    auth::ProjectAccess,
    error::{ApiError, Code},
    extract::{Json, Query},
};

/// The lengths of lists.
const LENGTHS: TopLengths = TopLengths { paths: 10, countries: 8 };

/// Shows a project's traffic of the last hours.
///
/// Every answer of the project's sites counts, at the edge that gave it: files, redirects, gates and errors. What was
/// answered shows within five seconds. No cookie is set, and no address is kept.
#[utoipa::path(
    get, path = "/projects/{name}/stats", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), LiveQuery),
    responses((status = 200, description = "The traffic", body = LiveStats)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
    }))),
)]
pub async fn live(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<LiveQuery>,
) -> Result<Json<LiveStats>, ApiError> {
    require_source(&app)?;
    let hours = query.hours.unwrap_or(Hours::DEFAULT);
    let to = app.clock.now();
    let last = hour_of(to);
    let from = last - HOUR * u32::from(hours.count() - 1);
    let wanted: Vec<Timestamp> = (0..u32::from(hours.count())).map(|number| from + HOUR * number).collect();
    let live = report::live(&app.db, &project, &wanted, LENGTHS).await.map_err(unreadable)?;

    let mut sums = Sums::default();
    let known: HashMap<Timestamp, Sums> = live.hours.into_iter().collect();
    let timeline = wanted.into_iter().map(|hour| {
        let of_hour = known.get(&hour).copied().unwrap_or_default();
        sums.add(&of_hour);
        let Sums { requests, bytes, cache_hits, .. } = of_hour;
        HourStats { hour, requests, bytes, cache_hits }
    });
    let timeline = timeline.collect();
    let [success, redirection, client_error, server_error, other] = sums.statuses;
    let of_hostname =
        |(hostname, Count { requests, bytes }): (String, Count)| HostnameStats { hostname, requests, bytes };
    let of_path = |(path, Count { requests, bytes }): (String, Count)| PathStats { path, requests, bytes };
    Ok(Json(LiveStats {
        project: project.name.clone(),
        from,
        to,
        totals: StatsTotals { requests: sums.requests, bytes: sums.bytes, cache_hits: sums.cache_hits },
        status: StatusCounts { success, redirection, client_error, server_error, other },
        cache: CacheCounts { hit: sums.cache_hits, miss: sums.cache_misses },
        hostnames: live.hostnames.into_iter().map(of_hostname).collect(),
        timeline,
        top_paths: live.paths.into_iter().map(of_path).collect(),
        top_countries: live
            .countries
            .into_iter()
            .map(|(country, count)| CountryStats { country, requests: count.requests })
            .collect(),
        truncated: live.is_truncated,
    }))
}

/// Shows a project's traffic by day, in UTC.
#[utoipa::path(
    get, path = "/projects/{name}/stats/history", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), HistoryQuery),
    responses((status = 200, description = "The traffic", body = StatsHistory)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
    }))),
)]
pub async fn history(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<StatsHistory>, ApiError> {
    require_source(&app)?;
    let days = query.days.unwrap_or(Days::DEFAULT);
    let to = app.clock.now();
    let last = to.as_datetime().date();
    let wanted: Vec<Date> =
        (0..days.count()).rev().filter_map(|back| last.checked_sub(time::Duration::days(back.into()))).collect();
    let first = wanted.first().map_or(to, |day| midnight(*day));
    let oldest_hour = first.max(midnight(last) - HOURS_KEPT);
    let hours: Vec<Timestamp> =
        std::iter::successors(Some(oldest_hour), |hour| Some(*hour + HOUR)).take_while(|hour| *hour <= to).collect();
    let found = report::history(&app.db, &project, &wanted, &hours).await.map_err(unreadable)?;

    let mut totals = StatsTotals::default();
    let known: HashMap<Date, _> = found.into_iter().map(|day| (day.day, day)).collect();
    let timeline = wanted.into_iter().map(|day| {
        let (requests, bytes, cache_hits) =
            known.get(&day).map_or((0, 0, 0), |known| (known.requests, known.bytes, known.cache_hits));
        totals.requests += requests;
        totals.bytes += bytes;
        totals.cache_hits += cache_hits;
        DayStats { day: day.to_string(), requests, bytes, cache_hits }
    });
    let timeline = timeline.collect();
    Ok(Json(StatsHistory { project: project.name.clone(), from: first, to, days: days.count(), totals, timeline }))
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
