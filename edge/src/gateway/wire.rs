//! What must hold of whatever bytes a client or a provider sends. Public, so that a fuzzer can ask it; the tests ask it
//! of `fuzz/seeds` and of random mutations of them.

use bytes::{Bytes, BytesMut};
use config::{
    Gateway as Config,
    models::{MAX_TOKENS, Models, ModelsError},
};
use serde_json::Value;

use super::{
    json,
    models::{ServedModel, ServedModels},
    request,
    sse::{Frames, Progress, StreamError},
    upstream::ProviderSetupError,
};
use crate::limits;

/// The model of the answers that are checked.
const MODEL: &str = "svc/qwen3-32b";

/// The readers of requests and answers, with the shipped models and a provider that is never asked.
pub struct Wire {
    models: ServedModels,
}

/// Why there is nothing to check with.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The shipped models are not valid.
    #[error(transparent)]
    Models(#[from] ModelsError),
    /// The providers cannot be set up.
    #[error(transparent)]
    Providers(#[from] ProviderSetupError),
    /// The shipped models have changed.
    #[error("{MODEL} is not one of the shipped models")]
    NoModel,
}

/// A property that does not hold.
pub type Violation = String;

impl Wire {
    /// Sets the readers up.
    pub fn new() -> Result<Self, WireError> {
        let config = Config { provider_url: "http://127.0.0.1:9".parse().ok(), ..Config::default() };
        let models = ServedModels::new(&Models::of(&config, |_| None)?, &config)?;
        models.find(MODEL).ok_or(WireError::NoModel)?;
        Ok(Self { models })
    }

    /// Checks the reader of JSON objects: it finds in `text` the fields that serde finds.
    pub fn check_fields(text: &[u8]) -> Result<(), Violation> {
        let mut found = serde_json::Map::new();
        let mut end = 0;
        for field in json::fields(text) {
            let Ok(field) = field else {
                return match depth(text) {
                    Some(depth) if depth <= 100 => Err("the fields of an object were not found".to_owned()),
                    _ => Ok(()),
                };
            };
            if field.whole.start < end || field.value.start < field.whole.start || field.value.end != field.whole.end {
                return Err(format!("{field:?} overlaps"));
            }
            end = field.whole.end;
            let value = text.get(field.value.clone()).and_then(|value| serde_json::from_slice(value).ok());
            found.insert(String::from_utf8_lossy(&field.name()).into_owned(), value.unwrap_or_default());
        }
        match serde_json::from_slice::<Value>(text) {
            Ok(Value::Object(expected)) if expected != found => Err(format!("{found:?} instead of {expected:?}")),
            Ok(value) if !value.is_object() => Err("what is no object has fields".to_owned()),
            _ => Ok(()),
        }
    }

    /// Checks the reader of streams. The first byte of `input` says how the rest is cut.
    ///
    /// Cuts make no difference, and nothing passes but comments and the fields of events, under our name of the model
    /// and without a provider's error.
    pub fn check_frames(&self, input: &[u8]) -> Result<(), Violation> {
        let Some((cut, text)) = input.split_first() else { return Ok(()) };
        let whole = self.relay(text, text.len().max(1))?;
        let cut = self.relay(text, usize::from(*cut).max(1))?;
        if whole != cut {
            return Err(format!("{whole:?} in one piece, {cut:?} in several"));
        }
        let (out, ..) = whole;
        for event in out.split("\n\n").flat_map(|event| event.split(['\n', '\r'])) {
            let name = event.split(':').next().unwrap_or_default();
            if !matches!(name, "" | "data" | "event" | "id" | "retry") {
                return Err(format!("a line that is no field: {event}"));
            }
            let data = event.strip_prefix("data:").and_then(|data| serde_json::from_str::<Value>(data).ok());
            let Some(data) = data else { continue };
            if data.get("model").is_some_and(|model| model != MODEL) {
                return Err(format!("the provider's name of the model: {event}"));
            }
            if data.get("error").is_some_and(|error| !error.is_null()) {
                return Err(format!("the provider's error: {event}"));
            }
        }
        Ok(())
    }

    /// Relays a stream in pieces of `piece` bytes: what the client gets, how it ends, and the tokens.
    fn relay(&self, text: &[u8], piece: usize) -> Result<(String, Result<(), StreamError>, u64, u64), Violation> {
        let mut frames = Frames::new(self.model()?.clone(), 7, MAX_TOKENS);
        let mut out = BytesMut::new();
        let mut ended = None;
        for piece in text.chunks(piece) {
            match frames.push(piece, &mut out) {
                Ok(Progress::Ongoing) => continue,
                Ok(Progress::Complete) => ended = Some(Ok(())),
                Err(error) => ended = Some(Err(error)),
            }
            break;
        }
        let ended = ended.unwrap_or_else(|| frames.end(&mut out));
        let usage = frames.usage_so_far();
        Ok((String::from_utf8_lossy(&out).into_owned(), ended, usage.prompt, usage.completion))
    }

    /// Checks the judge of requests: what it lets pass is read by serde as it was judged.
    pub fn check_request(&self, body: &[u8]) -> Result<(), Violation> {
        let body = Bytes::copy_from_slice(body);
        let Ok(request) = request::validate(&body, &self.models) else { return Ok(()) };
        let sent: Value = match serde_json::from_slice(&request.body) {
            Ok(sent) => sent,
            // Half of a pair of surrogates in a text, which serde does not read, passes as it came.
            Err(_) if serde_json::from_slice::<Value>(&body).is_err() => return Ok(()),
            Err(error) => return Err(format!("{error}: {body:?}")),
        };
        let number = |name: &str| sent.get(name).and_then(Value::as_u64);
        let ceiling = number("max_tokens").max(number("max_completion_tokens"));
        let choices = number("n").unwrap_or(1);
        let holds = [
            sent["model"] == request.model.model.upstream.as_str(),
            ceiling.is_some_and(|ceiling| ceiling <= MAX_TOKENS),
            choices <= limits::CHOICES,
            ceiling.map(|ceiling| ceiling * choices) == Some(request.max_usage.completion),
            (sent["stream"] == true) == request.is_stream,
            sent.get("store").is_none_or(|store| *store == false),
            !request.is_stream || sent["stream_options"]["include_usage"] == true,
            sent["messages"].as_array().is_some_and(|messages| !messages.is_empty()),
        ];
        if holds.contains(&false) {
            return Err(format!("{holds:?}: {sent}"));
        }
        Ok(())
    }

    fn model(&self) -> Result<&std::sync::Arc<ServedModel>, Violation> {
        self.models.find(MODEL).ok_or_else(|| WireError::NoModel.to_string())
    }
}

/// How deeply the object that `text` is nests, or `None` if it is no object.
fn depth(text: &[u8]) -> Option<usize> {
    fn of(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(of).max().unwrap_or_default(),
            Value::Object(fields) => 1 + fields.values().map(of).max().unwrap_or_default(),
            _ => 0,
        }
    }
    serde_json::from_slice::<Value>(text).ok().filter(Value::is_object).map(|value| of(&value))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    /// Mutations of each seed.
    const MUTATIONS: usize = 400;

    /// Words that the readers look for.
    const WORDS: [&str; 24] = [
        "\"",
        "\\",
        "\\u0000",
        "\\ud800",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "true",
        "\n",
        "\n\n",
        "\r",
        "\r\n",
        "data:",
        "data: [DONE]",
        "event: error",
        "\"usage\":",
        "\"model\":",
        "\"error\":",
        "\u{feff}",
        "\"n\":17",
    ];

    /// Numbers that are the same in every run (xorshift).
    struct Chance(u64);

    impl Chance {
        fn below(&mut self, end: usize) -> usize {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            usize::try_from(self.0 >> 16).unwrap() % end
        }
    }

    fn mutate(seed: &[u8], chance: &mut Chance) -> Vec<u8> {
        let mut bytes = seed.to_vec();
        for _ in 0..=chance.below(5) {
            let at = chance.below(bytes.len() + 1);
            let to = (at + chance.below(16)).min(bytes.len());
            match chance.below(5) {
                0 => drop(bytes.drain(at..to)),
                1 => bytes.insert(at, u8::try_from(chance.below(256)).unwrap()),
                2 => {
                    let copied = bytes[at..to].to_vec();
                    let other = chance.below(bytes.len() + 1);
                    bytes.splice(other..other, copied).for_each(drop);
                }
                3 => {
                    let word = WORDS[chance.below(WORDS.len())];
                    bytes.splice(at..at, word.bytes()).for_each(drop);
                }
                _ if at < bytes.len() => bytes[at] ^= 1 << chance.below(8),
                _ => {}
            }
        }
        bytes
    }

    fn check(target: &str, holds: impl Fn(&[u8]) -> Result<(), Violation>) {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(target);
        let mut chance = Chance(0x0123_4567_89ab_cdef);
        let mut files: Vec<_> = fs::read_dir(&seeds).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert!(files.len() >= 5, "{files:?}");
        for file in files {
            let seed = fs::read(&file).unwrap();
            let mut input = seed.clone();
            for _ in 0..MUTATIONS {
                if let Err(violation) = holds(&input) {
                    panic!("{}, as {:?}: {violation}", file.display(), String::from_utf8_lossy(&input));
                }
                input = mutate(&seed, &mut chance);
            }
        }
    }

    #[test]
    fn fields_are_those_that_serde_finds() {
        check("gateway_fields", Wire::check_fields);
    }

    #[test]
    fn streams_are_relayed_alike_however_they_are_cut() {
        let wire = Wire::new().unwrap();
        check("gateway_frames", |input| wire.check_frames(input));
    }

    #[test]
    fn requests_are_sent_as_they_were_judged() {
        let wire = Wire::new().unwrap();
        check("gateway_request", |body| wire.check_request(body));
    }
}
