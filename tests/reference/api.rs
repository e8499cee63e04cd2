//! `docs/reference/api.md`: the operations of `openapi.json` and of the gateway's own description.

use std::{collections::HashSet, fmt::Write as _};

use serde_json::Value;

use crate::{cell, hold, read};

const HEAD: &str = "# HTTP API

Every operation of the API, as `openapi.json` describes it; the API serves the same at `/openapi.json`, and a page at `/docs`. A request carries
`Authorization: Bearer svc_…`. [The API from programs](../guides/api.md) has examples, [Error codes](errors.md) what each code means. This page
is written by `SVC_WRITE_DOCS=1 cargo test -p reference`, which fails when it is not current.

Any operation can also answer 401 `unauthorized`, 429 `rate_limit_exceeded`, 500 `internal`, 502 `bad_gateway` and 503 `busy`; these are not
repeated below.
";

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The name at the end of a reference.
fn name_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap()
}

/// The type of a schema, in words; a named one leads to its table.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = name_of(reference);
        return format!("[`{name}`](#type-{})", name.to_lowercase());
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            let kinds: Vec<String> = choices.iter().map(kind).collect();
            return kinds.join(if key == "allOf" { " with " } else { " or " });
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("`{}`", value.as_str().unwrap_or("null"))).collect();
        return values.join(", ");
    }
    let plain = |name: &str| match name {
        "array" => format!("list of {}", kind(&schema["items"])),
        "integer" => "whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => match text(schema, "format") {
            "date-time" => "time".to_owned(),
            "binary" => "bytes".to_owned(),
            "uri" => "URL".to_owned(),
            _ => "text".to_owned(),
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => plain(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).map(plain).collect::<Vec<_>>().join(" or "),
        _ => "anything".to_owned(),
    }
}

/// A table of a schema's fields; the type alone where it has none.
fn fields(page: &mut String, schema: &Value) {
    let Some(properties) = schema["properties"].as_object() else {
        writeln!(page, "\n{}.", kind(schema)).unwrap();
        return;
    };
    let required: HashSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    page.push_str("\n| field | type | what it is |\n|---|---|---|\n");
    for (name, of) in properties {
        let optional = if required.contains(name.as_str()) { "" } else { ", optional" };
        writeln!(page, "| `{name}` | {}{optional} | {} |", kind(of), cell(text(of, "description"))).unwrap();
    }
}

fn operation(page: &mut String, method: &str, path: &str, operation: &Value) {
    write!(page, "\n### `{} {path}`\n\n{}\n", method.to_uppercase(), cell(text(operation, "summary"))).unwrap();
    let description = text(operation, "description");
    if !description.is_empty() {
        writeln!(page, "\n{}", cell(description)).unwrap();
    }
    let parameters: Vec<&Value> = operation["parameters"].as_array().into_iter().flatten().collect();
    if !parameters.is_empty() {
        page.push_str("\n| parameter | in | what it is |\n|---|---|---|\n");
        for parameter in parameters {
            let optional = if parameter["required"] == true { "" } else { ", optional" };
            let (name, place) = (text(parameter, "name"), text(parameter, "in"));
            writeln!(page, "| `{name}` | {place}{optional} | {} |", cell(text(parameter, "description"))).unwrap();
        }
    }
    if let Some(content) = operation["requestBody"]["content"].as_object() {
        let bodies: Vec<String> =
            content.iter().map(|(of, body)| format!("`{of}`: {}", kind(&body["schema"]))).collect();
        writeln!(page, "\nBody: {}.", bodies.join("; ")).unwrap();
        if let Some(example) = content.get("application/json").and_then(|body| body.get("example")) {
            write!(page, "\n```json\n{}\n```\n", serde_json::to_string_pretty(example).unwrap()).unwrap();
        }
    }
    page.push('\n');
    for (status, response) in operation["responses"].as_object().unwrap() {
        // The shared ones are named above.
        let is_shared = response.get("$ref").is_some();
        if is_shared && (status.starts_with('5') || ["401", "429"].contains(&status.as_str())) {
            continue;
        }
        let description = response["$ref"].as_str().map_or_else(
            || text(response, "description").to_owned(),
            |reference| format!("as everywhere (`{}`)", name_of(reference)),
        );
        let body = &response["content"]["application/json"]["schema"];
        let of = if status.starts_with('2') && !body.is_null() { format!(": {}", kind(body)) } else { String::new() };
        writeln!(page, "- **{status}** {}{of}", cell(&description)).unwrap();
    }
}

#[test]
fn the_page_of_the_api_is_current() {
    let document: Value = serde_json::from_str(&read("openapi.json")).unwrap();
    let mut page = HEAD.to_owned();
    let mut operations = 0;
    for tag in document["tags"].as_array().unwrap() {
        let name = text(tag, "name");
        write!(page, "\n## {name}\n\n{}\n", cell(text(tag, "description"))).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            for method in METHODS {
                let Some(of) = item.get(method) else { continue };
                if of["tags"][0] == name {
                    operation(&mut page, method, path, of);
                    operations += 1;
                }
            }
        }
    }
    let all = document["paths"].as_object().unwrap().values();
    let all = all.map(|item| METHODS.iter().filter(|method| item.get(**method).is_some()).count()).sum::<usize>();
    assert_eq!(operations, all, "an operation has no tag that the document lists");

    page.push_str("\n## AI gateway at `/v1`\n\nAt `site.ai_url`, described by its own `/v1/openapi.json`.\n");
    let gateway: Value = serde_json::from_str(&read("edge/gateway/src/openapi.json")).unwrap();
    page.push_str("\n| operation | what it does |\n|---|---|\n");
    for (path, item) in gateway["paths"].as_object().unwrap() {
        for method in METHODS.iter().filter(|method| item.get(**method).is_some()) {
            let words = cell(text(&item[*method], "summary"));
            writeln!(page, "| `{} {path}` | {words} |", method.to_uppercase()).unwrap();
        }
    }

    page.push_str("\n## Types\n");
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        write!(page, "\n### Type `{name}`\n").unwrap();
        let description = cell(text(schema, "description"));
        if !description.is_empty() {
            writeln!(page, "\n{description}").unwrap();
        }
        fields(&mut page, schema);
    }
    hold("api.md", &page);
}
