//! What every operation has in common: the error envelope, unknown paths and methods, request ids, who may call, limits.

use std::collections::HashSet;

use reqwest::Method;
use serde_json::{Value, json};

use crate::world::{Actor, Site, World, request::Request};

/// Every operation of `/openapi.json`: method and path.
pub async fn operations(world: &World) -> Vec<(Method, String)> {
    let document = world.nobody().get("/openapi.json").await.assert_status(200);
    let document: Value = serde_json::from_slice(&document.body).unwrap();
    let mut operations = Vec::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "patch", "delete"] {
            if item.get(method).is_some() {
                operations.push((method.to_ascii_uppercase().parse().unwrap(), path.clone()));
            }
        }
    }
    assert!(operations.len() > 15, "{operations:?}");
    operations
}

/// By the contract: everything but these wants a token.
pub fn is_public(method: &Method, path: &str) -> bool {
    path == "/"
        || path == "/health"
        || path == "/openapi.json"
        || path.starts_with("/docs")
        || path.starts_with("/auth/")
        || path.starts_with("/device")
        || path.starts_with("/webhooks/")
        || (*method == Method::GET
            && ["/orgs/{name}/icon", "/invites/{token}", "/stats/{token}", "/documents/{link}"].contains(&path))
}

/// The operation with something in the place of its parameters, and a body that fits its kind.
pub fn call(actor: &Actor, method: &Method, path: &str, project: &str, item: &str) -> Request {
    let mut concrete = String::new();
    for segment in path.split('/').skip(1) {
        concrete.push('/');
        concrete.push_str(match segment {
            "{name}" => project,
            _ if segment.starts_with('{') => item,
            _ => segment,
        });
    }
    let request = actor.request(method.clone(), &concrete);
    let is_upload = path == "/shares" || path.ends_with("/deployments");
    match *method {
        Method::POST if is_upload => request.upload(Site::page("x").tarball()),
        Method::POST | Method::PUT | Method::PATCH => request.json(&json!({})),
        _ => request,
    }
}

#[tokio::test]
async fn every_operation_wants_a_working_token_of_the_right_kind() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("x")).await;
    let ai = ada.post("/tokens").json(&json!({ "kind": "ai" })).await.created();
    let revoked = ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created();
    ada.delete(&format!("/tokens/{}", revoked["id"].as_str().unwrap())).await.ok();
    let good = ada.token.clone().unwrap();
    let headers = [
        format!("Bearer {}", ai["token"].as_str().unwrap()),
        format!("Bearer {}", revoked["token"].as_str().unwrap()),
        format!("Bearer svc_{}", "A".repeat(43)),
        format!("Bearer {good}x"),
        format!("Bearer {}", &good[..good.len() - 1]),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        format!("Basic {good}"),
        good,
    ];
    for (method, path) in operations(&world).await {
        if is_public(&method, &path) {
            continue;
        }
        call(&world.nobody(), &method, &path, "engine", "x").await.assert_error(401, "unauthorized");
        for header in &headers {
            let request = call(&world.nobody(), &method, &path, "engine", "x").header("authorization", header);
            request.await.assert_error(401, "unauthorized");
        }
    }
    assert_eq!(ada.project("engine").await["deployments"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_deploy_token_reaches_the_deploy_surface_alone() {
    let world = World::start().await;
    let org = world.acme().await;
    org.owner.create_project_in(&org, "engine").await;
    let robot = org.robot("deploy").await;
    let me = robot.get("/me").await.ok();
    assert_eq!(me["token_kind"], "deploy");
    assert_eq!(me["org"], "acme");
    assert_eq!(me["vcs_login"], Value::Null);
    let names: Vec<_> =
        robot.get("/projects").await.ok()["projects"].as_array().unwrap().iter().map(|p| p["name"].clone()).collect();
    assert_eq!(names, ["engine"]);
    let first = robot.deploy("engine", &Site::page("one")).await;
    robot.deploy("engine", &Site::page("two")).await;
    robot.activate("engine", &first.id).await.ok();
    assert_eq!(robot.project("engine").await["active_deployment_id"], first.id);
    assert_eq!(robot.project("engine").await["org"], "acme");

    let allowed = [
        (Method::GET, "/me"),
        (Method::GET, "/projects"),
        (Method::GET, "/projects/{name}"),
        (Method::POST, "/projects/{name}/deployments"),
        (Method::POST, "/projects/{name}/deployments/{id}/activate"),
    ];
    for (method, path) in operations(&world).await {
        if is_public(&method, &path) || allowed.contains(&(method.clone(), path.as_str())) {
            continue;
        }
        call(&robot, &method, &path, "engine", &first.id).await.assert_error(401, "unauthorized");
    }
    // Nor does it reach anybody else's project.
    world.user("ada").await.create_project("adas").await;
    robot.get("/projects/adas").await.assert_error(404, "not_found");
    robot.upload("adas", &Site::page("x")).await.assert_error(404, "not_found");
}

#[tokio::test]
async fn unknown_paths_are_404_with_and_without_a_token() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for actor in [&world.nobody(), &ada] {
        for path in ["/nothing", "/projects/a/b/c/d", "/me/", "/Projects", "//me", "/health/x", "/.env", "/v1/models"] {
            actor.get(path).await.assert_error(404, "not_found");
        }
    }
}

#[tokio::test]
async fn a_method_the_path_does_not_have_is_405_with_allow() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    for (method, path, allowed) in [
        (Method::PUT, "/health", vec!["GET"]),
        (Method::DELETE, "/me", vec!["GET"]),
        (Method::GET, "/auth/device", vec!["POST"]),
        (Method::PATCH, "/tokens", vec!["GET", "POST"]),
        (Method::GET, "/tokens/tok_00000000000000000000", vec!["PATCH", "DELETE"]),
        (Method::PUT, "/projects", vec!["GET", "POST"]),
        (Method::POST, "/projects/engine", vec!["GET", "DELETE"]),
        (Method::GET, "/projects/engine/access", vec!["PUT"]),
        (Method::POST, "/projects/engine/password", vec!["PUT", "DELETE"]),
        (Method::GET, "/projects/engine/deployments/x/activate", vec!["POST"]),
        (Method::PUT, "/shares", vec!["GET", "POST"]),
        (Method::GET, "/shares/a-b-c", vec!["DELETE"]),
        (Method::from_bytes(b"BREW").unwrap(), "/me", vec!["GET"]),
    ] {
        let answer = ada.request(method, path).await;
        let allow: HashSet<_> = answer.header("allow").split(',').map(str::trim).filter(|m| *m != "HEAD").collect();
        assert_eq!(allow, allowed.iter().copied().collect(), "{}", answer.what);
        answer.assert_error(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn every_answer_has_a_request_id_of_its_own() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let mut ids = HashSet::new();
    for path in ["/health", "/me", "/nothing", "/projects", "/openapi.json", "/docs"] {
        let request_id = ada.get(path).await.header("x-request-id").to_owned();
        assert!(ids.insert(request_id.clone()), "{request_id} twice");
    }
    let through = world.edge().get("https://api.svc.localhost/me").await;
    assert!(ids.insert(through.header("x-request-id").to_owned()));
    through.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn malformed_bodies_are_explained() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for body in [
        "",
        "{",
        "[]",
        "null",
        "\"engine\"",
        "{\"name\":}",
        "{\"name\":\"engine\"",
        "{\"name\":1e999}",
        "\u{feff}{}",
        "{\"name\":{}}",
        "{\"name\":[\"engine\"]}",
        "{\"name\":true}",
        "name=engine",
        &deep,
    ] {
        let request = ada.post("/projects").header("content-type", "application/json").body(body.to_owned());
        request.await.assert_error(400, "invalid_request");
    }
    let bytes = ada.post("/projects").header("content-type", "application/json").body(vec![0xff, 0xfe, 0x00]);
    bytes.await.assert_error(400, "invalid_request");
    let huge = format!("{{\"name\":\"engine\",\"padding\":\"{}\"}}", "x".repeat(2_000_000));
    let huge = ada.post("/projects").header("content-type", "application/json").body(huge);
    huge.await.assert_error(413, "payload_too_large");
    assert_eq!(ada.get("/projects").await.ok()["projects"], json!([]));
}

#[tokio::test]
async fn a_token_has_a_rate() {
    let world = World::builder().set("LIMITS__API_PER_MIN", 5).start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    for left in (0..5).rev() {
        let answer = ada.get("/me").await.assert_status(200);
        assert_eq!(answer.header("x-ratelimit-limit"), "5");
        assert_eq!(answer.header("x-ratelimit-remaining"), left.to_string());
    }
    let refused = ada.get("/projects").await;
    let retry_after: u64 = refused.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&retry_after), "{retry_after}");
    refused.assert_error(429, "rate_limit_exceeded");
    eve.get("/me").await.ok();
    world.nobody().get("/health").await.ok();
}

#[tokio::test]
async fn an_account_has_a_rate_over_all_its_tokens() {
    let world = World::builder().set("LIMITS__API_PER_MIN", 8).set("LIMITS__API_ACCOUNT_PER_MIN", 10).start().await;
    let (ada, eve) = (world.user("ada").await, world.user("eve").await);
    let token =
        ada.post("/tokens").json(&json!({ "kind": "cli" })).await.created()["token"].as_str().unwrap().to_owned();
    for left in (0..7).rev() {
        assert_eq!(ada.get("/me").await.header("x-ratelimit-remaining"), left.to_string());
    }
    ada.get("/me").await.assert_error(429, "rate_limit_exceeded");
    // The one that was refused does not count against the others.
    let other = world.nobody().with_token(&token);
    for left in [7, 6] {
        assert_eq!(other.get("/me").await.header("x-ratelimit-remaining"), left.to_string());
    }
    let refused = other.get("/me").await;
    assert_eq!((refused.header("x-ratelimit-limit"), refused.header("x-ratelimit-remaining")), ("10", "0"));
    refused.assert_error(429, "rate_limit_exceeded");
    eve.get("/me").await.ok();
}

#[tokio::test]
async fn a_broken_database_is_500_that_shows_nothing() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    world.sql("ALTER TABLE projects RENAME TO projects_gone").await;
    let answer = ada.get("/projects").await;
    let request_id = answer.header("x-request-id").to_owned();
    let text = answer.text();
    answer.assert_error(500, "internal");
    for internal in ["projects_gone", "relation", "sqlx", "postgres", "column"] {
        assert!(!text.contains(internal), "{text}");
    }
    assert!(world.admin.log().contains(&request_id), "the id does not find the log line");
}

#[tokio::test]
async fn the_api_is_reached_through_the_edge() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let url = "https://api.svc.localhost/me";
    let token = ada.token.as_deref().unwrap();
    let direct = ada.get("/me").await.ok();
    assert_eq!(world.edge().get(url).bearer(token).await.ok(), direct);
    assert_eq!(world.edge().get_http1(url).bearer(token).await.ok(), direct);
}
