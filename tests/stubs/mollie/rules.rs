//! Mollie's validation rules, and its error format.

use axum::http::Method;
use serde_json::{Value, json};
use url::Url;

use super::{API_KEY, Asked};

const DESCRIPTION_CHARS: usize = 255;
const METADATA_BYTES: usize = 1_024;

pub(super) fn error(status: u16, detail: &str, field: Option<&str>) -> (u16, Value) {
    let title = match status {
        401 => "Unauthorized Request",
        404 => "Not Found",
        422 => "Unprocessable Entity",
        429 => "Too Many Requests",
        _ => "Error",
    };
    let documentation = json!({ "href": "https://docs.mollie.com/overview/handling-errors", "type": "text/html" });
    let mut body = json!({
        "status": status, "title": title, "detail": detail, "_links": { "documentation": documentation },
    });
    if let Some(field) = field {
        body["field"] = field.into();
    }
    (status, body)
}

/// Refuses a request without the key, or with a body that is not JSON.
pub(super) fn refuse(asked: &Asked) -> Option<(u16, Value)> {
    if asked.header("authorization") != format!("Bearer {API_KEY}") {
        return Some(error(401, "Missing authentication, or failed to authenticate", None));
    }
    let is_json = asked.header("content-type").starts_with("application/json") && asked.body.is_object();
    (asked.method == Method::POST && !is_json).then(|| error(400, "The body is not JSON", None))
}

/// Refuses a body with an unknown field.
pub(super) fn only(body: &Value, known: &[&str]) -> Result<(), (u16, Value)> {
    let unknown = body.as_object().into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str()));
    match unknown {
        Some((name, _)) => {
            Err(error(422, &format!("Non-existent body parameter \"{name}\" for this API call"), Some(name)))
        }
        None => Ok(()),
    }
}

/// Parses an amount in cents: euros with two decimals, above zero.
pub(super) fn amount(body: &Value) -> Result<i64, (u16, Value)> {
    let refused = |why: &str| Err(error(422, why, Some("amount")));
    let amount = &body["amount"];
    let Some(fields) = amount.as_object() else { return refused("The amount is required") };
    if fields.len() != 2 || amount["currency"] != "EUR" {
        return refused("The amount must have a currency and a value");
    }
    let Some((euros, cents)) = amount["value"].as_str().and_then(|value| value.split_once('.')) else {
        return refused("The amount must be a string with two decimals");
    };
    let are_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !are_digits(euros) || !are_digits(cents) || cents.len() != 2 || (euros.len() > 1 && euros.starts_with('0')) {
        return refused("The amount contains an invalid value");
    }
    match format!("{euros}{cents}").parse() {
        Ok(cents) if cents > 0 => Ok(cents),
        _ => refused("The amount is lower than the minimum"),
    }
}

pub(super) fn texts(body: &Value) -> Result<(), (u16, Value)> {
    let description = body["description"].as_str().unwrap_or_default();
    if description.is_empty() || description.chars().count() > DESCRIPTION_CHARS {
        return Err(error(422, "The description is invalid", Some("description")));
    }
    if body["metadata"].to_string().len() > METADATA_BYTES {
        return Err(error(422, "The metadata is too large", Some("metadata")));
    }
    Ok(())
}

/// Checks a URL, which is optional unless `is_needed`.
pub(super) fn url(body: &Value, field: &str, is_needed: bool) -> Result<(), (u16, Value)> {
    let is_good = match &body[field] {
        Value::Null => !is_needed,
        given => given.as_str().is_some_and(|text| {
            text.parse().is_ok_and(|url: Url| matches!(url.scheme(), "https" | "http") && url.host().is_some())
        }),
    };
    if is_good { Ok(()) } else { Err(error(422, "The URL is invalid", Some(field))) }
}
