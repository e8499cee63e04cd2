//! A streamed answer: server-sent events, passed on as they come with the model's name put right, and the usage read
//! out of them. Only where a frame's fields stand is looked at; what they say is not.

use std::{ops::Range, sync::Arc};

use bytes::{Buf as _, BytesMut};
use memchr::{memchr2, memmem};
use serde::Deserialize;

use super::{
    catalog::Served,
    json::{self, Malformed},
    meter::Usage,
    request::likely_tokens,
};
use crate::limits;

const DONE: &[u8] = b"data: [DONE]\n\n";

/// Why a stream is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadStream {
    #[error("the provider reported an error")]
    Error,
    #[error("a frame is not JSON")]
    Garbled,
    #[error("a frame is too large")]
    TooLarge,
    #[error("it ended before its end was said")]
    CutOff,
}

impl From<Malformed> for BadStream {
    fn from(_: Malformed) -> Self {
        Self::Garbled
    }
}

/// How far a stream has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// More is to come.
    Going,
    /// Everything was said. What the provider still sends is nobody's.
    Done,
}

/// The frames of one stream.
pub(super) struct Frames {
    served: Arc<Served>,
    likely_prompt: u64,
    most_completion: u64,
    /// The beginning of an event whose end has not come.
    pending: BytesMut,
    /// Up to where it was searched for its end.
    searched: Search,
    usage: Option<Usage>,
    /// Tokens in the frames so far, when nobody says.
    likely_completion: u64,
    /// `id` and `created` of the first frame, for a frame of our own.
    identity: Option<Vec<u8>>,
    last: LastFrame,
}

/// What matters of the latest frame.
#[derive(Default)]
struct LastFrame {
    has_usage: bool,
    /// Nothing can follow it but `[DONE]`.
    is_closing: bool,
}

impl Frames {
    /// The frames of an answer to a prompt that likely has so many tokens, of at most so many tokens itself.
    pub(super) fn new(served: Arc<Served>, likely_prompt: u64, most_completion: u64) -> Self {
        Self {
            served,
            likely_prompt,
            most_completion,
            pending: BytesMut::new(),
            searched: Search::default(),
            usage: None,
            likely_completion: 0,
            identity: None,
            last: LastFrame::default(),
        }
    }

    /// Takes the next bytes, however they are cut, and writes what is complete.
    pub(super) fn take(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<Progress, BadStream> {
        if !self.pending.is_empty() {
            self.pending.extend_from_slice(chunk);
            let mut pending = std::mem::take(&mut self.pending);
            let taken = self.take_events(&pending, out);
            if let Ok((used, Progress::Going)) = taken {
                pending.advance(used);
                self.hold(pending)?;
            }
            return taken.map(|(_, progress)| progress);
        }
        let (used, progress) = self.take_events(chunk, out)?;
        let rest = chunk.get(used..).unwrap_or_default();
        if progress == Progress::Going && !rest.is_empty() {
            self.hold(BytesMut::from(rest))?;
        }
        Ok(progress)
    }

    /// The provider has sent everything. An end that was not said is none.
    pub(super) fn end(&mut self, out: &mut BytesMut) -> Result<(), BadStream> {
        let mut pending = std::mem::take(&mut self.pending);
        if !pending.is_empty() {
            pending.extend_from_slice(b"\n\n");
            if let (_, Progress::Done) = self.take_events(&pending, out)? {
                return Ok(());
            }
        }
        if !self.last.is_closing {
            return Err(BadStream::CutOff);
        }
        out.extend_from_slice(DONE);
        Ok(())
    }

    /// What was used: as the provider says, else as it seems.
    pub(super) fn usage(&self) -> Usage {
        self.usage.unwrap_or(Usage {
            prompt: self.likely_prompt,
            completion: self.likely_completion.min(self.most_completion),
            estimated: true,
        })
    }

    /// Whether the model has said anything, or the provider anything of usage.
    pub(super) fn has_content(&self) -> bool {
        self.usage.is_some() || self.likely_completion > 0
    }

    fn hold(&mut self, rest: BytesMut) -> Result<(), BadStream> {
        if rest.len() > limits::FRAME_BYTES {
            return Err(BadStream::TooLarge);
        }
        self.pending = rest;
        Ok(())
    }

    /// Takes the complete events at the beginning of `text`, and says how long they are.
    fn take_events(&mut self, text: &[u8], out: &mut BytesMut) -> Result<(usize, Progress), BadStream> {
        let mut start = 0;
        let mut search = std::mem::take(&mut self.searched);
        loop {
            let rest = text.get(start..).unwrap_or_default();
            let Some(len) = search.event(rest) else { break };
            let event = rest.get(..len).unwrap_or_default();
            start += len;
            search = Search::default();
            let before = out.len();
            match self.take_event(event, out) {
                Ok(Progress::Going) => {}
                Ok(Progress::Done) => return Ok((start, Progress::Done)),
                Err(bad) => {
                    // Half an event is none, and what it says may be the provider's own words.
                    out.truncate(before);
                    return Err(bad);
                }
            }
        }
        self.searched = search;
        Ok((start, Progress::Going))
    }

    fn take_event(&mut self, event: &[u8], out: &mut BytesMut) -> Result<Progress, BadStream> {
        let read = Event::read(event);
        if read.is_error {
            return Err(BadStream::Error);
        }
        match read.data {
            Data::None => out.extend_from_slice(event),
            Data::Line(span) => {
                let payload = event.get(span.clone()).unwrap_or_default();
                if payload == b"[DONE]" {
                    self.close(out);
                    return Ok(Progress::Done);
                }
                out.extend_from_slice(event.get(..span.start).unwrap_or_default());
                self.take_frame(payload, out)?;
                out.extend_from_slice(event.get(span.end..).unwrap_or_default());
            }
            Data::Lines(payload) => {
                out.extend_from_slice(b"data: ");
                self.take_frame(&payload, out)?;
                out.extend_from_slice(b"\n\n");
            }
        }
        Ok(Progress::Going)
    }

    fn take_frame(&mut self, frame: &[u8], out: &mut BytesMut) -> Result<(), BadStream> {
        let part = |range: Range<usize>| frame.get(range).unwrap_or_default();
        let (mut usage, mut choices, mut id, mut created) = (None, None, None, None);
        let mut written = 0;
        for field in json::fields(frame) {
            let field = field?;
            match &*field.name() {
                b"model" => {
                    out.extend_from_slice(part(written..field.value.start));
                    out.extend_from_slice(self.served.id_json.as_bytes());
                    written = field.value.end;
                }
                b"usage" => usage = reported(part(field.value)),
                b"choices" => choices = Some(part(field.value)),
                b"error" if part(field.value.clone()) != b"null" => return Err(BadStream::Error),
                b"object" if part(field.value.clone()) == b"\"error\"" => return Err(BadStream::Error),
                b"id" => id = Some(part(field.value)),
                b"created" => created = Some(part(field.value)),
                _ => {}
            }
        }
        out.extend_from_slice(part(written..frame.len()));

        if self.identity.is_none() {
            self.identity = Some(identity(id, created));
        }
        let is_empty =
            choices.is_some_and(|choices| json::elements(choices).is_some_and(|mut all| all.next().is_none()));
        if let Some(choices) = choices.filter(|_| !is_empty) {
            self.likely_completion += likely_tokens(choices.len().saturating_sub(limits::CHOICE_BYTES)).max(1);
        }
        self.last = LastFrame {
            has_usage: usage.is_some(),
            is_closing: usage.is_some() && (is_empty || choices.is_some_and(is_finished)),
        };
        // In every frame, in one of them, in one of its own: what was said last holds, it is never a sum.
        self.usage = usage.or(self.usage.take());
        Ok(())
    }

    /// The stream's end, and before it the usage if the last frame did not have it.
    fn close(&mut self, out: &mut BytesMut) {
        if !self.last.has_usage {
            out.extend_from_slice(b"data: {");
            out.extend_from_slice(self.identity.as_deref().unwrap_or_default());
            let rest = format!(
                "\"object\":\"chat.completion.chunk\",\"model\":{},\"choices\":[],\"usage\":{}}}\n\n",
                self.served.id_json,
                written_usage(&self.usage()),
            );
            out.extend_from_slice(rest.as_bytes());
        }
        out.extend_from_slice(DONE);
    }
}

/// `id` and `created`, as the beginning of an object.
fn identity(id: Option<&[u8]>, created: Option<&[u8]>) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in [("id", id), ("created", created)] {
        if let Some(value) = value.filter(|value| value.len() <= limits::IDENTITY_BYTES) {
            out.extend_from_slice(format!("\"{name}\":").as_bytes());
            out.extend_from_slice(value);
            out.push(b',');
        }
    }
    out
}

/// What a provider says of usage, if it is believable.
pub(super) fn reported(usage: &[u8]) -> Option<Usage> {
    #[derive(Deserialize)]
    struct Reported {
        #[serde(rename = "prompt_tokens")]
        prompt: Option<u64>,
        #[serde(rename = "completion_tokens")]
        completion: Option<u64>,
        #[serde(rename = "total_tokens")]
        total: Option<u64>,
    }
    let said: Reported = serde_json::from_slice(usage).ok()?;
    let prompt = said.prompt?;
    let completion = said.completion.or_else(|| said.total?.checked_sub(prompt))?;
    let is_believable = prompt.max(completion) <= limits::BELIEVABLE_TOKENS;
    is_believable.then_some(Usage { prompt, completion, estimated: false })
}

/// Usage as `OpenAI` writes it; what is only estimated says so.
pub(super) fn written_usage(usage: &Usage) -> String {
    let Usage { prompt, completion, estimated } = *usage;
    let total = prompt.saturating_add(completion);
    let mark = if estimated { ",\"estimated\":true" } else { "" };
    format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}{mark}}}")
}

/// Whether a frame's choices say why the model stopped.
fn is_finished(choices: &[u8]) -> bool {
    memmem::find_iter(choices, b"\"finish_reason\"").any(|at| {
        let rest = choices.get(at + b"\"finish_reason\"".len()..).unwrap_or_default();
        rest.trim_ascii_start().strip_prefix(b":").is_some_and(|value| value.trim_ascii_start().starts_with(b"\""))
    })
}

/// Where the search for the end of an event stands.
#[derive(Debug, Clone, Copy, Default)]
struct Search {
    /// Where the line begins that is searched now.
    line: usize,
    /// Up to where it was.
    at: usize,
}

impl Search {
    /// How long the event is that `text` begins with, its empty line included. Lines end in LF, CR LF or CR.
    fn event(&mut self, text: &[u8]) -> Option<usize> {
        loop {
            let rest = text.get(self.at..)?;
            let Some(found) = memchr2(b'\n', b'\r', rest) else {
                self.at = text.len();
                return None;
            };
            let end = self.at + found;
            let next = match (text.get(end), text.get(end + 1)) {
                (Some(b'\r'), Some(b'\n')) => end + 2,
                // It may be the first half of CR LF.
                (Some(b'\r'), None) => {
                    self.at = end;
                    return None;
                }
                _ => end + 1,
            };
            if end == self.line {
                return Some(next);
            }
            *self = Self { line: next, at: next };
        }
    }
}

/// An event, read.
struct Event {
    data: Data,
    is_error: bool,
}

enum Data {
    /// A comment, or nothing.
    None,
    /// One line, as everybody sends it: where its value stands.
    Line(Range<usize>),
    /// Several lines, joined.
    Lines(Vec<u8>),
}

impl Event {
    fn read(event: &[u8]) -> Self {
        let mut read = Self { data: Data::None, is_error: false };
        let mut start = 0;
        while start < event.len() {
            let rest = event.get(start..).unwrap_or_default();
            let len = memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
            let line = rest.get(..len).unwrap_or_default();
            if let Some(value) = line.strip_prefix(b"data:") {
                let value = value.strip_prefix(b" ").unwrap_or(value);
                read.add(event, start + len - value.len()..start + len);
            } else if let Some(kind) = line.strip_prefix(b"event:") {
                read.is_error = kind.trim_ascii() == b"error";
            }
            start += len + 1;
        }
        read
    }

    fn add(&mut self, event: &[u8], span: Range<usize>) {
        let value = event.get(span.clone()).unwrap_or_default();
        self.data = match std::mem::replace(&mut self.data, Data::None) {
            // An empty value is no frame, and clients skip it.
            Data::None if value.is_empty() => Data::None,
            Data::None => Data::Line(span),
            Data::Line(first) => Data::Lines([event.get(first).unwrap_or_default(), b" ", value].concat()),
            Data::Lines(mut lines) => {
                // Between two lines stands a line feed, which is white space in JSON, as is this.
                lines.push(b' ');
                lines.extend_from_slice(value);
                Data::Lines(lines)
            }
        };
    }
}

#[cfg(test)]
mod tests;
