//! Completes one operation: adds the errors of the layers around its handler to those in the handler's attribute.
//!
//! Each extractor and each layer of middleware declares its errors in its own module. Which of them apply to an
//! operation follows from its path, parameters, body and security.

use std::collections::BTreeMap;

use acts::publishing::receive::UPLOAD_ERRORS;
use admin_http::{
    error::{Code, PossibleError},
    extract::{BODY_ERRORS, PATH_ERRORS, QUERY_ERRORS},
};
use api::error::ErrorEnvelope;
use app::{
    auth::{AUTHENTICATION_ERRORS, SUSPENSION_ERRORS, is_closed_to_suspended},
    middleware::{idempotency::IDEMPOTENCY_ERRORS, rate_limit::RATE_LIMIT_ERRORS},
};
use http::Method;
use serde_json::{Map, Value, json};
use utoipa::ToSchema as _;

use super::{examples, headers};

/// The extension that lists a handler's own errors: an object of codes and their conditions.
const OWN_ERRORS: &str = "x-errors";
/// The extension that lists the AI gateway errors that a handler relays: by status, codes and their conditions.
const GATEWAY_ERRORS: &str = "x-gateway-errors";
/// The security scheme of operations that accept only a session of the console.
pub(super) const SESSION: &str = "session";
const COMMON_ERRORS: &[PossibleError] = &[
    PossibleError::new(Code::Internal, "the service failed; its log holds the cause under the `X-Request-Id`"),
    PossibleError::new(Code::BadGateway, "the control plane does not answer the edge that the request came through"),
];
/// Errors that the edge in front of admin returns in the API's error format.
const EDGE_ERRORS: &[PossibleError] = &[PossibleError::new(
    Code::Busy,
    "too many requests of the client, or of all clients, are under way at the edge, or the database does not answer",
)];
const EDGE_BODY_ERRORS: &[PossibleError] =
    &[PossibleError::new(Code::RequestTimeout, "the body did not arrive in time")];

/// The layers around an operation's handler.
#[derive(Debug)]
pub(super) struct OperationLayers {
    pub(super) is_limited: bool,
    pub(super) is_idempotent: bool,
    /// The errors of each layer, innermost first: the first condition given for a code is the most specific one.
    errors: Vec<&'static [PossibleError]>,
}

impl OperationLayers {
    fn for_operation(path: &str, method: &str, operation: &Map<String, Value>) -> Self {
        let security = operation.get("security");
        let wants_token = security.is_none();
        let wants_session = security.is_some_and(|wanted| wanted[0].get(SESSION).is_some());
        let has_path_parameters = path.contains('{');
        let is_device_flow = path.starts_with("/auth/");
        let is_upload =
            operation.get("requestBody").is_some_and(|body| body["content"].get("application/gzip").is_some());
        let is_idempotent = method == "post" && wants_token;
        // Unauthenticated lookups are rate limited.
        let is_limited = wants_token || wants_session || is_device_flow || has_path_parameters;
        // With an `Idempotency-Key`, the body is read for comparison even if the handler takes none.
        let has_small_body = !is_upload && (operation.contains_key("requestBody") || is_idempotent);
        let parameters = operation.get("parameters").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let is_closed = Method::from_bytes(method.to_ascii_uppercase().as_bytes())
            .is_ok_and(|method| is_closed_to_suspended(&method, path));
        let has_query = parameters.iter().any(|parameter| parameter["in"] == "query");
        let parts = [
            (is_upload, UPLOAD_ERRORS),
            (has_small_body, BODY_ERRORS),
            (has_query, QUERY_ERRORS),
            (has_path_parameters, PATH_ERRORS),
            (is_idempotent, IDEMPOTENCY_ERRORS),
            (is_limited, RATE_LIMIT_ERRORS),
            (wants_token || wants_session, AUTHENTICATION_ERRORS),
            (is_closed && (wants_token || wants_session), SUSPENSION_ERRORS),
            (operation.contains_key("requestBody") || is_idempotent, EDGE_BODY_ERRORS),
            // The 503 of `/health` is its regular response and not one of these errors.
            (path != "/health", EDGE_ERRORS),
            (true, COMMON_ERRORS),
        ];
        let errors = parts.into_iter().filter_map(|(applies, errors)| applies.then_some(errors)).collect();
        Self { is_limited, is_idempotent, errors }
    }
}

pub(super) fn complete(path: &str, method: &str, operation: &mut Map<String, Value>) {
    let around = OperationLayers::for_operation(path, method, operation);
    if around.is_idempotent {
        add_idempotency_key(operation);
    }
    if let Some(body) = operation.get_mut("requestBody") {
        describe_bytes(body);
        examples::add(body);
    }
    let own = operation.remove(OWN_ERRORS);
    let mut errors = by_status(own.as_ref(), &around);
    add_gateway_errors(&mut errors, operation.remove(GATEWAY_ERRORS).as_ref());
    let Some(responses) = operation.entry("responses").or_insert_with(|| json!({})).as_object_mut() else { return };
    for (status, response) in responses.iter_mut() {
        describe_bytes(response);
        examples::add(response);
        let is_page = response["content"].get("text/html").is_some();
        let status = status.parse().unwrap_or_default();
        response["headers"] = headers::response_headers(&around, status, response.get("headers"), is_page, false);
    }
    for (status, errors) in errors {
        let error = error_response(&around, status, &errors);
        match responses.get_mut(&status.to_string()) {
            None => {
                responses.insert(status.to_string(), error);
            }
            // The same status may also be described with a page.
            Some(described) => {
                let text = |response: &Value| response["description"].as_str().unwrap_or_default().to_owned();
                described["description"] = format!("{} {}", text(described), text(&error)).into();
                for part in ["headers", "content"] {
                    if let (Some(into), Some(from)) = (described[part].as_object_mut(), error[part].as_object()) {
                        into.extend(from.clone());
                    }
                }
            }
        }
    }
}

/// Returns the operation's errors by status: codes and conditions. The handler's conditions replace a layer's.
fn by_status(own: Option<&Value>, around: &OperationLayers) -> BTreeMap<u16, Vec<(String, String)>> {
    let own = own.and_then(Value::as_object).into_iter().flatten();
    let own = own.map(|(code, when)| (code.clone(), when.as_str().unwrap_or_default().to_owned()));
    let of_parts =
        around.errors.iter().copied().flatten().map(|error| (error.code.as_str().to_owned(), error.when.to_owned()));
    let mut by_status: BTreeMap<u16, Vec<(String, String)>> = BTreeMap::new();
    for (code, when) in own.chain(of_parts) {
        let status = Code::ALL.iter().find(|known| known.as_str() == code).map_or(0, |known| known.status().as_u16());
        let errors = by_status.entry(status).or_default();
        if errors.iter().all(|(known, _)| *known != code) {
            errors.push((code, when));
        }
    }
    for errors in by_status.values_mut() {
        errors.sort();
    }
    by_status
}

/// Adds the errors of the AI gateway. An existing code of the same name keeps its condition.
fn add_gateway_errors(errors: &mut BTreeMap<u16, Vec<(String, String)>>, of_gateway: Option<&Value>) {
    for (status, codes) in of_gateway.and_then(Value::as_object).into_iter().flatten() {
        let errors = errors.entry(status.parse().unwrap_or_default()).or_default();
        for (code, when) in codes.as_object().into_iter().flatten() {
            if errors.iter().all(|(known, _)| known != code) {
                errors.push((code.clone(), when.as_str().unwrap_or_default().to_owned()));
            }
        }
        errors.sort();
    }
}

fn error_response(around: &OperationLayers, status: u16, errors: &[(String, String)]) -> Value {
    let mut response = error(errors);
    response["headers"] = headers::response_headers(around, status, None, false, true);
    if [Code::BadGateway, Code::Busy].iter().any(|wanted| errors.iter().any(|(code, _)| code == wanted.as_str())) {
        // Edges answer browsers with a page.
        response["content"]["text/html"] = json!({ "schema": { "type": "string" } });
    }
    response
}

/// Returns a response with the error envelope. Its examples are its codes: each has the condition as its summary.
pub(super) fn error(errors: &[(String, String)]) -> Value {
    let conditions: Vec<String> = errors.iter().map(|(code, when)| format!("`{code}`: {when}.")).collect();
    let examples: Map<String, Value> = errors
        .iter()
        .map(|(code, when)| {
            let value = json!({ "error": { "code": code, "message": sentence(when) } });
            (code.clone(), json!({ "value": value }))
        })
        .collect();
    json!({
        "description": conditions.join(" "),
        "headers": {},
        "content": { "application/json": {
            "schema": { "$ref": format!("#/components/schemas/{}", ErrorEnvelope::name()) },
            "examples": examples,
        } },
    })
}

/// Makes a message of a condition.
fn sentence(condition: &str) -> String {
    let mut characters = condition.chars();
    let first = characters.next().into_iter().flat_map(char::to_uppercase);
    format!("{}{}.", first.collect::<String>(), characters.as_str())
}

fn add_idempotency_key(operation: &mut Map<String, Value>) {
    if let Some(parameters) = operation.entry("parameters").or_insert_with(|| json!([])).as_array_mut() {
        parameters.push(json!({
            "name": "Idempotency-Key", "in": "header", "required": false,
            "description": "Makes a retry safe: 1 to 255 visible ASCII characters, new for every new request.",
            "schema": { "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" },
        }));
    }
}

/// Describes byte bodies as binary: their Rust type would appear as a list of numbers.
fn describe_bytes(body: &mut Value) {
    let Some(content) = body.get_mut("content").and_then(Value::as_object_mut) else { return };
    for (media_type, content) in content {
        if media_type.starts_with("image/")
            || ["application/gzip", "application/zip", "application/zstd", "application/pdf"]
                .contains(&media_type.as_str())
        {
            content["schema"] = json!({ "type": "string", "format": "binary" });
        }
    }
}
