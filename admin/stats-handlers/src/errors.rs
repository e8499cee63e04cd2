//! `/projects/:name/stats/errors`: missing paths and server errors.

use std::collections::HashMap;

use admin_http::{
    error::ApiError,
    extract::{Json, Query},
};
use api::stats::{DaysQuery, ErrorCounts, ErrorReferrer, ErrorStats, ErrorsDay, ErrorsStats};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{
    permits::Member,
    stats::report::{self, DayQuery, DayRange, EntryResolution, ListEntry, ListKind, StatsPermit},
};
use domain::{
    Timestamp,
    stats::{TimePeriod, breaking_deployment},
    traffic::ErrorKey,
};
use time::Date;

use super::{CountRanking, ReportRequest, deployment_marks, read_error};

const ERRORS: usize = 50;
const REFERRERS: usize = 5;
/// Days before the first day in which to look for a path that is now missing.
const DAYS_BEFORE: u16 = 14;
const NOT_FOUND: u16 = 404;

/// Shows the errors that visitors received, by UTC day: missing paths and server errors.
///
/// A path that went missing names the deployment that removed it. Past days have their 100 most frequent paths and
/// errors.
#[utoipa::path(
    get, path = "/projects/{name}/stats/errors", operation_id = "show_visitor_errors", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), DaysQuery),
    responses((status = 200, description = "The errors", body = ErrorsStats)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or you, may have at a time",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<DaysQuery>,
) -> Result<Json<ErrorsStats>, ApiError> {
    let ReportRequest { readable, range, before: days_before, days, to, turn: _turn, .. } =
        ReportRequest::for_project(&app, &caller, &project, query.days, query.from, query.to).await?;
    let (mut totals, mut by_day) = (ErrorCounts::default(), HashMap::<Date, ErrorCounts>::new());
    let mut errors = HashMap::<(u16, String), PathErrors>::new();
    let wanted = DayQuery { lists: &[ListKind::Error], grain: EntryResolution::Hour, visitors: false };
    let read = report::days(&app.db, &readable, range, wanted, |entry| {
        let key = ErrorKey::parse(entry.key);
        let day = by_day.entry(entry.begin.as_datetime().date()).or_default();
        for counts in [&mut totals, day] {
            add(counts, key.as_ref().map(|key| key.status), entry.count.requests);
        }
        if let Some(key) = key.filter(|key| is_shown(key.status)) {
            errors.entry((key.status, key.path.to_owned())).or_default().add(key.referrer, &entry);
        }
    });
    read.await.map_err(read_error)?;
    let mut errors: Vec<_> = errors.into_iter().collect();
    errors.sort_unstable_by(|(one, ones), (other, others)| {
        others.requests.cmp(&ones.requests).then_with(|| one.cmp(other))
    });
    errors.truncate(ERRORS);

    let previous = match days_before {
        Some(days) => Some(read_totals(&app, &readable, days).await?),
        None => None,
    };
    let before = range.extend_back(DAYS_BEFORE);
    let mut deployments = deployment_marks(&app, &readable, before.begin(), range.end()).await?;
    let times: Vec<Timestamp> = deployments.iter().map(|mark| mark.at).collect();
    let missing = |(status, _): &(u16, String)| *status == NOT_FOUND;
    let paths: Vec<String> = errors.iter().filter(|(key, _)| missing(key)).map(|((_, path), _)| path.clone()).collect();
    let mut answered = HashMap::<String, Vec<TimePeriod>>::new();
    if !paths.is_empty() && !times.is_empty() {
        for found in report::list_served(&app.db, &readable, before, &paths).await.map_err(read_error)? {
            answered.entry(found.path).or_default().push(TimePeriod { begin: found.begin, end: found.end });
        }
    }
    let errors = errors.into_iter().map(|(key, met)| {
        let periods = answered.get(&key.1).filter(|_| missing(&key));
        let place = periods.and_then(|answered| breaking_deployment(answered, &met.periods, &times));
        let (status, path) = key;
        let referrer = |(referrer, requests)| ErrorReferrer { referrer, requests };
        ErrorStats {
            status,
            path,
            requests: met.requests,
            referrers: met.referrers.top(REFERRERS).map(referrer).collect(),
            broken_by_deployment: place.map(|place| deployments[place].id.clone()),
        }
    });
    let errors = errors.collect();
    deployments.retain(|mark| mark.at >= range.begin());
    let of_day = |day: Date| ErrorsDay { day: day.to_string(), counts: by_day.get(&day).copied().unwrap_or_default() };
    Ok(Json(ErrorsStats {
        project: project.name.clone(),
        from: range.begin(),
        to,
        days,
        totals,
        previous,
        timeline: range.days().map(of_day).collect(),
        errors,
        deployments,
    }))
}

async fn read_totals(app: &App, project: &StatsPermit, range: DayRange) -> Result<ErrorCounts, ApiError> {
    let mut totals = ErrorCounts::default();
    let wanted = DayQuery { lists: &[ListKind::Error], grain: EntryResolution::Day, visitors: false };
    let read = report::days(&app.db, project, range, wanted, |entry| {
        add(&mut totals, ErrorKey::parse(entry.key).map(|key| key.status), entry.count.requests);
    });
    read.await.map_err(read_error)?;
    Ok(totals)
}

#[derive(Debug, Default)]
struct PathErrors {
    requests: u64,
    referrers: CountRanking,
    periods: Vec<TimePeriod>,
}

impl PathErrors {
    fn add(&mut self, referrer: &str, entry: &ListEntry<'_>) {
        self.requests += entry.count.requests;
        self.referrers.add(referrer, entry.count.requests);
        self.periods.push(TimePeriod { begin: entry.begin, end: entry.end });
    }
}

fn is_shown(status: u16) -> bool {
    status == NOT_FOUND || status >= 500
}

/// Adds errors of this status; `None` stands for errors beyond the list's limit.
fn add(counts: &mut ErrorCounts, status: Option<u16>, requests: u64) {
    match status {
        Some(NOT_FOUND) => counts.not_found += requests,
        Some(500..) => counts.server_errors += requests,
        Some(_) => {}
        None => counts.other += requests,
    }
}
