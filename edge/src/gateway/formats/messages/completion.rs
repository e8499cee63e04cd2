//! The fields of a chat completion that a message is made of: those of a whole answer, of a frame, and the reason why it ends.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::request::Str;

/// One of a chat completion's choices, or of a frame's.
#[derive(Deserialize)]
pub(super) struct Choice<'a> {
    #[serde(alias = "delta", borrow)]
    pub(super) message: Option<Said<'a>>,
    #[serde(borrow)]
    finish_reason: Option<Str<'a>>,
    /// The text at which the model was stopped, or the number of its last token: vLLM's name of it, and that of `SGLang`.
    #[serde(borrow)]
    stop_reason: Option<&'a RawValue>,
    #[serde(borrow)]
    matched_stop: Option<&'a RawValue>,
}

/// What the model says: in a frame, a piece of it.
#[derive(Deserialize)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    /// The newer name of the same.
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) tool_calls: Option<Vec<ToolCall<'a>>>,
}

#[derive(Deserialize)]
pub(super) struct ToolCall<'a> {
    pub(super) index: Option<u64>,
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Deserialize)]
struct Function<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl<'a> Said<'a> {
    /// The words, as JSON strings that are not empty.
    pub(super) fn texts(&self) -> impl Iterator<Item = &'a RawValue> {
        [self.content, self.refusal].into_iter().filter_map(text)
    }

    /// The thoughts, as a JSON string that is not empty.
    pub(super) fn thoughts(&self) -> Option<&'a RawValue> {
        text(self.reasoning_content).or_else(|| text(self.reasoning))
    }
}

impl<'a> ToolCall<'a> {
    pub(super) fn id(&self) -> Option<&'a RawValue> {
        text(self.id)
    }

    pub(super) fn name(&self) -> Option<&'a RawValue> {
        text(self.function.as_ref()?.name)
    }

    /// The arguments: JSON in a string, or, from some servers, an object.
    pub(super) fn arguments(&self) -> Option<&'a RawValue> {
        self.function.as_ref()?.arguments
    }
}

/// The field, if it is a string with anything in it.
fn text(field: Option<&RawValue>) -> Option<&RawValue> {
    field.filter(|field| field.get().starts_with('"') && field.get().len() > 2)
}

/// Why an answer ends, as far as its choices have said it.
#[derive(Debug, Default)]
pub(super) struct Ending {
    is_cut: bool,
    has_refused: bool,
    has_calls: bool,
    /// The stop sequence at which the model was stopped.
    sequence: Option<String>,
}

impl Ending {
    /// Reads why a choice ends.
    pub(super) fn read(&mut self, choice: &Choice<'_>, sequences: &[String]) {
        if let Some(said) = &choice.message {
            self.has_refused |= text(said.refusal).is_some();
            self.has_calls |= said.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty());
        }
        match choice.finish_reason.as_deref() {
            None => return,
            Some("length") => self.is_cut = true,
            Some("content_filter") => self.has_refused = true,
            Some("tool_calls" | "function_call") => self.has_calls = true,
            Some(_) => {}
        }
        let stop = text(choice.stop_reason).or_else(|| text(choice.matched_stop));
        if let Some(stop) = stop.and_then(|stop| serde_json::from_str::<Str<'_>>(stop.get()).ok())
            && sequences.iter().any(|sequence| *sequence == *stop)
        {
            self.sequence = Some(stop.0.into_owned());
        }
    }

    /// The `stop_reason` and the `stop_sequence`.
    pub(super) fn reason(&self) -> (&'static str, Option<&str>) {
        match self {
            Self { has_refused: true, .. } => ("refusal", None),
            Self { is_cut: true, .. } => ("max_tokens", None),
            Self { has_calls: true, .. } => ("tool_use", None),
            Self { sequence: Some(sequence), .. } => ("stop_sequence", Some(sequence)),
            _ => ("end_turn", None),
        }
    }
}

/// The id for a call that the model has given none.
pub(super) fn call_id(message: &str, number: usize) -> String {
    format!("toolu_{}_{number}", message.strip_prefix("msg_").unwrap_or(message))
}
