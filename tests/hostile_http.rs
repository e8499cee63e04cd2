//! Requests that nobody decent sends: each gets a 4xx or a closed connection, and the neighbours notice nothing.

use std::{fmt::Write as _, sync::Arc, time::Duration};

use rustls::version::TLS13;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use crate::world::{
    Site, World,
    socket::{connect_tls, converse, statuses, tls},
};

const SITE: &str = "engine.svc.localhost";
const API: &str = "api.svc.localhost";

async fn world_with_sites() -> World {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.publish("engine", &Site::page("home").file("data.txt", "data")).await;
    ada.publish("victim", &Site::page("the victim's page")).await;
    world
}

async fn connect(world: &World, host: &str, alpn: &str) -> TlsStream<TcpStream> {
    let config = Arc::new(tls(world.ca(), &[&TLS13], &[alpn]));
    connect_tls(world.public_port(), host, config).await.unwrap()
}

async fn assert_alive(world: &World) {
    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
    world.edge().get("https://api.svc.localhost/health").await.assert_status(200);
}

/// Broken requests that any server must refuse. `{host}` is the host spoken to.
fn broken_requests() -> Vec<(&'static str, String)> {
    let smuggled = "GET /smuggled HTTP/1.1\r\nhost: victim.svc.localhost\r\n\r\n";
    vec![
        (
            "two lengths",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0\r\ncontent-length: 5\r\n\r\n{smuggled}"),
        ),
        ("a list of lengths", format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0, 5\r\n\r\n{smuggled}")),
        ("a signed length", format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: +5\r\n\r\n{smuggled}")),
        ("a hexadecimal length", format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ncontent-length: 0x5\r\n\r\n{smuggled}")),
        (
            "an enormous length",
            "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: 99999999999999999999999\r\n\r\n".into(),
        ),
        (
            "an unknown coding",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding: xchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "chunked not last",
            format!(
                "POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"
            ),
        ),
        (
            "a coding after a tab",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "a space before the colon",
            format!("POST / HTTP/1.1\r\nhost: {{host}}\r\ntransfer-encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        (
            "HTTP/1.0 with a coding",
            format!("POST / HTTP/1.0\r\nhost: {{host}}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        ),
        ("a folded header", "GET / HTTP/1.1\r\nhost: {host}\r\nx-folded: a\r\n b\r\nconnection: close\r\n\r\n".into()),
        (
            "two hosts",
            "GET / HTTP/1.1\r\nhost: {host}\r\nhost: victim.svc.localhost\r\nconnection: close\r\n\r\n".into(),
        ),
        ("no host", "GET / HTTP/1.1\r\nconnection: close\r\n\r\n".into()),
        ("a host with a path", "GET / HTTP/1.1\r\nhost: {host}/x\r\nconnection: close\r\n\r\n".into()),
        ("a host with a user", "GET / HTTP/1.1\r\nhost: x@{host}\r\nconnection: close\r\n\r\n".into()),
        (
            "another absolute form",
            "GET https://victim.svc.localhost/ HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into(),
        ),
        ("a NUL in a header", "GET / HTTP/1.1\r\nhost: {host}\r\nx-nul: a\0b\r\nconnection: close\r\n\r\n".into()),
        ("a CR in a header", "GET / HTTP/1.1\r\nhost: {host}\r\nx-cr: a\rb\r\nconnection: close\r\n\r\n".into()),
        ("a NUL in the path", "GET /\0 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a space in the path", "GET /a b HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a strange version", "GET / HTTP/9.9\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a method with a brace", "G{T / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("not HTTP at all", "HELO {host}\r\n\r\n".into()),
        (
            "a 200 KB header",
            format!("GET / HTTP/1.1\r\nhost: {{host}}\r\nx-big: {}\r\nconnection: close\r\n\r\n", "x".repeat(200_000)),
        ),
        (
            "a 200 KB path",
            format!("GET /{} HTTP/1.1\r\nhost: {{host}}\r\nconnection: close\r\n\r\n", "x".repeat(200_000)),
        ),
        (
            "5,000 headers",
            format!("GET / HTTP/1.1\r\nhost: {{host}}\r\n{}connection: close\r\n\r\n", "x: y\r\n".repeat(5_000)),
        ),
        ("CONNECT", "CONNECT victim.svc.localhost:443 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("an encoded NUL", "GET /%00 HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("a broken escape", "GET /%zz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
        ("bytes that are no UTF-8", "GET /%ff%fe HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n".into()),
    ]
}

#[tokio::test]
async fn broken_requests_are_refused() {
    let world = world_with_sites().await;
    let mut failures = String::new();
    for host in [SITE, API] {
        for (what, request) in broken_requests() {
            let mut stream = connect(&world, host, "http/1.1").await;
            let answer = converse(&mut stream, request.replace("{host}", host).as_bytes()).await;
            let found = statuses(&answer);
            let text = String::from_utf8_lossy(&answer);
            if found.len() > 1 || found.iter().any(|status| !(400..500).contains(status)) || text.contains("the victim")
            {
                writeln!(failures, "{host}: {what}: {found:?}").unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "not refused:\n{failures}");
    assert_alive(&world).await;
}

#[tokio::test]
async fn ambiguous_framing_smuggles_nothing() {
    let world = world_with_sites().await;
    for host in [SITE, API] {
        let smuggled = "GET /smuggled HTTP/1.1\r\nhost: victim.svc.localhost\r\nx: y";
        for (what, request) in [
            (
                "CL.TE",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}\r\n\r\n",
                    5 + smuggled.len()
                ),
            ),
            (
                "TE.CL",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n{:x}\r\n{smuggled}\r\n0\r\n\r\n",
                    smuggled.len()
                ),
            ),
            (
                "two codings",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n{smuggled}\r\n\r\n"
                ),
            ),
            (
                "a bad chunk size",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\n-1\r\n{smuggled}\r\n\r\n"
                ),
            ),
            (
                "a wide chunk size",
                format!(
                    "POST / HTTP/1.1\r\nhost: {host}\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n{smuggled}\r\n\r\n"
                ),
            ),
            (
                "upgrade with early bytes",
                format!(
                    "GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\nupgrade: websocket\r\ncontent-length: {}\r\n\r\n{smuggled}",
                    smuggled.len()
                ),
            ),
        ] {
            let mut stream = connect(&world, host, "http/1.1").await;
            let request = format!("{request}GET /after HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
            let answer = converse(&mut stream, request.as_bytes()).await;
            let text = String::from_utf8_lossy(&answer);
            assert!(!text.contains("the victim"), "{host}: {what}: {text}");
        }
    }
    assert_alive(&world).await;
}

#[tokio::test]
async fn hop_headers_do_not_strip_what_the_platform_adds() {
    let world = world_with_sites().await;
    let ada = world.user("ada").await;
    let request = format!(
        "GET /me HTTP/1.1\r\nhost: {API}\r\nauthorization: Bearer {}\r\n\
         connection: close, authorization, x-forwarded-for, x-forwarded-proto\r\n\r\n",
        ada.token.as_deref().unwrap()
    );
    let mut stream = connect(&world, API, "http/1.1").await;
    let answer = converse(&mut stream, request.as_bytes()).await;
    let found = statuses(&answer);
    assert!(found == [200] || found == [400] || found == [401], "{found:?}");
}

#[tokio::test]
async fn no_spelling_of_a_path_leaves_the_site() {
    let world = world_with_sites().await;
    for path in [
        "/../victim/index.html",
        "/..%2fvictim",
        "/%2e%2e%2f%2e%2e%2fmanifest",
        "/%2e%2e/",
        "/a/../../b",
        "/..\\..\\x",
        "/%5c..%5c",
        "/./",
        "/.%2e/",
        "/%252e%252e%252f",
        "//etc/passwd",
        "/..;/x",
        "/%c0%ae%c0%ae/",
        "/data.txt/..",
        "/.git/config",
        "/data.txt%00.html",
        "/data.txt/",
        "/%2Fdata.txt",
        "/data.txt%2F",
        "/;/data.txt",
        "/data.txt;x",
    ] {
        let mut stream = connect(&world, SITE, "http/1.1").await;
        let request = format!("GET {path} HTTP/1.1\r\nhost: {SITE}\r\nconnection: close\r\n\r\n");
        let answer = converse(&mut stream, request.as_bytes()).await;
        let found = statuses(&answer);
        let text = String::from_utf8_lossy(&answer);
        assert_eq!(found.len(), 1, "{path}: {text}");
        assert!((300..500).contains(&found[0]) || text.ends_with("home") || text.ends_with("data"), "{path}: {text}");
        for leaked in ["the victim", "root:", "\"sha256\"", "created_at"] {
            assert!(!text.contains(leaked), "{path}: {text}");
        }
    }
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let world = world_with_sites().await;
    let get = |path: &str, close: &str| format!("GET {path} HTTP/1.1\r\nhost: {SITE}\r\nconnection: {close}\r\n\r\n");
    let mut stream = connect(&world, SITE, "http/1.1").await;
    let requests = [get("/", "keep-alive"), get("/nothing", "keep-alive"), get("/data.txt", "close")].concat();
    let answer = converse(&mut stream, requests.as_bytes()).await;
    assert_eq!(statuses(&answer), [200, 404, 200], "{}", String::from_utf8_lossy(&answer));
    assert!(answer.ends_with(b"data"));
}

#[tokio::test]
async fn a_get_with_a_body_does_not_derail_the_connection() {
    let world = world_with_sites().await;
    let body = "GET /smuggled HTTP/1.1\r\nhost: victim.svc.localhost\r\n\r\n";
    let request = format!(
        "GET / HTTP/1.1\r\nhost: {SITE}\r\ncontent-length: {}\r\n\r\n{body}GET /data.txt HTTP/1.1\r\nhost: {SITE}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let mut stream = connect(&world, SITE, "http/1.1").await;
    let answer = converse(&mut stream, request.as_bytes()).await;
    let text = String::from_utf8_lossy(&answer);
    assert!(!text.contains("the victim"), "{text}");
    assert!(statuses(&answer) == [200, 200] || statuses(&answer).len() == 1, "{text}");
}

#[tokio::test]
async fn slow_requests_are_ended_and_block_nobody() {
    let world = world_with_sites().await;
    let mut slow = Vec::new();
    for host in [SITE, API] {
        for start in ["", "GET / HTT", "GET / HTTP/1.1\r\nhost: x\r\nx: "] {
            for _ in 0..20 {
                let mut stream = connect(&world, host, "http/1.1").await;
                stream.write_all(start.as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                slow.push((host, start, stream));
            }
        }
    }
    assert_alive(&world).await;
    for (host, start, mut stream) in slow {
        let mut rest = Vec::new();
        let ended = timeout(Duration::from_secs(100), stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "{host}: {start:?} is waited for without end");
        assert!(statuses(&rest).iter().all(|status| *status == 408 || *status == 400), "{:?}", statuses(&rest));
    }
    assert_alive(&world).await;
}

/// HTTP/2 frames, by hand.
mod frames {
    pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
        frame.extend([kind, flags]);
        frame.extend(stream.to_be_bytes());
        frame.extend(payload);
        frame
    }

    /// `GET / https` at the site, as HPACK has it: indexed fields, then a literal `:authority`.
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
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
    pub const END_STREAM: u8 = 1;
    pub const END_HEADERS: u8 = 4;
}

/// Attacks in HTTP/2 frames, each enough to hurt a server that bounds nothing.
fn floods(host: &str) -> Vec<(&'static str, Vec<u8>)> {
    use frames::*;
    let get = get(host);
    let odd = |n: u32| 2 * n + 1;
    let many = |count: u32, make: &dyn Fn(u32) -> Vec<u8>| (0..count).flat_map(make).collect::<Vec<u8>>();
    let cancel = 8_u32.to_be_bytes();
    vec![
        (
            "rapid reset",
            many(20_000, &|n| {
                [frame(HEADERS, END_STREAM | END_HEADERS, odd(n), &get), frame(RST_STREAM, 0, odd(n), &cancel)].concat()
            }),
        ),
        // MadeYouReset: the server is brought to reset the streams itself.
        (
            "made you reset",
            many(20_000, &|n| {
                [frame(HEADERS, END_STREAM | END_HEADERS, odd(n), &get), frame(WINDOW_UPDATE, 0, odd(n), &[0; 4])]
                    .concat()
            }),
        ),
        ("endless CONTINUATION", {
            let mut bytes = frame(HEADERS, END_STREAM, 1, &get);
            // A literal field of an empty name's kin: 0x00, name "x", value "y", over and over.
            bytes.extend(many(20_000, &|_| frame(CONTINUATION, 0, 1, &[0, 1, b'x', 1, b'y'].repeat(20))));
            bytes
        }),
        ("HPACK bomb", {
            // One entry of 4,000 bytes in the dynamic table, then a reference to it, 16,000 times a request.
            let mut block = get.clone();
            block.extend([0x40, 1, b'x', 0x7f, 0xa1, 0x1e]);
            block.extend([b'y'; 4000]);
            let references = vec![0xbe; 12_000];
            let first = [block, references.clone()].concat();
            let mut later = get.clone();
            later.extend(&references);
            let mut bytes = frame(HEADERS, END_STREAM | END_HEADERS, 1, &first);
            bytes.extend(many(200, &|n| frame(HEADERS, END_STREAM | END_HEADERS, odd(n + 1), &later)));
            bytes
        }),
        ("PING flood", many(200_000, &|_| frame(PING, 0, 0, &[0; 8]))),
        ("SETTINGS flood", many(200_000, &|_| frame(SETTINGS, 0, 0, &[]))),
        ("PRIORITY flood", many(200_000, &|n| frame(PRIORITY, 0, odd(n), &[0, 0, 0, 0, 1]))),
        ("empty DATA flood", {
            let mut bytes = frame(HEADERS, END_HEADERS, 1, &get);
            bytes.extend(many(200_000, &|_| frame(DATA, 0, 1, &[])));
            bytes
        }),
        ("frames that lie about their length", vec![0xff; 100_000]),
        ("a header with a line break", {
            let mut block = get.clone();
            block.extend([0, 1, b'x', 12]);
            block.extend(b"a\r\nevil: yes");
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
        }),
        ("an upper-case header", {
            let mut block = get.clone();
            block.extend([0, 1, b'X', 1, b'y']);
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
        }),
        ("transfer-encoding in HTTP/2", {
            let mut block = get.clone();
            block.extend([0, 17]);
            block.extend(b"transfer-encoding");
            block.push(7);
            block.extend(b"chunked");
            frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)
        }),
    ]
}

#[tokio::test]
async fn floods_of_http2_frames_hurt_nobody() {
    let world = world_with_sites().await;
    assert_alive(&world).await;
    for host in [SITE, API] {
        for (what, bytes) in floods(host) {
            let before = world.edge().process.memory("VmRSS");
            let stream = connect(&world, host, "h2").await;
            let (mut reader, mut writer) = tokio::io::split(stream);
            let attack = async {
                let _ = writer.write_all(&frames::start()).await;
                let _ = writer.write_all(&bytes).await;
                let _ = writer.flush().await;
            };
            let listen = async {
                let mut sink = vec![0; 64 * 1024];
                while let Ok(Ok(1..)) = timeout(Duration::from_millis(500), reader.read(&mut sink)).await {}
            };
            let neighbour = async {
                for _ in 0..5 {
                    world.edge().get(&world.site_url("engine")).await.assert_body(200, "home");
                }
            };
            // A server that has said goodbye may stop reading: then there is nobody left to attack.
            let (_stalled, (), ()) = tokio::join!(timeout(Duration::from_secs(30), attack), listen, neighbour);
            let growth = world.edge().process.memory("VmRSS").saturating_sub(before);
            assert!(growth < 64 * 1024 * 1024, "{host}: {what}: the edge grew by {growth} bytes");
        }
    }
    assert_alive(&world).await;
}
