//! Servers whose answers have no end: `svc` reads as much as an answer may have, and says what is wrong.

use std::{
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use domain::limits::MB;
use futures_util::{StreamExt as _, stream};

use crate::world::process::program;

/// What a server sends at most, so that a test ends.
const SENT: u64 = 300 * MB;
/// What the kernels of both sides hold beyond what is read.
const BUFFERED: u64 = 16 * MB;
const PIECE: usize = 64 * 1024;

/// A JSON text that goes on with blanks, each counted when it is handed to the connection.
fn endless(begin: &'static str, blanks: u64, end: &'static str, sent: &Arc<AtomicU64>) -> Body {
    let sent = Arc::clone(sent);
    let blank = Bytes::from(vec![b' '; PIECE]);
    let blanks = stream::repeat(blank).take(usize::try_from(blanks).unwrap() / PIECE);
    let pieces = stream::iter([Bytes::from(begin)]).chain(blanks).chain(stream::iter([Bytes::from(end)]));
    Body::from_stream(pieces.map(move |piece| {
        sent.fetch_add(piece.len() as u64, Ordering::Relaxed);
        Ok::<_, std::io::Error>(piece)
    }))
}

fn json(status: StatusCode, body: Body) -> Response {
    (status, [("content-type", "application/json")], body).into_response()
}

/// A server that answers everything with `answer`.
async fn serve(
    answer: impl Fn(&Arc<AtomicU64>) -> Response + Clone + Send + Sync + 'static,
) -> (String, Arc<AtomicU64>) {
    let sent = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&sent);
    let router = Router::new().fallback(move || {
        let response = answer(&counted);
        async move { response }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (address, sent)
}

/// Runs `svc`, which fails, and returns what it says.
async fn failure_of(api: &str, args: &[&str]) -> String {
    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(program("svc"));
    command.args(args).env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path());
    command.env("SVC_API_URL", api).env("SVC_TOKEN", format!("svc_{}", "A".repeat(43)));
    command.env("SVC_AI_URL", api).env("SVC_AI_KEY", format!("svc_{}", "B".repeat(43)));
    command.current_dir(home.path()).stdin(Stdio::null());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(!output.status.success(), "svc {args:?} took it for an answer");
    // With --json it says so on stdout.
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn assert_read(sent: &AtomicU64, most: u64, what: &str) {
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent <= most + BUFFERED, "svc read {sent} bytes of {what}");
}

#[tokio::test]
async fn an_answer_is_read_as_far_as_one_may_be_long() {
    for args in [&["projects"][..], &["whoami"], &["--json", "orgs"], &["ai", "models"], &["billing", "show"]] {
        let (api, sent) = serve(|sent| json(StatusCode::OK, endless("{\"projects\": [", SENT, "]}", sent))).await;
        let words = failure_of(&api, args).await;
        let is_said = words.contains("longer than 16 MB") || words.contains("did not answer as the AI gateway");
        assert!(is_said, "svc {args:?}: {words}");
        assert_read(&sent, 16 * MB, &format!("the answer to svc {args:?}"));
    }
}

#[tokio::test]
async fn a_refusal_is_read_as_far_as_one_may_be_long() {
    for args in [&["projects"][..], &["whoami"], &["ai", "models"], &["ai", "chat", "hello"]] {
        let refusal = |sent: &_| json(StatusCode::FORBIDDEN, endless("{\"error\": {", SENT, "}}", sent));
        let (api, sent) = serve(refusal).await;
        let words = failure_of(&api, args).await;
        assert!(words.contains("403") || words.contains("did not answer as the AI gateway"), "{words}");
        assert_read(&sent, MB, &format!("the refusal of svc {args:?}"));
    }
}

#[tokio::test]
async fn a_list_is_read_as_far_as_its_pages_may_be_long_together() {
    let page =
        |sent: &_| json(StatusCode::OK, endless("{\"projects\": [", 8 * MB, "], \"next_cursor\": \"on\"}", sent));
    let (api, sent) = serve(page).await;
    let words = failure_of(&api, &["projects"]).await;
    assert!(words.contains("longer than"), "{words}");
    assert_read(&sent, 64 * MB, "a list without an end");
}
