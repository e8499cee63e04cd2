//! HTTP/2 frames that break its rules one at a time: the stream or the connection ends, and nothing is answered that should not be.

use std::time::Duration;

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

use super::{API, SITE, assert_alive, connect, world_with_sites};
use crate::world::{
    World,
    frames::{self, *},
};

/// The time in which a refusal comes.
const PATIENCE: Duration = Duration::from_secs(20);
/// The time in which what follows an answer has come.
const SOON: Duration = Duration::from_millis(300);
/// Codes of errors (RFC 9113, section 7).
const FLOW_CONTROL_ERROR: u32 = 3;

/// What a connection said until it was quiet: frames as kind, flags, stream and payload.
type Said = Vec<(u8, u8, u32, Vec<u8>)>;

/// Sends `bytes` after the connection's beginning, and a PING behind them. Returns what came until both were answered, or
/// until the end.
async fn say(world: &World, host: &str, bytes: &[u8]) -> Said {
    let mut stream = connect(world, host, "h2").await;
    let all = [&frames::start(), bytes, &frame(PING, 0, 0, b"are you?")].concat();
    // It may be ended before it has read everything.
    let _ = stream.write_all(&all).await;
    let _ = stream.flush().await;
    let mut said = Vec::new();
    let listen = async {
        let mut is_over = false;
        loop {
            let mut head = [0; 9];
            let wait = if is_over { SOON } else { PATIENCE };
            if !matches!(timeout(wait, stream.read_exact(&mut head)).await, Ok(Ok(_))) {
                return;
            }
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(len).unwrap()];
            if stream.read_exact(&mut payload).await.is_err() {
                return;
            }
            let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            said.push((head[3], head[4], id, payload));
            let has = |wanted: &dyn Fn(u8, u8, u32) -> bool| {
                said.iter().any(|(kind, flags, id, _)| wanted(*kind, *flags, *id))
            };
            let is_answered = has(&|kind, _, id| id == 1 && [HEADERS, RST_STREAM].contains(&kind));
            if has(&|kind, _, _| kind == GOAWAY) {
                return;
            }
            // What follows an answer comes soon after it.
            is_over = is_answered && has(&|kind, flags, _| kind == PING && flags & ACK != 0);
        }
    };
    // What is neither refused nor answered is seen by what was not said.
    let _ = timeout(PATIENCE, listen).await;
    said
}

/// The error code with which the stream, or the connection, was ended.
fn error(said: &Said) -> Option<u32> {
    said.iter().find_map(|(kind, _, _, payload)| {
        let at = match *kind {
            RST_STREAM => 0,
            GOAWAY => 4,
            _ => return None,
        };
        Some(u32::from_be_bytes(payload[at..at + 4].try_into().unwrap()))
    })
}

/// Whether stream 1 was answered with 200, as the first entry of HPACK's static table that says it.
fn is_ok(said: &Said) -> bool {
    said.iter().any(|(kind, _, id, payload)| *kind == HEADERS && *id == 1 && payload.first() == Some(&0x88))
}

/// A literal field that no table remembers.
fn field(name: &str, value: &str) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    [vec![0], text(name), text(value)].concat()
}

#[tokio::test]
async fn a_window_beyond_its_largest_is_an_error() {
    let world = world_with_sites().await;
    let most = 0x7fff_ffff_u32.to_be_bytes();
    let open = frame(HEADERS, END_HEADERS, 1, &[&[0x83][..], &frames::get(SITE)[1..]].concat());
    for host in [SITE, API] {
        let said = say(&world, host, &frame(WINDOW_UPDATE, 0, 0, &most).repeat(2)).await;
        let goaway = said.iter().find(|(kind, ..)| *kind == GOAWAY);
        assert!(goaway.is_some() && error(&said) == Some(FLOW_CONTROL_ERROR), "{host}: {said:?}");
    }
    let said = say(&world, SITE, &[open, frame(WINDOW_UPDATE, 0, 1, &most).repeat(2)].concat()).await;
    assert_eq!(error(&said), Some(FLOW_CONTROL_ERROR), "{said:?}");
    assert_alive(&world).await;
}

#[tokio::test]
async fn pseudo_headers_that_do_not_fit_are_refused() {
    let world = world_with_sites().await;
    let get = frames::get(SITE);
    for (what, block) in [
        ("no path", vec![get[0], get[2]].into_iter().chain(get[3..].iter().copied()).collect()),
        ("two paths", [get.clone(), field(":path", "/other")].concat()),
        ("two methods", [get.clone(), field(":method", "POST")].concat()),
        ("two authorities", [get.clone(), field(":authority", "victim.svc.localhost")].concat()),
        ("another host", [get.clone(), field("host", "victim.svc.localhost")].concat()),
        ("an unknown one", [get.clone(), field(":protocol2", "x")].concat()),
        ("that of an answer", [get.clone(), field(":status", "200")].concat()),
        ("one after a header", [get.clone(), field("x-one", "1"), field(":scheme", "https")].concat()),
        ("an empty path", [vec![0x82, 0x87], field(":path", ""), get[3..].to_vec()].concat()),
    ] {
        let said = say(&world, SITE, &frame(HEADERS, END_STREAM | END_HEADERS, 1, &block)).await;
        assert!(!is_ok(&said), "{what} is served: {said:?}");
        assert!(
            !said.is_empty() && said.iter().any(|(kind, ..)| [HEADERS, RST_STREAM, GOAWAY].contains(kind)),
            "{what}: {said:?}"
        );
    }
    let said = say(&world, SITE, &frame(HEADERS, END_STREAM | END_HEADERS, 1, &get)).await;
    assert!(is_ok(&said), "the same without a fault is served: {said:?}");
    assert_alive(&world).await;
}

#[tokio::test]
async fn trailers_are_no_request() {
    let world = world_with_sites().await;
    let get = frames::get(SITE);
    let body = [frame(HEADERS, END_HEADERS, 1, &get), frame(DATA, 0, 1, b"x")].concat();
    let ended_by = |block: &[u8]| [&body[..], &frame(HEADERS, END_STREAM | END_HEADERS, 1, block)].concat();
    let said = say(&world, SITE, &ended_by(&field("x-trailer", "1"))).await;
    assert!(is_ok(&said), "trailers are read past: {said:?}");
    // They name no other path or host, and do not go on after their end.
    for (what, block) in [
        ("a path", field(":path", "/other")),
        ("an authority", field(":authority", "victim.svc.localhost")),
        ("a field of the connection", field("transfer-encoding", "chunked")),
    ] {
        let said = say(&world, SITE, &ended_by(&block)).await;
        let text: Vec<u8> = said.iter().flat_map(|(.., payload)| payload.clone()).collect();
        assert!(!String::from_utf8_lossy(&text).contains("victim's page"), "{what}: {said:?}");
        assert!(error(&said).is_some() || is_ok(&said), "{what}: {said:?}");
    }
    let unended = [&body[..], &frame(HEADERS, END_HEADERS, 1, &field("x-trailer", "1"))].concat();
    let said = say(&world, SITE, &unended).await;
    assert!(error(&said).is_some(), "trailers that do not end the stream: {said:?}");
    assert_alive(&world).await;
}
