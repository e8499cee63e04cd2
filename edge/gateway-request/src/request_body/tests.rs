use std::{convert::Infallible, io::Write as _};

use fairness::{
    RoomBounds,
    budget::{BudgetLimits, ByteBudget},
};
use flate2::{Compression, write::GzEncoder};
use futures_util::{StreamExt as _, stream};
use http::{StatusCode, header};
use http_body::Frame;
use http_body_util::{Full, StreamBody};

use super::*;

const SMALL: u64 = limits::SMALL_BODY_BYTES as u64;
const MIB: usize = 1024 * 1024;
const MOST: usize = 32 * MIB;

struct Setting {
    budget: ByteBudget,
    connection: budget::BudgetAccount,
    room: SizedRoom<PayingAccount>,
    account: PayingAccount,
    asks: RequestLimits,
    copies: u64,
}

impl Setting {
    /// Memory for two small bodies, and `room` bytes for large ones.
    fn new(asks: RequestLimits, room: u64) -> Self {
        let budget = ByteBudget::new(BudgetLimits { total: 2 * SMALL, client: 2 * SMALL, connection: 2 * SMALL });
        let bounds = RoomBounds { total: room, share: room, waiting: 9, waiting_share: 9 };
        let (connection, room) = (budget.account(None), SizedRoom::new(bounds));
        Self {
            budget,
            connection,
            room,
            account: "usr_0000000000000000001a".parse::<domain::UserId>().unwrap().into(),
            asks,
            copies: 1,
        }
    }

    fn contract() -> Self {
        Self::new(RequestLimits::default(), MOST as u64)
    }

    fn large() -> Self {
        Self::new(RequestLimits::default().with_body(MOST as u64), MOST as u64 + limits::ZSTD_WINDOW_BYTES)
    }

    async fn read<B>(&self, body: &mut B, coding: Option<&'static str>) -> Result<ReadBody, ApiError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        let Self { asks, connection, room, account, .. } = self;
        let headers = coding.iter().map(|coding| (header::CONTENT_ENCODING, coding.parse().unwrap())).collect();
        BodyReader { asks, connection, room, account, copies: self.copies }.read(&headers, body).await
    }

    async fn status(&self, body: &[u8], coding: Option<&'static str>) -> StatusCode {
        let mut body = Full::new(Bytes::copy_from_slice(body));
        self.read(&mut body, coding).await.err().map_or(StatusCode::OK, |error| error.status())
    }

    fn held(&self) -> (u64, u64) {
        (self.budget.used(), self.room.held())
    }
}

/// Returns a body in pieces of `piece` bytes that does not announce its length.
fn in_pieces(body: &[u8], piece: usize) -> impl http_body::Body<Data = Bytes> + Unpin {
    let pieces: Vec<_> =
        body.chunks(piece).map(|piece| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(piece)))).collect();
    StreamBody::new(stream::iter(pieces))
}

/// Returns a body that stalls after one piece.
fn held_back() -> impl http_body::Body<Data = Bytes> + Unpin {
    let piece = Ok::<_, Infallible>(Frame::data(Bytes::from_static(b"{")));
    StreamBody::new(stream::iter([piece]).chain(stream::pending()))
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_is_read_is_charged_before_it_comes_and_given_back() {
    let setting = Setting::contract();
    let read = setting.read(&mut Full::new(Bytes::from_static(b"{}")), None).await.unwrap();
    assert_eq!((&read.bytes[..], setting.held()), (&b"{}"[..], (2, 0)));
    drop(read);

    let mut held = [held_back(), held_back()];
    let [first, second] = &mut held;
    let reading = async { tokio::join!(setting.read(first, None), setting.read(second, None)) };
    let refused = async {
        tokio::task::yield_now().await;
        assert_eq!(setting.held(), (2 * SMALL, 0));
        setting.read(&mut Full::new(Bytes::from_static(b"{}")), None).await.err().unwrap()
    };
    let (held, refused) = tokio::join!(reading, refused);
    let response = refused.into_response();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    assert!(held.0.is_err() && held.1.is_err(), "they did not arrive in time");
    assert_eq!(setting.held(), (0, 0));
}

#[tokio::test]
async fn the_limit_is_the_keys_whether_the_length_is_said_or_not() {
    for setting in [Setting::contract(), Setting::new(RequestLimits::default().with_body(1_000_000), 1_000_000)] {
        let most = setting.asks.body_bytes();
        for (bytes, status) in [(most, StatusCode::OK), (most + 1, StatusCode::PAYLOAD_TOO_LARGE)] {
            let body = vec![b' '; bytes];
            assert_eq!(setting.status(&body, None).await, status);
            let unsaid = setting.read(&mut in_pieces(&body, 10_000), None).await;
            assert_eq!(unsaid.err().map_or(StatusCode::OK, |error| error.status()), status, "{bytes}");
            assert_eq!(setting.held(), (0, 0));
        }
    }
    let error = Setting::contract().read(&mut in_pieces(&vec![b' '; 70_000], 1_000), None).await.err().unwrap();
    let text = error.to_json();
    assert!(text.contains("(request_too_large): the body is larger than 64 KB. Please reduce"), "{text}");
    assert!(text.contains("plan"), "{text}");
}

#[tokio::test]
async fn a_large_body_is_held_once_with_its_bytes() {
    let setting = Setting::large();
    let body: Vec<u8> = (0..5_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let read = setting.read(&mut Full::new(Bytes::from(body.clone())), None).await.unwrap();
    assert_eq!(setting.held(), (0, 5_000_000));
    let bytes = read.bytes.clone();
    drop(read);
    let part = bytes.slice(4_000_000..);
    assert!(bytes == body);
    drop(bytes);
    assert_eq!(setting.held(), (0, 5_000_000), "a part of it is the whole");
    drop(part);
    assert_eq!(setting.held(), (0, 0));
    // Rewritten, it keeps its place, and the original bytes are dropped.
    let came = Bytes::from(body.clone());
    let read = setting.read(&mut Full::new(came.clone()), None).await.unwrap();
    let written = read.replaced_by(vec![b'x'; 5_000_000]);
    assert_eq!(setting.held(), (0, 5_000_000));
    assert!(written.bytes.iter().all(|byte| *byte == b'x') && came.is_unique());
    let part = written.bytes.slice(..1);
    drop(written);
    assert_eq!(setting.held(), (0, 5_000_000));
    drop(part);
    assert_eq!(setting.held(), (0, 0));
    // A body without a length takes room as it grows, and is not moved.
    let read = setting.read(&mut in_pieces(&body, 7_000), None).await.unwrap();
    assert!(read.bytes == body);
    assert!((5_000_000..=10_000_000).contains(&setting.held().1), "{:?}", setting.held());
    drop(read);
    let read = setting.read(&mut in_pieces(&body[..limits::SMALL_BODY_BYTES], 1), None).await.unwrap();
    assert_eq!((read.bytes.len() as u64, setting.held()), (SMALL, (SMALL, 0)));
}

#[tokio::test]
async fn a_body_that_is_translated_is_charged_with_its_translation() {
    let setting = Setting { copies: 3, ..Setting::large() };
    let body = Bytes::from(vec![b'x'; 5_000_000]);
    let read = setting.read(&mut Full::new(body.clone()), None).await.unwrap();
    assert_eq!(setting.held(), (0, 15_000_000));
    // Each has its own part, and the rest is given back.
    let original = read.bytes.clone();
    let chat = read.translated_to(vec![b'x'; 6_000_000]).unwrap();
    assert_eq!(setting.held(), (0, 11_000_000));
    drop(original);
    assert_eq!(setting.held(), (0, 6_000_000));
    drop(chat);
    assert_eq!(setting.held(), (0, 0));
    // A translation that needs more takes it, or is refused.
    let read = setting.read(&mut Full::new(body.clone()), None).await.unwrap();
    let chat = read.translated_to(vec![b'x'; 12_000_000]).unwrap();
    assert_eq!(setting.held(), (0, 12_000_000));
    drop(chat);
    let other = setting.read(&mut Full::new(body.clone()), None).await.unwrap();
    let read = setting.read(&mut Full::new(body), None).await.unwrap();
    let refused = read.translated_to(vec![b'x'; 30_000_000]).err().unwrap();
    assert_eq!((refused.status(), setting.held()), (StatusCode::SERVICE_UNAVAILABLE, (0, 15_000_000)));
    drop(other);
    // A body that has the room alone is read whatever it needs.
    let small = Setting { copies: 3, ..Setting::new(RequestLimits::default().with_body(MOST as u64), 6_000_000) };
    let read = small.read(&mut Full::new(Bytes::from(vec![b'x'; 5_000_000])), None).await.unwrap();
    assert_eq!(small.held(), (0, 6_000_000));
    let chat = read.translated_to(vec![b'x'; 7_000_000]).unwrap();
    assert_eq!(small.held(), (0, 6_000_000));
    drop(chat);
    assert_eq!(small.held(), (0, 0));
    // The two parts of one body share nothing with each other: alone, it may take more than its account's share.
    let bounds = RoomBounds { total: 18_000_000, share: 9_000_000, waiting: 9, waiting_share: 9 };
    let halved = Setting {
        copies: 3,
        room: SizedRoom::new(bounds),
        ..Setting::new(RequestLimits::default().with_body(MOST as u64), 0)
    };
    let read = halved.read(&mut Full::new(Bytes::from(vec![b'x'; 5_000_000])), None).await.unwrap();
    let chat = read.translated_to(vec![b'x'; 10_000_256]).unwrap();
    assert_eq!(halved.held(), (0, 10_000_256));
    drop(chat);
    // A small one is charged to its connection.
    let read = setting.read(&mut Full::new(Bytes::from_static(b"{}")), None).await.unwrap();
    assert_eq!(setting.held(), (6, 0));
    drop(read);
    assert_eq!(setting.held(), (0, 0));
}

#[tokio::test]
async fn a_small_body_is_charged_until_its_last_bytes_are_gone() {
    let setting = Setting { copies: 3, ..Setting::large() };
    let read = setting.read(&mut Full::new(Bytes::from(vec![b'x'; 1_000])), None).await.unwrap();
    assert_eq!(setting.held(), (3_000, 0));
    let (again, sent) = (read.same(), read.bytes.slice(10..20));
    drop(read);
    let chat = again.translated_to(vec![b'x'; 1_500]).unwrap();
    assert_eq!(setting.held(), (1_000 + 1_500, 0), "the rest for the translation is given back");
    let (rewritten, translated) = (chat.same().replaced_by(vec![b'y'; 1_400]).bytes, chat.bytes.clone());
    drop((sent, chat));
    assert_eq!(setting.held(), (1_500, 0));
    drop(translated);
    assert_eq!(setting.held(), (1_500, 0), "what was rewritten has the same grant");
    drop(rewritten);
    assert_eq!(setting.held(), (0, 0));
    // A tiny one may grow beyond what was reserved.
    let read = setting.read(&mut Full::new(Bytes::from_static(b"{}")), None).await.unwrap();
    let chat = read.translated_to(vec![b'x'; 256]).unwrap();
    assert_eq!(setting.held(), (256, 0));
    drop(chat);
}

#[tokio::test(start_paused = true)]
async fn a_large_body_waits_for_room_and_no_longer_than_that() {
    let setting = Setting::large();
    let body = || Full::new(Bytes::from(vec![b' '; 30 * MIB]));
    let held = setting.read(&mut body(), None).await.unwrap();
    let (waited, ()) =
        tokio::join!(async { setting.read(&mut body(), None).await.map(|read| read.bytes.len()) }, async {
            tokio::time::sleep(limits::BODY_ROOM_WAIT / 2).await;
            drop(held);
        });
    assert_eq!(waited.unwrap(), 30 * MIB);
    let held = setting.read(&mut body(), None).await.unwrap();
    // Small bodies are not affected.
    assert_eq!(setting.status(b"{}", None).await, StatusCode::OK);
    let refused = setting.read(&mut body(), None).await.err().unwrap();
    assert!(refused.skips_body());
    let response = refused.into_response();
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(response.headers().contains_key(header::RETRY_AFTER));
    drop(held);
    assert_eq!(setting.held(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_large_body_has_time_by_its_bytes() {
    let setting = Setting::large();
    let slow = |pause: Duration| {
        let pieces = stream::iter(0..64).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from(vec![b' '; 64 * 1024])))
        });
        StreamBody::new(Box::pin(pieces))
    };
    // 64 KB per piece: at the minimum rate, and at half of it.
    assert!(setting.read(&mut slow(Duration::from_secs(4)), None).await.is_ok());
    let error = setting.read(&mut slow(Duration::from_secs(8)), None).await.err().unwrap();
    assert_eq!(error.status(), StatusCode::REQUEST_TIMEOUT);
    assert_eq!(setting.held(), (0, 0));
}

#[tokio::test]
async fn encoded_bodies_are_read_and_bombs_are_refused_at_the_limit() {
    let plain = format!("{{\"x\":\"{}\"}}", "ab".repeat(1_000_000));
    let setting = Setting::large();
    for (coding, encoded) in
        [("gzip", gzip(plain.as_bytes())), ("zstd", zstd::encode_all(plain.as_bytes(), 3).unwrap())]
    {
        for piece in [1, 1_000, 1_000_000] {
            let read = setting.read(&mut in_pieces(&encoded, piece), Some(coding)).await.unwrap();
            assert!(read.bytes == plain, "{coding}");
        }
        assert_eq!(setting.status(&encoded[..encoded.len() - 1], Some(coding)).await, StatusCode::BAD_REQUEST);
        assert_eq!(setting.status(plain.as_bytes(), Some(coding)).await, StatusCode::BAD_REQUEST);
        // Exactly the contract's size after decoding, and one byte more.
        let contract = Setting::contract();
        for (bytes, status) in
            [(limits::SMALL_BODY_BYTES, StatusCode::OK), (limits::SMALL_BODY_BYTES + 1, StatusCode::PAYLOAD_TOO_LARGE)]
        {
            let plain = vec![b' '; bytes];
            let encoded = if coding == "gzip" { gzip(&plain) } else { zstd::encode_all(&plain[..], 3).unwrap() };
            assert_eq!(contract.status(&encoded, Some(coding)).await, status, "{coding}");
        }
        let bomb = vec![0; 200 * MIB];
        let bomb = if coding == "gzip" { gzip(&bomb) } else { zstd::encode_all(&bomb[..], 3).unwrap() };
        for setting in [&contract, &setting] {
            assert_eq!(setting.status(&bomb, Some(coding)).await, StatusCode::PAYLOAD_TOO_LARGE, "{coding}");
            assert_eq!(setting.held(), (0, 0));
        }
    }
    assert_eq!(setting.status(b"{}", Some("br")).await, StatusCode::UNSUPPORTED_MEDIA_TYPE);
}

#[tokio::test]
async fn what_nobody_wants_is_read_on_where_its_length_is_said() {
    let body = vec![b' '; 5 * MIB];
    let mut said = Full::new(Bytes::from(body.clone()));
    discard(&mut said).await;
    assert!(http_body::Body::is_end_stream(&said));
    let mut unsaid = in_pieces(&body, 100_000);
    discard(&mut unsaid).await;
    assert!(unsaid.frame().await.is_some(), "not to its end");
}
