//! Converts the choices of an answer to `OpenAI`'s format: a string for words, and `reasoning_content` for thoughts.
//! Some providers send a list of parts in `content`, where clients expect a string, and some name the thoughts
//! `reasoning`.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::{
    inner, is_one_of, json,
    object::{ObjectWriter, separate_element},
    parts::{self, PartKind},
};

static CONTENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"content\""));
static REASONING: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"reasoning\""));

/// Converts the choices of an answer or frame, so that each `content` with a list has a string, and thoughts have the
/// gateway's name. Returns `None` if nothing changes. Parts other than words and thoughts are dropped.
pub fn flatten_choices(choices: &[u8]) -> Option<Vec<u8>> {
    // Most frames have neither. Lists also occur in log probabilities.
    if !has_value(choices, &CONTENT, b'[') && !has_value(choices, &REASONING, b'"') {
        return None;
    }
    let mut out = Vec::with_capacity(choices.len());
    let mut is_changed = false;
    out.push(b'[');
    let start = out.len();
    for choice in json::array_elements(choices)? {
        separate_element(&mut out, start);
        let is_foreign = |field: &json::JsonField<'_>| {
            is_one_of(&field.name(), &["message", "delta"])
                && choice.get(field.value.clone()).is_some_and(|message| MessageShape::inspect(message).is_foreign())
        };
        if !json::fields(choice).map_while(Result::ok).any(|field| is_foreign(&field)) {
            out.extend_from_slice(choice);
            continue;
        }
        is_changed = true;
        let mut object = ObjectWriter::open(&mut out);
        for field in json::fields(choice).filter_map(Result::ok) {
            if is_foreign(&field) {
                let name = if *field.name() == *b"delta" { "delta" } else { "message" };
                write_message(choice.get(field.value).unwrap_or_default(), object.value(name));
            } else {
                object.copy(choice.get(field.whole).unwrap_or_default());
            }
        }
        object.close();
    }
    out.push(b']');
    is_changed.then_some(out)
}

/// Returns whether a value that begins with `first` follows any match of `finder`.
fn has_value(choices: &[u8], finder: &Finder<'_>, first: u8) -> bool {
    finder.find_iter(choices).any(|at| {
        let rest = choices.get(at + finder.needle().len()..).unwrap_or_default();
        let value = rest.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        value.is_some_and(|value| value.first() == Some(&first))
    })
}

#[derive(Default)]
struct MessageShape {
    has_list: bool,
    /// Whether it has thoughts under the gateway's name.
    has_thoughts: bool,
    /// Whether it has thoughts under another name.
    has_reasoning: bool,
}

impl MessageShape {
    fn inspect(message: &[u8]) -> Self {
        let mut shape = Self::default();
        for field in json::fields(message).map_while(Result::ok) {
            let value = message.get(field.value.clone()).unwrap_or_default();
            match &*field.name() {
                b"content" => shape.has_list |= value.starts_with(b"["),
                b"reasoning_content" => shape.has_thoughts |= inner(value).is_some(),
                b"reasoning" => shape.has_reasoning |= value.starts_with(b"\""),
                _ => {}
            }
        }
        shape
    }

    fn is_foreign(&self) -> bool {
        self.has_list || (self.has_reasoning && !self.has_thoughts)
    }
}

fn write_message(message: &[u8], out: &mut Vec<u8>) {
    let shape = MessageShape::inspect(message);
    let mut has_thoughts = shape.has_thoughts;
    let mut object = ObjectWriter::open(out);
    for field in json::fields(message).filter_map(Result::ok) {
        let name = field.name();
        let value = message.get(field.value.clone()).unwrap_or_default();
        match &*name {
            b"content" if value.starts_with(b"[") => {
                let (words, thoughts) = read_parts(value);
                object.field("content", words.as_deref().unwrap_or(b"null"));
                if let Some(thoughts) = thoughts.filter(|_| !has_thoughts && !shape.has_reasoning) {
                    object.field("reasoning_content", &thoughts);
                    has_thoughts = true;
                }
            }
            b"reasoning" if value.starts_with(b"\"") && !shape.has_thoughts => {
                if !has_thoughts {
                    object.field("reasoning_content", value);
                    has_thoughts = true;
                }
            }
            // An empty one would duplicate the gateway's.
            b"reasoning_content" if !shape.has_thoughts => {}
            _ => object.copy(message.get(field.whole).unwrap_or_default()),
        }
    }
    object.close();
}

/// Returns the words and thoughts in a list of parts, each as a JSON string. Words are `None` if there are only
/// thoughts; clients are used to a null there.
pub(super) fn read_parts(list: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    let (mut words, mut thoughts, mut has_words) = (vec![b'"'], vec![b'"'], false);
    for part in json::array_elements(list).into_iter().flatten() {
        match PartKind::parse(part) {
            PartKind::Text(text) | PartKind::Refusal(text) => {
                has_words = true;
                words.extend_from_slice(inner(text).unwrap_or_default());
            }
            PartKind::Thinking(text) => parts::append_thoughts(text, &mut thoughts),
            PartKind::Other => {}
        }
    }
    words.push(b'"');
    thoughts.push(b'"');
    let thoughts = Some(thoughts).filter(|thoughts| thoughts.len() > 2);
    (Some(words).filter(|_| has_words || thoughts.is_none()), thoughts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(choices: &str) -> Option<String> {
        let flat = flatten_choices(choices.as_bytes())?;
        let renamed = choices.matches("\"reasoning\"").count() * "_content".len();
        assert!(flat.len() <= choices.len() + renamed, "{choices}");
        let flat = String::from_utf8(flat).unwrap();
        assert_eq!(flatten_choices(flat.as_bytes()), None, "{flat}");
        serde_json::from_str::<serde_json::Value>(&flat).unwrap();
        Some(flat)
    }

    #[test]
    fn content_is_a_string_and_thoughts_have_their_field() {
        let thinking = |text: &str| {
            format!(r#"{{"type":"thinking","thinking":[{{"type":"text","text":"{text}"}}],"closed":true}}"#)
        };
        let (so, then) = (thinking("so\\n"), thinking("then \\\"x\\\""));
        for (content, flat) in [
            (
                format!(r#"[{so},{then},{{"type":"text","text":"1"}},{{"text":"2 ","type":"text"}}]"#),
                r#""content":"12 ","reasoning_content":"so\nthen \"x\"""#,
            ),
            (format!("[{so}]"), r#""content":null,"reasoning_content":"so\n""#),
            (r#"[{"type":"thinking","thinking":"so"},"x"]"#.to_owned(), r#""content":"x","reasoning_content":"so""#),
            (r#"[{"type":"text","text":"1"},{"type":"reference","reference_ids":[1]}]"#.to_owned(), r#""content":"1""#),
            ("[]".to_owned(), r#""content":"""#),
            (r#"[{"type":"thinking","thinking":[]}]"#.to_owned(), r#""content":"""#),
        ] {
            for message in ["message", "delta"] {
                let choices = |content: &str| {
                    format!(
                        r#"[{{"index":0,"{message}":{{"role":"assistant",{content},"tool_calls":[]}},"finish_reason":null}}]"#
                    )
                };
                assert_eq!(of(&choices(&format!("\"content\" : {content}"))), Some(choices(flat)), "{content}");
            }
        }
        // Thoughts that already have their own field are not repeated.
        let both = format!(r#"[{{"delta":{{"reasoning_content":"so","content":[{so}]}}}}]"#);
        assert_eq!(of(&both).unwrap(), r#"[{"delta":{"reasoning_content":"so","content":null}}]"#);
    }

    #[test]
    fn thoughts_have_the_gateways_name() {
        let of = |delta: &str| of(&format!(r#"[{{"delta":{{{delta}}}}}]"#));
        let expected = |delta: &str| Some(format!(r#"[{{"delta":{{{delta}}}}}]"#));
        let both = r#""reasoning":"so","reasoning_content":"so""#;
        assert_eq!(of(both), None, "a client reads the one it knows");
        assert_eq!(of(r#""reasoning":null"#), None);
        for sent in [
            r#""content":null,"reasoning":"so""#,
            r#""content":null,"reasoning" : "so","reasoning_content":null"#,
            r#""content":[],"reasoning":"so""#,
        ] {
            let content = if sent.contains("[]") { r#""""# } else { "null" };
            assert_eq!(of(sent), expected(&format!(r#""content":{content},"reasoning_content":"so""#)), "{sent}");
        }
    }

    #[test]
    fn other_answers_are_not_touched() {
        for choices in [
            "[]",
            "{}",
            "null",
            r#"[{"index":0,"message":{"content":"x"},"logprobs":{"content":[{"token":"x"}]}}]"#,
            r#"[{"delta":{"content":"\"content\":[1]"}}]"#,
            r#"[{"delta":{"content":null,"tool_calls":[{"function":{"arguments":"{\"content\":[1]}"}}]}}]"#,
            r#"[{"content":[1]}]"#,
            r#"[{"message":{"content":"#,
        ] {
            assert_eq!(of(choices), None, "{choices}");
        }
        // Only the choices with a list are rewritten.
        let choices = r#"[ {"index":0,"delta":{"content":"x" }} , {"index":1,"delta":{"content":["y"]}}]"#;
        assert_eq!(
            of(choices).unwrap(),
            r#"[{"index":0,"delta":{"content":"x" }},{"index":1,"delta":{"content":"y"}}]"#
        );
    }
}
