//! `/projects/:name/stats/audience`: the pages that people viewed.

use std::collections::HashMap;

use api::stats::{AudienceDay, AudienceQuery, AudienceStats, AudienceTotals, CountryViews, PageViews, ReferrerViews};
use axum::extract::State;
use db::{
    permits::Member,
    stats::report::{self, Grain, ListEntry, ListKind, Wanted},
};
use domain::traffic::ViewKey;
use time::Date;

use super::{Asked, Ranking, deployments, unreadable};
use crate::{
    app::App,
    auth::ProjectAccess,
    error::ApiError,
    extract::{Json, Query},
};

const PAGES: usize = 10;
const REFERRERS: usize = 10;
const COUNTRIES: usize = 8;

/// Shows the pages that people viewed, by day in UTC.
///
/// A view is a page that a person opened and got, or had already. Visitors are counted without cookies, by a sketch
/// that keeps none of them, for one day at a time. With `hostname`, `page`, `referrer` or `country`, the views that
/// have all of these count, as far as they are among the 200 most frequent combinations of a day that has ended.
#[utoipa::path(
    get, path = "/projects/{name}/stats/audience", tag = "Statistics",
    params(("name" = String, Path, description = "The project's name"), AudienceQuery),
    responses((status = 200, description = "The views", body = AudienceStats)),
    extensions(("x-errors" = json!({
        "stats_unavailable": "nothing is counted here",
        "cdn_error": "what was counted cannot be read",
        "busy": "as many reports are being read as the server, or the project's owner, may have at a time",
    }))),
)]
pub async fn show(
    State(app): State<App>,
    ProjectAccess(project): ProjectAccess<Member>,
    Query(query): Query<AudienceQuery>,
) -> Result<Json<AudienceStats>, ApiError> {
    let Asked { readable, range, days, to, turn: _turn } = Asked::of(&app, &project, query.days).await?;
    let filter = Filter::of(&query);
    let lists: &[ListKind] = match filter {
        Some(_) => &[ListKind::View],
        None => &Views::LISTS,
    };
    let wanted = Wanted { lists, grain: Grain::Day, visitors: filter.is_none() };
    let (mut views, mut filtered) = (Views::default(), HashMap::<Date, u64>::new());
    let found = report::days(&app.db, &readable, range, wanted, |entry| match &filter {
        None => views.add(&entry),
        Some(filter) => {
            if let Some(view) = ViewKey::parse(entry.key).filter(|view| filter.has(view)) {
                *filtered.entry(entry.begin.as_datetime().date()).or_default() += entry.count.requests;
                views.add_view(&view, entry.count.requests);
            }
        }
    });
    let found = found.await.map_err(unreadable)?;

    let mut totals = AudienceTotals::default();
    let known: HashMap<Date, _> = found.into_iter().map(|day| (day.day, day)).collect();
    let timeline = range.days().map(|day| {
        let of_day = known.get(&day);
        let pageviews = match filter {
            None => of_day.map_or(0, |known| known.sums.pageviews),
            Some(_) => filtered.get(&day).copied().unwrap_or_default(),
        };
        totals.pageviews += pageviews;
        let visitors = filter.is_none().then(|| of_day.map_or(0, |known| known.visitors));
        AudienceDay { day: day.to_string(), pageviews, visitors }
    });
    let timeline = timeline.collect();
    let TopViews { pages, referrers, countries } = views.top();
    Ok(Json(AudienceStats {
        project: project.name.clone(),
        from: range.begin(),
        to,
        days: days.count(),
        totals,
        timeline,
        top_pages: pages,
        top_referrers: referrers,
        top_countries: countries,
        deployments: deployments(&app, &readable, range.begin()).await?,
    }))
}

/// The views that are asked for.
#[derive(Debug)]
struct Filter<'q> {
    hostname: Option<String>,
    page: Option<&'q str>,
    referrer: Option<String>,
    country: Option<String>,
}

impl<'q> Filter<'q> {
    /// Returns what the query asks for, unless that is every view.
    fn of(query: &'q AudienceQuery) -> Option<Self> {
        let AudienceQuery { hostname, page, referrer, country, .. } = query;
        let is_any = [hostname, page, referrer, country].into_iter().any(Option::is_some);
        is_any.then(|| Self {
            hostname: hostname.as_ref().map(|name| name.to_ascii_lowercase()),
            page: page.as_deref(),
            referrer: referrer.as_ref().map(|host| host.to_ascii_lowercase()),
            country: country.as_ref().map(|code| code.to_ascii_uppercase()),
        })
    }

    fn has(&self, view: &ViewKey<'_>) -> bool {
        let is = |wanted: Option<&str>, part: &str| wanted.is_none_or(|wanted| wanted == part);
        is(self.hostname.as_deref(), view.hostname)
            && is(self.page, view.path)
            && is(self.referrer.as_deref(), view.referrer)
            && is(self.country.as_deref(), view.country)
    }
}

/// Views by page, referrer and country.
#[derive(Debug, Default)]
pub(super) struct Views {
    pages: Ranking,
    referrers: Ranking,
    countries: Ranking,
}

/// The most frequent of each.
pub(super) struct TopViews {
    pub(super) pages: Vec<PageViews>,
    pub(super) referrers: Vec<ReferrerViews>,
    pub(super) countries: Vec<CountryViews>,
}

impl Views {
    /// The lists that [`Self::add`] takes entries of.
    pub(super) const LISTS: [ListKind; 3] = [ListKind::Page, ListKind::Referrer, ListKind::ViewCountry];

    pub(super) fn add(&mut self, entry: &ListEntry<'_>) {
        let ranking = match entry.kind {
            ListKind::Page => &mut self.pages,
            ListKind::Referrer => &mut self.referrers,
            ListKind::ViewCountry => &mut self.countries,
            _ => return,
        };
        ranking.add(entry.key, entry.count.requests);
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
            assert_eq!(Filter::of(&query(text)).unwrap().has(&view), fits, "{text}");
        }
        assert!(Filter::of(&query("days=3")).is_none());
    }
}
