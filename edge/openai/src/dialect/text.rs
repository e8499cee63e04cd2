//! Converts the choices of an answer to those of legacy completions, with a `text`. Some providers answer
//! fill-in-the-middle requests with the messages of a chat completion.

use super::{
    answer::read_parts,
    is_one_of, json,
    object::{ObjectWriter, separate_element},
};

/// Replaces each message or delta in the choices of an answer or frame with a `text`. Returns `None` if there are none.
pub fn to_text_choices(choices: &[u8]) -> Option<Vec<u8>> {
    let is_message = |choice: &[u8], field: &json::JsonField<'_>| {
        is_one_of(&field.name(), &["message", "delta"])
            && choice.get(field.value.clone()).is_some_and(|message| message.starts_with(b"{"))
    };
    let has_message = |choice: &[u8]| {
        let mut fields = json::fields(choice).map_while(Result::ok);
        fields.any(|field| is_message(choice, &field))
    };
    if !json::array_elements(choices)?.any(has_message) {
        return None;
    }
    let mut out = Vec::with_capacity(choices.len());
    out.push(b'[');
    let start = out.len();
    for choice in json::array_elements(choices)? {
        separate_element(&mut out, start);
        if !has_message(choice) {
            out.extend_from_slice(choice);
            continue;
        }
        let mut object = ObjectWriter::open(&mut out);
        for field in json::fields(choice).map_while(Result::ok) {
            if !is_message(choice, &field) {
                object.copy(choice.get(field.whole).unwrap_or_default());
                continue;
            }
            let message = choice.get(field.value).unwrap_or_default();
            let content = json::fields(message).map_while(Result::ok).find(|field| *field.name() == *b"content");
            match content.and_then(|content| message.get(content.value)) {
                Some(words) if words.starts_with(b"\"") => object.field("text", words),
                Some(parts) if parts.starts_with(b"[") => {
                    object.field("text", read_parts(parts).0.as_deref().unwrap_or(b"\"\""));
                }
                _ => object.field("text", b"\"\""),
            }
        }
        object.close();
    }
    out.push(b']');
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_become_text() {
        let of = |choices: &str| to_text_choices(choices.as_bytes()).map(|text| String::from_utf8(text).unwrap());
        for (choices, text) in [
            (
                r#"[{"index":0,"message":{"role":"assistant","content":"x = \"1\"","tool_calls":null},"finish_reason":"stop"}]"#,
                r#"[{"index":0,"text":"x = \"1\"","finish_reason":"stop"}]"#,
            ),
            (r#"[{"delta":{"content":[{"type":"text","text":"x"}]}},{"text":"y"}]"#, r#"[{"text":"x"},{"text":"y"}]"#),
            (r#"[{"delta":{"role":"assistant"}}]"#, r#"[{"text":""}]"#),
            (r#"[{"delta":{"content":null},"index":1}]"#, r#"[{"text":"","index":1}]"#),
        ] {
            assert_eq!(of(choices).as_deref(), Some(text), "{choices}");
        }
        for choices in ["[]", "{}", "null", r#"[{"text":"x","index":0}]"#, r#"[{"message":null}]"#] {
            assert_eq!(of(choices), None, "{choices}");
        }
    }
}
