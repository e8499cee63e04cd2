//! `/openapi.json` and `/docs`.

use serde_json::Value;

use crate::{
    errors::{call, is_public, operations},
    world::World,
};

#[tokio::test]
async fn every_documented_operation_exists() {
    let world = World::start().await;
    let nobody = world.nobody();
    for (method, path) in operations(&world).await {
        let answer = call(&nobody, &method, &path, "engine", "x").await;
        if is_public(&method, &path) && (path.contains('{') || path.starts_with("/webhooks/")) {
            // Nothing is called so, and this world has no secret for webhooks: not the fallback's words, but its own.
            assert!(!answer.assert_error(404, "not_found").contains("path"), "{method} {path}");
        } else if is_public(&method, &path) {
            assert!(answer.status != 404 && answer.status != 405, "{method} {path}: {}", answer.status);
        } else {
            // An unknown path would be 404, and an unknown method 405.
            assert_eq!(answer.status, 401, "{method} {path}");
        }
    }
}

#[tokio::test]
async fn the_document_is_whole() {
    let world = World::start().await;
    let answer = world.nobody().get("/openapi.json").await.assert_status(200);
    assert!(answer.header("content-type").starts_with("application/json"));
    let document: Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    let mut references = Vec::new();
    collect_references(&document, &mut references);
    assert!(!references.is_empty());
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let Some(responses) = operation["responses"].as_object() else { continue };
            assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path} never succeeds");
        }
    }
}

fn collect_references(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect_references(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_references(item, into)),
        _ => {}
    }
}

#[tokio::test]
async fn what_is_served_is_what_was_reviewed() {
    let world = World::start().await;
    let served = world.nobody().get("/openapi.json").await.ok();
    let mut committed: Value = serde_json::from_str(include_str!("../openapi.json")).unwrap();
    // The address alone depends on the configuration.
    assert!(served["servers"][0]["url"].as_str().unwrap().starts_with("https://api.svc.localhost"));
    committed["servers"] = served["servers"].clone();
    assert!(served == committed, "openapi.json is not what admin serves; `make openapi` rewrites it");
}

#[tokio::test]
async fn every_header_and_schema_is_described() {
    let world = World::start().await;
    let document = world.nobody().get("/openapi.json").await.ok();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(schema["description"].is_string(), "{name} says nothing of itself");
    }
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let what = format!("{method} {path}");
            assert!(operation["summary"].as_str().unwrap().ends_with('.'), "{what}");
            let tag = &operation["tags"][0];
            assert!(document["tags"].as_array().unwrap().iter().any(|known| known["name"] == *tag), "{what}: {tag}");
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                assert!(parameter["description"].is_string(), "{what}: {parameter}");
            }
        }
    }
}

#[tokio::test]
async fn the_docs_are_a_page() {
    let world = World::start().await;
    let page = world.nobody().get("/docs").await.assert_status(200);
    assert!(page.header("content-type").starts_with("text/html"));
    assert!(page.text().contains("/projects"));
    assert!(
        page.text().contains("<strong>Idempotency.</strong>") && !page.text().contains("**"),
        "emphasis is shown as such"
    );
}
