//! Edges whose clocks are more than a day ahead and behind, beside one that is right. Redis's clock decides what minute and day
//! a completion belongs to, and each edge says how far its own is off. What happens at midnight is in [`super::midnight`].

use domain::{Clock, CompletionId};

use super::{
    limits::{assert_code, retry_after, seconds_to_midnight},
    relay::{self, Relay},
    served::{Received, UNLIMITED_TOKENS, completions, numbered, without_limits},
    *,
};
use crate::{metrics::Page, world::ports};

/// The seconds by which the edges' clocks are ahead: no whole days, so that the time of day is wrong as well.
const AHEAD: [i64; 3] = [0, 108_000, -108_000];
const EDGES: std::ops::Range<usize> = 0..AHEAD.len();

fn with_wrong_clocks(builder: Builder) -> Builder {
    let ahead = EDGES.zip(AHEAD).filter(|(_, seconds)| *seconds != 0);
    ahead.fold(builder.edges(AHEAD.len()), |builder, (edge, seconds)| builder.edge_ahead(edge, seconds))
}

/// Fails if a row is charged to another day, or found in another minute: its id begins with the time.
pub(super) async fn assert_charged_to_today(metered: &Metered) {
    let (now, hour) = (Clock::system().now(), Duration::from_hours(1));
    let [first, last] = [now - hour, now + hour].map(CompletionId::first_of);
    for wrong in [
        "abs(extract(epoch FROM now() - created_at)) > 3600".to_owned(),
        format!("id < '{}' OR id > '{}'", first.as_str(), last.as_str()),
    ] {
        assert_eq!(metered.rows(&wrong).await, 0, "{wrong}");
    }
}

#[tokio::test]
async fn each_edge_says_how_far_its_clock_is_off() {
    let pages = AHEAD.map(|_| ports::free());
    let _metered = Metered::start_with(|builder| {
        EDGES.zip(pages).fold(with_wrong_clocks(builder), |builder, (edge, page)| {
            builder.set_at_edge(edge, "EDGE__METRICS_LISTEN", format!("127.0.0.1:{page}"))
        })
    })
    .await;
    for (page, ahead) in pages.into_iter().zip([0.0, 108_000.0, -108_000.0]) {
        let skew = async || Page::of(page).await.sum("svc_gateway_clock_skew_seconds");
        // What the gauge says is a moment old, and the machine may be busy.
        let what = format!("it is {ahead} s ahead");
        eventually(BACKGROUND, &what, async || (skew().await - ahead).abs() < 5.0).await;
    }
}

#[tokio::test]
async fn what_edges_with_wrong_clocks_serve_is_charged_to_today_and_counted_once() {
    let mut metered = Metered::start_with(|builder| with_wrong_clocks(without_limits(builder))).await;
    let mut received = Received::default();
    let count = completions(4);
    let batch = |number: u64| (number * count..(number + 1) * count).map(numbered);
    for (number, edge) in (0..).zip(EDGES) {
        received.extend(metered.serve_all(edge, batch(number)).await);
    }
    metered.assert_ledger(&received, 0).await;
    assert_charged_to_today(&metered).await;
    // What is left of the day is one number, wherever it is asked for.
    for (prompt, edge) in (1..).zip(EDGES) {
        let wanted = Completion::of(prompt, 1).at_most(10);
        let answer = metered.ask_at(edge, &metered.key, &wanted).await.assert_status(200);
        let left: u64 = answer.header("x-ratelimit-remaining-tokens").parse().unwrap();
        assert_eq!(left, UNLIMITED_TOKENS - received.tokens() - wanted.reserves(), "edge {edge}");
        received.add(&wanted);
        metered.assert_ledger(&received, 0).await;
    }
    // The one whose clock is behind settles for the others.
    let mut held = Vec::new();
    for (number, edge) in (3..).zip(EDGES) {
        let wanted = batch(number).map(|completion| completion.at_most(300).held());
        held.push(metered.hold(edge, wanted).await);
    }
    for edge in &mut metered.world.edges[..2] {
        edge.process.kill();
    }
    metered.provider.release();
    for held in held {
        received.extend(held.end().await);
    }
    let figures = metered.assert_ledger(&received, 0).await;
    assert_eq!(figures.estimated as u64, 2 * count, "{figures}");
    assert_charged_to_today(&metered).await;
}

#[tokio::test]
async fn the_minute_and_the_day_end_when_redis_says_at_every_edge() {
    let metered = Metered::start_with(|builder| {
        with_wrong_clocks(builder)
            .set("LIMITS__GATEWAY_PER_MIN", AHEAD.len())
            .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 2_000)
    })
    .await;
    let (small, large) = (Completion::of(1, 1), Completion::of(1, 1).at_most(4_000));
    // A refusal that is remembered says the same.
    for edge in EDGES.chain(EDGES) {
        let before = seconds_to_midnight();
        let refused = metered.ask_at(edge, &metered.key, &large).await.assert_status(429);
        assert_code(&refused, "daily_token_limit_exceeded");
        let (wait, after) = (retry_after(&refused), seconds_to_midnight());
        assert!((after..=before + 1).contains(&wait), "edge {edge}: {wait} s, {after} s before midnight");
    }
    for edge in EDGES {
        metered.ask_at(edge, &metered.key, &small).await.assert_status(200);
    }
    for edge in EDGES.chain(EDGES) {
        let refused = metered.ask_at(edge, &metered.key, &small).await.assert_status(429);
        assert_code(&refused, "rate_limit_exceeded");
        assert!((1..=60).contains(&retry_after(&refused)), "edge {edge}: {}", retry_after(&refused));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edge_that_has_not_heard_of_redis_yet_goes_by_no_other_clock() {
    let relay = Relay::start(relay::NOWHERE).await;
    let url = format!("redis://127.0.0.1:{}", relay.port);
    let metered = Metered::start_with(|builder| {
        without_limits(builder).edge_ahead(0, AHEAD[1]).set_at_edge(0, "REDIS__URL", &url)
    })
    .await;
    metered.ask(&numbered(0)).await.assert_status(503);
    relay.lead_to(metered.world.redis_port);
    // The first is admitted before the edge comes to anything else that it asks Redis for.
    let (mut received, mut wanted) = (Received::default(), (1..).map(numbered));
    eventually(BACKGROUND, "some are admitted", async || {
        received.extend(metered.serve(0, wanted.by_ref().take(32)).await);
        received.len() > 0
    })
    .await;
    metered.assert_ledger(&received, 0).await;
    assert_charged_to_today(&metered).await;
}
