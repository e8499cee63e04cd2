//! HTTP/2 frames as bytes, for connections without an HTTP/2 library.

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Returns the HPACK encoding of `GET / https` at the site: indexed fields, then a literal `:authority`.
pub fn get(host: &str) -> Vec<u8> {
    let mut block = vec![0x82, 0x84, 0x87, 0x01, u8::try_from(host.len()).unwrap()];
    block.extend(host.as_bytes());
    block
}

pub fn start() -> Vec<u8> {
    [PREFACE, &frame(4, 0, 0, &[])].concat()
}

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const PRIORITY: u8 = 2;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;
pub const CONTINUATION: u8 = 9;
pub const ACK: u8 = 1;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;
