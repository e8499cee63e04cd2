//! Writes the provider's body for a request in its own format: the client's text with the governed fields replaced.
//!
//! The model has the provider's name for it, the token ceiling is the reserved one, and nothing is stored. Fields that
//! are not listed here are left out, as in translated requests: some cost or reach more than tokens (`service_tier`,
//! `container`). Tools that run at the provider are left out too, and listed in a header.

use bytes::Bytes;
use gateway_request::{
    models::ServedModel,
    request::{PieceWriter, surplus_tokens},
};
use http::HeaderValue;
use openai::{dialect::TextSink as _, json};
use upstream::BodyPieces;

use super::super::CompletionApi;

/// The fields of a Responses request that pass unchanged.
const RESPONSES_FIELDS: [&[u8]; 19] = [
    b"include",
    b"input",
    b"instructions",
    b"max_tool_calls",
    b"metadata",
    b"parallel_tool_calls",
    b"prompt_cache_key",
    b"reasoning",
    b"safety_identifier",
    b"stream",
    b"stream_options",
    b"temperature",
    b"text",
    b"top_logprobs",
    b"top_p",
    b"truncation",
    b"user",
    b"verbosity",
    b"tool_choice",
];

/// The fields of a Messages request that pass unchanged.
const MESSAGES_FIELDS: [&[u8]; 11] = [
    b"cache_control",
    b"messages",
    b"output_config",
    b"stop_sequences",
    b"stream",
    b"system",
    b"temperature",
    b"thinking",
    b"tool_choice",
    b"top_k",
    b"top_p",
];

pub(super) struct NativeBody {
    pub(super) body: BodyPieces,
    /// The tokens that a prompt can have beyond its bytes because servers reserialize it.
    pub(super) surplus: u64,
    pub(super) warning: Option<HeaderValue>,
}

/// Writes the body for the provider of `model`, with a ceiling of `most_tokens`.
pub(super) fn write(api: CompletionApi, body: &Bytes, model: &ServedModel, most_tokens: u64) -> NativeBody {
    let part = |range| body.get(range).unwrap_or_default();
    let fields: Vec<_> = json::fields(body).filter_map(Result::ok).collect();
    let value =
        |name: &[u8]| fields.iter().rfind(|field| *field.name() == *name).map(|field| part(field.value.clone()));
    let (ceiling, passing): (&[u8], &[&[u8]]) = match api {
        CompletionApi::Responses => (b"max_output_tokens", &RESPONSES_FIELDS),
        _ => (b"max_tokens", &MESSAGES_FIELDS),
    };
    let tools = NativeTools::read(api, value(b"tools").unwrap_or_default());
    let most = most_tokens.to_string();

    let mut out = PieceWriter::new(body);
    out.push(b'{');
    for field in &fields {
        let (name, value, whole) = (field.name(), part(field.value.clone()), part(field.whole.clone()));
        match &*name {
            b"model" => write_pair(&mut out, b"model", model.upstream_id_json.as_bytes()),
            b"tools" if tools.left_out.is_empty() => copy(&mut out, whole),
            b"tools" if tools.kept.is_empty() => {}
            b"tools" => {
                write_pair(&mut out, b"tools", b"[");
                for (index, tool) in tools.kept.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    out.extend_from_slice(tool);
                }
                out.push(b']');
            }
            b"tool_choice" if !tools.allows_choice(api, value) => {}
            name if name == ceiling && value != most.as_bytes() => write_pair(&mut out, ceiling, most.as_bytes()),
            name if name == ceiling => copy(&mut out, whole),
            name if passing.contains(&name) => copy(&mut out, whole),
            _ => {}
        }
    }
    if value(ceiling).is_none() {
        write_pair(&mut out, ceiling, most.as_bytes());
    }
    if api == CompletionApi::Responses {
        write_pair(&mut out, b"store", b"false");
    }
    out.push(b'}');
    let own_tools = limits::TOOLS_TOKENS.saturating_mul(tools.own);
    NativeBody { body: out.finish(), surplus: surplus_tokens(body) + own_tools, warning: tools.warning() }
}

fn copy(out: &mut PieceWriter<'_>, field: &[u8]) {
    separate(out);
    out.extend_from_slice(field);
}

fn write_pair(out: &mut PieceWriter<'_>, name: &[u8], value: &[u8]) {
    separate(out);
    out.push(b'"');
    out.extend_from_slice(name);
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
}

fn separate(out: &mut PieceWriter<'_>) {
    if out.len() > 1 {
        out.push(b',');
    }
}

struct NativeTools<'b> {
    kept: Vec<&'b [u8]>,
    /// The types of tools that the provider would run, and of unknown ones, as far as a header lists them.
    left_out: Vec<String>,
    /// The number of tools for which the provider adds text of its own.
    own: u64,
}

impl<'b> NativeTools<'b> {
    fn read(api: CompletionApi, tools: &'b [u8]) -> Self {
        let (mut kept, mut left_out, mut own) = (Vec::new(), Vec::new(), 0);
        for tool in json::array_elements(tools).into_iter().flatten() {
            let kind = type_name(tool);
            if is_run_at_client(api, &kind, tool) {
                own += u64::from(!matches!(&*kind, "" | "function" | "custom" | "namespace"));
                kept.push(tool);
            } else {
                // A header lists them, as far as it has room.
                if left_out.len() < limits::LEFT_OUT_CHARS {
                    left_out.push(kind.chars().take(limits::QUOTED_CHARS).collect());
                }
            }
        }
        Self { kept, left_out, own }
    }

    /// Returns whether the tool choice is still valid for the remaining tools.
    fn allows_choice(&self, api: CompletionApi, choice: &[u8]) -> bool {
        let is_of_clients = || matches!(&*type_name(choice), "function" | "custom" | "allowed_tools");
        self.left_out.is_empty()
            || (!self.kept.is_empty()
                && (api != CompletionApi::Responses || !choice.starts_with(b"{") || is_of_clients()))
    }

    fn warning(&self) -> Option<HeaderValue> {
        if self.left_out.is_empty() {
            return None;
        }
        let kinds = self.left_out.join("; ");
        let plain = kinds.chars().filter(|letter| letter.is_ascii_graphic() || *letter == ' ');
        let kinds: String = plain.take(limits::LEFT_OUT_CHARS).collect();
        HeaderValue::from_str(&format!("left out: {kinds}")).ok()
    }
}

/// Returns whether a tool of this type runs at the client and costs only tokens.
fn is_run_at_client(api: CompletionApi, kind: &str, tool: &[u8]) -> bool {
    if api == CompletionApi::Messages {
        // The types of Anthropic's own tools end in the date of their version.
        let of_clients = ["bash_", "computer_", "memory_", "text_editor_"];
        return kind.is_empty() || kind == "custom" || of_clients.iter().any(|known| kind.starts_with(known));
    }
    match kind {
        "function" | "custom" | "local_shell" | "apply_patch" => true,
        "namespace" => {
            let tools = fields_named(tool, b"tools").filter_map(json::array_elements).flatten();
            tools.map(type_name).all(|kind| matches!(&*kind, "function" | "custom"))
        }
        _ => false,
    }
}

/// Returns whether the conversation defines tools. Only the translation can verify that they run at the client.
pub(super) fn has_inline_tools(api: CompletionApi, body: &[u8]) -> bool {
    let kinds = |values: &[u8], known: &[&str]| {
        let values = json::array_elements(values).into_iter().flatten();
        values
            .flat_map(|value| fields_named(value, b"type"))
            .any(|kind| known.iter().any(|known| known.as_bytes() == &*json::decode_string_or_empty(kind)))
    };
    if api == CompletionApi::Responses {
        let known = ["additional_tools", "tool_search_output"];
        return fields_named(body, b"input").any(|items| kinds(items, &known));
    }
    let messages = fields_named(body, b"messages").filter_map(json::array_elements).flatten();
    messages.flat_map(|message| fields_named(message, b"content")).any(|blocks| kinds(blocks, &["tool_addition"]))
}

fn type_name(value: &[u8]) -> String {
    let kind = fields_named(value, b"type").last().map(json::decode_string_or_empty).unwrap_or_default();
    String::from_utf8_lossy(&kind).into_owned()
}

fn fields_named<'b>(object: &'b [u8], name: &'static [u8]) -> impl Iterator<Item = &'b [u8]> {
    let named = json::fields(object).map_while(Result::ok).filter(move |field| *field.name() == *name);
    named.filter_map(|field| object.get(field.value))
}
