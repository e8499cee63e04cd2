//! Completes the OpenAPI document: what holds for many operations alike is said here, once.

use api::error::ErrorEnvelope;
use serde_json::{Map, Value, json};
use utoipa::{PartialSchema as _, ToSchema as _, openapi::OpenApi};

const METHODS: [&str; 5] = ["get", "put", "post", "delete", "patch"];

const ABOUT: &str = "The control plane of svc: projects, deployments, access, temporary shares and tokens.\n\n\
    Bodies are JSON unless said otherwise; unknown fields are ignored. Errors are `{\"error\": {\"code\", \"message\"}}`. \
    Every answer carries `X-Request-Id`; please quote it when something is wrong on our side. Lists that can grow take \
    `?limit=` and `?cursor=`, and carry `next_cursor`.\n\n\
    Send `Authorization: Bearer svc_…`. `svc login` gets a token; so does the device flow below. \
    600 requests a minute are served per token; `X-RateLimit-Limit` and `X-RateLimit-Remaining` say where you stand, \
    and a 429 says in `Retry-After` how long to wait.\n\n\
    A POST with an `Idempotency-Key` is done once: the same request within 24 hours is answered as before, with \
    `Idempotency-Replayed: true`.";

/// Errors that many operations share: name, status, code, and when.
const SHARED: [(&str, &str, &str); 7] = [
    ("InvalidRequest", "400", "`invalid_request`: a parameter or the body breaks a rule; the message names it"),
    ("Unauthorized", "401", "`unauthorized`: the token is missing, unknown, revoked or of the wrong kind"),
    ("NotFound", "404", "`not_found`: there is no such thing, or it is not yours"),
    ("IdempotencyConflict", "409", "`idempotency_conflict`: the Idempotency-Key belongs to another request"),
    ("PayloadTooLarge", "413", "`payload_too_large`: the body is larger than is accepted"),
    ("RateLimitExceeded", "429", "`rate_limit_exceeded`: too many requests; wait as long as Retry-After says"),
    ("Internal", "500", "`internal`: our fault; the X-Request-Id finds the cause"),
];

/// The whole document, for an API at `base_url`.
pub fn complete(described: &OpenApi, base_url: &str) -> Result<Value, serde_json::Error> {
    let mut document = serde_json::to_value(described)?;
    document["info"] = json!({
        "title": "svc control plane",
        "version": env!("CARGO_PKG_VERSION"),
        "description": ABOUT,
    });
    document["servers"] = json!([{ "url": base_url.trim_end_matches('/') }]);
    document["security"] = json!([{ "bearer": [] }]);
    let components = &mut document["components"];
    components["securitySchemes"] = json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "A token: `svc_` and 43 characters." },
        "webhook": {
            "type": "apiKey", "in": "header", "name": "X-Hub-Signature-256",
            "description": "`sha256=` and the HMAC-SHA-256 of the body with the webhook's secret, in hex.",
        },
    });
    let mut schemas = vec![(ErrorEnvelope::name().into_owned(), ErrorEnvelope::schema())];
    ErrorEnvelope::schemas(&mut schemas);
    for (name, schema) in schemas {
        components["schemas"][name] = serde_json::to_value(schema)?;
    }
    for (name, _, description) in SHARED {
        components["responses"][name] = error_response(description);
    }
    if let Some(paths) = document["paths"].as_object_mut() {
        for (path, item) in paths {
            for method in METHODS {
                if let Some(operation) = item.get_mut(method).and_then(Value::as_object_mut) {
                    complete_operation(path, method, operation);
                }
            }
        }
    }
    Ok(document)
}

fn complete_operation(path: &str, method: &str, operation: &mut Map<String, Value>) {
    // Handlers in different files may share a name; ids may not.
    let id = path.split(['/', '{', '}', '.']).filter(|part| !part.is_empty()).collect::<Vec<_>>().join("_");
    operation.insert("operationId".to_owned(), format!("{method}_{}", if id.is_empty() { "root" } else { &id }).into());

    let is_public = operation.contains_key("security");
    let is_limited = !is_public || path.starts_with("/auth/");
    let has_body = operation.contains_key("requestBody");
    let has_parameters = operation.get("parameters").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let is_idempotent_post = method == "post" && is_limited;
    let names_a_thing = path.contains('{');

    if is_idempotent_post {
        let parameters = operation.entry("parameters").or_insert_with(|| json!([]));
        let documented = |list: &[Value]| list.iter().any(|p| p["name"] == "Idempotency-Key");
        if let Some(list) = parameters.as_array_mut().filter(|list| !documented(list)) {
            list.push(json!({
                "name": "Idempotency-Key", "in": "header", "required": false,
                "description": "Makes a retry safe: 1 to 255 visible ASCII characters, new for every new request",
                "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
            }));
        }
    }
    if let Some(body) = operation.get_mut("requestBody") {
        describe_bytes(body);
    }
    let applies = |name: &str| match name {
        "InvalidRequest" => has_body || has_parameters || is_idempotent_post,
        "Unauthorized" => !is_public,
        "NotFound" => names_a_thing,
        "IdempotencyConflict" => is_idempotent_post,
        "PayloadTooLarge" => has_body,
        "RateLimitExceeded" => is_limited,
        _ => true,
    };
    let Some(responses) = operation.entry("responses").or_insert_with(|| json!({})).as_object_mut() else { return };
    for (name, status, description) in SHARED.into_iter().filter(|(name, ..)| applies(name)) {
        match responses.get_mut(status) {
            None => {
                responses.insert(status.to_owned(), json!({ "$ref": format!("#/components/responses/{name}") }));
            }
            // The handler describes another error of the same status: both can come.
            Some(described) => {
                let (code, _) = description.split_once(':').unwrap_or((description, ""));
                if let Some(text) = described["description"].as_str().filter(|text| !text.contains(code)) {
                    described["description"] = format!("{text}; {description}").into();
                }
            }
        }
    }
    for response in responses.values_mut() {
        describe_bytes(response);
        if response.get("$ref").is_none() {
            response["headers"]["X-Request-Id"] = json!({ "schema": { "type": "string" } });
        }
    }
}

/// Bodies that are bytes: their Rust type describes a list of numbers.
fn describe_bytes(body: &mut Value) {
    let Some(content) = body.get_mut("content").and_then(Value::as_object_mut) else { return };
    for (media_type, content) in content {
        if media_type.starts_with("image/") || media_type == "application/gzip" {
            content["schema"] = json!({ "type": "string", "format": "binary" });
        }
    }
}

fn error_response(description: &str) -> Value {
    json!({
        "description": description,
        "headers": { "X-Request-Id": { "schema": { "type": "string" } } },
        "content": { "application/json": { "schema": { "$ref": "#/components/schemas/ErrorEnvelope" } } },
    })
}
