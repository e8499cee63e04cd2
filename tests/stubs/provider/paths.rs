//! Providers' responses at other paths: embeddings and completions. Each refuses fields that its dialect lacks.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{Script, dialects::Dialect};

/// The number of tokens in a text.
pub const TEXT_TOKENS: u64 = 3;
/// The number of tokens in a completion of a prompt.
pub const COMPLETION_TOKENS: u64 = 5;
/// The text with which a model fills a gap.
pub const FILLED: &str = "return n - 1";

/// Returns the response if the path is one of these.
pub fn answer(path: &str, body: &Value, dialect: Option<Dialect>) -> Option<Script> {
    let (kind, answer): (_, fn(&Value, bool) -> Script) = match path {
        "/v1/embeddings" => ("embeddings", embeddings),
        "/v1/completions" | "/v1/fim/completions" => ("completions", completion),
        _ => return None,
    };
    let own_path = dialect.and_then(|dialect| dialect.rule("completions_path"));
    if kind == "completions" && own_path.map_or("/v1/completions", |own| own.as_str().unwrap()) != path {
        return Some(Script::error(404));
    }
    let known = dialect.and_then(|dialect| dialect.rule(kind));
    let unknown =
        body.as_object().unwrap().keys().find(|name| {
            known.is_some_and(|known| !known.as_array().unwrap().iter().any(|known| known == name.as_str()))
        });
    if unknown.is_some() || body.as_object().unwrap().values().any(Value::is_null) && known.is_some() {
        return Some(Script::error(422));
    }
    Some(answer(body, own_path.is_some()))
}

/// Returns the number of texts in a field.
pub fn count(field: &Value) -> u64 {
    match field.as_array() {
        Some(texts) if texts.iter().any(|text| !text.is_number()) => texts.len() as u64,
        _ => 1,
    }
}

/// Returns the embedding of the text at this place.
pub fn numbers(place: u64, dimensions: u64) -> Vec<f32> {
    let place = f32::from(u16::try_from(place).unwrap());
    (0..dimensions).map(|at| if at == 0 { place } else { -0.25 }).collect()
}

fn embeddings(body: &Value, _: bool) -> Script {
    let texts = count(&body["input"]);
    let dimensions = body["dimensions"].as_u64().or(body["output_dimension"].as_u64()).unwrap_or(4);
    let data: Vec<_> = (0..texts)
        .map(|place| {
            let numbers = numbers(place, dimensions);
            let embedding = if body["encoding_format"] == "base64" {
                json!(STANDARD.encode(numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>()))
            } else {
                json!(numbers)
            };
            json!({ "object": "embedding", "index": place, "embedding": embedding })
        })
        .collect();
    let tokens = texts * TEXT_TOKENS;
    Script::json(&json!({
        "id": "emb-0001", "object": "list", "data": data, "model": "upstream-name",
        "usage": { "prompt_tokens": tokens, "total_tokens": tokens },
    }))
}

/// Completes a prompt. `is_chat` is for a provider that responds with the messages of a chat completion.
fn completion(body: &Value, is_chat: bool) -> Script {
    let prompts = count(&body["prompt"]);
    let (prompt, completion) = (prompts * TEXT_TOKENS, prompts * COMPLETION_TOKENS);
    let usage =
        json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion });
    let object = if is_chat { "chat.completion" } else { "text_completion" };
    let frame = |choices: Value, usage: &Value| {
        json!({
            "id": "cmpl-0001", "object": object, "created": 1_700_000_000, "model": "upstream-name",
            "choices": choices, "usage": usage,
        })
    };
    if body["stream"] == true {
        let piece = |text: &str, reason: Value| {
            let choice = if is_chat {
                json!({ "index": 0, "delta": { "role": "assistant", "content": text }, "finish_reason": reason })
            } else {
                json!({ "index": 0, "text": text, "finish_reason": reason })
            };
            format!("data: {}", frame(json!([choice]), &Value::Null))
        };
        let (first, second) = FILLED.split_at(7);
        let last = format!("data: {}", frame(json!([]), &usage));
        let events = [piece(first, Value::Null), piece(second, json!("stop")), last, "data: [DONE]".to_owned()];
        return Script::events(&events);
    }
    let choices = (0..prompts).map(|index| {
        if is_chat {
            json!({ "index": index, "message": { "role": "assistant", "content": FILLED }, "finish_reason": "stop" })
        } else {
            json!({ "index": index, "text": FILLED, "logprobs": null, "finish_reason": "stop" })
        }
    });
    Script::json(&frame(choices.collect(), &usage))
}
