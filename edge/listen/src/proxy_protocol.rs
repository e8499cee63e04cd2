//! The PROXY protocol, versions 1 and 2, in which a TCP load balancer names the client of a connection.
//!
//! Only connections from `edge.proxy_protocol_from` start with such a header, and all of them must: without it, all
//! visitors of a balancer would be the same client, and visitors who could send one could claim any address. The header
//! is read to its last byte and no further. The protocol:
//! <https://www.haproxy.org/download/3.2/doc/proxy-protocol.txt>.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The start of a version 2 header.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// The start of a version 1 header.
const WORD: &[u8] = b"PROXY ";
const LINE_END: &[u8] = b"\r\n";
/// Bytes of the signature, of version and command, of family and transport, and of the length of the rest.
const FIXED_LEN: usize = 16;
/// Bytes of the addresses and ports of a TCP connection over IPv4 and IPv6.
const V4_LEN: usize = 12;
const V6_LEN: usize = 36;
/// Bytes of the longest version 1 header.
const LINE_LEN: usize = 107;

/// The origin of a balancer's connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxySource {
    /// The client at this address.
    Client(IpAddr),
    /// The balancer itself, which checks whether the edge is up, or a client without an IP address.
    Balancer,
}

/// Why a connection has no usable header.
#[derive(Debug, thiserror::Error)]
pub enum ProxyHeaderError {
    /// It does not start with a well-formed header of the protocol.
    #[error("the connection does not begin with a header of the PROXY protocol")]
    Malformed,
    /// The header is longer than any balancer sends it.
    #[error("the header of the PROXY protocol is too long")]
    TooLong,
    /// The connection ended or failed within the header.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The state of parsing a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderProgress {
    /// At least this many bytes are missing, all of which belong to the header.
    Needs(usize),
    /// The header is complete.
    Complete(ProxySource),
}

/// Reads the header at the start of `stream`, and nothing after it.
pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Result<ProxySource, ProxyHeaderError> {
    let mut header = Vec::with_capacity(LINE_LEN);
    loop {
        match parse(&header)? {
            HeaderProgress::Complete(source) => return Ok(source),
            HeaderProgress::Needs(missing) => {
                let read = header.len();
                header.resize(read + missing, 0);
                stream.read_exact(&mut header[read..]).await?;
            }
        }
    }
}

/// Parses the first bytes of a connection.
pub fn parse(header: &[u8]) -> Result<HeaderProgress, ProxyHeaderError> {
    if let Some(missing) = SIGNATURE.len().checked_sub(header.len()).filter(|missing| *missing > 0) {
        return Ok(HeaderProgress::Needs(missing));
    }
    if header.starts_with(&SIGNATURE) {
        parse_binary(header)
    } else if header.starts_with(WORD) {
        parse_line(header)
    } else {
        Err(ProxyHeaderError::Malformed)
    }
}

fn parse_binary(header: &[u8]) -> Result<HeaderProgress, ProxyHeaderError> {
    let Some((fixed, rest)) = header.split_first_chunk::<FIXED_LEN>() else {
        return Ok(HeaderProgress::Needs(FIXED_LEN - header.len()));
    };
    let [.., version_and_command, family_and_transport, high, low] = *fixed;
    let len = usize::from(u16::from_be_bytes([high, low]));
    if version_and_command >> 4 != 2 {
        return Err(ProxyHeaderError::Malformed);
    }
    if len > limits::PROXY_HEADER_BYTES {
        return Err(ProxyHeaderError::TooLong);
    }
    let Some(rest) = rest.get(..len) else { return Ok(HeaderProgress::Needs(len - rest.len())) };
    let source = match (version_and_command & 0xf, family_and_transport) {
        // LOCAL, whose rest must be ignored; or an unspecified protocol, or a Unix socket.
        (0, _) | (1, 0x00 | 0x31) => ProxySource::Balancer,
        // TCP over IPv4 and IPv6. TLVs may follow the addresses; none is needed.
        (1, 0x11) if len >= V4_LEN => match rest.first_chunk::<4>() {
            Some(address) => client(Ipv4Addr::from(*address)),
            None => return Err(ProxyHeaderError::Malformed),
        },
        (1, 0x21) if len >= V6_LEN => match rest.first_chunk::<16>() {
            Some(address) => client(Ipv6Addr::from(*address)),
            None => return Err(ProxyHeaderError::Malformed),
        },
        _ => return Err(ProxyHeaderError::Malformed),
    };
    Ok(HeaderProgress::Complete(source))
}

fn parse_line(header: &[u8]) -> Result<HeaderProgress, ProxyHeaderError> {
    let Some(end) = header.windows(LINE_END.len()).position(|bytes| bytes == LINE_END) else {
        // Searched byte by byte, because the bytes after the end are not part of the header.
        return if header.len() < LINE_LEN { Ok(HeaderProgress::Needs(1)) } else { Err(ProxyHeaderError::TooLong) };
    };
    if end + LINE_END.len() != header.len() {
        return Err(ProxyHeaderError::Malformed);
    }
    let line = str::from_utf8(&header[WORD.len()..end]).map_err(|_| ProxyHeaderError::Malformed)?;
    let source = match line.split(' ').collect::<Vec<_>>()[..] {
        // The rest must be ignored.
        ["UNKNOWN", ..] => ProxySource::Balancer,
        ["TCP4", from, to, from_port, to_port] => connection::<Ipv4Addr>([from, to], [from_port, to_port])?,
        ["TCP6", from, to, from_port, to_port] => connection::<Ipv6Addr>([from, to], [from_port, to_port])?,
        _ => return Err(ProxyHeaderError::Malformed),
    };
    Ok(HeaderProgress::Complete(source))
}

fn connection<A: FromStr + Into<IpAddr>>(
    addresses: [&str; 2],
    ports: [&str; 2],
) -> Result<ProxySource, ProxyHeaderError> {
    let is_port = |port: &&str| port.bytes().all(|digit| digit.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let [Ok(from), Ok(_)] = addresses.map(A::from_str) else { return Err(ProxyHeaderError::Malformed) };
    if ports.iter().all(is_port) { Ok(client(from)) } else { Err(ProxyHeaderError::Malformed) }
}

fn client(address: impl Into<IpAddr>) -> ProxySource {
    ProxySource::Client(address.into().to_canonical())
}

/// Checks invariants for any first bytes of a connection, and returns the violated one. For fuzzing.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let most = FIXED_LEN + limits::PROXY_HEADER_BYTES;
    let mut read = 0;
    // Like `read`: each step requests only bytes of the header.
    loop {
        let Some(header) = bytes.get(..read) else { return Ok(()) };
        match parse(header) {
            Err(_) => return Ok(()),
            Ok(HeaderProgress::Complete(ProxySource::Client(address))) if address != address.to_canonical() => {
                return Err(format!("{address} is an IPv4 address in the form of another"));
            }
            Ok(HeaderProgress::Complete(_)) => {
                let shorter = parse(&header[..header.len() - 1]);
                return match shorter {
                    Ok(HeaderProgress::Needs(1..)) => Ok(()),
                    other => Err(format!("a header without its last byte is {other:?}")),
                };
            }
            Ok(HeaderProgress::Needs(0)) => return Err("nothing is missing, and it is not complete".to_owned()),
            Ok(HeaderProgress::Needs(missing)) => read += missing,
        }
        if read > most {
            return Err(format!("{read} bytes are read for a header"));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn binary(version_and_command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let len = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[version_and_command, family], &len, rest].concat()
    }

    /// Returns what is read of `bytes`, and the rest.
    async fn read_header(mut bytes: &[u8]) -> (Result<ProxySource, ProxyHeaderError>, &[u8]) {
        let source = read(&mut bytes).await;
        (source, bytes)
    }

    #[tokio::test]
    async fn a_header_names_the_client_and_nothing_behind_it_is_read() {
        let v4 = binary(0x21, 0x11, &[203, 0, 113, 7, 10, 0, 0, 1, 0xd4, 0x31, 1, 0xbb]);
        let v6 = {
            let [from, to] = ["2001:db8::7", "2001:db8::1"].map(|text| text.parse::<Ipv6Addr>().unwrap().octets());
            // With a TLV after the addresses.
            binary(0x21, 0x21, &[&from[..], &to, &[0, 1, 0, 2], &[4, 0, 3, 1, 2, 3]].concat())
        };
        let mapped = {
            let from = "::ffff:203.0.113.7".parse::<Ipv6Addr>().unwrap().octets();
            binary(0x21, 0x21, &[&from[..], &[0; 20]].concat())
        };
        let client = |text: &str| ProxySource::Client(text.parse().unwrap());
        for (header, expected) in [
            (v4, client("203.0.113.7")),
            (v6, client("2001:db8::7")),
            (mapped, client("203.0.113.7")),
            (binary(0x20, 0x11, &[203, 0, 113, 7, 10, 0, 0, 1, 0, 1, 0, 2]), ProxySource::Balancer),
            (binary(0x20, 0x00, &[]), ProxySource::Balancer),
            (binary(0x21, 0x00, &[]), ProxySource::Balancer),
            (binary(0x21, 0x31, &[b'/'; 216]), ProxySource::Balancer),
            (b"PROXY TCP4 203.0.113.7 10.0.0.1 56324 443\r\n".to_vec(), client("203.0.113.7")),
            (b"PROXY TCP6 2001:db8::7 2001:db8::1 56324 443\r\n".to_vec(), client("2001:db8::7")),
            (b"PROXY UNKNOWN\r\n".to_vec(), ProxySource::Balancer),
            (b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n".to_vec(), ProxySource::Balancer),
        ] {
            let behind = b"\x16\x03\x01GET / HTTP/1.1\r\n";
            let bytes = [&header[..], behind].concat();
            let (source, left) = read_header(&bytes).await;
            assert_eq!((source.unwrap(), left), (expected, &behind[..]), "{header:?}");
            // An incomplete header waits for the rest.
            assert!(matches!(parse(&header[..header.len() - 1]), Ok(HeaderProgress::Needs(_))), "{header:?}");
        }
    }

    #[tokio::test]
    async fn what_is_no_header_is_refused() {
        let long = [b"PROXY TCP4 ".to_vec(), vec![b'1'; 200]].concat();
        for bytes in [
            &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\x00",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 56324 +443\r\n",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 56324 65536\r\n",
            b"PROXY TCP4 2001:db8::7 2001:db8::1 1 2\r\n",
            b"PROXY TCP4 203.0.113.7 10.0.0.1 56324\r\n",
            b"PROXY TCP4 203.0.113.7  10.0.0.1 1 2\r\n",
            b"PROXY UDP4 203.0.113.7 10.0.0.1 1 2\r\n",
            b"proxy tcp4 203.0.113.7 10.0.0.1 1 2\r\n",
            &binary(0x11, 0x11, &[0; 12]),
            &binary(0x22, 0x11, &[0; 12]),
            &binary(0x21, 0x11, &[0; 11]),
            &binary(0x21, 0x21, &[0; 35]),
            &binary(0x21, 0x12, &[0; 12]),
            &binary(0x21, 0x11, &[0; 5_000]),
            &long,
        ] {
            let (source, _) = read_header(bytes).await;
            assert!(
                matches!(source, Err(ProxyHeaderError::Malformed | ProxyHeaderError::TooLong)),
                "{source:?} of {bytes:?}"
            );
        }
        assert!(matches!(read_header(b"PROXY TCP4 203").await.0, Err(ProxyHeaderError::Io(_))));
    }

    proptest! {
        #[test]
        fn progress_is_honest(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0..4_u8, at in any::<usize>()) {
            let start: &[u8] = match kind {
                0 => b"PROXY TCP4 1.2.3.4 ",
                1 => b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x20",
                2 => b"\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x40",
                _ => b"",
            };
            bytes.splice(..0, start.iter().copied());
            prop_assert_eq!(check(&bytes), Ok(()));
            bytes.truncate(at % (bytes.len() + 1));
            prop_assert_eq!(check(&bytes), Ok(()));
        }
    }
}
