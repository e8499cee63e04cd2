//! Writes the body of a chat completion message by message.

use gateway_request::error::ApiError;
use serde::Serialize;
use serde_json::value::RawValue;

use super::request::{ChatBody, ChatMessage};

/// Writes the body of a chat completion. Only the last message is held, because later parts of a request may add to it.
pub(in super::super) struct ChatWriter<'b> {
    out: Vec<u8>,
    /// The place of the first message.
    start: usize,
    messages: usize,
    last: Option<ChatMessage<'b>>,
    error: Option<serde_json::Error>,
}

impl<'b> ChatWriter<'b> {
    /// Begins the translation of a request for `model` of about `bytes`. The output is usually about as long.
    pub(in super::super) fn new(model: Option<&RawValue>, bytes: usize) -> Self {
        let mut out = Vec::with_capacity(bytes + limits::ADDED_BYTES);
        out.push(b'{');
        if let Some(model) = model {
            out.extend_from_slice(b"\"model\":");
            out.extend_from_slice(model.get().as_bytes());
            out.push(b',');
        }
        out.extend_from_slice(b"\"messages\":[");
        let start = out.len();
        Self { out, start, messages: 0, last: None, error: None }
    }

    pub(in super::super) fn has_messages(&self) -> bool {
        self.messages > 0
    }

    pub(in super::super) fn push(&mut self, message: ChatMessage<'b>) {
        self.write_last();
        self.messages += 1;
        self.last = Some(message);
    }

    /// Returns the last message if it is of this role, or one that is added.
    pub(in super::super) fn last_of(&mut self, role: &'static str) -> (&mut ChatMessage<'b>, bool) {
        let is_new = self.last.as_ref().is_none_or(|last| last.role != role);
        if is_new {
            self.push(ChatMessage { role, ..ChatMessage::default() });
        }
        (self.last.get_or_insert_default(), is_new)
    }

    /// Adds a message before all others.
    pub(in super::super) fn insert_first(&mut self, message: &ChatMessage<'b>) {
        self.write_last();
        let end = self.out.len();
        self.write(message);
        if self.messages > 0 {
            self.out.push(b',');
        }
        self.messages += 1;
        let added = self.out.len() - end;
        if let Some(messages) = self.out.get_mut(self.start..) {
            messages.rotate_right(added);
        }
    }

    /// Writes the other fields and returns the body.
    pub(in super::super) fn finish(mut self, fields: &ChatBody<'_>) -> Result<Vec<u8>, ApiError> {
        self.write_last();
        self.out.push(b']');
        let end = self.out.len();
        self.write(fields);
        if self.out.get(end..) == Some(b"{}") {
            self.out.truncate(end);
            self.out.push(b'}');
        } else if let Some(open) = self.out.get_mut(end) {
            // The fields go on with the object that the messages are in.
            *open = b',';
        }
        // Serializing these fields cannot fail.
        match self.error {
            Some(error) => Err(ApiError::invalid_json(&error.to_string())),
            None => Ok(self.out),
        }
    }

    fn write_last(&mut self) {
        if let Some(last) = self.last.take() {
            if self.out.len() > self.start {
                self.out.push(b',');
            }
            self.write(&last);
        }
    }

    fn write(&mut self, value: &impl Serialize) {
        if let Err(error) = serde_json::to_writer(&mut self.out, value) {
            self.error = Some(error);
        }
    }
}
