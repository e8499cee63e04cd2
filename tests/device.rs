//! `POST /auth/device` and `/auth/device/poll`, against both kinds of code host.

use serde_json::{Value, json};

use crate::{
    stubs::codehost::{CLIENT_ID, CodeHost, DEVICE_CODE, Step},
    world::{
        Actor, OPERATOR_SECRET, World,
        answer::{Answer, assert_keys, parse_secret},
        form::Form,
    },
};

async fn start(actor: &Actor) -> Value {
    actor.post("/auth/device").await.ok()
}

async fn poll(actor: &Actor, device: &Value) -> Answer {
    actor.post("/auth/device/poll").json(&json!({ "device_code": device["device_code"] })).await
}

/// As if the client had waited for its interval.
async fn let_interval_pass(world: &World) {
    world.sql("UPDATE device_grants SET last_polled_at = last_polled_at - interval '1 minute'").await;
}

/// The person opens the page, fills it in and presses a button.
async fn answer_on_page(world: &World, device: &Value, login: &str, operator_secret: &str, button: &str) -> Answer {
    let uri = device["verification_uri"].as_str().unwrap();
    let code = device["user_code"].as_str().unwrap();
    let mut page_url = url::Url::parse(uri).unwrap();
    page_url.query_pairs_mut().append_pair("user_code", code);
    let page = world.edge().navigate(page_url.as_str()).await.assert_status(200);
    assert!(page.header("content-type").starts_with("text/html"));
    let forms = Form::all(&page.text());
    let form = forms.first().unwrap_or_else(|| panic!("no form: {}", page.text()));
    let fields = form.filled(&[("code", code), ("login", login), ("password", operator_secret)], button);
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let target = page_url.join(if form.action.is_empty() { uri } else { &form.action }).unwrap();
    world.edge().post(target.as_str()).header("origin", target.origin().ascii_serialization()).form(&fields).await
}

#[tokio::test]
async fn local_flow_ends_in_a_cli_token_that_is_given_once() {
    let world = World::start().await;
    let client = world.nobody();

    let mut device = start(&client).await;
    device.as_object_mut().unwrap().remove("verification_uri_complete");
    assert_keys(&device, "device_code user_code verification_uri expires_in interval");
    assert!(device["expires_in"].as_u64().unwrap() >= 60);
    assert!(device["interval"].as_u64().unwrap() >= 1);
    poll(&client, &device).await.assert_error(400, "authorization_pending");

    answer_on_page(&world, &device, "ada", OPERATOR_SECRET, "approve").await.assert_status(200);
    let_interval_pass(&world).await;
    let authorized = poll(&client, &device).await.ok();
    assert_keys(&authorized, "token");
    let me = client.with_token(&parse_secret(&authorized["token"])).get("/me").await.ok();
    assert_eq!(me["vcs_login"], "ada");
    assert_eq!(me["token_kind"], "cli");

    let_interval_pass(&world).await;
    poll(&client, &device).await.assert_error(400, "expired_token");
}

#[tokio::test]
async fn local_flow_can_be_denied() {
    let world = World::start().await;
    let client = world.nobody();
    let device = start(&client).await;
    answer_on_page(&world, &device, "ada", OPERATOR_SECRET, "deny").await.assert_status(200);
    poll(&client, &device).await.assert_error(403, "access_denied");
}

#[tokio::test]
async fn local_page_wants_the_operators_secret() {
    let world = World::start().await;
    let client = world.nobody();
    let device = start(&client).await;
    let refused = answer_on_page(&world, &device, "ada", "a guess", "approve").await;
    assert_eq!(refused.status, 403, "{}", refused.text());
    poll(&client, &device).await.assert_error(400, "authorization_pending");
}

#[tokio::test]
async fn polling_faster_than_the_interval_is_told_to_slow_down() {
    let world = World::start().await;
    let client = world.nobody();
    let device = start(&client).await;
    poll(&client, &device).await.assert_error(400, "authorization_pending");
    poll(&client, &device).await.assert_error(429, "slow_down");
    let_interval_pass(&world).await;
    poll(&client, &device).await.assert_error(400, "authorization_pending");
}

#[tokio::test]
async fn an_expired_code_stays_expired() {
    let world = World::start().await;
    let client = world.nobody();
    let device = start(&client).await;
    world.sql("UPDATE device_grants SET expires_at = now() - interval '1 second'").await;
    poll(&client, &device).await.assert_error(400, "expired_token");
    // Approving it now must not revive it.
    let late = answer_on_page_directly(&world, &device).await;
    assert_eq!(late.status, 400, "{}", late.text());
    let_interval_pass(&world).await;
    poll(&client, &device).await.assert_error(400, "expired_token");
}

async fn answer_on_page_directly(world: &World, device: &Value) -> Answer {
    let fresh = start(&world.nobody()).await;
    let mut mixed = fresh.clone();
    mixed["user_code"] = device["user_code"].clone();
    answer_on_page(world, &mixed, "ada", OPERATOR_SECRET, "approve").await
}

#[tokio::test]
async fn polling_wants_a_device_code() {
    let world = World::start().await;
    let client = world.nobody();
    for body in [json!({}), json!({ "device_code": 7 }), json!([]), json!(null)] {
        client.post("/auth/device/poll").json(&body).await.assert_error(400, "invalid_request");
    }
    client.post("/auth/device/poll").json(&json!({ "device_code": "no-such-code" })).await.assert_status(400);
}

#[tokio::test]
async fn racing_polls_get_one_token() {
    let world = World::start().await;
    let client = world.nobody();
    let device = start(&client).await;
    answer_on_page(&world, &device, "ada", OPERATOR_SECRET, "approve").await.assert_status(200);
    let answers = futures_util::future::join_all((0..10).map(|_| poll(&client, &device))).await;
    let granted = answers.iter().filter(|answer| answer.status == 200).count();
    assert_eq!(granted, 1, "{answers:?}");
}

#[tokio::test]
async fn device_flow_is_limited_by_address() {
    let world = World::start().await;
    let client = world.nobody();
    for left in (0..10).rev() {
        let answer = client.post("/auth/device").await.assert_status(200);
        assert_eq!(answer.header("x-ratelimit-limit"), "10");
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    let refused = client.post("/auth/device").await;
    let retry_after: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=600).contains(&retry_after), "{retry_after}");
    assert_eq!(refused.header("x-ratelimit-remaining"), "0");
    refused.assert_error(429, "rate_limit_exceeded");

    // An edge speaks for another client, which has its own allowance. Who cannot show that it is one does not.
    client.at_address("203.0.113.9").post("/auth/device").await.assert_status(200);
    for proof in [None, Some(""), Some("svc"), Some(&*"0".repeat(64))] {
        let request = client.post("/auth/device").header("x-forwarded-for", "198.51.100.9");
        let request = if let Some(proof) = proof { request.header("x-svc-edge", proof) } else { request };
        request.await.assert_error(429, "rate_limit_exceeded");
    }
    // A client of the edge cannot pretend to be somebody else.
    for forged in ["198.51.100.1", "198.51.100.2, 198.51.100.3"] {
        let url = "https://api.svc.localhost/auth/device";
        world.edge().post(url).header("x-forwarded-for", forged).await.assert_error(429, "rate_limit_exceeded");
    }
}

#[tokio::test]
async fn polling_is_limited_by_address() {
    let world = World::builder().set("LIMITS__AUTH_POLL_PER_10_MIN", 3).start().await;
    let client = world.nobody();
    for left in (0..3).rev() {
        let answer = client.post("/auth/device/poll").json(&json!({ "device_code": "unknown" })).await;
        assert_eq!(answer.status, 400);
        assert_eq!(answer.header("x-ratelimit-limit"), "3");
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    let refused = client.post("/auth/device/poll").json(&json!({ "device_code": "unknown" })).await;
    assert!(refused.header("retry-after").parse::<u64>().unwrap() >= 1);
    refused.assert_error(429, "rate_limit_exceeded");
}

async fn github_world(host: &CodeHost) -> World {
    World::builder()
        .set("CODE_HOST__KIND", "github")
        .set("CODE_HOST__WEB_URL", &host.url)
        .set("CODE_HOST__API_URL", &host.url)
        .set("CODE_HOST__CLIENT_ID", CLIENT_ID)
        .set("CODE_HOST__CLIENT_SECRET", "shh")
        .start()
        .await
}

#[tokio::test]
async fn github_flow_passes_every_state_on() {
    let host = CodeHost::start().await;
    let world = github_world(&host).await;
    let client = world.nobody();

    let device = start(&client).await;
    assert_eq!(device["user_code"], "WDJB-MJ00");
    assert_eq!(device["verification_uri"], "https://github.example/login/device");
    assert!(!device.to_string().contains(DEVICE_CODE), "the code host's own code leaked");

    poll(&client, &device).await.assert_error(400, "authorization_pending");
    let_interval_pass(&world).await;
    host.set(Step::SlowDown);
    poll(&client, &device).await.assert_error(429, "slow_down");
    let_interval_pass(&world).await;
    host.set(Step::Broken);
    poll(&client, &device).await.assert_error(502, "code_host_error");
    let_interval_pass(&world).await;
    host.set(Step::Garbage);
    poll(&client, &device).await.assert_error(502, "code_host_error");
    let_interval_pass(&world).await;
    host.set(Step::Approved);
    let token = parse_secret(&poll(&client, &device).await.ok()["token"]);
    let me = client.with_token(&token).get("/me").await.ok();
    assert_eq!(me["vcs_id"], "583231");
    assert_eq!(me["vcs_login"], "octocat");
    assert_eq!(me["email"], "octocat@github.example", "the primary, verified address");
    let_interval_pass(&world).await;
    poll(&client, &device).await.assert_error(400, "expired_token");
}

#[tokio::test]
async fn github_denial_and_expiry_are_passed_on() {
    for (step, status, code) in [(Step::Denied, 403, "access_denied"), (Step::Expired, 400, "expired_token")] {
        let host = CodeHost::start().await;
        let world = github_world(&host).await;
        let client = world.nobody();
        let device = start(&client).await;
        host.set(step);
        poll(&client, &device).await.assert_error(status, code);
    }
}

#[tokio::test]
async fn github_account_is_known_again_after_it_was_renamed() {
    let host = CodeHost::start().await;
    let world = github_world(&host).await;
    let client = world.nobody();
    host.set(Step::Approved);
    let mut accounts = Vec::new();
    for (login, email) in [("ada", None), ("ada-lovelace", Some("ada@lovelace.example"))] {
        host.sign_in(42, login, email);
        let device = start(&client).await;
        let token = parse_secret(&poll(&client, &device).await.ok()["token"]);
        accounts.push(client.with_token(&token).get("/me").await.ok());
    }
    assert_eq!(accounts[0]["id"], accounts[1]["id"]);
    assert_eq!(accounts[1]["vcs_login"], "ada-lovelace");
}

#[tokio::test]
async fn unreachable_code_host_is_502() {
    let host = CodeHost::start().await;
    let world = github_world(&host).await;
    let client = world.nobody();
    let device = start(&client).await;
    let url = host.url.clone();
    drop(host);
    // The port is free again once the stub's task is gone.
    crate::world::eventually(std::time::Duration::from_secs(10), "the stub is gone", async || {
        reqwest::get(&url).await.is_err()
    })
    .await;
    poll(&client, &device).await.assert_error(502, "code_host_error");
    client.post("/auth/device").await.assert_error(502, "code_host_error");
}
