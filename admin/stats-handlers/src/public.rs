//! `/projects/:name/stats/public` and `/stats/:token`: statistics for anyone with a link.

use std::collections::HashMap;

use admin_http::{
    error::{ApiError, Code},
    extract::{Json, Path, Query},
};
use api::stats::{PublicDay, PublicLink, PublicQuery, PublicStats, PublicTotals, SetPublicLink};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
    middleware::client::ClientAddress,
};
use axum::{Extension, extract::State, http::header, response::IntoResponse};
use db::{
    audit::NewAuditEntry,
    permits::{Admin, Member},
    stats::{
        public::{self, LinkedProject},
        report::{self, DayQuery, EntryResolution, ListKind},
    },
};
use domain::{audit::Action, opaque::OpaqueSecret, stats::DaySpan, traffic::TrafficSums};
use fairness::Client;
use time::Date;

use super::{
    asked::{ReportRequest, invalid_period, read_error, refresh_traffic, require_source},
    audience::{TopViews, ViewRankings},
    bots::ClassCounts,
};

/// Shows whether a project has a public link to its statistics, and the link.
///
/// A public link shows the statistics to everybody who has it, without a token.
#[utoipa::path(
    get, path = "/projects/{name}/stats/public", operation_id = "show_public_stats_link", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The link", body = PublicLink)),
)]
pub async fn show(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
) -> Result<Json<PublicLink>, ApiError> {
    let token = public::find_token(&app.db, &project).await?;
    Ok(Json(view(&app, token.as_deref())))
}

/// Turns a project's public link to its statistics on or off.
///
/// Anyone who has the link can view the page without an account. A link that is turned off stops working immediately;
/// turning it on again creates a different link.
#[utoipa::path(
    put, path = "/projects/{name}/stats/public", operation_id = "set_public_stats_link", tag = "Statistics", request_body = SetPublicLink,
    params(("name" = String, Path, description = "The project's name")),
    responses((status = 200, description = "The link", body = PublicLink)),
    extensions(("x-errors" = json!({
        "forbidden": "only admins and owners of the organization that owns the project may",
        "stats_unavailable": "nothing is counted here",
    }))),
)]
pub async fn set(
    State(app): State<App>,
    caller: CliUser,
    ProjectAccess(project): ProjectAccess<Admin>,
    Json(body): Json<SetPublicLink>,
) -> Result<Json<PublicLink>, ApiError> {
    require_source(&app)?;
    let mut change = app.change(caller.actor()).await?;
    let now = change.now();
    let token = if body.enabled {
        let new = OpaqueSecret::generate();
        let enabled = public::enable(&mut change, &project, new.expose(), caller.user.id.as_str(), now).await?;
        let (token, is_new) = enabled.ok_or_else(|| ApiError::not_found("project"))?;
        if is_new {
            change.audit(NewAuditEntry::for_project(Action::StatsPublish, &project));
        }
        Some(token)
    } else {
        if public::disable(&mut change, &project).await? {
            change.audit(NewAuditEntry::for_project(Action::StatsUnpublish, &project));
        }
        None
    };
    change.commit().await?;
    Ok(Json(view(&app, token.as_deref())))
}

/// Shows the statistics behind a public link.
///
/// Needs no token: the link is the secret.
#[utoipa::path(
    get, path = "/stats/{token}", operation_id = "show_public_stats", tag = "Statistics", security(()),
    params(("token" = String, Path, description = "The last part of the link"), PublicQuery),
    responses((status = 200, description = "The statistics", body = PublicStats, headers(("Cache-Control")))),
    extensions(("x-errors" = json!({
        "not_found": "there is no such link: it was turned off, or its project is gone",
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many of these are being read as the server, the link or the client may have at a time",
    }))),
)]
pub async fn by_link(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    Path(token): Path<String>,
    Query(query): Query<PublicQuery>,
) -> Result<impl IntoResponse, ApiError> {
    let stats = read(&app, &token, &query, client.into()).await?.ok_or_else(|| {
        ApiError::new(Code::NotFound, "There is no such link: it was turned off, or its project is gone.")
    })?;
    Ok(([(header::CACHE_CONTROL, "no-store")], Json(stats)))
}

/// Reads the statistics behind a public link, after waiting for a permit. Returns `None` if there is no such link.
pub async fn read(
    app: &App,
    token: &str,
    query: &PublicQuery,
    client: Client,
) -> Result<Option<PublicStats>, ApiError> {
    if OpaqueSecret::parse(token).is_none() {
        return Ok(None);
    }
    let now = app.clock.now();
    let Some(LinkedProject { name: project, readable, payer }) = public::find(&app.db, token, now).await? else {
        return Ok(None);
    };
    let span = DaySpan::from_query(None, query.from, query.to, now.as_datetime().date()).map_err(invalid_period)?;
    refresh_traffic(app, readable.project()).await?;
    let turn = app.bounds.reports().acquire_for_link(client, &payer).await?;
    let asked = ReportRequest::from_span(readable, span, now, turn);
    let ReportRequest { readable, range, days, to, .. } = &asked;
    let [pages, referrers, countries] = ViewRankings::LISTS;
    let lists = [pages, referrers, countries, ListKind::Agent];
    let (mut views, mut classes) = (ViewRankings::default(), ClassCounts::default());
    let wanted = DayQuery { lists: &lists, grain: EntryResolution::Day, visitors: true };
    let found = report::days(&app.db, readable, *range, wanted, |entry| match entry.kind {
        ListKind::Agent => classes.add(entry.key, entry.count),
        _ => views.add(&entry),
    });
    let known: HashMap<Date, _> = found.await.map_err(read_error)?.into_iter().map(|day| (day.day, day)).collect();
    let previous = asked.previous_sums(app).await?;
    let previous =
        previous.map(|TrafficSums { requests, bytes, pageviews, .. }| PublicTotals { requests, bytes, pageviews });
    let mut sums = TrafficSums::default();
    let timeline = range.days().map(|day| {
        let (of_day, visitors) = known.get(&day).map_or_else(Default::default, |known| (known.sums, known.visitors));
        sums.add(&of_day);
        PublicDay { day: day.to_string(), requests: of_day.requests, pageviews: of_day.pageviews, visitors }
    });
    let timeline = timeline.collect();
    let TopViews { pages, referrers, countries } = views.top();
    Ok(Some(PublicStats {
        project,
        from: range.begin(),
        to: *to,
        days: *days,
        requests: sums.requests,
        bytes: sums.bytes,
        pageviews: sums.pageviews,
        previous,
        timeline,
        top_pages: pages,
        top_referrers: referrers,
        top_countries: countries,
        bots: classes.view(),
    }))
}

fn view(app: &App, token: Option<&str>) -> PublicLink {
    PublicLink { enabled: token.is_some(), url: token.map(|token| app.console.public_stats(token)) }
}
