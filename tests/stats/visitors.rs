//! Visitors are counted once a day, whichever edges they come to, and kept by nobody.

use domain::traffic::sketch::{SketchRegister, VisitorSketch};

use super::{audience::sum, *};
use crate::{BACKGROUND, metrics::Page, world::ports};

/// What is stored of visitors, as one sketch.
async fn visitors(world: &World) -> u64 {
    let sql = "SELECT coalesce(string_agg(register::text, ' '), '')
               FROM (SELECT unnest(visitors) AS register FROM traffic_recent
                     UNION ALL SELECT unnest(registers) FROM traffic_visitors) AS registers";
    let registers = world.sql_text(sql).await;
    let mut sketch = VisitorSketch::default();
    sketch.extend(
        registers.split_whitespace().map(|register| SketchRegister::from_stored(register.parse().unwrap()).unwrap()),
    );
    sketch.estimate()
}

/// Shows a page to the visitor with this number, at one of the edges.
async fn view(visited: &Visited, edge: usize, visitor: u32) {
    let edge = &visited.world.edges[edge];
    let navigation = edge.navigate(&visited.url).header("accept-language", "en");
    let agent = "Mozilla/5.0 (Windows NT 6.1; Win64; x64; rv:78.0) Gecko/20100101 Firefox/78.0";
    let address = format!("198.51.{}.{}", 100 + visitor / 250, visitor % 250);
    navigation.header("user-agent", agent).header("x-forwarded-for", address).await.assert_status(200);
}

#[tokio::test]
async fn a_visitor_of_three_edges_is_one() {
    let visited = Visited::start_with(&Site::page("<p>home"), |builder| {
        builder.edges(3).set("EDGE__TRUSTED_PROXIES", "127.0.0.1/32")
    })
    .await;
    // All edges have the salt of the day.
    eventually(BACKGROUND, "there is a salt", async || {
        visited.world.sql_number("SELECT count(*) FROM visitor_salts").await > 0
    })
    .await;
    let truth = 120;
    for visitor in 0..truth {
        for edge in 0..3 {
            view(&visited, edge, visitor).await;
        }
    }
    let all = i64::from(truth) * 3;
    eventually(SEEN_WITHIN, "all views are seen", async || sum(&visited.world, 10, "pageviews").await == all).await;
    let estimate = visitors(&visited.world).await;
    assert!(estimate.abs_diff(truth.into()) <= 3, "{estimate} of {truth} visitors");
    // They are as many as before when they come again.
    for visitor in 0..truth {
        view(&visited, 0, visitor).await;
    }
    let all = all + i64::from(truth);
    eventually(SEEN_WITHIN, "all views are seen", async || sum(&visited.world, 10, "pageviews").await == all).await;
    assert_eq!(visitors(&visited.world).await, estimate);
    // One salt a day, whoever asked first.
    let salts = "SELECT max(n) FROM (SELECT count(*) AS n FROM visitor_salts GROUP BY day) AS days";
    assert_eq!(visited.world.sql_number(salts).await, 1);
}

#[tokio::test]
async fn views_count_while_there_is_no_salt_and_visitors_do_not() {
    let port = ports::free();
    let mut visited = Visited::start_with(&Site::page("<p>home"), |builder| {
        builder.set("EDGE__TRUSTED_PROXIES", "127.0.0.1/32").set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))
    })
    .await;
    visited.world.sql("ALTER TABLE visitor_salts RENAME TO salts_that_are_away").await;
    visited.world.restart_edge(0).await;
    view(&visited, 0, 1).await;
    eventually(SEEN_WITHIN, "the view is seen", async || sum(&visited.world, 10, "pageviews").await == 1).await;
    let are_counted = async || Page::of(port).await.sum("svc_traffic_visitors_counted") > 0.5;
    assert_eq!((visitors(&visited.world).await, are_counted().await), (0, false));
    visited.world.sql("ALTER TABLE salts_that_are_away RENAME TO visitor_salts").await;
    eventually(BACKGROUND, "there is a salt", are_counted).await;
    view(&visited, 0, 1).await;
    eventually(SEEN_WITHIN, "the visitor is seen", async || visitors(&visited.world).await == 1).await;
}
