//! `/projects/:name/stats/audience`: the pages that people viewed.

use std::collections::HashMap;

use admin_http::{
    error::ApiError,
    extract::{Json, Query},
};
use api::stats::{
    AudienceDay, AudienceHour, AudienceQuery, AudienceStats, AudienceTotals, CountryViews, PageViews, ReferrerViews,
};
use app::{
    App,
    auth::{CliUser, ProjectAccess},
};
use axum::extract::State;
use db::{
    permits::Member,
    stats::report::{self, DayQuery, DayRange, EntryResolution, ListEntry, ListKind, StatsPermit, ViewFilter},
};
use domain::{
    Timestamp,
    traffic::{OTHER, ViewKey},
};
use time::Date;

use super::{CountRanking, ReportRequest, deployment_marks, read_error};

const PAGES: usize = 10;
const REFERRERS: usize = 10;
const COUNTRIES: usize = 8;

/// Shows the pages that people viewed, by UTC day.
///
/// A view is a page that a person opened and received or already had. Visitors are counted without cookies, one day at
/// a time, by a sketch that stores no individual visitor. With `hostname`, `page`, `referrer` or `country`, only views
/// that match all of them count. For past days, these are known if among the 200 most frequent combinations; for a
/// single page, referrer or country, if among the 100 most frequent. `truncated` shows whether some are missing.
#[utoipa::path(
    get, path = "/projects/{name}/stats/audience", operation_id = "show_audience", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), AudienceQuery),
    responses((status = 200, description = "The views", body = AudienceStats)),
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
    Query(query): Query<AudienceQuery>,
) -> Result<Json<AudienceStats>, ApiError> {
    let asked = ReportRequest::for_project(&app, &caller, &project, query.days, query.from, query.to).await?;
    let ReportRequest { readable, range, before, days, to, .. } = &asked;
    let filter = AudienceFilter::from_query(&query);
    let (read, previous) = match &filter {
        None => (read_all(&app, readable, *range).await?, asked.previous_sums(&app).await?.map(|sums| sums.pageviews)),
        Some(filter) => {
            let previous = match before {
                Some(before) => Some(filter.read(&app, readable, *before).await?.by_day.into_values().sum()),
                None => None,
            };
            (filter.read(&app, readable, *range).await?, previous)
        }
    };
    let hours = match &asked.hours {
        Some(hours) => Some(read_by_hour(&app, readable, hours, filter.as_ref()).await?),
        None => None,
    };
    let AudienceData { views, by_day, visitors, truncated } = read;
    let timeline = range.days().map(|day| AudienceDay {
        day: day.to_string(),
        pageviews: by_day.get(&day).copied().unwrap_or_default(),
        visitors: filter.is_none().then(|| visitors.get(&day).copied().unwrap_or_default()),
    });
    let timeline: Vec<AudienceDay> = timeline.collect();
    let TopViews { pages, referrers, countries } = views.top();
    Ok(Json(AudienceStats {
        project: project.name.clone(),
        from: range.begin(),
        to: *to,
        days: *days,
        totals: AudienceTotals { pageviews: timeline.iter().map(|day| day.pageviews).sum() },
        previous: previous.map(|pageviews| AudienceTotals { pageviews }),
        timeline,
        hours,
        truncated,
        top_pages: pages,
        top_referrers: referrers,
        top_countries: countries,
        deployments: deployment_marks(&app, readable, range.begin(), range.end()).await?,
    }))
}

#[derive(Debug, Default)]
struct AudienceData {
    views: ViewRankings,
    by_day: HashMap<Date, u64>,
    visitors: HashMap<Date, u64>,
    /// Whether some views are missing from the lists.
    truncated: bool,
}

async fn read_all(app: &App, project: &StatsPermit, range: DayRange) -> Result<AudienceData, ApiError> {
    let mut read = AudienceData::default();
    let wanted = DayQuery { lists: &ViewRankings::LISTS, grain: EntryResolution::Day, visitors: true };
    let found = report::days(&app.db, project, range, wanted, |entry| {
        read.truncated |= entry.key == OTHER;
        read.views.add(&entry);
    });
    for day in found.await.map_err(read_error)? {
        read.by_day.insert(day.day, day.sums.pageviews);
        read.visitors.insert(day.day, day.visitors);
    }
    Ok(read)
}

async fn read_by_hour(
    app: &App,
    project: &StatsPermit,
    hours: &[Timestamp],
    filter: Option<&AudienceFilter>,
) -> Result<Vec<AudienceHour>, ApiError> {
    let known: HashMap<Timestamp, u64> = if let Some(AudienceFilter(filter)) = filter {
        report::views_by_hour(&app.db, project, hours, filter).await.map_err(read_error)?.into_iter().collect()
    } else {
        let found = report::hourly_sums(&app.db, project, hours).await.map_err(read_error)?;
        found.into_iter().map(|(hour, sums)| (hour, sums.pageviews)).collect()
    };
    let hour = |&hour| AudienceHour { hour, pageviews: known.get(&hour).copied().unwrap_or_default() };
    Ok(hours.iter().map(hour).collect())
}

#[derive(Debug)]
struct AudienceFilter(ViewFilter);

impl AudienceFilter {
    fn from_query(query: &AudienceQuery) -> Option<Self> {
        let AudienceQuery { hostname, page, referrer, country, .. } = query;
        let is_any = [hostname, page, referrer, country].into_iter().any(Option::is_some);
        is_any.then(|| {
            Self(ViewFilter {
                hostname: hostname.as_ref().map(|name| name.to_ascii_lowercase()),
                page: page.clone(),
                referrer: referrer.as_ref().map(|host| host.to_ascii_lowercase()),
                country: country.as_ref().map(|code| code.to_ascii_uppercase()),
            })
        })
    }

    /// Returns the list, and the key in it, for a filter on one property. For past days it is more complete than
    /// `View`.
    fn own_list(&self) -> Option<(ListKind, &str)> {
        let ViewFilter { hostname, page, referrer, country } = &self.0;
        match (hostname, page, referrer, country) {
            (None, Some(page), None, None) => Some((ListKind::Page, page)),
            (None, None, Some(referrer), None) if !referrer.is_empty() => Some((ListKind::Referrer, referrer)),
            (None, None, None, Some(country)) => Some((ListKind::ViewCountry, country)),
            _ => None,
        }
    }

    async fn read(&self, app: &App, project: &StatsPermit, range: DayRange) -> Result<AudienceData, ApiError> {
        let own = self.own_list();
        let lists: Vec<ListKind> = [ListKind::View].into_iter().chain(own.map(|(list, _)| list)).collect();
        let mut read = AudienceData::default();
        let mut counted = HashMap::<Date, u64>::new();
        let wanted = DayQuery { lists: &lists, grain: EntryResolution::Day, visitors: false };
        let found = report::days(&app.db, project, range, wanted, |entry| {
            let (day, views) = (entry.begin.as_datetime().date(), entry.count.requests);
            if entry.key == OTHER {
                read.truncated = true;
            } else if entry.kind == ListKind::View {
                if let Some(view) = ViewKey::parse(entry.key).filter(|view| self.matches(view)) {
                    *read.by_day.entry(day).or_default() += views;
                    read.views.add_view(&view, views);
                }
            } else if own == Some((entry.kind, entry.key)) {
                *counted.entry(day).or_default() += views;
            }
        });
        found.await.map_err(read_error)?;
        for (day, views) in counted {
            let known = read.by_day.entry(day).or_default();
            *known = views.max(*known);
        }
        if let Some((list, key)) = own {
            read.views.raise(list, key, read.by_day.values().sum());
        }
        Ok(read)
    }

    fn matches(&self, view: &ViewKey<'_>) -> bool {
        let is = |wanted: Option<&str>, part: &str| wanted.is_none_or(|wanted| wanted == part);
        let ViewFilter { hostname, page, referrer, country } = &self.0;
        is(hostname.as_deref(), view.hostname)
            && is(page.as_deref(), view.path)
            && is(referrer.as_deref(), view.referrer)
            && is(country.as_deref(), view.country)
    }
}

#[derive(Debug, Default)]
pub(super) struct ViewRankings {
    pages: CountRanking,
    referrers: CountRanking,
    countries: CountRanking,
}

pub(super) struct TopViews {
    pub(super) pages: Vec<PageViews>,
    pub(super) referrers: Vec<ReferrerViews>,
    pub(super) countries: Vec<CountryViews>,
}

impl ViewRankings {
    /// The lists whose entries [`Self::add`] accepts.
    pub(super) const LISTS: [ListKind; 3] = [ListKind::Page, ListKind::Referrer, ListKind::ViewCountry];

    pub(super) fn add(&mut self, entry: &ListEntry<'_>) {
        if let Some(ranking) = self.ranking(entry.kind) {
            ranking.add(entry.key, entry.count.requests);
        }
    }

    /// Raises the views of an entry to `views`, if they are fewer.
    fn raise(&mut self, list: ListKind, key: &str, views: u64) {
        if let Some(ranking) = self.ranking(list).filter(|_| views > 0) {
            ranking.raise(key, views);
        }
    }

    fn ranking(&mut self, list: ListKind) -> Option<&mut CountRanking> {
        match list {
            ListKind::Page => Some(&mut self.pages),
            ListKind::Referrer => Some(&mut self.referrers),
            ListKind::ViewCountry => Some(&mut self.countries),
            _ => None,
        }
    }

    fn add_view(&mut self, view: &ViewKey<'_>, views: u64) {
        self.pages.add(view.path, views);
        if !view.referrer.is_empty() {
            self.referrers.add(view.referrer, views);
        }
        self.countries.add(view.country, views);
    }

    pub(super) fn top(self) -> TopViews {
        let referrer = |(referrer, views)| ReferrerViews { referrer, views };
        TopViews {
            pages: self.pages.top(PAGES).map(|(path, views)| PageViews { path, views }).collect(),
            referrers: self.referrers.top(REFERRERS).map(referrer).collect(),
            countries: self.countries.top(COUNTRIES).map(|(country, views)| CountryViews { country, views }).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_has_to_have_all_that_is_asked_for() {
        let query = |text: &str| -> AudienceQuery { serde_urlencoded::from_str(text).unwrap() };
        let view = ViewKey { path: "/Docs", referrer: "", country: "DE", hostname: "docs.example" };
        for (text, fits) in [
            ("page=/Docs", true),
            ("page=/docs", false),
            ("referrer=", true),
            ("referrer=news.example", false),
            ("country=de&hostname=DOCS.example", true),
            ("country=de&hostname=www.example", false),
        ] {
            assert_eq!(AudienceFilter::from_query(&query(text)).unwrap().matches(&view), fits, "{text}");
        }
        assert!(AudienceFilter::from_query(&query("days=3")).is_none());
        for (text, own) in [
            ("page=/Docs", Some((ListKind::Page, "/Docs"))),
            ("referrer=News.example", Some((ListKind::Referrer, "news.example"))),
            ("country=de", Some((ListKind::ViewCountry, "DE"))),
            ("referrer=", None),
            ("hostname=docs.example", None),
            ("page=/&country=DE", None),
        ] {
            assert_eq!(AudienceFilter::from_query(&query(text)).unwrap().own_list(), own, "{text}");
        }
    }
}
