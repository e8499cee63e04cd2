//! `/projects/:name/stats` and the routes below it: reports on a project's visits, as counted by the edges.
//!
//! Live statistics and the history are here, other reports in their own files, queries in [`db::stats::report`].

mod asked;
pub mod audience;
pub mod bots;
pub mod errors;
pub mod export;
pub mod public;

use std::collections::HashMap;

use admin_http::{
    error::ApiError,
    extract::{Json, Query},
};
use api::stats::{
    CacheCounts, CountryStats, DayStats, HistoryQuery, HostnameStats, HourStats, LiveQuery, LiveStats, PathStats,
    StatsHistory, StatsTotals, StatusCounts,
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{
    permits::Member,
    stats::report::{self, DayQuery, DayRange, EntryResolution, ListKind, StatsPermit, TopLengths},
};
use domain::{
    Timestamp,
    stats::{previous_hours, requested_hours},
    traffic::{HOUR, TrafficCount, TrafficSums},
};
use time::Date;

use self::{
    asked::{
        CountRanking, ReportRequest, TrafficFilter, deployment_marks, invalid_period, read_error, refresh_traffic,
    },
    bots::ClassCounts,
};

const LENGTHS: TopLengths = TopLengths { paths: 10, countries: 8 };

/// Shows a project's traffic of the last hours.
///
/// Every response of the project's sites counts, at the edge that sent it: files, redirects, gates and errors. It
/// appears within five seconds. No cookie is set, and no address is stored. With `hostname`, `page` or `country`, only
/// the number of matching requests and their bytes are known. With `from`, the hours are those of the given days.
#[utoipa::path(
    get, path = "/projects/{name}/stats", operation_id = "show_traffic", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), LiveQuery),
    responses((status = 200, description = "The traffic", body = LiveStats)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or you, may have at a time",
    }))),
)]
pub async fn live(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<LiveQuery>,
) -> Result<Json<LiveStats>, ApiError> {
    let now = app.clock.now();
    let wanted = requested_hours(query.hours, query.from, query.to, now).map_err(invalid_period)?;
    let part = TrafficFilter::from_query(query.hostname, query.page, query.country)?;
    refresh_traffic(&app, &project.id).await?;
    let _turn = app.bounds.reports().acquire_for_account(&caller.paying_account()).await?;
    let readable = StatsPermit::from(&project);
    let from = wanted.first().copied().unwrap_or(now);
    let end = wanted.last().map_or(now, |hour| *hour + HOUR);
    let deployments = deployment_marks(&app, &readable, from, end).await?;
    let before = previous_hours(&wanted, now);
    let mut shown = LiveStats {
        project: project.name.clone(),
        from,
        to: end.min(now),
        totals: StatsTotals::default(),
        previous: None,
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
    if let Some(part) = part {
        let found = report::live_entry(&app.db, &readable, &wanted, part.list, &part.key).await.map_err(read_error)?;
        let known: HashMap<Timestamp, TrafficCount> = found.into_iter().collect();
        let mut sum = TrafficCount::default();
        shown.timeline.extend(wanted.into_iter().map(|hour| {
            let of_hour = known.get(&hour).copied().unwrap_or_default();
            sum.add(of_hour);
            HourStats { hour, requests: of_hour.requests, bytes: of_hour.bytes, cache_hits: None }
        }));
        shown.totals = totals_of_part(sum);
        if let Some(before) = before {
            let found =
                report::live_entry(&app.db, &readable, &before, part.list, &part.key).await.map_err(read_error)?;
            shown.previous = Some(totals_of_part(summed(found.into_iter().map(|(_, count)| count))));
        }
        if part.list == ListKind::Hostname && sum.requests > 0 {
            shown.hostnames.push(HostnameStats { hostname: part.key, requests: sum.requests, bytes: sum.bytes });
        }
        return Ok(Json(shown));
    }
    if let Some(before) = before {
        let found = report::hourly_sums(&app.db, &readable, &before).await.map_err(read_error)?;
        shown.previous = Some(sum_totals(found.iter().map(|(_, sums)| sums)));
    }
    let live = report::live(&app.db, &readable, &wanted, LENGTHS).await.map_err(read_error)?;
    let mut sums = TrafficSums::default();
    let known: HashMap<Timestamp, TrafficSums> = live.hours.into_iter().collect();
    shown.timeline.extend(wanted.into_iter().map(|hour| {
        let of_hour = known.get(&hour).copied().unwrap_or_default();
        sums.add(&of_hour);
        let TrafficSums { requests, bytes, cache_hits, .. } = of_hour;
        HourStats { hour, requests, bytes, cache_hits: Some(cache_hits) }
    }));
    let mut classes = ClassCounts::default();
    for (key, count) in &live.agents {
        classes.add(key, *count);
    }
    let [success, redirection, client_error, server_error, other] = sums.statuses;
    let of_hostname = |(hostname, TrafficCount { requests, bytes }): (String, TrafficCount)| HostnameStats {
        hostname,
        requests,
        bytes,
    };
    let of_path =
        |(path, TrafficCount { requests, bytes }): (String, TrafficCount)| PathStats { path, requests, bytes };
    let of_country = |(country, count): (String, TrafficCount)| CountryStats { country, requests: count.requests };
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

/// Shows a project's traffic by UTC day.
///
/// With `hostname`, `page` or `country`, only the number of matching requests and their bytes are known; for past days
/// only if the value is among the day's most frequent.
#[utoipa::path(
    get, path = "/projects/{name}/stats/history", operation_id = "show_traffic_history", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), HistoryQuery),
    responses((status = 200, description = "The traffic", body = StatsHistory)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or you, may have at a time",
    }))),
)]
pub async fn history(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<HistoryQuery>,
) -> Result<Json<StatsHistory>, ApiError> {
    let part = TrafficFilter::from_query(query.hostname, query.page, query.country)?;
    let asked = ReportRequest::for_project(&app, &caller, &project, query.days, query.from, query.to).await?;
    let ReportRequest { readable, range, before, days, to, .. } = &asked;
    let (range, before) = (*range, *before);
    let deployments = deployment_marks(&app, readable, range.begin(), range.end()).await?;
    let (totals, previous, timeline) = if let Some(part) = part {
        let known = read_filtered_days(&app, readable, range, &part).await?;
        let previous = match before {
            Some(before) => {
                Some(totals_of_part(summed(read_filtered_days(&app, readable, before, &part).await?.into_values())))
            }
            None => None,
        };
        let mut sum = TrafficCount::default();
        let timeline = range.days().map(|day| {
            let of_day = known.get(&day).copied().unwrap_or_default();
            sum.add(of_day);
            DayStats { day: day.to_string(), requests: of_day.requests, bytes: of_day.bytes, cache_hits: None }
        });
        let timeline = timeline.collect();
        (totals_of_part(sum), previous, timeline)
    } else {
        let found = report::days(&app.db, readable, range, DayQuery::SUMS, |_| ()).await.map_err(read_error)?;
        let previous = asked.previous_sums(&app).await?;
        let mut sums = TrafficSums::default();
        let known: HashMap<Date, TrafficSums> = found.into_iter().map(|day| (day.day, day.sums)).collect();
        let timeline = range.days().map(|day| {
            let of_day = known.get(&day).copied().unwrap_or_default();
            sums.add(&of_day);
            let TrafficSums { requests, bytes, cache_hits, .. } = of_day;
            DayStats { day: day.to_string(), requests, bytes, cache_hits: Some(cache_hits) }
        });
        let timeline = timeline.collect();
        (totals(&sums), previous.as_ref().map(totals), timeline)
    };
    Ok(Json(StatsHistory {
        project: project.name.clone(),
        from: range.begin(),
        to: *to,
        days: *days,
        totals,
        previous,
        timeline,
        deployments,
    }))
}

fn totals(sums: &TrafficSums) -> StatsTotals {
    StatsTotals { requests: sums.requests, bytes: sums.bytes, cache_hits: Some(sums.cache_hits) }
}

fn sum_totals<'s>(parts: impl Iterator<Item = &'s TrafficSums>) -> StatsTotals {
    let mut sums = TrafficSums::default();
    parts.for_each(|part| sums.add(part));
    totals(&sums)
}

fn totals_of_part(sum: TrafficCount) -> StatsTotals {
    StatsTotals { requests: sum.requests, bytes: sum.bytes, cache_hits: None }
}

fn summed(counts: impl Iterator<Item = TrafficCount>) -> TrafficCount {
    let mut sum = TrafficCount::default();
    counts.for_each(|count| sum.add(count));
    sum
}

async fn read_filtered_days(
    app: &App,
    project: &StatsPermit,
    range: DayRange,
    part: &TrafficFilter,
) -> Result<HashMap<Date, TrafficCount>, ApiError> {
    let mut known: HashMap<Date, TrafficCount> = HashMap::new();
    let wanted = DayQuery { lists: &[part.list], grain: EntryResolution::Day, visitors: false };
    let read = report::days(&app.db, project, range, wanted, |entry| {
        if entry.key == part.key {
            known.entry(entry.begin.as_datetime().date()).or_default().add(entry.count);
        }
    });
    read.await.map_err(read_error)?;
    Ok(known)
}
