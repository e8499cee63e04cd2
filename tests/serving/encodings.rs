//! Content encodings.

use super::world_with;
use crate::world::{Site, answer::Answer, site::noise};

#[tokio::test]
async fn encodings_are_negotiated() {
    let text = "the same words again and again. ".repeat(400);
    let incompressible = noise(20_000);
    let (world, url) = world_with(Site::page(&text).file("noise.bin", &incompressible).file("tiny.txt", "x")).await;
    let edge = world.edge();
    for (accept, encoding) in [
        ("gzip", Some("gzip")),
        ("br", Some("br")),
        ("zstd", Some("zstd")),
        ("GZIP", Some("gzip")),
        ("gzip;q=0.5, br;q=0", Some("gzip")),
        ("gzip;q=0", None),
        ("identity", None),
        ("", None),
        ("*;q=0, gzip", Some("gzip")),
        ("deflate, compress", None),
        ("br;q=0.1, gzip;q=1.0", Some("gzip")),
        ("zstd;q=garbage, gzip", Some("gzip")),
    ] {
        let answer = edge.get(&url).header("accept-encoding", accept).await.assert_status(200);
        assert_eq!(answer.find_header("content-encoding"), encoding, "{accept:?}");
        assert_eq!(decoded(&answer), text.as_bytes(), "{accept:?}");
        assert_eq!(answer.header("content-length"), answer.body.len().to_string());
    }
    let best = edge.get(&url).header("accept-encoding", "gzip, deflate, br, zstd").await;
    assert!(best.find_header("content-encoding").is_some());
    assert_eq!(decoded(&best), text.as_bytes());
    for path in ["/noise.bin", "/tiny.txt"] {
        let answer = edge.get(&format!("{url}{path}")).header("accept-encoding", "gzip, br, zstd").await;
        assert_eq!(answer.find_header("content-encoding"), None, "{path} does not get smaller");
    }
}

fn decoded(answer: &Answer) -> Vec<u8> {
    use std::io::Read as _;
    let body = answer.body.as_ref();
    let mut plain = Vec::new();
    match answer.find_header("content-encoding") {
        None => plain.extend_from_slice(body),
        Some("gzip") => drop(flate2::read::GzDecoder::new(body).read_to_end(&mut plain).unwrap()),
        Some("br") => drop(brotli::Decompressor::new(body, 4096).read_to_end(&mut plain).unwrap()),
        Some("zstd") => plain = zstd::decode_all(body).unwrap(),
        Some(other) => panic!("{other}"),
    }
    plain
}
