//! Range requests.

use super::world_with;
use crate::world::{Edge, Site, answer::Answer};

#[tokio::test]
async fn ranges() {
    let body: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let (world, url) = world_with(Site::page("x").file("data.bin", &body)).await;
    let edge = world.edge();
    let file = format!("{url}/data.bin");
    let whole = edge.get(&file).await.assert_body(200, &body);
    assert_eq!(whole.header("accept-ranges"), "bytes");
    for (range, from, to) in [
        ("bytes=0-0", 0, 0),
        ("bytes=0-99", 0, 99),
        ("bytes=99990-", 99_990, 99_999),
        ("bytes=-10", 99_990, 99_999),
        ("bytes=50000-999999", 50_000, 99_999),
        ("bytes=-999999", 0, 99_999),
    ] {
        for request in [edge.get(&file), edge.get_http1(&file)] {
            let answer = request.header("range", range).await.assert_body(206, &body[from..=to]);
            assert_eq!(answer.header("content-range"), format!("bytes {from}-{to}/100000"));
            assert_eq!(answer.header("content-length"), (to - from + 1).to_string());
        }
    }
    for unsatisfiable in ["bytes=100000-", "bytes=200000-300000", "bytes=-0"] {
        let answer = edge.get(&file).header("range", unsatisfiable).await.assert_status(416);
        assert_eq!(answer.header("content-range"), "bytes */100000");
    }
    for ignored in ["bytes=5-2", "items=0-5", "bytes", "bytes=", "bytes=a-b", "bytes=0-5,garbage"] {
        edge.get(&file).header("range", ignored).await.assert_body(200, &body);
    }
}

#[tokio::test]
async fn several_ranges_come_as_multipart() {
    let body: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let (world, url) = world_with(Site::page("x").file("data.bin", &body)).await;
    let file = format!("{url}/data.bin");
    let answer = both_ranges(world.edge(), &file, "bytes=0-4,9000-9009,-5").await.assert_status(206);
    let content_type = answer.header("content-type").to_owned();
    let boundary = content_type.strip_prefix("multipart/byteranges; boundary=").unwrap().trim_matches('"').to_owned();
    let text: Vec<u8> = answer.body.to_vec();
    for (range, bytes) in [
        ("bytes 0-4/10000", &body[0..=4]),
        ("bytes 9000-9009/10000", &body[9000..=9009]),
        ("bytes 9995-9999/10000", &body[9995..]),
    ] {
        let mut part = format!("{range}\r\n\r\n").into_bytes();
        part.extend_from_slice(bytes);
        assert!(text.windows(part.len()).any(|window| window.eq_ignore_ascii_case(&part)), "no part {range}");
    }
    assert!(
        text.ends_with(format!("\r\n--{boundary}--\r\n").as_bytes())
            || text.ends_with(format!("\r\n--{boundary}--").as_bytes())
    );
    assert_eq!(answer.header("content-length"), answer.body.len().to_string());

    // A thousand ranges, or overlapping ones, must not make a small request a large answer.
    let thousand: Vec<_> = (0..1000).map(|n| format!("{n}-")).collect();
    let greedy = world.edge().get(&file).header("range", format!("bytes={}", thousand.join(","))).await;
    assert!(greedy.body.len() <= 2 * body.len(), "{} bytes", greedy.body.len());
}

async fn both_ranges(edge: &Edge, url: &str, range: &str) -> Answer {
    let old = edge.get_http1(url).header("range", range).await;
    let new = edge.get(url).header("range", range).await;
    assert_eq!(old.status, new.status);
    new
}

#[tokio::test]
async fn if_range_guards_a_range() {
    let (world, url) = world_with(Site::page("0123456789")).await;
    let edge = world.edge();
    let first = edge.get(&url).await;
    let (etag, modified) = (first.header("etag").to_owned(), first.header("last-modified").to_owned());
    let ranged = |guard: &str| edge.get(&url).header("range", "bytes=2-4").header("if-range", guard);
    ranged(&etag).await.assert_body(206, "234");
    ranged(&modified).await.assert_body(206, "234");
    for other in ["\"other\"", &format!("W/{etag}"), "Sat, 01 Jan 2000 00:00:00 GMT", "garbage"] {
        ranged(other).await.assert_body(200, "0123456789");
    }
}
