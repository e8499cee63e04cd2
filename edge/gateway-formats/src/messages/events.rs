//! Streamed answers.
//!
//! In this format, each block begins, grows and stops before the next one begins. A chat completion's frames have no
//! such order: they may interleave pieces of several calls, and do not mark where a call ends. The content of a waiting
//! block is held until the blocks before it have stopped. Words and thoughts stop when something else follows them; a
//! call stops when its arguments are complete, or when the answer ends.

mod block;

use std::collections::VecDeque;

use bytes::BytesMut;
use gateway_answer::sse::{self, StreamError};
use gateway_request::error::ApiError;

use self::block::{StreamBlock, StreamBlockKind, arguments_piece, write};
use super::{
    super::{
        TranslateEvents,
        chat::{ChatCompletion, JsonString, ToolCall},
    },
    MessagesContext,
    ending::{StopReasons, call_id},
    errors,
    usage::UsageReports,
};

/// An event that shows clients that the connection is alive.
const PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";

/// The translation of one streamed answer.
pub struct MessageEvents {
    context: MessagesContext,
    has_begun: bool,
    /// The blocks that have not stopped, in order. Only the first may have begun.
    blocks: VecDeque<StreamBlock>,
    /// The index of the first of them.
    first: usize,
    /// The bytes held in them.
    held: usize,
    /// The largest index of a call whose block has stopped.
    last_call: Option<u64>,
    ending: StopReasons,
    reports: UsageReports,
}

impl MessageEvents {
    pub(crate) fn new(context: MessagesContext) -> Self {
        Self {
            context,
            has_begun: false,
            blocks: VecDeque::new(),
            first: 0,
            held: 0,
            last_call: None,
            ending: StopReasons::default(),
            reports: UsageReports::default(),
        }
    }

    fn push_frame(&mut self, frame: &[u8], out: &mut BytesMut) -> Result<(), StreamError> {
        let frame: ChatCompletion<'_> = serde_json::from_slice(frame).map_err(|_| StreamError::InvalidJson)?;
        self.begin(out);
        if let Some(usage) = frame.usage {
            self.reports.add(usage);
        }
        for choice in frame.choices.iter().flatten().take(1) {
            self.ending.read(choice, &self.context.stop_sequences);
            let Some(said) = choice.output() else { continue };
            if self.context.shows_thinking
                && let Some(thoughts) = said.thoughts()
            {
                self.push_words(&StreamBlockKind::Thinking, thoughts, out)?;
            }
            for text in [said.content(), said.refusal()].into_iter().flatten() {
                self.push_words(&StreamBlockKind::Text, text, out)?;
            }
            for call in said.calls() {
                self.push_call(call, out)?;
            }
        }
        Ok(())
    }

    fn begin(&mut self, out: &mut BytesMut) {
        if self.has_begun {
            return;
        }
        self.has_begun = true;
        let id = self.context.message_id();
        let model = self.context.model.get();
        // The prompt's usage is known, and reported, at the end.
        let usage = serde_json::to_string(&UsageReports::default().usage()).unwrap_or_default();
        write(
            out,
            format_args!(
                "event: message_start\ndata: {{\"type\":\"message_start\",\"message\":{{\"id\":\"{id}\",\"type\":\"message\",\
                 \"role\":\"assistant\",\"model\":{model},\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\
                 \"usage\":{usage}}}}}\n\n"
            ),
        );
    }

    fn push_words(
        &mut self,
        kind: &StreamBlockKind,
        piece: JsonString<'_>,
        out: &mut BytesMut,
    ) -> Result<(), StreamError> {
        let is_same = |block: &StreamBlock| std::mem::discriminant(&block.kind) == std::mem::discriminant(kind);
        if !self.blocks.back().is_some_and(is_same) {
            let kind = if matches!(kind, StreamBlockKind::Thinking) {
                StreamBlockKind::Thinking
            } else {
                StreamBlockKind::Text
            };
            self.add_block(kind)?;
            self.stop_complete_blocks(out);
        }
        let (index, is_first) = (self.first, self.blocks.len() == 1);
        let Some(block) = self.blocks.back_mut() else { return Ok(()) };
        if is_first {
            block.begin(index, out);
            block.write_piece(index, piece.escaped(), out);
            return Ok(());
        }
        block.text.push_str(piece.escaped());
        self.add_held(piece.escaped().len())
    }

    fn push_call(&mut self, call: &ToolCall<'_>, out: &mut BytesMut) -> Result<(), StreamError> {
        let position = self.find_call(call);
        let position = match (position, call.name()) {
            (Some(position), _) => position,
            (None, Some(name)) => {
                let number = self.first + self.blocks.len();
                let made = || format!("\"{}\"", call_id(&self.context.message_id(), number));
                let kind = StreamBlockKind::Call {
                    index: call.index.unwrap_or_else(|| self.last_index().map_or(0, |last| last + 1)),
                    id: call.id().map_or_else(made, |id| id.as_json().get().to_owned()),
                    name: name.as_json().get().to_owned(),
                    is_kept: true,
                };
                self.add_block(kind)?;
                self.stop_complete_blocks(out);
                self.blocks.len() - 1
            }
            // A piece after the end of its call.
            (None, None) => return Ok(()),
        };
        let (first, piece) = (self.first, call.arguments().map(arguments_piece).unwrap_or_default());
        let mut added = 0;
        if let Some(block) = self.blocks.get_mut(position) {
            let before = block.text.len();
            if position == 0 {
                block.begin(first, out);
                if !block.is_skippable(&piece) {
                    block.write_piece(first, &piece, out);
                    block.keep(&piece);
                }
            } else if !block.is_skippable(&piece) {
                block.text.push_str(&piece);
            }
            added = block.text.len().saturating_sub(before);
            self.held = self.held.saturating_sub(before.saturating_sub(block.text.len()));
        }
        self.add_held(added)?;
        // The call may be complete now, and others wait for it.
        self.stop_complete_blocks(out);
        Ok(())
    }

    /// Returns the position of the call that a piece belongs to. Some servers use index 0 for several calls: a
    /// different id with a name is another call.
    fn find_call(&self, call: &ToolCall<'_>) -> Option<usize> {
        let is_new = |known: &str| call.name().is_some() && call.id().is_some_and(|id| id.as_json().get() != known);
        let mut calls = self.blocks.iter().enumerate().rev().filter_map(|(position, block)| match &block.kind {
            StreamBlockKind::Call { index, id, .. } => Some((position, *index, id)),
            StreamBlockKind::Thinking | StreamBlockKind::Text => None,
        });
        let found = match call.index {
            Some(wanted) => calls.find(|(_, index, _)| *index == wanted),
            None => calls.next(),
        };
        found.filter(|(_, _, id)| !is_new(id)).map(|(position, ..)| position)
    }

    fn last_index(&self) -> Option<u64> {
        let open = self.blocks.iter().filter_map(|block| match block.kind {
            StreamBlockKind::Call { index, .. } => Some(index),
            StreamBlockKind::Thinking | StreamBlockKind::Text => None,
        });
        open.chain(self.last_call).max()
    }

    fn add_block(&mut self, kind: StreamBlockKind) -> Result<(), StreamError> {
        if self.blocks.len() >= limits::HELD_BLOCKS {
            return Err(StreamError::TooLarge);
        }
        self.blocks.push_back(StreamBlock::new(kind));
        Ok(())
    }

    fn add_held(&mut self, bytes: usize) -> Result<(), StreamError> {
        self.held += bytes;
        if self.held > limits::HELD_BLOCK_BYTES { Err(StreamError::TooLarge) } else { Ok(()) }
    }

    /// Stops the first blocks while others wait for them and they are complete, and writes the next one's held content.
    fn stop_complete_blocks(&mut self, out: &mut BytesMut) {
        while self.blocks.len() > 1 && self.blocks.front_mut().is_some_and(StreamBlock::is_complete) {
            self.stop_first(out);
            if let Some(block) = self.blocks.front_mut() {
                block.catch_up(self.first, out);
            }
        }
    }

    fn stop_first(&mut self, out: &mut BytesMut) {
        if let Some(block) = self.blocks.pop_front() {
            block.stop(self.first, out);
            self.held = self.held.saturating_sub(block.text.len());
            if let StreamBlockKind::Call { index, .. } = block.kind {
                self.last_call = self.last_call.max(Some(index));
            }
            self.first += 1;
        }
    }

    fn finish(&mut self, out: &mut BytesMut) {
        while let Some(block) = self.blocks.front_mut() {
            block.catch_up(self.first, out);
            self.stop_first(out);
        }
        let (reason, sequence) = self.ending.reason();
        let sequence = serde_json::to_string(&sequence).unwrap_or_default();
        let usage = serde_json::to_string(&self.reports.usage()).unwrap_or_default();
        write(
            out,
            format_args!(
                "event: message_delta\ndata: {{\"type\":\"message_delta\",\"delta\":{{\"stop_reason\":\"{reason}\",\
                 \"stop_sequence\":{sequence}}},\"usage\":{usage}}}\n\n\
                 event: message_stop\ndata: {{\"type\":\"message_stop\"}}\n\n"
            ),
        );
    }
}

impl TranslateEvents for MessageEvents {
    fn push(&mut self, chat: &[u8], out: &mut BytesMut) -> Result<(), StreamError> {
        let before = out.len();
        let mut has_frames = false;
        for frame in sse::payloads(chat) {
            has_frames = true;
            if frame.trim_ascii() == b"[DONE]" {
                self.finish(out);
            } else {
                self.push_frame(&frame, out)?;
            }
        }
        // Only comments: the provider is working.
        if !chat.is_empty() && !has_frames && out.len() == before {
            self.begin(out);
            out.extend_from_slice(PING);
        }
        Ok(())
    }

    fn fail(&mut self, error: ApiError, out: &mut BytesMut) {
        out.extend_from_slice(errors::event(&error, &self.context.request_id).as_bytes());
    }
}
