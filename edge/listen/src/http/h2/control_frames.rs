//! Limits HTTP/2 frames that request nothing: pings, settings, priorities, window updates. Each costs the sender
//! nothing and us some work, and neither hyper nor h2 limits them.
//!
//! The inspection reads frame headers and does not affect parsing: it can only cause a connection to be ended.

use std::time::Duration;

use limits::{
    H2_CONTROL_FRAMES, H2_CONTROL_FRAMES_PER_REQUEST, H2_CONTROL_FRAMES_PER_SECOND, H2_WINDOW_UPDATE_BYTES,
    H2_WINDOW_UPDATES, H2_WINDOW_UPDATES_PER_WRITE,
};
use tokio::time::Instant;

/// The client's connection preface, before its first frame.
const PREFACE_LEN: usize = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".len();
/// The header of a frame: length, type, flags, stream.
const HEAD_LEN: usize = 9;

const CALM: u32 = 0xb;

/// The classes of frames (RFC 9113, section 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FrameClass {
    /// `HEADERS`: a request, or its trailers.
    Request,
    /// `DATA`: a part of a request's body.
    Data,
    WindowUpdate,
    /// `RST_STREAM`, `PUSH_PROMISE`, `GOAWAY`, `CONTINUATION`, which h2 itself limits, and responses to our pings.
    Bounded,
    /// `PRIORITY`, `SETTINGS`, `PING`, and unknown types.
    Control,
}

impl FrameClass {
    fn classify(kind: u8, flags: u8) -> Self {
        match kind {
            0x0 => Self::Data,
            0x1 => Self::Request,
            0x3 | 0x5 | 0x7 | 0x9 => Self::Bounded,
            0x6 if flags & 0x1 != 0 => Self::Bounded,
            0x8 => Self::WindowUpdate,
            _ => Self::Control,
        }
    }
}

pub(super) struct ControlFrameLimiter {
    /// Bytes before the next frame's header.
    skip: usize,
    /// A header whose rest has not arrived.
    head: [u8; HEAD_LEN],
    head_len: usize,
    /// The newest stream that the client has opened.
    last_stream: u32,
    /// Control frames still allowed, and since when they are counted.
    left: u32,
    since: Option<Instant>,
    /// Window updates still allowed.
    updates_left: u32,
    /// Bytes written that have not yet allowed a window update.
    written: u32,
}

impl Default for ControlFrameLimiter {
    fn default() -> Self {
        Self {
            skip: PREFACE_LEN,
            head: [0; HEAD_LEN],
            head_len: 0,
            last_stream: 0,
            left: H2_CONTROL_FRAMES,
            since: None,
            updates_left: H2_WINDOW_UPDATES,
            written: 0,
        }
    }
}

impl ControlFrameLimiter {
    /// Inspects the next bytes of the client. Returns false once they are a flood.
    pub(super) fn allow(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            let taken = (HEAD_LEN - self.head_len).min(bytes.len());
            if self.skip > 0 || taken == 0 {
                return true;
            }
            self.head[self.head_len..self.head_len + taken].copy_from_slice(&bytes[..taken]);
            self.head_len += taken;
            bytes = &bytes[taken..];
            if self.head_len == HEAD_LEN {
                self.head_len = 0;
                if !self.allow_frame() {
                    return false;
                }
            }
        }
    }

    /// Counts written bytes, for which the client will send window updates.
    pub(super) fn record_written(&mut self, bytes: usize) {
        let written = u32::try_from(bytes).unwrap_or(u32::MAX).saturating_add(self.written);
        self.written = written % H2_WINDOW_UPDATE_BYTES;
        let more = H2_WINDOW_UPDATES_PER_WRITE + written / H2_WINDOW_UPDATE_BYTES;
        self.updates_left = self.updates_left.saturating_add(more);
    }

    pub(super) fn goaway(&self) -> [u8; 2 * HEAD_LEN - 1] {
        let mut frame = [0; 2 * HEAD_LEN - 1];
        frame[2] = 8;
        frame[3] = 0x7;
        frame[9..13].copy_from_slice(&self.last_stream.to_be_bytes());
        frame[13..].copy_from_slice(&CALM.to_be_bytes());
        frame
    }

    fn allow_frame(&mut self) -> bool {
        let [a, b, c, kind, flags, stream @ ..] = self.head;
        let length = u32::from_be_bytes([0, a, b, c]);
        self.skip = usize::try_from(length).unwrap_or(usize::MAX);
        match FrameClass::classify(kind, flags) {
            FrameClass::Request => {
                self.last_stream = self.last_stream.max(u32::from_be_bytes(stream) & (u32::MAX >> 1));
                self.grant_frames();
                true
            }
            FrameClass::Data => {
                // An empty frame brings no data; h2 limits those.
                if length > 0 {
                    self.grant_frames();
                }
                true
            }
            FrameClass::WindowUpdate => take_one(&mut self.updates_left),
            FrameClass::Bounded => true,
            FrameClass::Control => {
                self.refill();
                take_one(&mut self.left)
            }
        }
    }

    /// Allows control frames for a request, or a part of one.
    fn grant_frames(&mut self) {
        self.left = (self.left + H2_CONTROL_FRAMES_PER_REQUEST).min(H2_CONTROL_FRAMES);
    }

    /// Allows control frames for elapsed time. Called only when a control frame arrives.
    fn refill(&mut self) {
        let now = Instant::now();
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        let each = Duration::from_secs(1) / H2_CONTROL_FRAMES_PER_SECOND;
        let more = u32::try_from((now - since).as_nanos() / each.as_nanos()).unwrap_or(u32::MAX);
        if more > 0 {
            self.since = Some(since + each.saturating_mul(more));
            self.left = self.left.saturating_add(more).min(H2_CONTROL_FRAMES);
        }
    }
}

fn take_one(left: &mut u32) -> bool {
    match left.checked_sub(1) {
        Some(fewer) => {
            *left = fewer;
            true
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    fn begun() -> ControlFrameLimiter {
        let mut frames = ControlFrameLimiter::default();
        assert!(frames.allow(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
        frames
    }

    fn allowed(frames: &mut ControlFrameLimiter, frame: &[u8], most: u32) -> u32 {
        (0..most).find(|_| !frames.allow(frame)).unwrap_or(most)
    }

    const MANY: u32 = 20_000;
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    const WINDOW_UPDATE: u8 = 8;
    const ACK: u8 = 1;

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_seen_and_a_steady_pace_is_none() {
        for kind in [PING, 4, 2, 0x10, 0xff] {
            let ping = frame(kind, 0, 0, &[0; 8]);
            assert_eq!(allowed(&mut begun(), &ping, MANY), H2_CONTROL_FRAMES, "{kind}");
        }
        let (mut steady, ping) = (begun(), frame(PING, 0, 0, &[0; 8]));
        for _ in 0..1_000 {
            assert!(steady.allow(&ping));
            tokio::time::advance(Duration::from_secs(1) / H2_CONTROL_FRAMES_PER_SECOND).await;
        }
        assert_eq!(allowed(&mut begun(), &frame(PING, ACK, 0, &[0; 8]), MANY), MANY, "answers to our own");
    }

    #[test]
    fn requests_may_come_with_some() {
        let mut frames = begun();
        let request = [frame(HEADERS, 5, 1, &[0x82; 30]), frame(2, 0, 1, &[0; 5]), frame(PING, 0, 0, &[0; 8])].concat();
        assert_eq!(allowed(&mut frames, &request, MANY), MANY);
        assert_eq!(frames.goaway()[9..13], 1_u32.to_be_bytes());
    }

    #[test]
    fn frames_are_counted_however_they_arrive() {
        let one = [frame(DATA, 0, 1, &[PING; 1_000]), frame(PING, 0, 0, &[0; 8])].concat();
        let mut frames = begun();
        frames.left = 1;
        for byte in &one[..one.len() - 1] {
            assert!(frames.allow(std::slice::from_ref(byte)));
        }
        let stream: Vec<u8> = frame(PING, 0, 0, &[0; 8]).repeat(usize::try_from(MANY).unwrap());
        for size in [1, 7, 9, 17, 1_000] {
            let mut frames = begun();
            let read = stream.chunks(size).take_while(|chunk| frames.allow(chunk)).map(<[u8]>::len).sum::<usize>();
            let expected = usize::try_from(H2_CONTROL_FRAMES).unwrap() * 17;
            assert!(read.abs_diff(expected) <= size + 17, "{size}: {read}");
        }
    }

    #[test]
    fn window_updates_follow_what_was_sent() {
        let update = frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]);
        assert_eq!(allowed(&mut begun(), &update, MANY), H2_WINDOW_UPDATES);
        let mut frames = begun();
        for _ in 0..10_000 {
            frames.record_written(16 * 1024);
            assert_eq!(allowed(&mut frames, &update, 20), 20);
        }
    }
}
