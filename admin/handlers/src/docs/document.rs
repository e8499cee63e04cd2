//! The control plane's OpenAPI document: the handlers' attributes, plus what many operations have in common.
//!
//! `openapi.json` at the repository's root is this document. A test keeps it current; `make openapi` rewrites it.

use std::collections::{BTreeMap, BTreeSet};

use admin_http::error::Code;
use api::error::ErrorEnvelope;
use serde_json::{Value, json};
use utoipa::{PartialSchema as _, ToSchema as _, openapi::OpenApi};

use super::{headers, operation};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];
const ABOUT: &str = include_str!("about.md");
/// The address at which `make up` serves the API.
const DEFAULT_BASE_URL: &str = "https://api.svc.localhost:8443";

/// The groups of operations, in reading order.
const TAGS: [(&str, &str); 21] = [
    ("Health and identity", "Whether the platform works, and who the token speaks for."),
    ("Device-flow login", "Getting a `cli` token with the help of a browser, as RFC 8628 describes it."),
    ("Tokens", "A person's own tokens."),
    ("Sessions", "The browsers in which a person is signed in on the console."),
    ("Notifications", "The letters that a person gets by mail."),
    ("Projects", "A project owns a subdomain and what is served there."),
    ("Deployments", "Immutable sets of files, one of which is live."),
    ("Access", "The visitors that a project's site is shown to."),
    ("Domains", "Custom domains of projects."),
    ("Environment", "Environment variables of projects."),
    ("Code host", "Repositories whose pushes deploy, and the installations that reach them."),
    ("Shares", "Pages for a few days, without a project."),
    ("Organizations", "Workspaces of several people, with their icons and tokens."),
    ("Invites", "Invitations to organizations."),
    ("Audit", "The audit log: actors, actions and their targets."),
    ("AI gateway", "What the console shows of the AI gateway."),
    ("Usage", "Use of the AI gateway by month and model."),
    ("Statistics", "What the edges counted of a project's visits."),
    ("Billing", "Plans, payments, invoices and the details that they carry."),
    ("Events", "What happens to your account and organizations, as it happens."),
    ("Documentation", "This description."),
];

/// Returns the complete document. It does not depend on the configuration; see [`set_server`].
pub fn complete(described: &OpenApi) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(described)?;
    document["info"] = json!({
        "title": "svc control plane",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT.trim_end(),
        "license": { "name": "AGPL-3.0-or-later", "identifier": env!("CARGO_PKG_LICENSE") },
    });
    document["servers"] = json!([{
        "url": "{base_url}",
        "description": "`site.base_url` of the installation",
        "variables": { "base_url": { "default": DEFAULT_BASE_URL } },
    }]);
    document["tags"] = TAGS.iter().map(|(name, about)| json!({ "name": name, "description": about })).collect();
    document["security"] = json!([{ "bearer": [] }]);
    document["components"]["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "A token: `svc_` and 43 characters." },
        operation::SESSION: {
            "type": "apiKey", "in": "cookie", "name": app::auth::cookies::SESSION,
            "description": "A session of the console, in a request that one of its own pages makes under `/api` of its host.",
        },
        "webhook": {
            "type": "apiKey", "in": "header", "name": "X-Hub-Signature-256",
            "description": "`sha256=` and the HMAC-SHA-256 of the body with the webhook's secret, in hex.",
        },
        "payment_event": {
            "type": "apiKey", "in": "header", "name": "X-Mollie-Signature",
            "description": "The HMAC-SHA-256 of an event with `billing.mollie_webhook_secret`, in hex.",
        },
    });
    document["components"]["headers"] = headers::components();
    add_error_schemas(&mut document)?;
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, item) in paths {
            for method in METHODS {
                if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                    operation::complete(path, method, operation);
                }
            }
        }
    }
    add_relayed_codes(&mut document);
    document["components"]["responses"] = json!({});
    share_responses(&mut document);
    add_fallback_responses(&mut document);
    strip_doc_links(&mut document);
    document.sort_all_objects();
    Ok(document)
}

/// Sets `base_url` as the document's server.
pub fn set_server(document: &mut Value, base_url: &str) {
    document["servers"] = json!([{ "url": base_url.trim_end_matches('/') }]);
}

fn add_error_schemas(document: &mut Value) -> Result<(), serde_json::Error> {
    let mut schemas = vec![(ErrorEnvelope::name().into_owned(), ErrorEnvelope::schema())];
    ErrorEnvelope::schemas(&mut schemas);
    for (name, schema) in schemas {
        document["components"]["schemas"][name] = serde_json::to_value(schema)?;
    }
    let meanings: Vec<String> = Code::ALL
        .iter()
        .map(|code| format!("- `{}` ({}): {}", code.as_str(), code.status().as_u16(), code.meaning()))
        .collect();
    document["components"]["schemas"]["ErrorCode"] = json!({
        "type": "string",
        "enum": Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
        "description": format!("A stable code, for programs. More may come.\n\n{}", meanings.join("\n")),
    });
    document["components"]["schemas"]["ErrorBody"]["properties"]["code"] =
        json!({ "$ref": "#/components/schemas/ErrorCode" });
    Ok(())
}

/// Adds the codes of errors that handlers relay, which are none of admin's own, to the schema of codes.
fn add_relayed_codes(document: &mut Value) {
    let mut codes = BTreeSet::new();
    for_each_response(document, |response| {
        let examples = response.pointer("/content/application~1json/examples").and_then(Value::as_object);
        codes.extend(examples.into_iter().flatten().map(|(code, _)| code.clone()));
    });
    let schema = &mut document["components"]["schemas"]["ErrorCode"];
    codes.retain(|code| Code::ALL.iter().all(|own| own.as_str() != code));
    if let Some(all) = schema["enum"].as_array_mut() {
        all.extend(codes.iter().map(|code| Value::from(code.as_str())));
    }
    let named: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
    if let Value::String(description) = &mut schema["description"] {
        *description = format!("{description}\n\nRelayed from the AI gateway: {}.", named.join(", "));
    }
}

/// Moves error responses that several operations share into the components. Names are derived from the codes; if
/// several responses have the same name, the most frequent one is moved.
fn share_responses(document: &mut Value) {
    let mut uses: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for_each_response(document, |response| {
        if let Some(name) = shared_name(response) {
            *uses.entry(name).or_default().entry(response.to_string()).or_default() += 1;
        }
    });
    let shared: BTreeMap<String, String> = uses
        .into_iter()
        .filter_map(|(name, variants)| {
            let (text, count) = variants.into_iter().max_by_key(|(_, count)| *count)?;
            (count > 1).then_some((name, text))
        })
        .collect();
    let mut moved = BTreeMap::new();
    for_each_response(document, |response| {
        let Some(name) = shared_name(response) else { return };
        if shared.get(&name) == Some(&response.to_string()) {
            let reference = json!({ "$ref": format!("#/components/responses/{name}") });
            moved.insert(name, std::mem::replace(response, reference));
        }
    });
    for (name, response) in moved {
        document["components"]["responses"][name] = response;
    }
}

/// Joins an error response's codes to a name such as `ForbiddenOrPlanLimitReached`.
fn shared_name(response: &Value) -> Option<String> {
    let codes = response.pointer("/content/application~1json/examples")?.as_object()?;
    let pascal = |code: &String| {
        let mut name = String::new();
        for word in code.split('_') {
            let (first, rest) = word.split_at(word.len().min(1));
            name.push_str(&first.to_ascii_uppercase());
            name.push_str(rest);
        }
        name
    };
    Some(codes.keys().map(pascal).collect::<Vec<_>>().join("Or"))
}

fn for_each_response(document: &mut Value, mut act: impl FnMut(&mut Value)) {
    let items = document["paths"].as_object_mut().into_iter().flat_map(|paths| paths.values_mut());
    for operation in items.filter_map(Value::as_object_mut).flat_map(|item| item.values_mut()) {
        operation["responses"].as_object_mut().into_iter().flat_map(|all| all.values_mut()).for_each(&mut act);
    }
}

/// Adds the responses outside operations: for unknown paths, and for methods that a path does not support.
fn add_fallback_responses(document: &mut Value) {
    let error = |code: Code, when: &str| operation::error(&[(code.as_str().to_owned(), when.to_owned())]);
    let mut wrong_method =
        error(Code::MethodNotAllowed, "the path exists, but not with this method; any path can answer so");
    wrong_method["headers"] = headers::references(["Allow", "Cache-Control", "X-Request-Id"]);
    let mut unknown_path =
        error(Code::NotFound, "there is nothing at this path; any path that is not described here answers so");
    unknown_path["headers"] = headers::references(["Cache-Control", "X-Request-Id"]);
    document["components"]["responses"]["MethodNotAllowed"] = wrong_method;
    document["components"]["responses"]["PathNotFound"] = unknown_path;
}

/// Removes the brackets of intra-doc links from descriptions, which come from the types' rustdoc.
fn strip_doc_links(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            if let Some(Value::String(text)) = fields.get_mut("description") {
                *text = text.replace("[`", "`").replace("`]", "`");
            }
            fields.values_mut().for_each(strip_doc_links);
        }
        Value::Array(items) => items.iter_mut().for_each(strip_doc_links),
        _ => {}
    }
}
