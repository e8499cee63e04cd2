//! Checks that the routes and their description name the same operations.

use std::{collections::HashSet, fs, path::Path};

use serde_json::{Map, Value};

use super::*;

fn described() -> Value {
    let all = public()
        .merge(device_start())
        .merge(device_poll())
        .merge(limited_public())
        .merge(control_plane())
        .merge(external_services())
        .merge(organizations())
        .merge(uploads())
        .merge(console())
        .merge(streams())
        .merge(downloads())
        .merge(installations())
        .merge(billing())
        .merge(webhooks());
    document::complete(&all.into_openapi()).unwrap()
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            found.push(fs::read_to_string(path).unwrap());
        }
    }
}

fn operations(document: &Value) -> Vec<(&str, &str, &Value)> {
    let paths = document["paths"].as_object().unwrap().iter();
    let methods = paths.flat_map(|(path, item)| item.as_object().unwrap().iter().map(move |m| (path, m)));
    methods.map(|(path, (method, said))| (path.as_str(), method.as_str(), said)).collect()
}

#[test]
fn every_handler_is_served_and_described() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut pages) = (Vec::new(), Vec::new());
    sources(&root.join("handlers/src"), &mut files);
    sources(&root.join("stats-handlers/src"), &mut files);
    sources(&root.join("pages/src/webhooks"), &mut files);
    sources(&root.join("pages/src"), &mut pages);
    pages.retain(|page| !files.contains(page));
    let described_in = |text: &String| text.matches("#[utoipa::path(").count();
    let handlers: usize = files.iter().chain(&pages).map(described_in).sum();
    assert_eq!(operations(&described()).len(), handlers, "a handler stands in no list of this file");
    // A route added in any other way would not be described.
    let here = include_str!("../router.rs");
    let undescribed = [".rou", "te("].concat();
    assert!(!here.contains(&undescribed) && files.iter().all(|text| !text.contains(&undescribed)));
}

#[test]
fn the_contract_is_described() {
    let document = described();
    let operations = operations(&document);
    for wanted in [
        "get /health",
        "get /me",
        "post /auth/device",
        "post /auth/device/poll",
        "get /tokens",
        "post /tokens",
        "delete /tokens/{id}",
        "get /usage/ai",
        "get /orgs/{name}/usage/ai",
        "get /projects",
        "post /projects",
        "get /projects/{name}",
        "delete /projects/{name}",
        "get /projects/{name}/deployments",
        "post /projects/{name}/deployments",
        "get /projects/{name}/deployments/{id}",
        "post /projects/{name}/deployments/{id}/activate",
        "delete /projects/{name}/deployments/{id}",
        "post /projects/{name}/domains",
        "delete /projects/{name}/domains/{domain}",
        "post /projects/{name}/domains/{domain}/certificate/refresh",
        "get /projects/{name}/domains/{domain}/certificate",
        "put /projects/{name}/access",
        "put /projects/{name}/password",
        "delete /projects/{name}/password",
        "post /projects/{name}/transfer",
        "get /projects/{name}/env",
        "put /projects/{name}/env/{key}",
        "delete /projects/{name}/env/{key}",
        "get /projects/{name}/audit",
        "get /orgs/{name}/audit",
        "put /billing/profile",
        "put /orgs/{name}/billing/profile",
        "get /projects/{name}/stats",
        "get /projects/{name}/stats/history",
        "get /projects/{name}/stats/audience",
        "post /projects/{name}/repo",
        "get /vcs",
        "get /orgs/{name}/installations",
        "post /orgs/{name}/installations",
        "delete /orgs/{name}/installations/{id}",
        "get /orgs",
        "post /orgs",
        "get /orgs/{name}",
        "patch /orgs/{name}",
        "delete /orgs/{name}",
        "get /orgs/{name}/invites",
        "post /orgs/{name}/invites",
        "delete /orgs/{name}/invites/{id}",
        "get /invites/{token}",
        "post /invites/{token}/accept",
        "put /orgs/{name}/members/{login}",
        "delete /orgs/{name}/members/{login}",
        "get /orgs/{name}/icon",
        "put /orgs/{name}/icon",
        "delete /orgs/{name}/icon",
        "get /orgs/{name}/tokens",
        "post /orgs/{name}/tokens",
        "delete /orgs/{name}/tokens/{id}",
        "get /billing",
        "put /billing/profile",
        "post /billing/checkout",
        "post /billing/change-plan",
        "post /billing/cancel",
        "post /billing/resume",
        "get /billing/invoices/{id}/pdf",
        "get /orgs/{name}/billing",
        "put /orgs/{name}/billing/profile",
        "post /orgs/{name}/billing/checkout",
        "post /orgs/{name}/billing/change-plan",
        "post /orgs/{name}/billing/cancel",
        "post /orgs/{name}/billing/resume",
        "get /orgs/{name}/billing/invoices/{id}/pdf",
        "get /shares",
        "post /shares",
        "delete /shares/{name}",
    ] {
        let there = operations.iter().any(|(path, method, _)| format!("{method} {path}") == wanted);
        assert!(there, "{wanted} is missing");
    }
}

/// Generated clients name their functions by these.
#[test]
fn every_operation_has_a_name_and_a_description() {
    let document = described();
    let mut names = HashSet::new();
    for (path, method, operation) in operations(&document) {
        let name = operation["operationId"].as_str().unwrap();
        let is_name = name.contains('_') && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        assert!(is_name && names.insert(name), "{method} {path}: {name}");
        assert!(operation["description"].as_str().is_some_and(|text| !text.is_empty()), "{method} {path}");
    }
}

#[test]
fn every_body_has_an_example() {
    let document = described();
    for (path, method, operation) in operations(&document) {
        let responses = operation["responses"].as_object().unwrap().values();
        for body in responses.chain(operation.get("requestBody")) {
            for (media_type, content) in body["content"].as_object().into_iter().flatten() {
                let is_described = content["schema"].get("$ref").is_some();
                let has_example = content.get("example").or(content.get("examples")).is_some();
                assert!(!is_described || has_example, "{method} {path}: {media_type}");
            }
        }
    }
}

#[test]
fn the_committed_document_is_current() {
    let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../openapi.json");
    let document = format!("{}\n", serde_json::to_string_pretty(&described()).unwrap());
    if std::env::var_os("SVC_WRITE_OPENAPI").is_some() {
        fs::write(&committed, &document).unwrap();
    }
    let is_current = fs::read_to_string(&committed).is_ok_and(|text| text == document);
    assert!(is_current, "openapi.json is not what the handlers say; `make openapi` rewrites it, commit the difference");
}

/// Returns the codes in a response's error envelope, with references resolved.
fn codes<'d>(document: &'d Value, response: &'d Value) -> Vec<&'d str> {
    let target = response["$ref"].as_str().and_then(|reference| document.pointer(&reference[1..]));
    let examples = target.unwrap_or(response).pointer("/content/application~1json/examples").and_then(Value::as_object);
    examples.into_iter().flat_map(Map::keys).map(String::as_str).collect()
}

/// The document derives an operation's layers from its path and security; the router adds them to groups.
#[test]
fn the_layers_of_every_group_are_described() {
    let groups = [
        (public(), false, false),
        (webhooks(), true, false),
        (limited_public(), true, false),
        (device_start(), true, false),
        (device_poll(), true, false),
        (control_plane(), true, true),
        (organizations(), true, true),
        (installations(), true, true),
        (billing(), true, true),
        (uploads(), true, true),
        (console(), true, false),
    ];
    for (group, is_limited, is_idempotent) in groups {
        let document = document::complete(&group.into_openapi()).unwrap();
        for (path, method, said) in operations(&document) {
            let has_limit = codes(&document, &said["responses"]["429"]).contains(&"rate_limit_exceeded");
            assert_eq!(has_limit, is_limited, "{method} {path}");
            let parameters = said["parameters"].as_array().into_iter().flatten();
            let has_key = parameters.into_iter().any(|parameter| parameter["name"] == "Idempotency-Key");
            assert_eq!(has_key, is_idempotent && method == "post", "{method} {path}");
        }
    }
}

#[test]
fn every_code_is_listed_by_an_operation_and_under_its_own_status() {
    let document = described();
    let mut listed = HashSet::new();
    for (path, method, said) in operations(&document) {
        for (status, response) in said["responses"].as_object().unwrap() {
            for code in codes(&document, response) {
                let known = Code::ALL.iter().find(|known| known.as_str() == code);
                // It relays the gateway's errors.
                if known.is_none() && path == "/ai/try" {
                    continue;
                }
                let known = known.unwrap_or_else(|| panic!("{method} {path}: {code} is no code"));
                assert_eq!(known.status().as_str(), status, "{method} {path}: {code}");
                listed.insert(code);
            }
        }
    }
    // No operation has a method that its path does not support.
    listed.insert("method_not_allowed");
    let unlisted: Vec<&str> =
        Code::ALL.iter().map(|code| code.as_str()).filter(|code| !listed.contains(code)).collect();
    assert!(unlisted.is_empty(), "no operation lists {unlisted:?}");
}

#[test]
fn every_operation_says_how_it_fails_and_every_reference_leads_somewhere() {
    let document = described();
    for (path, method, said) in operations(&document) {
        let responses = said["responses"].as_object().unwrap();
        assert!(responses.contains_key("500"), "{method} {path}");
        assert!(responses.keys().any(|status| status.starts_with('2')), "{method} {path}");
        // An empty requirement means no authentication; an absent one means the document's default, a token.
        let is_open =
            said.get("security").is_some_and(|wanted| wanted[0].as_object().is_none_or(serde_json::Map::is_empty));
        assert_eq!(responses.contains_key("401"), !is_open, "{method} {path}");
    }
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1) {
        let pointer = reference.split('"').next().unwrap();
        assert!(document.pointer(pointer).is_some(), "{pointer} leads nowhere");
    }
}
