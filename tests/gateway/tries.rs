//! Completions that people try out in the console: through admin, which is a client of the gateway like any other.

use reqwest::{Client, Method};
use serde_json::{Value, json};

use super::{Gateway, request};
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::Script,
    world::{Builder, World, answer::assert_keys, eventually, person::Person, ports},
};

/// Acts of a stream before it is held: its head, and its first event.
const HEARD: usize = 2;

/// A gateway whose console is signed in to, and which admin trusts.
async fn start_with(configure: impl FnOnce(Builder) -> Builder) -> (Gateway, Person) {
    let ca = World::ca_folder().await.display();
    let gateway = Gateway::start_with(|world| configure(world.set("ACME__LOCAL_DIR", ca))).await;
    let person = gateway.world.person();
    person.sign_in("ada").await;
    (gateway, person)
}

fn body(key: &str, fields: &Value) -> Value {
    json!({ "key": key, "request": request(fields) })
}

/// Sends a try as a page of the console does, and returns once the answer has begun.
async fn send(gateway: &Gateway, client: &Client, body: &Value) -> reqwest::Response {
    let console = gateway.world.console_url("");
    let request = client.post(format!("{console}/api/ai/try")).header("origin", &console);
    request.json(body).send().await.unwrap()
}

async fn usage(gateway: &Gateway) -> i64 {
    gateway.world.sql_number("SELECT count(*) FROM ai_usage WHERE NOT estimated").await
}

#[tokio::test]
async fn the_first_words_come_while_the_provider_holds_the_next() {
    let (gateway, person) = start_with(|world| world).await;
    gateway.provider.next(Script::usual_stream(3).held_after(HEARD));
    let mut answer = send(&gateway, &person.client(), &body(&gateway.key, &json!({ "stream": true }))).await;
    assert_eq!(answer.status(), 200);
    assert!(answer.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"));
    assert_eq!(answer.headers()["cache-control"], "no-store");
    let first = String::from_utf8(answer.chunk().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.starts_with("data: ") && first.contains("\"role\":\"assistant\""), "{first}");
    assert_eq!(gateway.provider.finished(), 0, "the provider said it all before the first words came");
    gateway.provider.go_on();
    let rest = answer.text().await.unwrap();
    assert!(rest.contains("wörd2") && rest.trim_end().ends_with("data: [DONE]"), "{rest}");
    assert!(!format!("{first}{rest}").contains("upstream-name"));
    eventually(BACKGROUND, "it is metered", async || usage(&gateway).await == 1).await;

    // What is not streamed comes whole.
    let whole = person.api(Method::POST, "/ai/try").json(&body(&gateway.key, &json!({}))).await.ok();
    assert_eq!(whole["choices"][0]["message"]["content"], "Hello!");
    assert_eq!(gateway.provider.last_asked().body()["messages"], json!([{ "role": "user", "content": "Hi?" }]));
    // Nothing tells of the key, and of the session nothing gets to the provider.
    let asked = gateway.provider.last_asked();
    assert!(!format!("{asked:?}").contains(&gateway.key) && asked.header("cookie").is_none());
    let logs = [gateway.world.admin.log(), gateway.world.edge().process.log()].concat();
    assert!(!logs.contains(&gateway.key));
}

#[tokio::test]
async fn a_person_who_leaves_ends_the_completion() {
    let metrics = ports::free();
    let (gateway, _) = start_with(|world| world.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))).await;
    for stream in [true, false] {
        let finished = gateway.provider.finished();
        let script = if stream {
            Script::usual_stream(40).held_after(HEARD)
        } else {
            Script::completion().cut(20).held_after(0)
        };
        gateway.provider.next(script);
        // A browser of its own, whose connections end with it.
        let person = gateway.world.person();
        person.sign_in("ada").await;
        let (client, asked) = (person.client(), gateway.provider.asked().len());
        let body = body(&gateway.key, &json!({ "stream": stream }));
        if stream {
            send(&gateway, &client, &body).await.chunk().await.unwrap().expect("a first chunk");
        } else {
            let asking = send(&gateway, &client, &body);
            let is_asked =
                eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked);
            tokio::select! {
                answer = asking => panic!("answered while the provider was held: {answer:?}"),
                () = is_asked => {}
            }
        }
        drop((person, client));
        eventually(BACKGROUND, "the edge knows that nobody reads on", async || {
            (Page::of(metrics).await.sum("svc_gateway_drains") - 1.0).abs() < f64::EPSILON
        })
        .await;
        gateway.provider.go_on();
        eventually(BACKGROUND, "the provider is heard to its end", async || {
            gateway.provider.finished() == finished + 1
        })
        .await;
    }
    eventually(BACKGROUND, "both are metered", async || usage(&gateway).await == 2).await;
    let tokens = "SELECT sum(completion_tokens)::bigint FROM ai_usage WHERE NOT estimated";
    assert_eq!(gateway.world.sql_number(tokens).await, 40 + 12);
}

#[tokio::test]
async fn errors_of_the_gateway_are_passed_on() {
    let (gateway, person) = start_with(|world| world).await;
    let try_out = async |body: &Value| person.api(Method::POST, "/ai/try").json(body).await;
    let unknown = format!("svc_{}", "a".repeat(43));
    for (key, fields, status, code) in [
        (unknown.as_str(), json!({}), 401, "invalid_api_key"),
        (gateway.key.as_str(), json!({ "model": "svc/none" }), 404, "model_not_found"),
        (gateway.key.as_str(), json!({ "max_tokens": 0 }), 400, "invalid_value"),
        (gateway.key.as_str(), json!({ "messages": 7 }), 400, "invalid_type"),
    ] {
        let error = try_out(&body(key, &fields)).await.json(status)["error"].take();
        assert_keys(&error, "message type param code");
        assert_eq!(error["code"], code);
    }
    gateway.provider.next(Script::error(500));
    let error = try_out(&body(&gateway.key, &json!({}))).await.json(502)["error"].take();
    assert_eq!(error["code"], "upstream_error");

    // What is not for the gateway does not get there.
    let asked = gateway.provider.asked().len();
    for wrong in [
        json!({ "key": "sk-1", "request": {} }),
        json!({ "key": gateway.key, "request": [] }),
        json!({ "key": gateway.key }),
        json!({ "request": {} }),
    ] {
        let message = try_out(&wrong).await.assert_error(400, "invalid_request");
        assert!(!message.contains(&gateway.key) && !message.contains("sk-1"), "{message}");
    }
    let long = body(&gateway.key, &json!({ "user": "x".repeat(300_000) }));
    try_out(&long).await.assert_error(413, "payload_too_large");
    assert_eq!(gateway.provider.asked().len(), asked);
}

#[tokio::test]
async fn only_the_consoles_own_pages_try_completions() {
    let (gateway, person) = start_with(|world| world).await;
    let body = body(&gateway.key, &json!({}));
    let org = gateway.ada.create_org("acme").await;
    let ai = gateway.ada.with_token(&gateway.key);
    for cannot in [&gateway.ada, &ai, &org.robot("deploy").await, &gateway.world.nobody()] {
        cannot.post("/ai/try").json(&body).await.assert_error(401, "unauthorized");
    }
    let url = gateway.world.console_url("/api/ai/try");
    for origin in ["https://evil.example", "null", &gateway.world.site_url("engine")] {
        let foreign = person.request(Method::POST, &url).header("origin", origin).json(&body);
        foreign.await.assert_error(401, "unauthorized");
    }
    let without_origin = person.request(Method::POST, &url).header("sec-fetch-site", "same-origin").json(&body);
    without_origin.await.assert_error(401, "unauthorized");
    assert!(gateway.provider.asked().is_empty());
    // Nothing is kept for a repetition: each is a completion.
    for _ in 0..2 {
        let again = person.api(Method::POST, "/ai/try").header("idempotency-key", "once").json(&body).await;
        again.ok();
    }
    assert_eq!(gateway.provider.asked().len(), 2);
    // A session that has ended tries nothing.
    gateway.ada.delete("/sessions").await.ok();
    person.api(Method::POST, "/ai/try").json(&body).await.assert_error(401, "unauthorized");
    assert_eq!(gateway.provider.asked().len(), 2);
}

#[tokio::test]
async fn the_gateway_is_asked_where_the_configuration_says() {
    let (mut gateway, person) = start_with(|world| world).await;
    let body = body(&gateway.key, &json!({}));
    let (nowhere, edge) = (ports::free(), gateway.world.public_port());
    for (port, answers) in [(nowhere, false), (edge, true)] {
        gateway.world.set("ADMIN__GATEWAY_URL", format!("https://127.0.0.1:{port}"));
        gateway.world.restart_admin_later().await;
        let answer = person.api(Method::POST, "/ai/try").json(&body).await;
        if answers {
            answer.ok();
        } else {
            answer.assert_error(502, "gateway_unavailable");
        }
    }
    // Plain HTTP is redirected by this edge: a key follows nowhere.
    let plain = gateway.world.edge().http_port;
    gateway.world.set("ADMIN__GATEWAY_URL", format!("http://127.0.0.1:{plain}"));
    gateway.world.restart_admin_later().await;
    person.api(Method::POST, "/ai/try").json(&body).await.assert_error(502, "gateway_unavailable");
    assert_eq!(gateway.provider.asked().len(), 1);
}

#[tokio::test]
async fn the_models_are_those_of_the_gateway() {
    let (gateway, person) = start_with(|world| world).await;
    let list = async || person.api(Method::GET, "/ai/models").await.ok();
    eventually(BACKGROUND, "an edge says what it reaches", async || list().await["models"][0]["available"] == true)
        .await;
    let list = list().await;
    assert_eq!(gateway.ada.get("/ai/models").await.ok(), list);
    let models = list["models"].as_array().unwrap();
    let served = gateway.get("/v1/models").await.ok();
    let served = served["data"].as_array().unwrap();
    assert_eq!(models.len(), served.len());
    for (model, served) in models.iter().zip(served) {
        assert_keys(
            model,
            "id owned_by input_cents_per_million output_cents_per_million context_tokens max_completion_tokens available",
        );
        assert_eq!((&model["id"], &model["owned_by"]), (&served["id"], &served["owned_by"]));
        assert_eq!(model["input_cents_per_million"], served["pricing"]["input"]);
        assert_eq!(model["output_cents_per_million"], served["pricing"]["output"]);
    }
    let org = gateway.ada.create_org("acme").await;
    for cannot in [&gateway.ada.with_token(&gateway.key), &org.robot("deploy").await, &gateway.world.nobody()] {
        cannot.get("/ai/models").await.assert_error(401, "unauthorized");
    }
}

#[tokio::test]
async fn wrong_keys_of_one_person_are_in_nobody_elses_way() {
    let (gateway, mallory) = start_with(|world| world).await;
    let bob = gateway.world.person();
    bob.sign_in("bob").await;
    // The gateway refuses an address after sixty, and all that is tried out comes from admin's.
    for number in 0..70 {
        let wrong = body(&format!("svc_{number:0>43}"), &json!({}));
        let answer = mallory.api(Method::POST, "/ai/try").json(&wrong).await;
        assert_eq!(answer.status, if number < 10 { 401 } else { 429 }, "{number}: {}", answer.text());
    }
    bob.api(Method::POST, "/ai/try").json(&body(&gateway.key, &json!({}))).await.ok();
}
