//! For any request, the response is a file of the site, a part of one, or a page of ours.

use http::Request;
use proptest::prelude::*;
use tokio::runtime::Builder as Runtime;

use super::*;

const FILES: [&str; 8] =
    ["index.html", "a.html", "a/index.html", "a/b", "404.html", "c-h4sh3d.js", "%2e%2e/x", "..x/.y"];

fn world() -> World {
    let folder = Folder::of(&FILES)
        .variant("a.html", Encoding::Br, "<a.html")
        .redirects("/r/* /:splat\n/w/* /a/:splat 200")
        .headers("/*\n X-Path: :splat");
    World::new(folder)
}

fn is_explained(answer: &Answer) -> bool {
    let is_part = |file: &str| format!("<{file}>").contains(&answer.body);
    let is_local = !answer.header("location").starts_with("//") && answer.header("location").starts_with('/');
    match answer.status.as_u16() {
        200 | 206 => answer.header("content-type").starts_with("multipart/") || FILES.iter().any(|file| is_part(file)),
        404 => answer.body == "<404.html>",
        302 | 308 => is_local && answer.body.is_empty(),
        204 | 304 | 416 => answer.body.is_empty(),
        400 | 405 | 412 | 414 => answer.is_ours() || answer.body.is_empty(),
        _ => false,
    }
}

proptest! {
    #[test]
    fn every_answer_can_be_explained(
        method in prop_oneof![4 => Just("GET".to_owned()), 1 => "[A-Z]{1,7}"],
        target in prop_oneof![
            "/[ -~]{0,40}",
            "/(a|b|r|w|\\.|%2e|%2E|/|\\.\\.|%2f|%5c|%00|index|\\.html|404|c-h4sh3d\\.js){0,8}(\\?[a-z=/]{0,5})?",
        ],
        headers in proptest::collection::vec(
            (
                prop_oneof![
                    Just("range"), Just("if-range"), Just("if-none-match"), Just("if-match"), Just("accept"),
                    Just("accept-encoding"), Just("if-modified-since"), Just("authorization"), Just("cookie"),
                ],
                prop_oneof!["[ -~]{0,30}", "bytes=[0-9,-]{0,12}", "(W/)?\"[a-z]*\"", "(br|gzip|\\*|;q=0|, )*"],
            ),
            0..4,
        ),
    ) {
        let uri = target.parse::<http::Uri>();
        prop_assume!(uri.is_ok());
        let mut request = Request::builder().method(&*method).uri(uri.unwrap());
        for (name, value) in &headers {
            request = request.header(*name, value);
        }
        let runtime = Runtime::new_current_thread().enable_time().build().unwrap();
        let answer = runtime.block_on(world().send(request));
        prop_assert!(is_explained(&answer), "{} {:?} {}", answer.status, answer.headers, answer.body);
    }
}
