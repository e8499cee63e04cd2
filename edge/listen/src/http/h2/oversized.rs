//! Answers requests whose heads are too large only because of cookies.
//!
//! The script of any site may set cookies for every site of its domain (`Domain=`), including the console: as many as a
//! browser keeps, which is far more than a head may have. The HTTP/2 parser refuses such heads with a bare 431 or ends
//! the connection, so the browser would be locked out until its user finds out how to delete cookies. Here they are
//! answered with a page that explains it and has the browser clear the cookies (`Clear-Site-Data`), so that the next
//! request succeeds.
//!
//! Only frame headers and the lengths within a head are inspected: nothing of a head is kept, however large it is.
//! After such a head the connection accepts nothing more, since the parser above has not seen the end of the head.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
};

use front::ResponseForm;
use http::header::HeaderMap;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// The connection preface (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

enum FrameType {
    Data = 0,
    Headers = 1,
    GoAway = 7,
    Continuation = 9,
}

enum FrameFlag {
    EndStream = 0x1,
    EndHeaders = 0x4,
    Padded = 0x8,
    Priority = 0x20,
}

/// A stream for the HTTP/2 parser that answers such requests.
pub(in crate::http) struct CookieHeadGuard<S> {
    inner: S,
    /// `None` if we may not clear the cookies.
    watch: Option<Box<HeadGuardState>>,
    refusal: Option<Box<HeadRejection>>,
}

struct HeadGuardState {
    form: ResponseForm,
    incoming: IncomingFrames,
    outgoing: FrameCursor,
    /// Whether we have sent anything: a response must not precede the first frame, which is the settings.
    has_begun: bool,
}

impl HeadGuardState {
    fn new(form: ResponseForm) -> Self {
        let (incoming, outgoing, has_begun) = Default::default();
        Self { form, incoming, outgoing, has_begun }
    }
}

struct HeadRejection {
    answer: Vec<u8>,
    written: usize,
    /// Bytes read since and discarded, so that a reset does not lose the response.
    drained: usize,
    deadline: Pin<Box<Sleep>>,
}

impl<S> CookieHeadGuard<S> {
    /// Wraps a stream; `own_form` is the form of responses at the connection's host, if we may clear its cookies.
    pub(in crate::http) fn new(inner: S, own_form: Option<ResponseForm>) -> Self {
        Self { inner, watch: own_form.map(|form| Box::new(HeadGuardState::new(form))), refusal: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> CookieHeadGuard<S> {
    /// Writes the response, as soon as it would not interrupt another frame.
    fn poll_answer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let (Some(refusal), Some(watch)) = (&mut self.refusal, &self.watch) else { return Poll::Ready(Ok(())) };
        if refusal.written == 0 && !(watch.has_begun && watch.outgoing.is_between_frames()) {
            return Poll::Ready(Ok(()));
        }
        while refusal.written < refusal.answer.len() {
            let written = ready!(Pin::new(&mut self.inner).poll_write(cx, &refusal.answer[refusal.written..]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            refusal.written += written;
        }
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    /// Discards input until the visitor disconnects or a limit is reached. Then the parser may end the connection.
    fn poll_drained(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.poll_answer(cx) {
            return Poll::Ready(Err(error));
        }
        let Some(refusal) = &mut self.refusal else { return Poll::Ready(Ok(())) };
        let mut scratch = [0; limits::HEAD_DRAIN_BYTES];
        while refusal.drained < limits::UNWANTED_BODY_BYTES {
            let mut read = ReadBuf::new(&mut scratch);
            match Pin::new(&mut self.inner).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) if !read.filled().is_empty() => refusal.drained += read.filled().len(),
                Poll::Ready(ended) => return Poll::Ready(ended),
                Poll::Pending => break,
            }
        }
        refusal.deadline.as_mut().poll(cx).map(Ok)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for CookieHeadGuard<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.refusal.is_none() {
            let before = buf.filled().len();
            ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
            let new = &buf.filled()[before..];
            let Some(watch) = this.watch.as_mut() else { return Poll::Ready(Ok(())) };
            let Some(found) = watch.incoming.oversized_head(new) else { return Poll::Ready(Ok(())) };
            buf.set_filled(before + found.at);
            this.refusal = Some(Box::new(HeadRejection {
                answer: answer(found.stream, watch.form),
                written: 0,
                drained: 0,
                deadline: Box::pin(sleep(limits::LINGER)),
            }));
            if found.at > 0 {
                return Poll::Ready(Ok(()));
            }
        }
        this.poll_drained(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for CookieHeadGuard<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_answer(cx))?;
        let written = ready!(Pin::new(&mut this.inner).poll_write_vectored(cx, bufs))?;
        if let Some(watch) = &mut this.watch {
            watch.has_begun |= written > 0;
            let mut left = written;
            for buf in bufs {
                let mut part = &buf[..buf.len().min(left)];
                left -= part.len();
                while watch.outgoing.next_piece(&mut part).is_some() {}
            }
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_answer(cx))?;
        Pin::new(&mut this.inner).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(cx)
    }
}

#[derive(Default)]
struct FrameCursor {
    partial: [u8; 9],
    has: usize,
    frame: FrameHeader,
    left: usize,
}

#[derive(Default, Clone, Copy)]
struct FrameHeader {
    len: usize,
    kind: u8,
    flags: u8,
    stream: u32,
}

enum FramePiece<'b> {
    Header(FrameHeader),
    Payload(FrameHeader, &'b [u8]),
}

impl FrameCursor {
    fn is_between_frames(&self) -> bool {
        self.has == 0 && self.left == 0
    }

    /// Takes the next part of a frame from `bytes`; `None` when they are used up.
    fn next_piece<'b>(&mut self, bytes: &mut &'b [u8]) -> Option<FramePiece<'b>> {
        if self.left > 0 {
            let (part, rest) = bytes.split_at(self.left.min(bytes.len()));
            (self.left, *bytes) = (self.left - part.len(), rest);
            return (!part.is_empty()).then_some(FramePiece::Payload(self.frame, part));
        }
        let (part, rest) = bytes.split_at((self.partial.len() - self.has).min(bytes.len()));
        self.partial[self.has..self.has + part.len()].copy_from_slice(part);
        (self.has, *bytes) = (self.has + part.len(), rest);
        if self.has < self.partial.len() {
            return None;
        }
        let [a, b, c, kind, flags, stream @ ..] = self.partial;
        let len = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        self.frame = FrameHeader { len, kind, flags, stream: u32::from_be_bytes(stream) & (u32::MAX >> 1) };
        (self.has, self.left) = (0, len);
        Some(FramePiece::Header(self.frame))
    }
}

#[derive(Default)]
struct IncomingFrames {
    preface: usize,
    frames: FrameCursor,
    /// Bytes of the current head, across its frames.
    head: usize,
    /// Bytes of its first frame that precede it.
    lead: usize,
    is_padded: bool,
    fields: HpackLengths,
}

struct OversizedHead {
    stream: u32,
    /// The offset, in the inspected bytes, of the frame that exceeds the limit.
    at: usize,
}

impl IncomingFrames {
    fn oversized_head(&mut self, all: &[u8]) -> Option<OversizedHead> {
        let skipped = (PREFACE.len() - self.preface).min(all.len());
        self.preface += skipped;
        let mut bytes = &all[skipped..];
        while let Some(piece) = self.frames.next_piece(&mut bytes) {
            match piece {
                FramePiece::Header(frame) if frame.kind == FrameType::Headers as u8 => {
                    self.head = frame.len;
                    self.lead = if frame.flags & FrameFlag::Priority as u8 == 0 { 0 } else { 5 };
                    self.is_padded = frame.flags & FrameFlag::Padded as u8 != 0;
                    self.fields = HpackLengths::default();
                }
                FramePiece::Header(frame) if frame.kind == FrameType::Continuation as u8 => {
                    self.head = self.head.saturating_add(frame.len);
                    // A field longer than any cookie is not caused by cookies, and anybody can make one: following a
                    // link with a long address must not sign a person out.
                    let by_cookies = !self.is_padded && self.fields.longest <= limits::COOKIE_BYTES;
                    if self.head > limits::HEAD_BLOCK_BYTES && by_cookies {
                        let at = (all.len() - bytes.len()).saturating_sub(self.frames.partial.len());
                        return Some(OversizedHead { stream: frame.stream, at });
                    }
                }
                FramePiece::Payload(frame, part)
                    if [FrameType::Headers as u8, FrameType::Continuation as u8].contains(&frame.kind) =>
                {
                    let lead = self.lead.min(part.len());
                    self.lead -= lead;
                    self.fields.read(&part[lead..]);
                }
                _ => {}
            }
        }
        None
    }
}

/// Reads the lengths of a head's fields in HPACK (RFC 7541), which requires no table.
#[derive(Default)]
struct HpackLengths {
    at: HpackPosition,
    /// Remaining strings of the current field.
    strings: u8,
    /// The longest string so far, as encoded.
    longest: usize,
}

#[derive(Default, Clone, Copy)]
enum HpackPosition {
    /// Before a field.
    #[default]
    Field,
    /// In an integer that did not fit into its first byte: the value so far, and its number of bits.
    Number { value: usize, bits: u32, is_length: bool },
    /// Before a string.
    Text,
    /// In a string, with its remaining bytes.
    InText(usize),
}

impl HpackLengths {
    fn read(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            if let HpackPosition::InText(left) = self.at {
                let passed = left.min(bytes.len());
                bytes = &bytes[passed..];
                self.at = if passed == left { self.next() } else { HpackPosition::InText(left - passed) };
                continue;
            }
            bytes = rest;
            self.at = match self.at {
                HpackPosition::Field => {
                    let (mask, is_literal) = match byte {
                        0x80.. => (0x7f, false),
                        0x40..0x80 => (0x3f, true),
                        0x20..0x40 => (0x1f, false),
                        _ => (0x0f, true),
                    };
                    let index = byte & mask;
                    self.strings = match (is_literal, index) {
                        (false, _) => 0,
                        (true, 0) => 2,
                        (true, _) => 1,
                    };
                    if index == mask {
                        HpackPosition::Number { value: 0, bits: 0, is_length: false }
                    } else {
                        self.next()
                    }
                }
                HpackPosition::Text => {
                    self.strings -= 1;
                    match usize::from(byte & 0x7f) {
                        0x7f => HpackPosition::Number { value: 0x7f, bits: 0, is_length: true },
                        len => self.text(len),
                    }
                }
                HpackPosition::Number { value, bits, is_length } => {
                    // An integer of more than four bytes exceeds any length.
                    let value = if bits > 21 { usize::MAX } else { value + (usize::from(byte & 0x7f) << bits) };
                    match (byte & 0x80 != 0, is_length) {
                        (true, _) => HpackPosition::Number { value, bits: (bits + 7).min(28), is_length },
                        (false, true) => self.text(value),
                        (false, false) => self.next(),
                    }
                }
                HpackPosition::InText(_) => self.at,
            };
        }
    }

    fn text(&mut self, len: usize) -> HpackPosition {
        self.longest = self.longest.max(len);
        if len == 0 { self.next() } else { HpackPosition::InText(len) }
    }

    fn next(&self) -> HpackPosition {
        if self.strings > 0 { HpackPosition::Text } else { HpackPosition::Field }
    }
}

fn answer(stream: u32, form: ResponseForm) -> Vec<u8> {
    let (headers, html) = front::cookies_too_large(form);
    let mut bytes = frame(FrameType::Headers as u8, FrameFlag::EndHeaders as u8, stream, &head(&headers));
    bytes.extend(frame(FrameType::Data as u8, FrameFlag::EndStream as u8, stream, &html));
    bytes.extend(frame(FrameType::GoAway as u8, 0, 0, &[stream.to_be_bytes(), [0; 4]].concat()));
    bytes
}

/// Encodes a frame. The payload must be short: a page of ours.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, len @ ..] = u32::try_from(payload.len()).unwrap_or_default().to_be_bytes();
    [&len, &[kind, flags][..], &stream.to_be_bytes(), payload].concat()
}

/// Encodes a head with status 431 in literals without indexing: the HPACK table belongs to h2.
fn head(headers: &HeaderMap) -> Vec<u8> {
    // `:status` is the eighth entry of the static table.
    let mut head = vec![8];
    write_text(&mut head, b"431");
    for (name, value) in headers {
        head.push(0);
        write_text(&mut head, name.as_str().as_bytes());
        write_text(&mut head, value.as_bytes());
    }
    head
}

fn write_text(head: &mut Vec<u8>, text: &[u8]) {
    match text.len().checked_sub(0x7f) {
        None => head.push(u8::try_from(text.len()).unwrap_or_default()),
        Some(mut rest) => {
            head.push(0x7f);
            while rest >= 0x80 {
                head.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
                rest >>= 7;
            }
            head.push(u8::try_from(rest).unwrap_or_default());
        }
    }
    head.extend_from_slice(text);
}

#[cfg(test)]
mod tests;
