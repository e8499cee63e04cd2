//! A block of a streamed answer: its held content and its events.

use std::{borrow::Cow, fmt::Write as _};

use bytes::BytesMut;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::super::{
    super::chat::{JsonString, is_blank},
    SIGNATURE,
    request::DecodedStr,
};

pub(super) struct StreamBlock {
    pub(super) kind: StreamBlockKind,
    has_begun: bool,
    /// The JSON-escaped text so far: all of it for a call, otherwise only the held part.
    pub(super) text: String,
    /// The length already written.
    written: usize,
    /// The length at which the arguments were last found incomplete.
    not_whole: usize,
}

pub(super) enum StreamBlockKind {
    Thinking,
    Text,
    Call {
        index: u64,
        /// The id and the name as JSON strings.
        id: String,
        name: String,
        /// Whether `text` has all arguments: they are kept only up to a limit.
        is_kept: bool,
    },
}

impl StreamBlock {
    pub(super) fn new(kind: StreamBlockKind) -> Self {
        Self { kind, has_begun: false, text: String::new(), written: 0, not_whole: 0 }
    }

    pub(super) fn begin(&mut self, index: usize, out: &mut BytesMut) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        let head = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":";
        match &self.kind {
            StreamBlockKind::Thinking => write(
                out,
                format_args!(
                    "{head}{index},\"content_block\":{{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}}}\n\n"
                ),
            ),
            StreamBlockKind::Text => {
                write(out, format_args!("{head}{index},\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"));
            }
            StreamBlockKind::Call { id, name, .. } => write(
                out,
                format_args!(
                    "{head}{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{{}}}}}}\n\n"
                ),
            ),
        }
    }

    /// Writes JSON-escaped text.
    pub(super) fn write_piece(&self, index: usize, escaped: &str, out: &mut BytesMut) {
        let (delta, field) = match self.kind {
            StreamBlockKind::Thinking => ("thinking_delta", "thinking"),
            StreamBlockKind::Text => ("text_delta", "text"),
            StreamBlockKind::Call { .. } => ("input_json_delta", "partial_json"),
        };
        let head = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":";
        write(out, format_args!("{head}{index},\"delta\":{{\"type\":\"{delta}\",\"{field}\":\"{escaped}\"}}}}\n\n"));
    }

    /// Writes what was held while the block waited.
    pub(super) fn catch_up(&mut self, index: usize, out: &mut BytesMut) {
        self.begin(index, out);
        if let Some(rest) = self.text.get(self.written..).filter(|rest| !rest.is_empty()) {
            self.write_piece(index, rest, out);
        }
        self.written = self.text.len();
    }

    /// Returns whether to skip an empty piece of arguments: clients parse what they have collected, unless it is empty.
    pub(super) fn is_skippable(&self, escaped: &str) -> bool {
        let is_first = self.text.is_empty() && matches!(self.kind, StreamBlockKind::Call { is_kept: true, .. });
        escaped.is_empty() || is_first && is_blank(escaped)
    }

    /// Keeps written arguments, to detect when they are complete. Beyond a size, a call counts as incomplete until the
    /// end.
    pub(super) fn keep(&mut self, escaped: &str) {
        if let StreamBlockKind::Call { is_kept, .. } = &mut self.kind {
            *is_kept &= self.text.len() + escaped.len() <= limits::HELD_BLOCK_BYTES / 2;
            if *is_kept {
                self.text.push_str(escaped);
            } else {
                self.text = String::new();
            }
            self.written = self.text.len();
        }
    }

    /// Returns whether the block is complete once others follow it.
    pub(super) fn is_complete(&mut self) -> bool {
        let StreamBlockKind::Call { is_kept, .. } = self.kind else { return true };
        // Checked with each piece of the waiting blocks.
        if !is_kept || self.not_whole == self.text.len() || !self.text.trim_end().ends_with('}') {
            return false;
        }
        self.not_whole = self.text.len();
        let quoted = ["\"", &self.text, "\""].concat();
        serde_json::from_str::<DecodedStr<'_>>(&quoted)
            .is_ok_and(|text| serde_json::from_str::<IgnoredAny>(&text).is_ok())
    }

    pub(super) fn stop(&self, index: usize, out: &mut BytesMut) {
        if matches!(self.kind, StreamBlockKind::Thinking) {
            write(
                out,
                format_args!(
                    "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":\
                     {{\"type\":\"signature_delta\",\"signature\":\"{SIGNATURE}\"}}}}\n\n"
                ),
            );
        }
        write(
            out,
            format_args!("event: content_block_stop\ndata: {{\"type\":\"content_block_stop\",\"index\":{index}}}\n\n"),
        );
    }
}

/// Returns an escaped piece of a call's arguments: JSON in a string or, from some servers, a complete object.
pub(super) fn arguments_piece(arguments: &RawValue) -> Cow<'_, str> {
    if let Some(text) = JsonString::from_raw(arguments) {
        return text.escaped().into();
    }
    match arguments.get().as_bytes().first() {
        Some(b'{') => {
            let quoted = serde_json::to_string(arguments.get()).unwrap_or_default();
            quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_owned().into()
        }
        _ => "".into(),
    }
}

/// Appends formatted text. Writing to memory cannot fail.
pub(super) fn write(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
