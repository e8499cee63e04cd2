//! The time from a limit that is reached until every edge refuses what is beyond it.

use std::time::{Duration, Instant};

use domain::Clock;
use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::{
    super::plans::{person, small_and_large},
    print,
};
use crate::{
    BACKGROUND,
    metering::provider::{Completion, PromptedProvider},
    metrics::Page,
    world::{Actor, Builder, Edge, Site, World, answer::Answer, eventually, ports},
};

/// Edges that are to refuse.
const EDGES: usize = 3;
/// Times that each limit is reached.
const TIMES: usize = 20;
/// Times that an account's bandwidth is used up, for each of which admin starts anew.
const TIMES_OF_BANDWIDTH: usize = 5;
/// A model of which a million tokens read cost 300 cents, and written 900.
const MODEL: &str = "svc/mistral-large";
/// Cents that are left for one completion, and not for another.
const CENTS: u64 = 2;
/// Bytes that an account may send in a month.
const BANDWIDTH: u32 = 1_000_000;

/// A completion that costs 1.2 cents, and reserves a little less than one.
fn completion() -> Value {
    Completion::of(1_000, 1_000).at_most(1_000).by(MODEL).request()
}

/// A world in which nothing but the limits of plans and keys is in the way.
async fn start(builder: Builder, provider: &PromptedProvider) -> World {
    let roomy = builder.edges(EDGES).set("GATEWAY__PROVIDER_URL", &provider.url);
    roomy.set("LIMITS__GATEWAY_PER_MIN", 1_000_000).start().await
}

/// Asks every edge again and again until it refuses. Returns the time from `reached` to the last one's refusal.
async fn refused(world: &World, reached: Instant, is_refused: impl AsyncFn(&Edge) -> bool) -> Duration {
    let asked = world.edges.iter().map(async |edge| {
        while !is_refused(edge).await {
            assert!(reached.elapsed() < BACKGROUND, "an edge does not refuse");
        }
    });
    join_all(asked).await;
    reached.elapsed()
}

/// Prints the row of a limit.
fn report(limit: &str, mut times: Vec<Duration>) {
    times.sort();
    let [median, slowest] = [times.len() / 2, times.len() - 1].map(|place| times[place].as_secs_f64() * 1_000.0);
    print(&format!("| {limit} | {} | {median:.1} | {slowest:.1} |", times.len()));
}

async fn complete(edge: &Edge, key: &str) -> Answer {
    edge.post("https://ai.svc.localhost/v1/chat/completions").bearer(key).json(&completion()).await
}

async fn is_refused_with(edge: &Edge, key: &str, code: &str) -> bool {
    let answer = complete(edge, key).await;
    answer.status == 429 && serde_json::from_slice::<Value>(&answer.body).unwrap()["error"]["code"] == code
}

/// Makes an AI key. Returns its path and its secret.
async fn key(owner: &Actor, limit: Option<u64>) -> (String, String) {
    let body = json!({ "kind": "ai", "monthly_limit_cents": limit });
    let created = owner.post("/tokens").json(&body).await.created();
    let [id, secret] = ["id", "token"].map(|field| created[field].as_str().unwrap().to_owned());
    (format!("/tokens/{id}"), secret)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only billing`"]
async fn monthly_limit_of_a_key() {
    let provider = PromptedProvider::start().await;
    let world = start(World::builder(), &provider).await;
    let ada = world.user("ada").await;
    let (mut spent, mut lowered) = (Vec::new(), Vec::new());
    for _ in 0..TIMES {
        let (_, secret) = key(&ada, Some(CENTS)).await;
        complete(world.edge(), &secret).await.assert_status(200);
        let reached = Instant::now();
        let is_refused = async |edge: &Edge| is_refused_with(edge, &secret, "limit_reached").await;
        spent.push(refused(&world, reached, is_refused).await);

        let (path, secret) = key(&ada, None).await;
        complete(world.edge(), &secret).await.assert_status(200);
        let reached = Instant::now();
        ada.request(Method::PATCH, &path).json(&json!({ "monthly_limit_cents": CENTS })).await.ok();
        let is_refused = async |edge: &Edge| is_refused_with(edge, &secret, "limit_reached").await;
        lowered.push(refused(&world, reached, is_refused).await);
    }
    report("a key's monthly limit, spent", spent);
    report("a key's monthly limit, set to what is spent", lowered);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only billing`"]
async fn credit_of_an_account() {
    let provider = PromptedProvider::start().await;
    let world = start(small_and_large(&json!({ "ai_credit_cents": CENTS }), &json!({})), &provider).await;
    let mut spent = Vec::new();
    for number in 0..TIMES {
        let (_, secret) = key(&world.user(&format!("user{number}")).await, None).await;
        complete(world.edge(), &secret).await.assert_status(200);
        let reached = Instant::now();
        let is_refused = async |edge: &Edge| is_refused_with(edge, &secret, "insufficient_quota").await;
        spent.push(refused(&world, reached, is_refused).await);
    }
    report("an account's AI credit, spent", spent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only billing`"]
async fn projects_of_a_plan() {
    let world = small_and_large(&json!({ "projects": 1 }), &json!({})).edges(EDGES).start().await;
    let mut made = Vec::new();
    for number in 0..TIMES {
        let login = format!("user{number}");
        let token = world.user(&login).await.token.unwrap();
        let make = async |edge: &Edge, name: String| {
            edge.post("https://api.svc.localhost/projects").bearer(&token).json(&json!({ "name": name })).await
        };
        make(world.edge(), format!("{login}-one")).await.created();
        let reached = Instant::now();
        let is_refused = async |edge: &Edge| {
            make(edge, format!("{login}-at-{}", edge.https_port)).await.assert_error(403, "plan_limit_reached");
            true
        };
        made.push(refused(&world, reached, is_refused).await);
    }
    report("the projects of a plan, made", made);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement, made by `bench/run --only billing`"]
async fn bandwidth_of_a_plan() {
    let plans = small_and_large(&json!({ "bandwidth_bytes": BANDWIDTH }), &json!({}));
    let mut world = plans.edges(EDGES).start().await;
    let ports: [u16; EDGES] = std::array::from_fn(|_| ports::free());
    for (index, port) in ports.into_iter().enumerate() {
        world.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"));
        world.edges[index].process.kill();
        world.restart_edge(index).await;
    }
    let over_plan = async |index: usize| Page::of(ports[index]).await.sum("svc_edge_over_plan_requests_total");
    let is_paced = async |world: &World, index: usize, url: &str| {
        let before = over_plan(index).await;
        world.edges[index].get(url).await.assert_body(200, "home");
        over_plan(index).await > before
    };
    let mut times = Vec::new();
    for number in 0..TIMES_OF_BANDWIDTH {
        let login = format!("user{number}");
        let url = world.user(&login).await.publish(&format!("site-of-{login}"), &Site::page("home")).await.url;
        let of_account =
            format!("FROM bandwidth_levels WHERE account = '{}' AND percent = 100", person(&world, &login).await);
        send(&mut world, &format!("site-of-{login}"), number).await;
        eventually(BACKGROUND, "the level is recorded", async || {
            world.sql_number(&format!("SELECT count(*) {of_account}")).await == 1
        })
        .await;
        let paced = join_all((0..EDGES).map(async |index| {
            eventually(BACKGROUND, "the edge knows", async || is_paced(&world, index, &url).await).await;
            Clock::system().now().unix_millis()
        }));
        let last = paced.await.into_iter().max().unwrap();
        let reached = format!("SELECT (extract(epoch FROM reached_at) * 1000)::bigint {of_account}");
        let reached = u64::try_from(world.sql_number(&reached).await).unwrap();
        times.push(Duration::from_millis(last.saturating_sub(reached)));
    }
    report("a plan's bandwidth, recorded as used up", times);
}

/// Appends a batch, as an edge does, of so many bytes to people as a month allows, and has admin look at them.
async fn send(world: &mut World, project: &str, batch: usize) {
    let id = world.sql_text(&format!("SELECT id FROM projects WHERE name = '{project}'")).await;
    let appended = format!(
        "SELECT append_traffic('figures', {batch} + 1, ARRAY[now()], ARRAY['{id}'],
                               ARRAY[1, {BANDWIDTH}, 0, 1, 1, 0, 0, 0, 0, 1, {BANDWIDTH}]::bigint[],
                               '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')::text"
    );
    assert_eq!(world.sql_text(&appended).await, "true");
    // Accounts are compared once this was done, and the job that does it need not be the first to run.
    world.sql("SELECT fold_traffic(1000)").await;
    world.restart_admin_later().await;
}
