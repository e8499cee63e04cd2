//! Inspects the heads of HTTP/1.1 requests for two things that hyper does not expose: whether a request states its
//! length in two ways, and whether cookies make up most of a head.
//!
//! hyper uses `Transfer-Encoding` and drops `Content-Length`. A proxy in front of us may use the other one, and the two
//! would disagree about where the next request starts (RFC 9112, section 6.3).
//!
//! The inspection does not affect parsing: it can only cause a request to be refused, and tell more about why a head
//! was. It stops after a chunked request, so such a request must be its connection's last.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use limits::{HEAD_BYTES, HEAD_LINE_BYTES};
use memchr::memchr;
use tokio::io::AsyncRead;
use tokio_util::io::InspectReader;

const COOKIE: &[u8] = b"cookie:";

#[derive(Default)]
pub(super) struct HeadFindings {
    /// Whether a chunked request has stated a length as well, or may have.
    pub(super) ambiguous: Arc<AtomicBool>,
    /// Whether cookies in the current head exceed half of the maximum of a head.
    pub(super) cookies: AtomicBool,
}

/// Returns the stream for hyper, which updates `heads` with what was read.
pub(super) fn watched<S: AsyncRead>(stream: S, heads: Arc<HeadFindings>) -> InspectReader<S, impl FnMut(&[u8])> {
    let mut watch = HeadInspector::default();
    InspectReader::new(stream, move |bytes| {
        let before = watch.has_many_cookies();
        if watch.is_ambiguous_after(bytes) {
            heads.ambiguous.store(true, Ordering::Relaxed);
        }
        if watch.has_many_cookies() != before {
            heads.cookies.store(!before, Ordering::Relaxed);
        }
    })
}

#[derive(Default)]
struct HeadInspector {
    at: HeadPosition,
    line: Vec<u8>,
    length: Option<StatedLength>,
    in_chunks: bool,
    /// Bytes of cookie lines in the current head.
    cookies: usize,
}

#[derive(Default, Clone, Copy)]
enum HeadPosition {
    /// Before a request: empty lines are skipped there.
    #[default]
    Start,
    Head,
    /// In a body: the bytes before the next request.
    Body(u64),
    /// The start of the next request is unknown.
    Lost,
}

#[derive(Clone, Copy)]
enum StatedLength {
    Bytes(u64),
    Unreadable,
}

impl HeadInspector {
    /// Inspects the next bytes. Returns whether any request so far was chunked and stated a length as well, or may
    /// have: after a length that we cannot parse, though hyper perhaps can, the requests that follow are unknown.
    fn is_ambiguous_after(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match self.at {
                HeadPosition::Lost => break,
                HeadPosition::Body(left) => {
                    let skipped = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    bytes = &bytes[skipped..];
                    let left = left - skipped as u64;
                    self.at = if left == 0 { HeadPosition::Start } else { HeadPosition::Body(left) };
                }
                HeadPosition::Start | HeadPosition::Head => match memchr(b'\n', bytes) {
                    None => {
                        self.keep(bytes);
                        break;
                    }
                    Some(end) => {
                        let (line, rest) = bytes.split_at(end);
                        bytes = rest.get(1..).unwrap_or_default();
                        if self.line.is_empty() {
                            if matches!(self.at, HeadPosition::Head) && is_cookie(line) {
                                self.cookies += line.len();
                            }
                            self.read(line);
                        } else {
                            self.keep(line);
                            let line = std::mem::take(&mut self.line);
                            self.read(&line);
                        }
                    }
                },
            }
        }
        match self.length {
            Some(StatedLength::Bytes(_)) => self.in_chunks,
            Some(StatedLength::Unreadable) => true,
            None => false,
        }
    }

    fn has_many_cookies(&self) -> bool {
        self.cookies > HEAD_BYTES / 2
    }

    fn keep(&mut self, part: &[u8]) {
        let room = HEAD_LINE_BYTES - self.line.len();
        self.line.extend_from_slice(&part[..part.len().min(room)]);
        if matches!(self.at, HeadPosition::Head) && is_cookie(&self.line) {
            self.cookies += part.len();
        }
    }

    fn read(&mut self, line: &[u8]) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        match self.at {
            HeadPosition::Start if line.is_empty() => {}
            HeadPosition::Start => self.at = HeadPosition::Head,
            _ if line.is_empty() => self.end_head(),
            _ => self.read_field(line),
        }
    }

    fn end_head(&mut self) {
        self.cookies = 0;
        if self.in_chunks {
            self.at = HeadPosition::Lost;
            return;
        }
        self.at = match self.length.take() {
            None | Some(StatedLength::Bytes(0)) => HeadPosition::Start,
            Some(StatedLength::Bytes(length)) => HeadPosition::Body(length),
            Some(StatedLength::Unreadable) => {
                self.length = Some(StatedLength::Unreadable);
                HeadPosition::Lost
            }
        };
    }

    fn read_field(&mut self, line: &[u8]) {
        // Nearly every line ends here.
        if !matches!(line[0], b'C' | b'c' | b'T' | b't') {
            return;
        }
        let Some(colon) = memchr(b':', line) else { return };
        let (name, value) = (&line[..colon], &line[colon + 1..]);
        if name.eq_ignore_ascii_case(b"transfer-encoding") {
            self.in_chunks = true;
        } else if name.eq_ignore_ascii_case(b"content-length") {
            let digits = std::str::from_utf8(value).ok().map(str::trim).filter(|text| !text.starts_with('+'));
            // A line that arrived in parts may have been truncated there.
            let length = digits.filter(|_| line.len() < HEAD_LINE_BYTES).and_then(|text| text.parse().ok());
            self.length = Some(length.map_or(StatedLength::Unreadable, StatedLength::Bytes));
        }
    }
}

fn is_cookie(line: &[u8]) -> bool {
    line.get(..COOKIE.len()).is_some_and(|name| name.eq_ignore_ascii_case(COOKIE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AMBIGUOUS: [&str; 6] = [
        "POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\ncontent-length: 0\r\n\r\n0\r\n\r\n",
        "\r\n\r\nGET / HTTP/1.1\nTRANSFER-ENCODING:chunked\nCONTENT-LENGTH:5\n\n",
        "GET / HTTP/1.1\r\nhost: a\r\n\r\nPOST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 10\r\n\r\nno\r\n\r\nheadPOST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: x\r\ntransfer-encoding: chunked\r\n\r\n",
    ];
    const CLEAR: [&str; 5] = [
        "GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n5\r\ncontent-length: 5\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 5\r\n\r\nhelloPOST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\ncontent-length: 28\r\n\r\ntransfer-encoding: chunked\r\nGET / HTTP/1.1\r\n\r\n",
        "POST / HTTP/1.1\r\nx-content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n",
    ];

    #[test]
    fn two_lengths_are_seen_however_the_bytes_arrive() {
        for (requests, expected) in [(&AMBIGUOUS[..], true), (&CLEAR[..], false)] {
            for request in requests {
                for step in [1, 2, 3, 7, request.len()] {
                    let mut watch = HeadInspector::default();
                    let seen = request.as_bytes().chunks(step).any(|part| watch.is_ambiguous_after(part));
                    assert_eq!(seen, expected, "{request:?} in steps of {step}");
                }
            }
        }
    }

    #[test]
    fn a_length_that_cannot_be_read_is_no_length_to_go_on_by() {
        let padded = format!("content-length:{}5", " ".repeat(HEAD_LINE_BYTES));
        for line in [padded.as_str(), "content-length: five", "content-length: +5", "content-length: 5, 5"] {
            let request = format!("POST / HTTP/1.1\r\n{line}\r\n\r\nhello");
            for step in [1, 7, request.len()] {
                let mut watch = HeadInspector::default();
                assert!(
                    request.as_bytes().chunks(step).any(|part| watch.is_ambiguous_after(part)),
                    "{line:?} by {step}"
                );
            }
        }
    }

    #[test]
    fn an_endless_line_is_not_kept() {
        let mut watch = HeadInspector::default();
        for _ in 0..1_000 {
            watch.is_ambiguous_after(&[b'x'; 1_000]);
        }
        assert!(watch.line.len() <= HEAD_LINE_BYTES);
    }
}
