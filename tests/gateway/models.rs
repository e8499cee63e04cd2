//! `GET /v1/models`, and what all paths share: keys, unknown paths and methods, CORS.

use serde_json::{Value, json};

use super::{Gateway, create_key, request};
use crate::{
    BACKGROUND,
    cli::Shell,
    stubs::provider::{KEY, Provider, dialects::Dialect},
    world::{
        World,
        answer::{Answer, assert_keys},
        eventually,
    },
};

#[tokio::test]
async fn the_eight_models_are_listed_with_their_prices() {
    let gateway = Gateway::start().await;
    let list = gateway.get("/v1/models").await.ok();
    assert_keys(&list, "object data");
    assert_eq!(list["object"], "list");
    let models = list["data"].as_array().unwrap();
    let table: Vec<_> = models
        .iter()
        .map(|model| {
            assert_keys(
                model,
                "id object created owned_by pricing context_length context_window max_model_len max_input_tokens \
                 max_output_tokens max_completion_tokens max_request_bytes input_modalities output_modalities \
                 supported_features supported_parameters supported_endpoints",
            );
            assert_keys(&model["pricing"], "input output currency unit");
            assert_eq!((&model["object"], &model["pricing"]["currency"]), (&"model".into(), &"EUR".into()));
            assert_eq!(model["pricing"]["unit"], "cents_per_million_tokens");
            assert!(model["created"].is_u64());
            let price = |name: &str| model["pricing"][name].as_u64().unwrap();
            (model["id"].as_str().unwrap(), model["owned_by"].as_str().unwrap(), price("input"), price("output"))
        })
        .collect();
    assert_eq!(
        table,
        [
            ("svc/gpt-oss-120b", "Scaleway", 25, 100),
            ("svc/gpt-oss-20b", "OVHcloud", 10, 40),
            ("svc/llama-3.3-70b-instruct", "Scaleway", 135, 135),
            ("svc/mistral-large", "Mistral AI", 300, 900),
            ("svc/mistral-medium", "Mistral AI", 60, 300),
            ("svc/mistral-small", "Mistral AI", 15, 45),
            ("svc/qwen3-32b", "OVHcloud", 15, 45),
            ("svc/qwen3-coder-30b", "Scaleway", 30, 120),
        ]
    );
    for path in ["/v1/models/svc/qwen3-32b", "/v1/models/svc%2Fqwen3-32b", "/v1/models/svc%2fqwen3-32b?x=1"] {
        let model = gateway.get(path).await.ok();
        assert_eq!(&model, models.iter().find(|model| model["id"] == "svc/qwen3-32b").unwrap());
    }
    for path in ["/v1/models/svc/gpt-5", "/v1/models/Qwen3-32B", "/v1/models/svc", "/v1/models/%FF"] {
        let error = gateway.get(path).await.assert_openai_error(404, "model_not_found");
        assert_eq!(error["param"], "model");
    }
    let head = gateway.world.edge().head(&gateway.url("/v1/models")).bearer(&gateway.key).await;
    assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
}

#[tokio::test]
async fn only_ai_keys_are_accepted_and_only_until_they_are_revoked() {
    let gateway = Gateway::start().await;
    let edge = gateway.world.edge();
    let cli = gateway.ada.token.clone().unwrap();
    let nobodys = format!("svc_{}", "x".repeat(43));
    for shown in [
        None,
        Some(format!("Bearer {cli}")),
        Some(format!("Bearer {nobodys}")),
        Some("Bearer sk-proj-1234".to_owned()),
        Some("Bearer ".to_owned()),
        Some("Bearer".to_owned()),
        Some(format!("Basic {}", gateway.key)),
        Some(gateway.key.clone()),
    ] {
        let completion = edge.post(&gateway.url("/v1/chat/completions")).json(&request(&json!({})));
        let model = edge.get(&gateway.url("/v1/models/svc/qwen3-32b"));
        for request in [edge.get(&gateway.url("/v1/models")), model, completion] {
            let request = match &shown {
                Some(shown) => request.header("authorization", shown),
                None => request,
            };
            let error = request.await.assert_openai_error(401, "invalid_api_key");
            assert_eq!(error["type"], "invalid_request_error");
            assert!(!error["message"].as_str().unwrap().contains("svc_"), "{error}");
        }
    }
    assert!(gateway.provider.asked().is_empty());

    edge.get(&gateway.url("/v1/models")).header("authorization", format!("bearer  {}", gateway.key)).await.ok();
    let created = gateway.ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let key = created["token"].as_str().unwrap();
    edge.get(&gateway.url("/v1/models")).bearer(key).await.ok();
    gateway.ada.delete(&format!("/tokens/{}", created["id"].as_str().unwrap())).await.ok();
    edge.get(&gateway.url("/v1/models")).bearer(key).await.assert_openai_error(401, "invalid_api_key");
}

#[tokio::test]
async fn unknown_paths_are_404_and_wrong_methods_405() {
    let gateway = Gateway::start().await;
    for path in ["/", "/v1", "/v1/chat", "/v1/completion", "/v2/models", "/models/v1"] {
        let code = if path == "/models/v1" { "model_not_found" } else { "unknown_url" };
        let error = gateway.get(path).await.assert_openai_error(404, code);
        assert_eq!(error["type"], "invalid_request_error");
    }
    for (method, path, allow) in [
        ("GET", "/v1/chat/completions", "POST, OPTIONS"),
        ("DELETE", "/v1/chat/completions", "POST, OPTIONS"),
        ("GET", "/v1/completions", "POST, OPTIONS"),
        ("GET", "/v1/embeddings", "POST, OPTIONS"),
        ("POST", "/v1/models", "GET, HEAD, OPTIONS"),
        ("DELETE", "/v1/models/svc/qwen3-32b", "GET, HEAD, OPTIONS"),
    ] {
        let request = gateway.world.edge().request(method.parse().unwrap(), &gateway.url(path));
        let answer = request.bearer(&gateway.key).await;
        assert_eq!(answer.header("allow"), allow);
        answer.assert_openai_error(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn slashes_and_versions_of_base_urls_make_no_difference() {
    let gateway = Gateway::start().await;
    let models = gateway.get("/v1/models").await.ok();
    let model = gateway.get("/v1/models/svc/qwen3-32b").await.ok();
    for (before, after) in [("/v1", "/"), ("/v1/", ""), ("//v1", ""), ("/v1/v1", ""), ("", ""), ("/", "//")] {
        assert_eq!(gateway.get(&format!("{before}/models{after}")).await.ok(), models, "{before} {after}");
        for id in ["svc/qwen3-32b", "svc%2Fqwen3-32b"] {
            assert_eq!(gateway.get(&format!("{before}/models/{id}{after}")).await.ok(), model, "{before} {after}");
        }
        let url = gateway.url(&format!("{before}/chat/completions{after}"));
        let completion = gateway.world.edge().post(&url).bearer(&gateway.key).json(&request(&json!({}))).await.ok();
        assert_eq!(completion["model"], "svc/gpt-oss-20b");
    }
}

async fn preflight(gateway: &Gateway, origin: &str) -> Answer {
    let request = gateway.world.edge().request(reqwest::Method::OPTIONS, &gateway.url("/v1/chat/completions"));
    let request = request.header("origin", origin).header("access-control-request-method", "POST");
    request.header("access-control-request-headers", "authorization,content-type,x-stainless-os").await
}

#[tokio::test]
async fn cors_is_allowed_only_for_configured_origins() {
    let gateway = Gateway::start().await;
    let refused = preflight(&gateway, "https://page.example").await.assert_status(204);
    assert_eq!(refused.header("allow"), "POST, OPTIONS");
    let models = gateway.get("/v1/models").header("origin", "https://page.example").await;
    for answer in [refused, models] {
        assert!(!format!("{:?}", answer.headers).contains("access-control"), "{:?}", answer.headers);
    }

    let gateway = Gateway::start_with(|world| world.set("GATEWAY__CORS_ORIGINS", "https://page.example")).await;
    let allowed = preflight(&gateway, "https://page.example").await.assert_status(204);
    assert_eq!(allowed.header("access-control-allow-origin"), "https://page.example");
    assert_eq!(allowed.header("access-control-allow-headers"), "authorization,content-type,x-stainless-os");
    assert!(allowed.header("access-control-allow-methods").contains("POST"));
    let models = gateway.get("/v1/models").header("origin", "https://page.example").await;
    assert_eq!(models.header("access-control-allow-origin"), "https://page.example");
    assert_eq!(models.header("vary"), "origin");
    let exposed = models.header("access-control-expose-headers").to_owned();
    let refused = gateway.get("/v1/none").header("origin", "https://page.example").await;
    assert_eq!(refused.header("access-control-expose-headers"), exposed);
    for name in ["x-should-retry", "retry-after", "retry-after-ms", "x-request-id"] {
        assert!(exposed.split(", ").any(|exposed| exposed == name), "{exposed}");
    }
    assert!(preflight(&gateway, "https://other.example").await.find_header("access-control-allow-origin").is_none());
}

#[tokio::test]
async fn a_model_whose_provider_has_no_key_is_unavailable() {
    let world = World::start().await;
    let key = create_key(&world.user("ada").await).await;
    let url = format!("https://ai.svc.localhost:{}/v1/chat/completions", world.public_port());
    let answer = world.edge().post(&url).bearer(&key).json(&request(&json!({}))).await;
    assert_eq!(answer.header("x-should-retry"), "false");
    let error = answer.assert_openai_error(503, "model_unavailable");
    assert_eq!((&error["param"], &error["type"]), (&Value::from("model"), &Value::from("server_error")));
}

/// The ids of the models that a key sees.
fn listed(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn models_whose_provider_has_no_key_are_left_out_and_never_chosen() {
    let provider = Provider::start_as(Dialect::named("mistral")).await;
    let mut providers = serde_json::to_value(config::Gateway::default().providers).unwrap();
    providers["mistral"]["base_url"] = format!("{}/v1", provider.url).into();
    let world = World::builder().variable("MISTRAL_API_KEY", KEY).set("GATEWAY__PROVIDERS", providers).start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, ada.token.clone());
    // Without a key the command line asks the API, and makes none.
    let mistral = ["svc/mistral-large", "svc/mistral-medium", "svc/mistral-small"];
    eventually(BACKGROUND, "the edge has said which models it reaches", async || {
        let models = shell.json(&["ai", "models"]).await;
        let ids: Vec<_> = models["models"].as_array().unwrap().iter().map(|model| model["id"].clone()).collect();
        ids == mistral
    })
    .await;
    assert_eq!(shell.json(&["ai", "keys"]).await["keys"], json!([]));

    let key = create_key(&ada).await;
    let get =
        |path: &str| world.edge().get(&format!("https://ai.svc.localhost:{}{path}", world.public_port())).bearer(&key);
    assert_eq!(listed(&get("/v1/models").await.ok()), mistral);
    assert_eq!(get("/v1/models/svc/gpt-oss-20b").await.ok()["id"], "svc/gpt-oss-20b");
    // gpt-oss-20b is the cheapest, and out of reach.
    assert_eq!(shell.json(&["ai", "chat", "Hi?"]).await["model"], "svc/mistral-small");
    let refused = shell.run(&["ai", "chat", "--model", "svc/gpt-oss-20b", "Hi?"]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("no API key") && refused.err.contains("svc ai models"), "{}", refused.err);
}

#[tokio::test]
async fn a_service_without_a_provider_s_key_says_so() {
    let world = World::start().await;
    let shell = Shell::new(&world, world.user("ada").await.token);
    let refused = shell.run(&["ai", "chat", "Hi?"]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("no provider's API key"), "{}", refused.err);
}

#[tokio::test]
async fn unknown_paths_below_messages_are_answered_in_their_shape() {
    let gateway = Gateway::start().await;
    for path in ["/v1/messages/batches", "/v1/messages/batches/msgbatch_1/results", "/messages/nothing"] {
        let error = gateway.get(path).await.json(404);
        assert_keys(&error, "type error request_id");
        assert_eq!((&error["type"], &error["error"]["type"]), (&json!("error"), &json!("not_found_error")), "{path}");
    }
    gateway.get("/v1/messagesx").await.assert_openai_error(404, "unknown_url");
}

#[tokio::test]
async fn images_go_to_models_that_see_them_in_every_format() {
    let gateway = Gateway::start().await;
    let post = async |path: &str, body: &Value| {
        gateway.world.edge().post(&gateway.url(path)).bearer(&gateway.key).json(body).await
    };
    let url = "data:image/png;base64,QUJD";
    let chat = json!([{ "type": "text", "text": "x" }, { "type": "image_url", "image_url": { "url": url } }]);
    let responses = json!([{ "type": "input_text", "text": "x" }, { "type": "input_image", "image_url": url }]);
    let source = json!({ "type": "base64", "media_type": "image/png", "data": "QUJD" });
    let messages = json!([{ "type": "text", "text": "x" }, { "type": "image", "source": source }]);
    let said =
        |content: &Value| json!([{ "role": "user", "content": "Look." }, { "role": "user", "content": content }]);
    for (model, sees) in [("svc/gpt-oss-20b", false), ("svc/mistral-small", true)] {
        let bodies = [
            ("/v1/chat/completions", json!({ "model": model, "messages": said(&chat) }), "messages[1].content[1]"),
            (
                "/v1/responses",
                json!({ "model": model, "instructions": "Short.", "input": said(&responses) }),
                "input[1].content[1]",
            ),
            (
                "/v1/messages",
                json!({ "model": model, "max_tokens": 9, "system": "Short.", "messages": said(&messages) }),
                "messages.1.content.1",
            ),
        ];
        for (path, body, place) in bodies {
            let answer = post(path, &body).await;
            if sees {
                answer.assert_status(200);
                continue;
            }
            let error = answer.json(400)["error"].clone();
            let message = error["message"].as_str().unwrap();
            assert!(message.contains(model) && message.contains(&format!("'{place}'")), "{path}: {error}");
            assert!(path == "/v1/messages" || error["param"] == place, "{error}");
        }
        assert_eq!(gateway.provider.asked().len(), if sees { 3 } else { 0 });
    }
}
