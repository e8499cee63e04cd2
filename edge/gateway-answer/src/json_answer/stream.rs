//! Converts a whole answer to the stream that its client requested.

use bytes::{Bytes, BytesMut};
use config::models::ModelRoute;
use gateway_request::models::ServedModel;
use openai::json;

use super::chunk_object;

/// Converts a rewritten whole answer to a stream: one chunk with all content, and one with the usage.
pub fn to_stream(body: &[u8], model: &ServedModel, route: ModelRoute) -> Bytes {
    let (mut common, mut choices, mut usage) = (Vec::new(), Vec::new(), &b"null"[..]);
    for field in json::fields(body).filter_map(Result::ok) {
        let part = |range| body.get(range).unwrap_or_default();
        match &*field.name() {
            b"object" | b"model" => {}
            b"choices" => choices = part(field.value).to_vec(),
            b"usage" => usage = part(field.value),
            _ => {
                common.extend_from_slice(part(field.whole));
                common.push(b',');
            }
        }
    }
    let choices: Vec<_> = json::array_elements(&choices).into_iter().flatten().map(chunk_choice).collect();
    let mut out = BytesMut::with_capacity(2 * body.len() + limits::ADDED_BYTES);
    for (choices, usage) in [(choices.join(&b','), &b"null"[..]), (Vec::new(), usage)] {
        let head = format!("\"object\":{},\"model\":{},\"choices\":[", chunk_object(route), model.id_json);
        for part in [b"data: {", &common[..], head.as_bytes(), &choices[..], b"],\"usage\":", usage, b"}"] {
            // A line break in the provider's JSON would break the event's line.
            out.extend(part.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
        }
        out.extend_from_slice(b"\n\n");
    }
    out.extend_from_slice(b"data: [DONE]\n\n");
    out.freeze()
}

/// Converts a choice of a whole answer to one of a chunk, where `message` is called `delta`.
fn chunk_choice(choice: &[u8]) -> Vec<u8> {
    rewrite_fields(choice, |name, value| match name {
        b"message" => Some(("delta", rewrite_fields(value, add_call_indexes))),
        _ => None,
    })
}

/// Adds the `index` that tool calls have in chunks.
fn add_call_indexes(name: &[u8], calls: &[u8]) -> Option<(&'static str, Vec<u8>)> {
    if name != b"tool_calls" {
        return None;
    }
    let calls = json::array_elements(calls)?.enumerate().map(|(index, call)| {
        let has_index = json::fields(call).filter_map(Result::ok).any(|field| &*field.name() == b"index");
        match call.strip_prefix(b"{") {
            Some(rest) if !has_index && rest.trim_ascii_start() != b"}" => {
                [format!("{{\"index\":{index},").as_bytes(), rest].concat()
            }
            _ => call.to_vec(),
        }
    });
    Some(("tool_calls", [b"[", &calls.collect::<Vec<_>>().join(&b',')[..], b"]"].concat()))
}

/// Replaces the fields of `object` for which `replace` returns another name and value. Non-objects are unchanged.
fn rewrite_fields(object: &[u8], replace: impl Fn(&[u8], &[u8]) -> Option<(&'static str, Vec<u8>)>) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + limits::ADDED_BYTES);
    let mut written = 0;
    for field in json::fields(object) {
        let Ok(field) = field else { return object.to_vec() };
        let value = object.get(field.value.clone()).unwrap_or_default();
        if let Some((name, value)) = replace(&field.name(), value) {
            out.extend_from_slice(object.get(written..field.whole.start).unwrap_or_default());
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend_from_slice(&value);
            written = field.whole.end;
        }
    }
    out.extend_from_slice(object.get(written..).unwrap_or_default());
    out
}
