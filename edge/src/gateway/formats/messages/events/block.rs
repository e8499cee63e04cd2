//! A block of a streamed answer: what waits of it, and its events.

use std::{borrow::Cow, fmt::Write as _};

use bytes::BytesMut;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::super::{
    super::chat::{JsonString, is_blank},
    SIGNATURE,
    request::Str,
};
use crate::limits;

/// A block of the answer.
pub(super) struct Block {
    pub(super) kind: Kind,
    has_begun: bool,
    /// The characters so far, escaped as in JSON: of a call all of them, otherwise those that wait.
    pub(super) text: String,
    /// The part of them that has been written.
    written: usize,
    /// The length at which they were found not to be whole.
    not_whole: usize,
}

pub(super) enum Kind {
    Thinking,
    Text,
    Call {
        index: u64,
        /// The id and the name as JSON strings.
        id: String,
        name: String,
        /// Whether `text` has all of the arguments: it is not kept beyond a bound.
        is_kept: bool,
    },
}

impl Block {
    pub(super) fn new(kind: Kind) -> Self {
        Self { kind, has_begun: false, text: String::new(), written: 0, not_whole: 0 }
    }

    pub(super) fn begin(&mut self, index: usize, out: &mut BytesMut) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        let head = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":";
        match &self.kind {
            Kind::Thinking => write(
                out,
                format_args!(
                    "{head}{index},\"content_block\":{{\"type\":\"thinking\",\"thinking\":\"\",\"signature\":\"\"}}}}\n\n"
                ),
            ),
            Kind::Text => {
                write(out, format_args!("{head}{index},\"content_block\":{{\"type\":\"text\",\"text\":\"\"}}}}\n\n"));
            }
            Kind::Call { id, name, .. } => write(
                out,
                format_args!(
                    "{head}{index},\"content_block\":{{\"type\":\"tool_use\",\"id\":{id},\"name\":{name},\"input\":{{}}}}}}\n\n"
                ),
            ),
        }
    }

    /// Writes characters that are escaped as in JSON.
    pub(super) fn write_piece(&self, index: usize, escaped: &str, out: &mut BytesMut) {
        let (delta, field) = match self.kind {
            Kind::Thinking => ("thinking_delta", "thinking"),
            Kind::Text => ("text_delta", "text"),
            Kind::Call { .. } => ("input_json_delta", "partial_json"),
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

    /// Whether a piece of arguments says nothing: clients parse what they have gathered, unless that is empty.
    pub(super) fn leaves_out(&self, escaped: &str) -> bool {
        let is_first = self.text.is_empty() && matches!(self.kind, Kind::Call { is_kept: true, .. });
        escaped.is_empty() || is_first && is_blank(escaped)
    }

    /// Keeps arguments that are written, to know when they are whole. A call that is larger than is kept is not whole before the end.
    pub(super) fn keep(&mut self, escaped: &str) {
        if let Kind::Call { is_kept, .. } = &mut self.kind {
            *is_kept &= self.text.len() + escaped.len() <= limits::HELD_BLOCK_BYTES / 2;
            if *is_kept {
                self.text.push_str(escaped);
            } else {
                self.text = String::new();
            }
            self.written = self.text.len();
        }
    }

    /// Whether nothing can be added to the block when others follow it.
    pub(super) fn is_whole(&mut self) -> bool {
        let Kind::Call { is_kept, .. } = self.kind else { return true };
        // Others ask with each piece of theirs.
        if !is_kept || self.not_whole == self.text.len() || !self.text.trim_end().ends_with('}') {
            return false;
        }
        self.not_whole = self.text.len();
        let quoted = ["\"", &self.text, "\""].concat();
        serde_json::from_str::<Str<'_>>(&quoted).is_ok_and(|text| serde_json::from_str::<IgnoredAny>(&text).is_ok())
    }

    pub(super) fn stop(&self, index: usize, out: &mut BytesMut) {
        if matches!(self.kind, Kind::Thinking) {
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

/// A piece of a call's arguments, escaped: JSON in a string, or, from some servers, all of them as an object.
pub(super) fn arguments_piece(arguments: &RawValue) -> Cow<'_, str> {
    if let Some(text) = JsonString::of(arguments) {
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

/// Appends formatted text. Writing into memory cannot fail.
pub(super) fn write(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
}
