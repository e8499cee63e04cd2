//! `/docs`: the OpenAPI document as a page, with all operations and schemas.

use std::sync::Arc;

use admin_http::html;
use askama::Template;
use axum::{Extension, http::StatusCode, response::Response};
use bytes::Bytes;
use serde_json::Value;

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];
const FIRST_TAGS: [&str; 4] = ["Health and identity", "Device-flow login", "Tokens", "Projects"];

/// The page, rendered once at startup.
pub struct ReferencePage(Bytes);

impl ReferencePage {
    /// Renders the completed OpenAPI document.
    pub fn new(document: &Value) -> askama::Result<Self> {
        ReferenceTemplate::read(document).render().map(|html| Self(html.into()))
    }
}

/// Shows the OpenAPI document as a page for people.
///
/// It needs no script, and shows each operation with its parameters, bodies and errors.
#[utoipa::path(
    get, path = "/docs", operation_id = "show_documentation", tag = "Documentation", security(()),
    responses((status = 200, description = "A page", content_type = "text/html", body = String)),
)]
#[expect(clippy::unused_async, reason = "axum's handlers are async")]
pub async fn show(Extension(page): Extension<Arc<ReferencePage>>) -> Response {
    html::rendered(StatusCode::OK, page.0.clone())
}

#[derive(Template)]
#[template(path = "docs.html")]
struct ReferenceTemplate<'d> {
    title: &'d str,
    paragraphs: Vec<&'d str>,
    sections: Vec<TagSection<'d>>,
    schemas: Vec<SchemaView<'d>>,
}

struct TagSection<'d> {
    tag: &'d str,
    operations: Vec<OperationView<'d>>,
}

struct OperationView<'d> {
    method: String,
    path: &'d str,
    is_public: bool,
    summary: &'d str,
    /// The description, if it says more than the summary.
    description: Option<&'d str>,
    parameters: Vec<ParameterView<'d>>,
    bodies: Vec<BodyView<'d>>,
    responses: Vec<ResponseView<'d>>,
}

struct ParameterView<'d> {
    name: &'d str,
    /// Where it is in the request: `path`, `query` or `header`.
    place: &'d str,
    meaning: &'d str,
}

struct BodyView<'d> {
    media_type: &'d str,
    kind: Vec<TypeWord<'d>>,
}

struct ResponseView<'d> {
    status: &'d str,
    meaning: &'d str,
    kind: Vec<TypeWord<'d>>,
}

struct SchemaView<'d> {
    name: &'d str,
    description: Option<&'d str>,
    parts: Vec<SchemaPart<'d>>,
}

/// A schema, or one of the schemas that it combines.
struct SchemaPart<'d> {
    kind: Vec<TypeWord<'d>>,
    fields: Vec<FieldView<'d>>,
}

struct FieldView<'d> {
    name: &'d str,
    kind: Vec<TypeWord<'d>>,
    meaning: &'d str,
}

/// A piece of a type described in words, such as "list of" or `Project`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TypeWord<'d> {
    Schema(&'d str),
    Value(&'d str),
    Text(&'d str),
}

impl<'d> ReferenceTemplate<'d> {
    fn read(document: &'d Value) -> Self {
        let operations = operations(document);
        let mut tags: Vec<&str> = Vec::new();
        for tag in FIRST_TAGS.into_iter().chain(operations.iter().map(|(tag, _)| *tag)) {
            if !tags.contains(&tag) {
                tags.push(tag);
            }
        }
        let mut sections: Vec<TagSection<'d>> =
            tags.into_iter().map(|tag| TagSection { tag, operations: Vec::new() }).collect();
        for (tag, operation) in operations {
            if let Some(section) = sections.iter_mut().find(|section| section.tag == tag) {
                section.operations.push(operation);
            }
        }
        sections.retain(|section| !section.operations.is_empty());
        Self {
            title: text(&document["info"]["title"]),
            paragraphs: text(&document["info"]["description"]).split("\n\n").collect(),
            sections,
            schemas: entries(&document["components"]["schemas"])
                .map(|(name, schema)| SchemaView::read(name, schema))
                .collect(),
        }
    }
}

/// Returns all operations with their tags, in the document's order.
fn operations(document: &Value) -> Vec<(&str, OperationView<'_>)> {
    let mut all = Vec::new();
    for (path, item) in entries(&document["paths"]) {
        for method in METHODS {
            if let Some(described) = item.get(method) {
                let tag = described["tags"][0].as_str().unwrap_or("Other");
                all.push((tag, OperationView::read(document, method, path, described)));
            }
        }
    }
    all
}

impl<'d> OperationView<'d> {
    fn read(document: &'d Value, method: &str, path: &'d str, described: &'d Value) -> Self {
        let summary = text(&described["summary"]);
        let description = text(&described["description"]);
        let parameters = described["parameters"].as_array().into_iter().flatten().map(|parameter| ParameterView {
            name: text(&parameter["name"]),
            place: text(&parameter["in"]),
            meaning: text(&parameter["description"]),
        });
        let bodies = entries(&described["requestBody"]["content"])
            .map(|(media_type, content)| BodyView { media_type, kind: describe_type(&content["schema"]) });
        let responses = entries(&described["responses"]).map(|(status, response)| {
            let response = resolve(document, response);
            let content = entries(&response["content"]).next();
            ResponseView {
                status,
                meaning: text(&response["description"]),
                kind: content.map(|(_, content)| describe_type(&content["schema"])).unwrap_or_default(),
            }
        });
        Self {
            method: method.to_uppercase(),
            path,
            // Where a session is named, it replaces the token.
            is_public: described.get("security").is_some_and(|wanted| wanted[0].get("session").is_none()),
            summary,
            description: Some(description).filter(|text| !text.is_empty() && *text != summary),
            parameters: parameters.collect(),
            bodies: bodies.collect(),
            responses: responses.collect(),
        }
    }
}

impl<'d> SchemaView<'d> {
    fn read(name: &'d str, schema: &'d Value) -> Self {
        let parts = schema["allOf"].as_array().map_or(std::slice::from_ref(schema), Vec::as_slice);
        let parts = parts.iter().map(|part| SchemaPart {
            kind: describe_type(part),
            fields: entries(&part["properties"])
                .map(|(name, field)| FieldView {
                    name,
                    kind: describe_type(field),
                    meaning: text(&field["description"]),
                })
                .collect(),
        });
        Self { name, description: schema["description"].as_str(), parts: parts.collect() }
    }
}

/// Describes a schema's type in a few words.
fn describe_type(schema: &Value) -> Vec<TypeWord<'_>> {
    if let Some(name) = schema["$ref"].as_str().and_then(|target| target.rsplit('/').next()) {
        return vec![TypeWord::Schema(name)];
    }
    for key in ["oneOf", "anyOf", "allOf"] {
        if let Some(choices) = schema[key].as_array() {
            return join_choices(choices.iter().map(describe_type));
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return join_choices(values.iter().map(|value| vec![TypeWord::Value(text(value))]));
    }
    match &schema["type"] {
        Value::String(kind) if kind == "array" => {
            let mut words = vec![TypeWord::Text("list of ")];
            words.extend(describe_type(&schema["items"]));
            words
        }
        Value::String(kind) => vec![TypeWord::Text(kind)],
        Value::Array(kinds) => join_choices(kinds.iter().map(|kind| vec![TypeWord::Text(text(kind))])),
        _ => Vec::new(),
    }
}

/// Joins the choices with "or", leaving out empty ones.
fn join_choices<'d>(choices: impl Iterator<Item = Vec<TypeWord<'d>>>) -> Vec<TypeWord<'d>> {
    let mut words = Vec::new();
    for choice in choices.filter(|choice| !choice.is_empty()) {
        if !words.is_empty() {
            words.push(TypeWord::Text(" or "));
        }
        words.extend(choice);
    }
    words
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn types_are_said_in_words() {
        let schema = json!({
            "oneOf": [
                { "type": "array", "items": { "$ref": "#/components/schemas/Project" } },
                {},
                { "enum": ["a", "b"] },
                { "type": ["string", "null"] },
            ]
        });
        let or = TypeWord::Text(" or ");
        let expected = [
            TypeWord::Text("list of "),
            TypeWord::Schema("Project"),
            or,
            TypeWord::Value("a"),
            or,
            TypeWord::Value("b"),
            or,
            TypeWord::Text("string"),
            or,
            TypeWord::Text("null"),
        ];
        assert_eq!(describe_type(&schema), expected);
    }

    #[test]
    fn the_document_is_escaped() {
        let operation = json!({
            "tags": ["<tag>"], "summary": "Gets `<x>`", "security": [{}],
            "parameters": [{ "name": "<n>", "in": "query", "description": "a & b" }],
            "responses": { "200": { "$ref": "#/components/responses/Fine" } },
        });
        let document = json!({
            "info": { "title": "T", "description": "One\n\nTwo" },
            "paths": { "/a/{b}": { "get": operation } },
            "components": {
                "responses": { "Fine": { "description": "fine", "content": { "text/plain": { "schema": { "type": "string" } } } } },
                "schemas": { "Thing": { "properties": { "f": { "type": "boolean", "description": "`yes`" } } } },
            },
        });
        let html = ReferenceTemplate::read(&document).render().unwrap();
        for part in [
            "<p>One</p>\n<p>Two</p>",
            "<h2>&#60;tag&#62;</h2>",
            "<span class=\"method\">GET</span> /a/{b}</h3>",
            "<p>Gets <code>&#60;x&#62;</code> <em>No token needed.</em></p>",
            "<tr><td><code>&#60;n&#62;</code></td><td>query</td><td>a &#38; b</td></tr>",
            "<tr><td>200</td><td>fine</td><td>string</td></tr>",
            "<h3 class=\"schema\" id=\"Thing\">Thing</h3>",
            "<tr><td><code>f</code></td><td>boolean</td><td><code>yes</code></td></tr>",
        ] {
            assert!(html.contains(part), "{part} is not in {html}");
        }
    }
}
