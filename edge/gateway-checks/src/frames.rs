//! Checks the stream parser: cuts make no difference, and only events pass, with the gateway's name of the model.

use std::iter;

use config::models::MAX_TOKENS;
use gateway_answer::sse::{ChatFrames, RelayedStream};
use gateway_request::models::ServedModel;
use openai::{
    dialect,
    usage::TokenUsage,
    usage_report::{self, ExpectedUsage},
};

use super::{PropertyViolation, WireChecks, fields::CheckedObject, require};

/// The shortest frame with usage to which the cost is added.
const SHORTEST_USAGE: &str = r#"data:{"usage":{"prompt_tokens":0,"total_tokens":1}}"#;
/// The shortest field with a model's name.
const SHORTEST_MODEL: &str = "\"model\":0";

impl WireChecks {
    /// Checks the parser of streams. The first byte of `input` determines how the rest is cut, and whether it has two
    /// choices.
    ///
    /// However the stream is cut, the client gets the same output and is charged the same. The output's size is bounded
    /// by the input; it consists of complete events, and contains no other name of the model than the gateway's, no
    /// list in place of words, and no error of the provider. If it has an end, the usage before it is no more than what
    /// is charged.
    pub fn check_frames(&self, input: &[u8]) -> Result<(), PropertyViolation> {
        let Some((&first, text)) = input.split_first() else { return Ok(()) };
        let choices = 1 + u64::from(first & 1);
        let whole = self.relay(choices, [text]);
        let is_same = self.relay(choices, text.chunks(1)) == whole && self.relay(choices, pieces(text, first)) == whole;
        require(input, [("cuts make no difference", is_same)])?;
        let longer = text.len() / SHORTEST_MODEL.len() * self.streamed.id_json.len();
        let costs = text.len() / SHORTEST_USAGE.len() * limits::ADDED_BYTES;
        let added = costs + 2 * limits::IDENTITY_BYTES + 4 * limits::ADDED_BYTES;
        let TokenUsage { prompt, completion, is_estimated, .. } = whole.usage;
        let most = if is_estimated { MAX_TOKENS } else { limits::BELIEVABLE_TOKENS };
        require(
            input,
            [
                ("what passes is bounded", whole.out.len() <= text.len() + longer + added),
                ("what is charged is bounded", prompt.max(completion) <= most),
            ],
        )?;
        check_relayed(&whole, &self.streamed)
    }

    fn relay<'p>(&self, choices: u64, pieces: impl IntoIterator<Item = &'p [u8]>) -> RelayedStream {
        let expected = ExpectedUsage { prompt: 7, completion: MAX_TOKENS, choices, images: 0 };
        ChatFrames::new(self.streamed.clone(), expected).relay(pieces)
    }
}

/// Splits `text` into pieces of 1 to 32 bytes, with sizes that depend on `seed`.
fn pieces(mut text: &[u8], mut seed: u8) -> impl Iterator<Item = &[u8]> {
    iter::from_fn(move || {
        seed = seed.wrapping_mul(5).wrapping_add(3);
        let (piece, rest) = text.split_at(text.len().min(1 + usize::from(seed >> 3)));
        text = rest;
        (!piece.is_empty()).then_some(piece)
    })
}

fn check_relayed(relayed: &RelayedStream, model: &ServedModel) -> Result<(), PropertyViolation> {
    let out = &relayed.out[..];
    let events = read_events(out)?;
    let done = events.iter().position(|data| data == "[DONE]");
    for frame in events.iter().filter(|data| *data != "[DONE]") {
        for (name, value) in &CheckedObject::read(frame.as_bytes())?.0 {
            let passes = match name.as_str() {
                "model" => *value == model.id_json.as_bytes(),
                "error" => *value == b"null",
                "choices" => dialect::flatten_choices(value).is_none(),
                "object" => serde_json::from_slice::<String>(value).ok().as_deref() != Some("error"),
                _ => true,
            };
            require(out, [("the provider's names and errors stay here", passes)])?;
        }
    }
    if relayed.end.is_err() {
        return require(out, [("a stream that failed has no end", done.is_none())]);
    }
    require(out, [("a stream ends once", done.is_some_and(|done| done + 1 == events.len()))])?;
    let frame = events.iter().rev().nth(1).ok_or("nothing stands before the end")?;
    let frame = CheckedObject::read(frame.as_bytes())?;
    let shown = frame.0.iter().rfind(|(name, _)| name == "usage").and_then(|(_, usage)| usage_report::parse(usage));
    let is_charged =
        |shown: TokenUsage| shown.prompt + shown.completion <= relayed.usage.prompt + relayed.usage.completion;
    require(out, [("the usage that a client is shown is charged", shown.is_some_and(is_charged))])
}

/// Parses the data of each event like a client.
fn read_events(out: &[u8]) -> Result<Vec<String>, PropertyViolation> {
    let text = String::from_utf8_lossy(out).replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut data, mut is_whole, mut is_named) = (Vec::new(), Vec::new(), true, false);
    for line in text.split_terminator('\n') {
        is_whole = line.is_empty();
        if is_whole && !data.is_empty() {
            events.push(data.join("\n"));
            data.clear();
            is_named = false;
        }
        // Some clients treat the end of anything but comments as an event.
        require(out, [("no event comes without data", !(is_whole && is_named))])?;
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let is_field = match name {
            "data" => {
                data.push(value.strip_prefix(' ').unwrap_or(value));
                !value.trim_ascii().is_empty()
            }
            "event" => {
                is_named = true;
                !value.trim_ascii().eq_ignore_ascii_case("error")
            }
            name => name.is_empty(),
        };
        require(out, [("only names and data of events pass, and none that says error", is_field)])?;
    }
    require(out, [("events pass whole", is_whole)])?;
    Ok(events)
}
