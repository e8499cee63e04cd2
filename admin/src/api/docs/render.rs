//! The readable page: every operation and schema of the document, as plain HTML.

use std::fmt::Write as _;

use serde_json::Value;

use crate::pages::{escape, prose};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
/// Tags in the order in which people read about them; others follow.
const TAGS: [&str; 4] = ["Health and identity", "Device-flow login", "Tokens", "Projects"];

struct Operation<'d> {
    method: &'d str,
    path: &'d str,
    tag: &'d str,
    said: &'d Value,
}

/// The page's body.
pub(super) fn body(document: &Value) -> String {
    let mut html = format!("<h1>{}</h1>\n", escape(text(&document["info"]["title"])));
    for paragraph in text(&document["info"]["description"]).split("\n\n") {
        line(&mut html, format_args!("<p>{}</p>", prose(paragraph)));
    }
    line(&mut html, format_args!("<p>Also as <a href=\"/openapi.json\">OpenAPI</a>.</p>"));

    let operations = operations(document);
    let mut tags: Vec<&str> = TAGS.to_vec();
    tags.extend(operations.iter().map(|operation| operation.tag));
    let mut shown = Vec::new();
    for tag in tags {
        if shown.contains(&tag) || !operations.iter().any(|operation| operation.tag == tag) {
            continue;
        }
        shown.push(tag);
        line(&mut html, format_args!("<h2>{}</h2>", escape(tag)));
        for operation in operations.iter().filter(|operation| operation.tag == tag) {
            write_operation(&mut html, document, operation);
        }
    }
    line(&mut html, format_args!("<h2>Schemas</h2>"));
    for (name, schema) in entries(&document["components"]["schemas"]) {
        line(&mut html, format_args!("<h3 id=\"{0}\">{0}</h3>", escape(name)));
        write_schema(&mut html, schema);
    }
    html
}

fn operations(document: &Value) -> Vec<Operation<'_>> {
    let mut all = Vec::new();
    for (path, item) in entries(&document["paths"]) {
        for method in METHODS {
            if let Some(said) = item.get(method) {
                all.push(Operation { method, path, tag: said["tags"][0].as_str().unwrap_or("Other"), said });
            }
        }
    }
    all
}

fn write_operation(html: &mut String, document: &Value, operation: &Operation<'_>) {
    let (method, path, said) = (operation.method.to_uppercase(), escape(operation.path), operation.said);
    line(html, format_args!("<h3><span class=\"method\">{method}</span> {path}</h3>"));
    let summary = said["summary"].as_str().unwrap_or_default();
    let description = said["description"].as_str().unwrap_or_default();
    let access = if said.get("security").is_some() { " <em>No token needed.</em>" } else { "" };
    line(html, format_args!("<p>{}{access}</p>", prose(summary)));
    if !description.is_empty() && description != summary {
        line(html, format_args!("<p>{}</p>", prose(description)));
    }
    let parameters = said["parameters"].as_array().map(Vec::as_slice).unwrap_or_default();
    if !parameters.is_empty() {
        line(html, format_args!("<table><tr><th>Parameter</th><th>In</th><th>Meaning</th></tr>"));
        for parameter in parameters {
            let (name, place) = (escape(text(&parameter["name"])), escape(text(&parameter["in"])));
            let meaning = prose(text(&parameter["description"]));
            line(html, format_args!("<tr><td><code>{name}</code></td><td>{place}</td><td>{meaning}</td></tr>"));
        }
        line(html, format_args!("</table>"));
    }
    for (kind, content) in entries(&said["requestBody"]["content"]) {
        line(html, format_args!("<p>Body: <code>{}</code> {}</p>", escape(kind), type_of(&content["schema"])));
    }
    line(html, format_args!("<table><tr><th>Status</th><th>Meaning</th><th>Body</th></tr>"));
    for (status, response) in entries(&said["responses"]) {
        let response = resolve(document, response);
        let body = entries(&response["content"]).map(|(_, content)| type_of(&content["schema"])).next();
        let (meaning, body) = (prose(text(&response["description"])), body.unwrap_or_default());
        line(html, format_args!("<tr><td>{}</td><td>{meaning}</td><td>{body}</td></tr>", escape(status)));
    }
    line(html, format_args!("</table>"));
}

fn write_schema(html: &mut String, schema: &Value) {
    if let Some(description) = schema["description"].as_str() {
        line(html, format_args!("<p>{}</p>", prose(description)));
    }
    let parts = schema["allOf"].as_array().cloned().unwrap_or_else(|| vec![schema.clone()]);
    for part in &parts {
        let fields: Vec<_> = entries(&part["properties"]).collect();
        if fields.is_empty() {
            line(html, format_args!("<p>{}</p>", type_of(part)));
            continue;
        }
        line(html, format_args!("<table><tr><th>Field</th><th>Type</th><th>Meaning</th></tr>"));
        for (name, field) in fields {
            let meaning = prose(text(&field["description"]));
            let (name, kind) = (escape(name), type_of(field));
            line(html, format_args!("<tr><td><code>{name}</code></td><td>{kind}</td><td>{meaning}</td></tr>"));
        }
        line(html, format_args!("</table>"));
    }
}

/// A schema in a few words.
fn type_of(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return format!("<a href=\"#{0}\">{0}</a>", escape(name));
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            return choices.iter().map(type_of).filter(|kind| !kind.is_empty()).collect::<Vec<_>>().join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let value = |v: &Value| format!("<code>{}</code>", escape(v.as_str().unwrap_or_default()));
        return values.iter().map(value).collect::<Vec<_>>().join(" or ");
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => format!("list of {}", type_of(&schema["items"])),
        Value::String(kind) => escape(kind),
        Value::Array(kinds) => kinds.iter().map(|kind| escape(text(kind))).collect::<Vec<_>>().join(" or "),
        _ => String::new(),
    }
}

fn resolve<'d>(document: &'d Value, value: &'d Value) -> &'d Value {
    let target = value["$ref"].as_str().and_then(|target| target.strip_prefix('#'));
    target.and_then(|pointer| document.pointer(pointer)).unwrap_or(value)
}

fn entries(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(key, value)| (key.as_str(), value))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn line(html: &mut String, args: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(html, "{args}");
}
