//! Names that an account gives to models, and those of the operator's before them.

use serde_json::{Value, json};

use super::{Gateway, create_key};
use crate::world::Actor;

const PATH: &str = "/ai/aliases";

fn named(name: &str, model: &str) -> Value {
    json!({ "aliases": [{ "name": name, "model": model }] })
}

async fn set(actor: &Actor, path: &str, aliases: &Value) {
    let answer = actor.put(path).json(aliases).await;
    assert!(answer.find_header("x-svc-propagation").is_some(), "{:?}", answer.headers);
    assert_eq!(answer.ok(), *aliases);
    assert_eq!(actor.get(path).await.ok(), *aliases);
}

#[tokio::test]
async fn an_account_names_models_for_its_own_clients() {
    let operators = json!({ "gpt-5": "svc/qwen3-32b" }).to_string();
    let gateway = Gateway::start_with(|world| world.set("GATEWAY__ALIASES", &operators)).await;
    let ask = async |model: &str| gateway.complete(&json!({ "model": model })).await;
    ask("claude-sonnet-5").await.assert_openai_error(404, "model_not_found");
    assert_eq!(gateway.ada.get(PATH).await.ok(), json!({ "aliases": [] }));

    // In force when it is answered.
    set(&gateway.ada, PATH, &named("claude-*", "svc/gpt-oss-20b")).await;
    ask("claude-sonnet-5").await.ok();
    assert_eq!(gateway.provider.last_asked().body()["model"], "gpt-oss-20b");
    let message = gateway.message(&json!({ "model": "claude-opus-5" })).await.ok();
    assert_eq!(message["model"], "claude-opus-5");
    assert_eq!(gateway.get("/v1/models/claude-opus-5").await.ok()["id"], "svc/gpt-oss-20b");
    // What the operator has named keeps its meaning, and so do ids.
    set(&gateway.ada, PATH, &named("*", "svc/gpt-oss-120b")).await;
    ask("gpt-5").await.ok();
    assert_eq!(gateway.provider.last_asked().body()["model"], "Qwen3-32B");
    ask("svc/typo").await.assert_openai_error(404, "model_not_found");
    ask("anything").await.ok();
    assert_eq!(gateway.provider.last_asked().body()["model"], "gpt-oss-120b");

    // Of others they are nothing.
    let bob = gateway.world.user("bob").await;
    let key = create_key(&bob).await;
    let other = gateway.world.edge().post(&gateway.url("/v1/chat/completions")).bearer(&key);
    let body = json!({ "model": "anything", "messages": [{ "role": "user", "content": "Hi?" }] });
    other.json(&body).await.assert_openai_error(404, "model_not_found");
    gateway.ada.create_org("analytical").await;
    let created = gateway.ada.post("/orgs/analytical/tokens").json(&json!({ "kind": "ai" })).await.created();
    let key = created["token"].as_str().unwrap();
    let of_org = || gateway.world.edge().post(&gateway.url("/v1/chat/completions")).bearer(key).json(&body);
    of_org().await.assert_openai_error(404, "model_not_found");
    set(&gateway.ada, "/orgs/analytical/ai/aliases", &named("any*", "svc/gpt-oss-20b")).await;
    of_org().await.ok();
    let log = gateway.ada.get("/orgs/analytical/audit").await.ok();
    let entries = log["entries"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["action"] == "gateway.aliases").unwrap();
    assert_eq!(entry["detail"]["names"], "any*");

    set(&gateway.ada, PATH, &json!({ "aliases": [] })).await;
    ask("anything").await.assert_openai_error(404, "model_not_found");
    for wrong in
        [named("claude-*", "svc/none"), named("a*b", "svc/gpt-oss-20b"), named("svc/x", "svc/gpt-oss-20b"), json!({})]
    {
        gateway.ada.put(PATH).json(&wrong).await.assert_error(400, "invalid_request");
    }
}
