//! The reason that an answer ends.

use super::{
    super::chat::{CompletionChoice, JsonString},
    request::DecodedStr,
};

/// The reasons that an answer ends, from its choices so far.
#[derive(Debug, Default)]
pub(super) struct StopReasons {
    is_cut: bool,
    has_refused: bool,
    has_calls: bool,
    /// The stop sequence that ended the answer.
    sequence: Option<String>,
}

impl StopReasons {
    pub(super) fn read(&mut self, choice: &CompletionChoice<'_>, sequences: &[String]) {
        if let Some(said) = choice.output() {
            self.has_refused |= said.refusal().is_some();
            self.has_calls |= !said.calls().is_empty();
        }
        match choice.finish_reason().map(JsonString::text).as_deref() {
            None => return,
            Some("length") => self.is_cut = true,
            Some("content_filter") => self.has_refused = true,
            Some("tool_calls" | "function_call") => self.has_calls = true,
            Some(_) => {}
        }
        if let Some(stop) =
            choice.stop().and_then(|stop| serde_json::from_str::<DecodedStr<'_>>(stop.as_json().get()).ok())
            && sequences.iter().any(|sequence| *sequence == *stop)
        {
            self.sequence = Some(stop.0.into_owned());
        }
    }

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

/// Creates an id for a call that the model gave none.
pub(super) fn call_id(message: &str, number: usize) -> String {
    format!("toolu_{}_{number}", message.strip_prefix("msg_").unwrap_or(message))
}
