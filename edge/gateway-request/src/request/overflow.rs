//! Detects prompts that certainly exceed a model's context, without contacting the provider.

use openai::json;

/// The fewest bytes per word, and thus per token: a character and the preceding space.
const WORD_BYTES: usize = 2;

/// Returns whether the messages of a request are longer than `context` tokens, whatever the model's tokenizer.
///
/// The models' tokenizers split text at spaces first and never merge two words, so a prompt has at least one token per
/// word. Only the words of people and tools are counted, because templates leave out parts of the model's own. Text
/// without spaces counts as one word and is left to the provider.
pub(super) fn certainly_exceeds(messages: &[u8], context: u64) -> bool {
    if (messages.len() / WORD_BYTES) as u64 <= context {
        return false;
    }
    let mut words = 0;
    for message in json::array_elements(messages).into_iter().flatten() {
        let (mut content, mut is_models) = (None, false);
        for field in json::fields(message).map_while(Result::ok) {
            let value = message.get(field.value.clone()).unwrap_or_default();
            match &*field.name() {
                b"role" => is_models = &*json::decode_string_or_empty(value) == b"assistant",
                b"content" => content = Some(value),
                _ => {}
            }
        }
        if is_models {
            continue;
        }
        words += match content {
            Some(text) if text.starts_with(b"\"") => count_words(text),
            Some(parts) => json::array_elements(parts).into_iter().flatten().map(count_part_words).sum(),
            None => 0,
        };
        if words > context {
            return true;
        }
    }
    false
}

fn count_part_words(part: &[u8]) -> u64 {
    let texts = json::fields(part).map_while(Result::ok).filter(|field| *field.name() == *b"text");
    texts.map(|field| part.get(field.value).map_or(0, count_words)).sum()
}

/// Counts the words of a JSON string. Only plain spaces separate them, not escaped ones or those of other scripts.
fn count_words(text: &[u8]) -> u64 {
    text.split(|byte| *byte == b' ').filter(|word| !word.is_empty()).count() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn exceeds(messages: &Value, context: u64) -> bool {
        certainly_exceeds(messages.to_string().as_bytes(), context)
    }

    #[test]
    fn a_word_is_a_token_at_least() {
        let text = "to be ".repeat(50);
        let part = json!({ "type": "text", "text": text });
        for content in
            [json!(text), json!([part]), json!([{ "type": "image_url", "image_url": { "url": "x y z" } }, part])]
        {
            let said = json!([{ "role": "user", "content": content }]);
            assert_eq!((exceeds(&said, 99), exceeds(&said, 101)), (true, false), "{said}");
        }
        let both = json!([{ "role": "system", "content": "be brief" }, { "role": "tool", "content": text }]);
        assert!(exceeds(&both, 101));
    }

    #[test]
    fn what_may_be_short_is_left_to_the_provider() {
        let text = "to be ".repeat(50);
        for message in [
            json!({ "role": "assistant", "content": text }),
            json!({ "role": "user", "content": "x".repeat(1_000) }),
            json!({ "role": "user", "content": "汉字".repeat(1_000) }),
            json!({ "role": "user", "content": "\n\t".repeat(1_000) }),
            json!({ "role": "user", "content": " ".repeat(1_000) }),
            json!({ "role": "user", "name": text, "content": null }),
        ] {
            assert!(!exceeds(&json!([message]), 50), "{message}");
        }
    }
}
