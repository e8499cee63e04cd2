//! Merges a stream's frames into one answer, for a client that did not request a stream.

use openai::json;

use super::{
    super::json_answer,
    event::{EventData, EventSearch, SseEvent},
};

/// Fields of a delta whose strings are always complete; other strings in a delta are pieces.
const WHOLE: [&[u8]; 6] = [b"role", b"id", b"type", b"name", b"index", b"format"];

/// The frames do not form an answer: one is not an object, or there are too many fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream's frames do not make an answer")]
pub struct MergeError;

/// The merged frames of a stream. The pieces in each choice's `delta` are joined into its `message`, and those of a
/// legacy completion's `text` into one. For everything else, the last value that is not null counts.
#[derive(Debug, Default)]
pub struct MergedAnswer {
    answer: MergedObject,
    size: MergeSize,
}

#[derive(Debug, Default)]
struct MergeSize {
    /// The number of fields and list elements.
    fields: usize,
    /// The bytes of names and values.
    bytes: usize,
}

/// An object with its fields in order of arrival.
#[derive(Debug, Default)]
struct MergedObject(Vec<(Vec<u8>, MergedValue)>);

#[derive(Debug)]
enum MergedValue {
    /// A JSON text.
    Text(Vec<u8>),
    Object(MergedObject),
    /// Objects identified by their field `index`, to which pieces belong.
    List(Vec<(u64, MergedObject)>),
}

/// The position of an object in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FramePlace {
    Frame,
    Choice,
    /// In a choice's `delta` or `logprobs`.
    Delta,
    Other,
}

impl MergedAnswer {
    /// Adds complete events, as [`ChatFrames`](super::ChatFrames) writes them.
    pub fn add(&mut self, events: &[u8]) -> Result<(), MergeError> {
        let mut rest = events;
        while !rest.is_empty() {
            // The last event may end in a CR, which the search takes for half of a line ending.
            let len = EventSearch::default().end_of_event(rest).unwrap_or(rest.len());
            let (event, others) = rest.split_at_checked(len).unwrap_or((rest, &[]));
            rest = others;
            let lines;
            let frame = match SseEvent::parse(event).data {
                EventData::None => continue,
                EventData::Line(span) => event.get(span).unwrap_or_default(),
                EventData::Lines(joined) => {
                    lines = joined;
                    &lines
                }
            };
            if frame.trim_ascii() != b"[DONE]" {
                self.answer.merge(frame, FramePlace::Frame, &mut self.size)?;
            }
        }
        Ok(())
    }

    /// Returns the bytes of all names and values merged so far, by which memory for the answer is charged.
    pub fn bytes(&self) -> usize {
        self.size.bytes
    }

    /// Returns the whole answer as JSON, with its fields in order of arrival.
    pub fn into_answer(self) -> Vec<u8> {
        let mut out = Vec::new();
        self.answer.write(FramePlace::Frame, &mut out);
        out
    }
}

impl MergedObject {
    fn merge(&mut self, text: &[u8], place: FramePlace, size: &mut MergeSize) -> Result<(), MergeError> {
        for field in json::fields(text) {
            let field = field.map_err(|_| MergeError)?;
            let value = text.get(field.value.clone()).unwrap_or_default();
            let name = field.name();
            let inner = match (place, &*name) {
                (FramePlace::Frame, b"choices") => FramePlace::Choice,
                (FramePlace::Choice, b"delta" | b"logprobs") | (FramePlace::Delta, _) => FramePlace::Delta,
                _ => FramePlace::Other,
            };
            let known = self.0.iter().position(|(known, _)| **known == *name);
            let is_whole = place == FramePlace::Delta && WHOLE.contains(&&*name);
            if is_whole && known.is_some() && value == b"\"\"" {
                continue;
            }
            let at = known.unwrap_or(self.0.len());
            if known.is_none() {
                size.count_one()?;
                let node = MergedValue::Text(b"null".to_vec());
                size.bytes += name.len() + node.text_len();
                self.0.push((name.to_vec(), node));
            }
            if let Some((_, node)) = self.0.get_mut(at) {
                let is_pieces =
                    place == FramePlace::Delta && !is_whole || place == FramePlace::Choice && *name == *b"text";
                node.merge(value, is_pieces, inner, size)?;
            }
        }
        Ok(())
    }

    fn write(&self, place: FramePlace, out: &mut Vec<u8>) {
        out.push(b'{');
        for (at, (name, node)) in self.0.iter().enumerate() {
            if at > 0 {
                out.push(b',');
            }
            let (name, inner) = match (place, name.as_slice()) {
                (FramePlace::Frame, b"choices") => (name.as_slice(), FramePlace::Choice),
                (FramePlace::Choice, b"delta") => (&b"message"[..], FramePlace::Other),
                (_, name) => (name, FramePlace::Other),
            };
            out.extend_from_slice(serde_json::Value::from(String::from_utf8_lossy(name)).to_string().as_bytes());
            out.push(b':');
            match node {
                MergedValue::Text(text)
                    if place == FramePlace::Frame
                        && name == b"object"
                        && text != json_answer::TEXT_COMPLETION.as_bytes() =>
                {
                    out.extend_from_slice(b"\"chat.completion\"");
                }
                MergedValue::Text(text) => out.extend_from_slice(text),
                MergedValue::Object(object) => object.write(inner, out),
                MergedValue::List(list) => {
                    out.push(b'[');
                    for (at, (_, object)) in list.iter().enumerate() {
                        if at > 0 {
                            out.push(b',');
                        }
                        object.write(inner, out);
                    }
                    out.push(b']');
                }
            }
        }
        out.push(b'}');
    }
}

impl MergedValue {
    fn text_len(&self) -> usize {
        if let Self::Text(text) = self { text.len() } else { 0 }
    }

    /// Merges a value. `is_pieces` is whether strings and arrays are pieces of a longer one.
    fn merge(
        &mut self,
        value: &[u8],
        is_pieces: bool,
        inner: FramePlace,
        size: &mut MergeSize,
    ) -> Result<(), MergeError> {
        if value == b"null" {
            return Ok(());
        }
        if value.starts_with(b"{") {
            if !matches!(self, Self::Object(_)) {
                *self = Self::Object(MergedObject::default());
            }
            if let Self::Object(object) = self {
                return object.merge(value, inner, size);
            }
        }
        let elements = || json::array_elements(value).into_iter().flatten();
        let is_list = inner == FramePlace::Choice || elements().next().is_some_and(|first| index(first).is_some());
        if value.starts_with(b"[") && is_list {
            if !matches!(self, Self::List(_)) {
                *self = Self::List(Vec::new());
            }
            if let Self::List(list) = self {
                for (place, element) in (0..).zip(elements()) {
                    let index = index(element).unwrap_or(place);
                    let known = list.iter().position(|(known, _)| *known == index);
                    let at = known.unwrap_or(list.len());
                    if known.is_none() {
                        size.count_one()?;
                        list.push((index, MergedObject::default()));
                    }
                    if let Some((_, object)) = list.get_mut(at) {
                        object.merge(element, inner, size)?;
                    }
                }
                list.sort_by_key(|(index, _)| *index);
            }
            return Ok(());
        }
        size.bytes -= self.text_len();
        match self {
            Self::Text(text) if is_pieces => append(text, value),
            _ => *self = Self::Text(value.to_vec()),
        }
        size.bytes += self.text_len();
        Ok(())
    }
}

impl MergeSize {
    /// Counts a field or a list element.
    fn count_one(&mut self) -> Result<(), MergeError> {
        self.fields += 1;
        if self.fields > limits::MERGED_FIELDS { Err(MergeError) } else { Ok(()) }
    }
}

fn index(object: &[u8]) -> Option<u64> {
    let mut fields = json::fields(object).filter_map(Result::ok);
    let index = fields.find(|field| &*field.name() == b"index")?;
    serde_json::from_slice(object.get(index.value)?).ok()
}

/// Appends a string to a string, or an array's elements to another array. Any other value replaces the previous one.
fn append(text: &mut Vec<u8>, value: &[u8]) {
    let both = |quote: &[u8]| text.starts_with(quote) && value.starts_with(quote);
    let is_array = both(b"[");
    if !is_array && !both(b"\"") {
        *text = value.to_vec();
        return;
    }
    let is_empty = |array: &[u8]| json::array_elements(array).is_some_and(|mut all| all.next().is_none());
    let needs_comma = is_array && !is_empty(text) && !is_empty(value);
    text.pop();
    if needs_comma {
        text.push(b',');
    }
    text.extend_from_slice(value.get(1..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn merged(frames: &[Value]) -> Value {
        let mut merged = MergedAnswer::default();
        for frame in frames {
            merged.add(format!("data: {frame}\n\n").as_bytes()).unwrap();
        }
        merged.add(b": comment\n\ndata: {}\r\rdata: [DONE]\r\r").unwrap();
        serde_json::from_slice(&merged.into_answer()).unwrap()
    }

    fn frame(choices: &Value) -> Value {
        json!({ "id": "c", "object": "chat.completion.chunk", "created": 5, "model": "m", "choices": choices })
    }

    #[test]
    fn pieces_become_the_message_of_their_choice() {
        let piece = |index: u64, delta: &Value, reason: Option<&str>| json!({ "index": index, "delta": delta, "finish_reason": reason });
        let call = |call: &Value| json!({ "tool_calls": [call] });
        let answer = merged(&[
            frame(&json!([piece(1, &json!({ "role": "assistant", "content": "" }), None)])),
            frame(&json!([piece(0, &json!({ "role": "assistant", "content": "H\"" }), None)])),
            frame(&json!([piece(0, &json!({ "role": "assistant", "content": "é\n", "reasoning": null }), None)])),
            frame(&json!([piece(
                1,
                &call(
                    &json!({ "index": 0, "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\"" } })
                ),
                None
            )])),
            frame(&json!([piece(
                1,
                &call(
                    &json!({ "index": 1, "id": "b", "type": "function", "function": { "name": "g", "arguments": "" } })
                ),
                None
            )])),
            frame(&json!([piece(
                1,
                &call(&json!({ "index": 0, "id": "a", "function": { "name": "f", "arguments": ":1}" } })),
                None
            )])),
            frame(
                &json!([{ "index": 0, "delta": { "reasoning": "so" }, "logprobs": { "content": [{ "token": "H" }], "refusal": null } }]),
            ),
            frame(
                &json!([{ "index": 0, "delta": {}, "logprobs": { "content": [{ "token": "é" }] }, "finish_reason": "stop" }]),
            ),
            frame(&json!([piece(1, &json!({}), Some("tool_calls"))])),
            json!({ "id": "c", "object": "chat.completion.chunk", "choices": [], "usage": { "prompt_tokens": 1, "completion_tokens": 2 } }),
        ]);
        let calls = json!([
            { "index": 0, "id": "a", "type": "function", "function": { "name": "f", "arguments": "{\"x\":1}" } },
            { "index": 1, "id": "b", "type": "function", "function": { "name": "g", "arguments": "" } },
        ]);
        assert_eq!(
            answer,
            json!({
                "id": "c", "object": "chat.completion", "created": 5, "model": "m",
                "choices": [
                    {
                        "index": 0, "message": { "role": "assistant", "content": "H\"é\n", "reasoning": "so" },
                        "logprobs": { "content": [{ "token": "H" }, { "token": "é" }], "refusal": null }, "finish_reason": "stop",
                    },
                    { "index": 1, "message": { "role": "assistant", "content": "", "tool_calls": calls }, "finish_reason": "tool_calls" },
                ],
                "usage": { "prompt_tokens": 1, "completion_tokens": 2 },
            })
        );
    }

    #[test]
    fn the_last_value_holds_where_there_are_no_pieces() {
        let usage = |tokens: u64| json!({ "choices": [{ "delta": { "content": "a" } }], "usage": { "completion_tokens": tokens }, "x": [tokens] });
        let answer = merged(&[usage(1), usage(2), json!({ "choices": [], "usage": null })]);
        assert_eq!(
            answer,
            json!({ "choices": [{ "message": { "content": "aa" } }], "usage": { "completion_tokens": 2 }, "x": [2] })
        );
        // Tool calls without an index are complete.
        let call = |id: &str| json!({ "choices": [{ "index": 0, "delta": { "tool_calls": [{ "id": id }] } }] });
        assert_eq!(
            merged(&[call("a"), call("b")])["choices"][0]["message"]["tool_calls"],
            json!([{ "id": "a" }, { "id": "b" }])
        );
    }

    #[test]
    fn bytes_are_counted_once() {
        let mut merged = MergedAnswer::default();
        for content in ["a", "bc"] {
            let choices = json!([{ "delta": { "content": content } }]);
            let frame = json!({ "id": "c", "usage": { "completion_tokens": 1 }, "choices": choices });
            merged.add(format!("data: {frame}\n\n").as_bytes()).unwrap();
        }
        let names = ["id", "usage", "completion_tokens", "choices", "delta", "content"].concat();
        // Objects and lists replaced `null`, whose bytes are ignored.
        let values = [r#""c""#, "1", r#""abc""#, "null", "null", "null"].concat();
        assert_eq!(merged.bytes(), names.len() + values.len());
    }

    #[test]
    fn fields_are_bounded() {
        let fields: Vec<_> = (0..=limits::MERGED_FIELDS).map(|name| format!("\"{name}\":1")).collect();
        let frame = format!("data: {{{}}}\n\n", fields.join(","));
        assert_eq!(MergedAnswer::default().add(frame.as_bytes()), Err(MergeError));
        let frame = format!("data: {{\"choices\":[{{}}{}]}}\n\n", ",{}".repeat(limits::MERGED_FIELDS));
        assert_eq!(MergedAnswer::default().add(frame.as_bytes()), Err(MergeError));
    }
}
