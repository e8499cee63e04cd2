//! `/stats/:token`: a project's statistics, for anyone with its public link.

use admin_http::{
    addresses::paths,
    error::ApiError,
    extract::{Path, Query},
    html,
};
use api::stats::{LiveBots, PublicDay, PublicQuery, PublicStats};
use app::{
    App,
    middleware::client::ClientAddress,
    rates::{self, Bucket},
};
use askama::Template;
use axum::{Extension, extract::State, http::StatusCode, response::Response};
use domain::{ProjectName, size, stats::DAYS_KEPT};
use stats_handlers::public;
use time::Date;

use super::PageError;

const HEIGHT: u64 = 60;
const DAY: u64 = 10;
const BAR: u64 = 8;

#[derive(Template)]
#[template(path = "stats.html")]
struct StatsPage<'a> {
    project: &'a ProjectName,
    from: &'a str,
    until: &'a str,
    /// The first and last day that can be selected.
    oldest: Date,
    today: Date,
    /// The page views of the preceding period in words, if known.
    compared: Option<String>,
    pageviews: String,
    requests: String,
    sent: String,
    width: u64,
    height: u64,
    most: u64,
    bars: Vec<ChartBar>,
    lists: Vec<TopList<'a>>,
    /// The address of the same statistics as JSON.
    json: &'a str,
}

struct ChartBar {
    x: u64,
    y: u64,
    width: u64,
    height: u64,
    label: String,
}

struct TopList<'a> {
    title: &'a str,
    heading: &'a str,
    counted: &'a str,
    rows: Vec<TopRow<'a>>,
}

struct TopRow<'a> {
    name: &'a str,
    number: String,
}

/// Shows the statistics behind a public link.
pub(super) async fn show(
    State(app): State<App>,
    Extension(ClientAddress(client)): Extension<ClientAddress>,
    Path(token): Path<String>,
    query: Result<Query<PublicQuery>, ApiError>,
) -> Result<Response, PageError> {
    app.rate_limits.count_client(Bucket::Public, &rates::client(client)).await.check()?;
    let Query(query) = query?;
    let Some(stats) = public::read(&app, &token, &query, client.into()).await? else {
        let sentence = "It was turned off, or its project is gone. Ask whoever gave you the link.";
        return Ok(html::message(StatusCode::NOT_FOUND, "There is no such link", sentence));
    };
    let dates = match (query.from, query.to) {
        (Some(from), Some(to)) => format!("?from={from}&to={to}"),
        (Some(from), None) => format!("?from={from}"),
        _ => String::new(),
    };
    let json = format!("/api{}/{token}{dates}", paths::STATS);
    let today = app.clock.now().as_datetime().date();
    Ok(html::page(StatusCode::OK, &StatsPage::new(&stats, today, &json)))
}

impl<'a> StatsPage<'a> {
    fn new(stats: &'a PublicStats, today: Date, json: &'a str) -> Self {
        let most = stats.timeline.iter().map(|day| day.pageviews).max().unwrap_or_default();
        let row = |name: &'a str, number| TopRow { name, number: format_thousands(number) };
        let LiveBots { people, declared, automation, .. } = &stats.bots;
        let views = "Views";
        let lists = vec![
            TopList {
                title: "Pages",
                heading: "Path",
                counted: views,
                rows: stats.top_pages.iter().map(|page| row(&page.path, page.views)).collect(),
            },
            TopList {
                title: "Where people came from",
                heading: "Site",
                counted: views,
                rows: stats.top_referrers.iter().map(|site| row(&site.referrer, site.views)).collect(),
            },
            TopList {
                title: "Countries",
                heading: "Country",
                counted: views,
                rows: stats.top_countries.iter().map(|country| row(&country.country, country.views)).collect(),
            },
            TopList {
                title: "Who asked",
                heading: "Kind",
                counted: "Requests",
                rows: vec![
                    row("People", people.requests),
                    row("Programs that say what they are", declared.requests),
                    row("Programs that pretend to be a browser", automation.requests),
                ],
            },
        ];
        Self {
            project: &stats.project,
            from: stats.timeline.first().map_or("", |day| &day.day),
            until: stats.timeline.last().map_or("", |day| &day.day),
            oldest: today.saturating_sub(time::Duration::days(DAYS_KEPT.into())),
            today,
            compared: stats.previous.map(|previous| describe_previous(previous.pageviews, stats.days)),
            pageviews: format_thousands(stats.pageviews),
            requests: format_thousands(stats.requests),
            sent: size(stats.bytes),
            width: stats.timeline.len() as u64 * DAY,
            height: HEIGHT,
            most,
            bars: (0..).zip(&stats.timeline).map(|(place, day)| bar(place, day, most)).collect(),
            lists,
            json,
        }
    }
}

/// Describes the page views of the preceding period of `days` days.
fn describe_previous(pageviews: u64, days: u16) -> String {
    let before = if days == 1 { "the day".to_owned() } else { format!("the {days} days") };
    format!("{} in {before} before", format_thousands(pageviews))
}

/// Returns a bar scaled to the highest one; anything above zero is visible.
fn bar(place: u64, day: &PublicDay, most: u64) -> ChartBar {
    let PublicDay { day, pageviews, visitors, .. } = day;
    let height = (u128::from(*pageviews) * u128::from(HEIGHT)).div_ceil(u128::from(most.max(1)));
    let height = u64::try_from(height).unwrap_or(HEIGHT).min(HEIGHT);
    let label = format!("{day}: {pageviews} page views, {visitors} visitors");
    ChartBar { x: place * DAY, y: HEIGHT - height, width: BAR, height, label }
}

/// Formats a number with thousands separators: `36,156`.
fn format_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use api::stats::{PageViews, PublicTotals, RequestCount};
    use domain::Timestamp;

    use super::*;

    #[test]
    fn thousands_stand_apart() {
        assert_eq!(
            [0, 999, 1_000, 36_156, 1_000_000].map(format_thousands),
            ["0", "999", "1,000", "36,156", "1,000,000"]
        );
    }

    #[test]
    fn the_page_shows_the_numbers_and_escapes_what_visitors_sent() {
        let day = |number: u64| PublicDay {
            day: format!("2026-11-0{number}"),
            requests: 10 * number,
            pageviews: number,
            visitors: 1,
        };
        let nobody = RequestCount::default();
        let bots = LiveBots { people: nobody, declared: nobody, automation: nobody, classes: Vec::new() };
        let stats = PublicStats {
            project: "engine".parse().unwrap(),
            from: Timestamp::from_unix_millis(0),
            to: Timestamp::from_unix_millis(0),
            days: 2,
            requests: 30,
            bytes: 1_468_006,
            pageviews: 3,
            previous: Some(PublicTotals { pageviews: 1_234, ..PublicTotals::default() }),
            timeline: vec![day(1), day(2)],
            top_pages: vec![PageViews { path: "/<b>".to_owned(), views: 3 }],
            top_referrers: Vec::new(),
            top_countries: Vec::new(),
            bots,
        };
        let html = StatsPage::new(&stats, time::macros::date!(2026 - 11 - 02), "/api/stats/x").render().unwrap();
        for part in [
            "<title>Statistics of engine</title>",
            "<strong>3</strong> page views",
            "(1,234 in the 2 days before)",
            "2026-11-01 to 2026-11-02",
            "min=\"2025-09-28\" max=\"2026-11-02\" value=\"2026-11-01\"",
            "<strong>1.4 MB</strong> sent",
            "viewBox=\"0 0 20 60\"",
            "<rect x=\"0\" y=\"30\" width=\"8\" height=\"30\"",
            "<title>2026-11-02: 2 page views, 1 visitors</title>",
            "<td class=\"host\">/&#60;b&#62;</td><td class=\"number\">3</td>",
            "href=\"/api/stats/x\"",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
        assert_eq!(html.matches("None yet.").count(), 2);
    }
}
