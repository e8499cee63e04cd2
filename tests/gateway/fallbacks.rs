//! Models with a second provider: which of the two is asked and when, what the answer and the records say, and how accounts share a
//! provider's rate limit.

use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinSet};

use super::{Gateway, create_key};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Act, KEY, Provider, SECRET, Script, dialects::Dialect, usual_events},
    world::{Actor, Builder, World, answer::Answer, eventually, ports, request::Request},
};

/// The model of the first provider whose fallback is the second.
const MODEL: &str = "svc/qwen3-32b";
/// The same of a provider where nobody listens.
const DOWN: &str = "svc/qwen3-coder-30b";
/// A model without a second provider, where nobody listens.
const ALONE: &str = "svc/llama-3.3-70b-instruct";

/// A world in which one provider has a second one beside it, with another dialect.
struct Pair {
    world: World,
    first: Provider,
    second: Provider,
    ada: Actor,
    key: String,
    /// The port of the provider where nobody listens.
    down: u16,
    metrics: u16,
}

impl Pair {
    async fn start() -> Self {
        Self::start_with(|builder| builder).await
    }

    async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> Self {
        let first = Provider::start_as(Dialect::named("vllm")).await;
        let second = Provider::start_as(Dialect::named("mistral")).await;
        let (down, metrics) = (ports::free(), ports::free());
        let shipped = config::Gateway::default();
        let mut providers = serde_json::to_value(shipped.providers).unwrap();
        for (name, url) in [
            ("ovhcloud", first.url.clone()),
            ("mistral", second.url.clone()),
            ("scaleway", format!("http://127.0.0.1:{down}")),
        ] {
            providers[name]["base_url"] = format!("{url}/v1").into();
        }
        let mut models = serde_json::to_value(shipped.models).unwrap();
        for model in [MODEL, DOWN] {
            models[model]["fallback"] = json!({ "provider": "mistral", "upstream": "same-weights" });
        }
        let builder = World::builder()
            .variable("OVH_AI_ENDPOINTS_ACCESS_TOKEN", KEY)
            .variable("SCW_SECRET_KEY", KEY)
            .variable("MISTRAL_API_KEY", KEY)
            .set("GATEWAY__PROVIDERS", providers)
            .set("GATEWAY__MODELS", models)
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
            .set("LIMITS__GATEWAY_PER_MIN", 1_000_000)
            .set("LIMITS__GATEWAY_CONCURRENT", 1_000)
            .set("LIMITS__GATEWAY_TOKENS_PER_DAY", 1_000_000_000);
        let world = configure(builder).start().await;
        let ada = world.user("ada").await;
        let key = create_key(&ada).await;
        Self { world, first, second, ada, key, down, metrics }
    }

    fn post(&self, path: &str, key: &str, body: &Value) -> Request {
        let url = format!("https://ai.svc.localhost:{}{path}", self.world.public_port());
        self.world.edge().post(&url).bearer(key).header("content-type", "application/json").body(body.to_string())
    }

    fn ask(&self, model: &str, fields: &Value) -> Request {
        let mut body = super::request(fields);
        body["model"] = model.into();
        self.post("/v1/chat/completions", &self.key, &body)
    }

    /// Rows of exact usage by a provider, each of as many tokens as the stubs report.
    async fn served(&self, provider: &str) -> i64 {
        let which =
            format!("provider = '{provider}' AND NOT estimated AND prompt_tokens = 9 AND completion_tokens = 12");
        self.world.sql_number(&format!("SELECT count(*) FROM ai_usage WHERE {which}")).await
    }

    async fn circuit(&self, provider: &str) -> Option<f64> {
        let label = format!("provider=\"{provider}\"");
        Page::of(self.metrics).await.labelled("svc_gateway_provider_circuit", &label)
    }
}

#[track_caller]
fn assert_served_by(answer: &Answer, provider: &str) {
    assert_eq!(answer.status.as_u16(), 200, "{}", answer.text());
    assert_eq!(answer.header("x-svc-provider"), provider);
}

#[tokio::test]
async fn the_second_provider_serves_what_the_first_cannot_have_begun() {
    let pair = Pair::start_with(|world| world.set("GATEWAY__QUEUE_SECONDS", 0)).await;
    for stream in [false, true] {
        let answer = pair.ask(MODEL, &json!({ "stream": stream })).await;
        assert_served_by(&answer, "ovhcloud");
    }
    assert!(pair.second.asked().is_empty());
    let mut second = 0;
    for status in [429, 503, 529] {
        for stream in [false, true] {
            pair.first.next(Script::error(status));
            let answer = pair.ask(MODEL, &json!({ "stream": stream, "user": "u" })).await.assert_hides_provider();
            assert_served_by(&answer, "mistral");
            second += 1;
            // In the second one's dialect: it takes no other.
            let asked = pair.second.last_asked().body();
            assert_eq!((&asked["model"], pair.second.asked().len()), (&"same-weights".into(), second));
            assert!(asked.get("user").is_none(), "{asked}");
        }
    }
    assert_eq!(pair.first.asked().len(), 2 + second, "each was asked once");
    // Nobody listens.
    for stream in [false, true] {
        assert_served_by(&pair.ask(DOWN, &json!({ "stream": stream })).await, "mistral");
    }
    // In the other formats.
    pair.first.next(Script::error(503));
    let body = json!({ "model": MODEL, "input": "Hi?" });
    assert_served_by(&pair.post("/v1/responses", &pair.key, &body).await, "mistral");
    let body = json!({ "model": DOWN, "max_tokens": 9, "messages": [{ "role": "user", "content": "Hi?" }] });
    assert_served_by(&pair.post("/v1/messages", &pair.key, &body).await, "mistral");
    // What both refuse is refused, and is not paid.
    pair.first.next(Script::error(503));
    pair.second.next(Script::answer(429, &[("retry-after", "7")], SECRET.as_bytes()));
    let refused = pair.ask(MODEL, &json!({})).await;
    assert_eq!((refused.header("retry-after"), refused.find_header("x-svc-provider")), ("7", None));
    refused.assert_openai_error(503, "upstream_overloaded");

    eventually(BACKGROUND, "every completion is counted once", async || {
        pair.served("mistral").await == 10 && pair.served("ovhcloud").await == 2
    })
    .await;
    assert_eq!(pair.world.sql_number("SELECT count(*) FROM ai_usage WHERE certainty < 3").await, 12);
    // The list says who served.
    let listed = pair.ada.get("/usage/ai/requests?limit=100").await.ok();
    let by = |provider: &str| {
        listed["requests"].as_array().unwrap().iter().filter(|row| row["provider"] == provider).count()
    };
    assert_eq!((by("mistral"), by("ovhcloud")), (10, 2));
    let models = pair.world.edge().get(&format!("https://ai.svc.localhost:{}/v1/models", pair.world.public_port()));
    let models = models.bearer(&pair.key).await.ok();
    let owners = |id: &str| {
        let all = models["data"].as_array().unwrap();
        all.iter().find(|model| model["id"] == id).unwrap()["owned_by"].clone()
    };
    assert_eq!((owners(MODEL), owners(ALONE)), ("OVHcloud, Mistral AI".into(), "Scaleway".into()));
}

#[tokio::test]
async fn a_provider_that_may_have_begun_is_the_only_one_asked() {
    let pair = Pair::start_with(|world| {
        world.set("GATEWAY__FIRST_BYTE_SECONDS", 1).set("GATEWAY__IDLE_SECONDS", 1).set("GATEWAY__QUEUE_SECONDS", 0)
    })
    .await;
    let begun = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9000\r\n\r\n{\"ch".to_vec();
    let words = |count: usize| usual_events(4).into_iter().take(count).map(|event| format!("{event}\n\n").into_bytes());
    for (stream, script) in [
        (false, Script::error(400)),
        (false, Script::error(500)),
        (false, Script::error(502)),
        (true, Script::error(504)),
        (false, Script(vec![Act::Close])),
        (true, Script(vec![Act::Hang])),
        (false, Script(vec![Act::Send(begun), Act::Close])),
        (true, Script::stream(words(0), false).then(Act::Close)),
        (true, Script::stream(words(3), false).then(Act::Close)),
    ] {
        let (what, asked) = (format!("{script:?}"), pair.first.asked().len());
        pair.first.next(script);
        let (_, begun) = pair.ask(MODEL, &json!({ "stream": stream })).open().await;
        if let Some(begun) = begun {
            // However it ends.
            let _ = begun.bytes().await;
        }
        assert_eq!(pair.first.asked().len(), asked + 1, "{what}");
        assert_eq!(pair.second.asked().len(), 0, "{what}");
    }
    let count = "SELECT count(*) FROM ai_usage WHERE provider <> 'ovhcloud'";
    assert_eq!(pair.world.sql_number(count).await, 0);
}

#[tokio::test]
async fn a_provider_that_fails_again_and_again_is_left_alone_until_it_is_back() {
    let pair = Pair::start().await;
    // Refusals are no failures, however many.
    for _ in 0..20 {
        pair.first.next(Script::error(400));
        pair.ask(MODEL, &json!({})).await.assert_openai_error(400, "invalid_value");
    }
    assert_served_by(&pair.ask(MODEL, &json!({})).await, "ovhcloud");
    assert_eq!(pair.circuit("ovhcloud").await, Some(0.0));

    let mut refused = None;
    for _ in 0..20 {
        let answer = pair.ask(ALONE, &json!({})).await;
        if answer.status == 503 {
            refused = Some(answer);
            break;
        }
        answer.assert_openai_error(502, "upstream_error");
    }
    let refused = refused.expect("the circuit has opened");
    assert!((1..=5).contains(&refused.header("retry-after").parse::<u64>().unwrap()));
    let error = refused.assert_openai_error(503, "upstream_overloaded");
    assert!(error["message"].as_str().unwrap().contains("several times in a row"), "{error}");
    assert_eq!(pair.circuit("scaleway").await, Some(2.0));
    // The same provider's models with a second one are served there.
    assert_served_by(&pair.ask(DOWN, &json!({})).await, "mistral");

    let back = Provider::start_on(TcpListener::bind(("127.0.0.1", pair.down)).await.unwrap());
    eventually(BACKGROUND, "it is asked again", async || pair.ask(ALONE, &json!({})).await.status == 200).await;
    assert_eq!((back.asked().len(), pair.circuit("scaleway").await), (1, Some(0.0)));
    assert_served_by(&pair.ask(DOWN, &json!({})).await, "scaleway");
    assert!(pair.world.edge().process.log().contains("a provider answers again"));
}

#[tokio::test]
async fn accounts_take_turns_at_a_providers_rate_limit() {
    const GREEDY: usize = 24;
    const EACH: usize = 2;
    let metrics = ports::free();
    let gateway = Gateway::start_with(|world| world.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))).await;
    let mut keys = vec![gateway.key.clone()];
    for name in ["bob", "cyd", "dan", "eve", "fay", "gus", "hal", "ivy", "joe"] {
        keys.push(create_key(&gateway.world.user(name).await).await);
    }
    let url = gateway.url("/v1/chat/completions");
    let mut answers = JoinSet::new();
    let mut ask = |account: usize, count: usize| {
        for _ in 0..count {
            let body = super::request(&json!({ "user": account.to_string() })).to_string();
            let request = gateway.world.edge().post(&url).bearer(&keys[account]);
            let request = request.header("content-type", "application/json").body(body);
            answers.spawn(async move { request.await.status.as_u16() });
        }
    };
    let waiting = async |count: usize, refused: usize| {
        eventually(BACKGROUND, &format!("{count} wait"), async || {
            let paced = Page::of(metrics).await.sum("svc_gateway_paced");
            format!("{paced:.0}").parse::<usize>().unwrap() + gateway.provider.asked().len() >= count + refused
        })
        .await;
    };
    // Two accounts are refused: the limit is the provider's.
    for account in 0..2 {
        gateway.provider.next(Script::answer(429, &[("retry-after", "8")], SECRET.as_bytes()));
        ask(account, 1);
        waiting(account + 1, account + 1).await;
    }
    gateway.provider.allow_per_second(20);
    ask(0, GREEDY);
    waiting(2 + GREEDY, 2).await;
    for account in 1..keys.len() {
        ask(account, EACH);
    }
    let all = 2 + GREEDY + 9 * EACH;
    waiting(all, 2).await;
    let before = gateway.provider.asked().len();
    while let Some(status) = answers.join_next().await {
        assert_eq!(status.unwrap(), 200, "nobody is refused who can be served in time");
    }
    let asked = gateway.provider.asked();
    // And the two that were refused.
    assert_eq!(asked.len(), all + 2);
    let accounts: Vec<usize> =
        asked[before..].iter().map(|asked| asked.body()["user"].as_str().unwrap().parse().unwrap()).collect();
    let last = accounts.iter().rposition(|account| *account != 0).expect("the others have waited");
    let greedy = accounts[..last].iter().filter(|account| **account == 0).count();
    assert!(greedy <= EACH + 2, "one account had {greedy} turns before the last of the others: {accounts:?}");
    let rows = "SELECT count(*) FROM ai_usage WHERE NOT estimated";
    eventually(BACKGROUND, "each is counted once", async || {
        gateway.world.sql_number(rows).await == i64::try_from(all).unwrap()
    })
    .await;
}

#[tokio::test]
async fn an_account_that_is_refused_makes_nobody_else_wait() {
    let gateway = Gateway::start().await;
    let other = create_key(&gateway.world.user("bob").await).await;
    gateway.provider.next(Script::answer(429, &[("retry-after", "45")], SECRET.as_bytes()));
    gateway.complete(&json!({})).await.assert_openai_error(503, "upstream_overloaded");
    let ask = |key: &str| {
        let body = super::request(&json!({})).to_string();
        let request = gateway.world.edge().post(&gateway.url("/v1/chat/completions")).bearer(key);
        request.header("content-type", "application/json").body(body)
    };
    for _ in 0..3 {
        assert_eq!(ask(&other).await.status, 200);
    }
    assert_eq!(ask(&gateway.key).await.status, 503, "its own requests wait");
    assert_eq!(gateway.provider.asked().len(), 4);
}

#[tokio::test]
async fn who_cannot_be_served_in_time_is_told_when_to_come_back() {
    let gateway = Gateway::start().await;
    gateway.provider.next(Script::answer(429, &[("retry-after", "45")], SECRET.as_bytes()));
    // The second is not sent: the limit is known.
    for _ in 0..2 {
        let refused = gateway.complete(&json!({})).await;
        assert!((40..=45).contains(&refused.header("retry-after").parse::<u64>().unwrap()));
        refused.assert_openai_error(503, "upstream_overloaded");
        assert_eq!(gateway.provider.asked().len(), 1);
    }
    assert_eq!(gateway.world.sql_number("SELECT count(*) FROM ai_usage WHERE certainty < 3").await, 0);
}

#[tokio::test]
async fn who_leaves_while_it_waits_pays_nothing() {
    // As many tokens a day as one request reserves.
    let gateway = Gateway::start_with(|world| world.set("LIMITS__GATEWAY_TOKENS_PER_DAY", 6_000)).await;
    gateway.provider.next(Script::answer(429, &[("retry-after", "25")], SECRET.as_bytes()));
    let request = gateway.complete(&json!({}));
    let leaving = tokio::spawn(async move { request.await });
    let other = || gateway.complete(&json!({ "model": MODEL }));
    eventually(BACKGROUND, "it is refused", async || gateway.provider.finished() == 1).await;
    other().await.assert_openai_error(429, "daily_token_limit_exceeded");
    leaving.abort();
    eventually(BACKGROUND, "its tokens are given back", async || other().await.status == 200).await;
    // The other one's alone.
    eventually(BACKGROUND, "nothing is charged", async || {
        gateway.world.sql_number("SELECT count(*) FROM ai_usage WHERE certainty < 3").await == 1
    })
    .await;
    assert_eq!(gateway.provider.asked().len(), 2);
}
