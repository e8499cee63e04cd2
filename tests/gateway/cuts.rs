//! Sessions over all three routes that are cut in thirteen ways, by the client, by the provider and by the end of the edge: no token and
//! no cent of them is lost, counted twice or made up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{create_key, served_by};
use crate::{
    BACKGROUND,
    stubs::provider::{Act, Provider, Script, choice, event, vendor::text_of},
    world::{World, eventually, holds_within},
};

const ROUTES: [&str; 3] = ["/v1/chat/completions", "/v1/responses", "/v1/messages"];
/// The tokens of the first prompt; no other has as many, and no estimate.
const FIRST: u64 = 10_000;
/// The tokens of every answer, one for each word.
const WORDS: u64 = 5;
/// Sessions at a time: fewer than the answers that the edge reads to their end without their clients.
const CONCURRENT: usize = 8;

/// Where a client leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leaves {
    Never,
    /// Before the provider has begun.
    Early,
    /// Once it has had this.
    After(&'static str),
}

/// What is counted of a request that the provider was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// What the provider has reported.
    Exactly,
    /// What came, by an estimate.
    Estimated,
    Nothing,
}

/// A way in which a session goes.
struct Way {
    what: &'static str,
    stream: bool,
    leaves: Leaves,
    provider: fn(u64) -> Script,
    counted: Counted,
}

/// The thirteen cuts, and two that are none.
static WAYS: [Way; 15] = [
    way("whole", false, Leaves::Never, whole, Counted::Exactly),
    way("a whole stream", true, Leaves::Never, |number| streamed(number, 9, true), Counted::Exactly),
    way(
        "the client leaves before a whole answer",
        false,
        Leaves::Early,
        |number| late(whole(number)),
        Counted::Exactly,
    ),
    way("the client leaves before a stream", true, Leaves::Early, |number| late(slow(number)), Counted::Exactly),
    way("the client leaves at the first word", true, Leaves::After("word0"), slow, Counted::Exactly),
    way("the client leaves in the middle", true, Leaves::After("word2"), slow, Counted::Exactly),
    way("the client leaves at the last word", true, Leaves::After("word4"), slow, Counted::Exactly),
    way("the provider closes before it answers", true, Leaves::Never, |_| Script(vec![Act::Close]), Counted::Nothing),
    way("the provider closes after the head", true, Leaves::Never, |number| closed(number, 0), Counted::Nothing),
    way("the provider closes in the middle", true, Leaves::Never, |number| closed(number, 3), Counted::Estimated),
    way("the provider resets in the middle", true, Leaves::Never, reset, Counted::Estimated),
    way("the provider reports an error in the middle", true, Leaves::Never, failed, Counted::Estimated),
    way("the provider ends without usage", true, Leaves::Never, |number| streamed(number, 7, true), Counted::Estimated),
    way("the provider closes in the middle of a whole answer", false, Leaves::Never, halved, Counted::Estimated),
    way("the provider closes after its usage", true, Leaves::Never, |number| closed(number, 8), Counted::Exactly),
];

const fn way(what: &'static str, stream: bool, leaves: Leaves, provider: fn(u64) -> Script, counted: Counted) -> Way {
    Way { what, stream, leaves, provider, counted }
}

fn usage(number: u64) -> Value {
    let prompt = FIRST + number;
    json!({ "prompt_tokens": prompt, "completion_tokens": WORDS, "total_tokens": prompt + WORDS })
}

fn whole(number: u64) -> Script {
    Script::json(&completion(number))
}

fn completion(number: u64) -> Value {
    let words: String = (0..WORDS).flat_map(|word| ["word".to_owned(), word.to_string(), " ".to_owned()]).collect();
    let message = json!({ "role": "assistant", "content": words });
    json!({
        "id": "c", "object": "chat.completion", "created": 1, "model": "m", "usage": usage(number),
        "choices": [{ "index": 0, "message": message, "finish_reason": "stop" }],
    })
}

/// So many events of a stream: the role, five words, the reason to stop, usage, and the end.
fn streamed(number: u64, events: usize, ends: bool) -> Script {
    let said = |delta: &Value, reason: Option<&str>| event(&json!([choice(delta, reason)]), &Value::Null);
    let mut all = vec![said(&json!({ "role": "assistant", "content": "" }), None)];
    all.extend((0..WORDS).map(|word| said(&json!({ "content": format!("word{word} ") }), None)));
    all.extend([said(&json!({}), Some("stop")), event(&json!([]), &usage(number)), "data: [DONE]".to_owned()]);
    Script::stream(all.into_iter().take(events).map(|event| format!("{event}\n\n").into_bytes()), ends)
}

fn slow(number: u64) -> Script {
    streamed(number, 9, true).slowly(Duration::from_millis(4))
}

fn late(mut script: Script) -> Script {
    script.0.insert(0, Act::Wait(Duration::from_millis(40)));
    script
}

fn closed(number: u64, events: usize) -> Script {
    streamed(number, events, false).then(Act::Close)
}

/// A reset takes with it what was not read yet, so it comes when that was read, mostly.
fn reset(number: u64) -> Script {
    streamed(number, 4, false).then(Act::Wait(Duration::from_millis(100))).then(Act::Reset)
}

fn failed(number: u64) -> Script {
    let mut script = streamed(number, 4, false);
    let error = Script::events(&[r#"data: {"error":{"message":"boom","code":500}}"#]).0.remove(1);
    script.0.push(error);
    script.then(Act::Close)
}

fn halved(number: u64) -> Script {
    let body = completion(number).to_string();
    let head = format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    // Before usage, which is last.
    let half = body.split("\"usage\"").next().unwrap();
    let half = if half.contains("word3") { half } else { &body[..body.find("word3").unwrap()] };
    Script(vec![Act::Send([head.as_bytes(), half.as_bytes()].concat())]).then(Act::Close)
}

/// How many sessions there are: each way over each route, or as many as `SVC_TEST_SESSIONS` says.
fn sessions() -> u64 {
    let least = (WAYS.len() * ROUTES.len()) as u64;
    std::env::var("SVC_TEST_SESSIONS").map_or(least, |count| count.parse().unwrap()).max(least)
}

fn way_of(number: u64) -> &'static Way {
    &WAYS[usize::try_from(number).unwrap() % WAYS.len()]
}

fn route_of(number: u64) -> &'static str {
    ROUTES[usize::try_from(number).unwrap() / WAYS.len() % ROUTES.len()]
}

/// A request of this session: its prompt is its number.
fn request(number: u64, stream: bool) -> Value {
    let prompt = format!("session {number}");
    let mut request = json!({ "model": "svc/gpt-oss-20b", "stream": stream });
    if route_of(number) == "/v1/responses" {
        request["input"] = prompt.into();
        request["max_output_tokens"] = 100.into();
    } else {
        request["messages"] = json!([{ "role": "user", "content": prompt }]);
        request["max_tokens"] = 100.into();
    }
    request
}

fn number_of(body: &Value) -> u64 {
    let text = text_of(body["messages"].as_array().unwrap().last().unwrap());
    text.strip_prefix("session ").unwrap().parse().unwrap()
}

struct Cuts {
    world: World,
    key: String,
    /// The sessions of which the provider was asked for something.
    asked: Arc<Mutex<BTreeSet<u64>>>,
    _provider: Provider,
}

impl Cuts {
    async fn start() -> Self {
        let asked = Arc::new(Mutex::new(BTreeSet::new()));
        let kept = asked.clone();
        let provider = Provider::start_answering(move |body| {
            let number = number_of(body);
            kept.lock().unwrap().insert(number);
            if number < sessions() {
                (way_of(number).provider)(number)
            } else {
                streamed(number, 3, false).then(Act::Hang)
            }
        })
        .await;
        let world = served_by(&provider.url).plan(&json!({ "ai_credit_cents": 1_000_000 })).start().await;
        let key = create_key(&world.user("ada").await).await;
        Self { world, key, asked, _provider: provider }
    }

    fn asks(&self, client: &reqwest::Client, number: u64, stream: bool) -> reqwest::RequestBuilder {
        let path = route_of(number);
        let url = self.world.edge().address(&format!("https://ai.svc.localhost:{}{path}", self.world.public_port()));
        client.post(url).bearer_auth(&self.key).json(&request(number, stream))
    }

    /// Goes through a session. Returns what the client has had of it.
    async fn go_through(&self, client: &reqwest::Client, number: u64) -> String {
        let way = way_of(number);
        let asking = self.asks(client, number, way.stream).send();
        if way.leaves == Leaves::Early {
            let _ = timeout(Duration::from_millis(20), asking).await;
            return String::new();
        }
        let Ok(mut answer) = asking.await else { return String::new() };
        let mut heard = String::new();
        while let Ok(Some(chunk)) = answer.chunk().await {
            heard.push_str(std::str::from_utf8(&chunk).unwrap());
            if matches!(way.leaves, Leaves::After(word) if heard.contains(word)) {
                break;
            }
        }
        heard
    }

    /// The rows that are exact, by their prompts' tokens, and the number of the others.
    async fn rows(&self) -> (BTreeMap<u64, Vec<(u64, u64)>>, usize) {
        let all = "SELECT coalesce(string_agg(concat_ws(' ', estimated::int, prompt_tokens, completion_tokens,
                       cost_microcents::bigint), ','), '') FROM ai_usage";
        let text = self.world.sql_text(all).await;
        let (mut exact, mut estimated) = (BTreeMap::<u64, Vec<(u64, u64)>>::new(), 0);
        for row in text.split_terminator(',') {
            let [is_estimated, prompt, completion, cost] =
                row.split(' ').map(|n| n.parse().unwrap()).collect::<Vec<u64>>()[..]
            else {
                panic!("{row}")
            };
            if is_estimated == 1 {
                estimated += 1;
            } else {
                exact.entry(prompt).or_default().push((completion, cost));
            }
        }
        (exact, estimated)
    }
}

#[tokio::test]
async fn nothing_is_lost_doubled_or_made_up_by_thirteen_cuts_over_three_routes() {
    let mut cuts = Cuts::start().await;
    let clients = [false, true].map(|http2| cuts.world.edge().another_browser(http2));
    let sessions = sessions();
    let going = stream::iter(0..sessions).map(|number| {
        let client = &clients[usize::from(number.is_multiple_of(2))];
        let cuts = &cuts;
        async move { (number, cuts.go_through(client, number).await) }
    });
    let heard: Vec<_> = going.buffer_unordered(CONCURRENT).collect().await;
    for (number, heard) in heard.iter().filter(|(number, _)| number % WAYS.len() as u64 <= 1) {
        assert!(heard.contains("word4"), "{}: {heard}", way_of(*number).what);
    }
    // The edge is killed in the middle of some.
    let killed = sessions..sessions + sessions / 20 + 3;
    let streams = killed.clone().map(|number| cuts.asks(&clients[1], number, true).send());
    let streams: Vec<_> = stream::iter(streams).buffer_unordered(CONCURRENT).collect().await;
    assert!(streams.iter().all(Result::is_ok), "{streams:?}");
    cuts.world.edges[0].process.kill();
    drop(streams);
    cuts.world.restart_edge(0).await;

    let asked = cuts.asked.lock().unwrap().clone();
    let of = |counted: Counted| {
        asked.iter().filter(move |number| **number < sessions && way_of(**number).counted == counted)
    };
    let cost = |number: u64| (FIRST + number) * 10 + WORDS * 40;
    let expected: BTreeMap<_, _> =
        of(Counted::Exactly).map(|number| (FIRST + number, vec![(WORDS, cost(*number))])).collect();
    let estimated = of(Counted::Estimated).count() + killed.count();
    let is_settled = async || cuts.rows().await == (expected.clone(), estimated);
    let is_settled = holds_within(2 * BACKGROUND, is_settled).await;
    let (exact, estimates) = cuts.rows().await;
    for number in 0..sessions {
        let (row, expected) = (exact.get(&(FIRST + number)), expected.get(&(FIRST + number)));
        assert_eq!(row, expected, "{} over {}", way_of(number).what, route_of(number));
    }
    assert_eq!(estimates, estimated);
    assert!(is_settled && asked.len() as u64 > sessions * 9 / 10, "{} were asked for", asked.len());
    let unsummed = "SELECT ((SELECT sum(cost_microcents) FROM ai_usage) - (SELECT sum(cost_microcents) FROM ai_usage_days))::bigint";
    eventually(BACKGROUND, "the days are the sums of the rows", async || cuts.world.sql_number(unsummed).await == 0)
        .await;
}
