//! Restarts of an edge: completions under way go on, and what has to be cut off is charged by what was seen of it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, block_in_place};

use super::Gateway;
use crate::{
    BACKGROUND,
    stubs::provider::Script,
    world::{Builder, Site, eventually, ports, process::Process},
};

/// Words in a stream.
const WORDS: usize = 40;
/// Acts of the provider before a stream is held: its head, and events.
const HEARD: usize = 20;
/// What the edge logs when connections of sites would have been cut.
const GOES_ON: &str = "completions are under way still";

/// What a client has heard of an answer.
struct Heard {
    status: StatusCode,
    text: String,
    /// Whether the answer came to its end.
    is_whole: bool,
}

impl Heard {
    async fn of(mut response: reqwest::Response, mut bytes: Vec<u8>) -> Self {
        let is_whole = loop {
            match response.chunk().await {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        Self { status: response.status(), text: String::from_utf8(bytes).unwrap(), is_whole }
    }

    #[track_caller]
    fn assert_whole(&self) {
        assert!(self.is_whole && self.status == StatusCode::OK, "{}: {}", self.status, self.text);
        if self.text.starts_with("data: ") {
            assert!(self.text.trim_end().ends_with("data: [DONE]"), "{}", self.text);
        } else {
            let body: Value = serde_json::from_str(&self.text).unwrap();
            assert_eq!(body["usage"]["completion_tokens"], 12);
        }
    }

    /// Checks that the answer says that the gateway restarts: a stream by its last frame, and by not ending well.
    #[track_caller]
    fn assert_cut_off(&self) {
        let error = if self.status == StatusCode::OK {
            assert!(!self.is_whole, "a stream that was cut off looks whole: {}", self.text);
            self.text.trim_end().rsplit_once("data: ").unwrap().1
        } else {
            assert_eq!(self.status, StatusCode::SERVICE_UNAVAILABLE);
            &self.text
        };
        let error: Value = serde_json::from_str(error).unwrap_or_else(|e| panic!("{e}: {}", self.text));
        assert_eq!(error["error"]["code"], "service_unavailable", "{}", self.text);
    }
}

impl Gateway {
    async fn start_draining_for(seconds: u64, configure: impl FnOnce(Builder) -> Builder) -> Self {
        Self::start_with(|builder| configure(builder.set("EDGE__DRAIN_SECONDS", seconds))).await
    }

    /// Begins a completion with a client of its own. The provider holds it: a stream after some words, any other before its
    /// answer.
    async fn begin(&self, http2: bool, stream: bool) -> JoinHandle<Heard> {
        let script =
            if stream { Script::usual_stream(WORDS).held_after(HEARD) } else { Script::completion().held_after(0) };
        self.provider.next(script);
        let asked = self.provider.asked().len();
        let client = self.world.edge().another_browser(http2);
        let url = self.world.edge().address(&self.url("/v1/chat/completions"));
        let body = super::request(&json!({ "stream": stream }));
        let sent = client.post(url).bearer_auth(&self.key).json(&body).send();
        if !stream {
            let heard = tokio::spawn(async move { Heard::of(sent.await.unwrap(), Vec::new()).await });
            eventually(BACKGROUND, "the provider is asked", async || self.provider.asked().len() > asked).await;
            return heard;
        }
        let (mut response, mut bytes) = (sent.await.unwrap(), Vec::new());
        while !String::from_utf8_lossy(&bytes).contains("rd1 ") {
            bytes.extend_from_slice(&response.chunk().await.unwrap().expect("some words"));
        }
        tokio::spawn(Heard::of(response, bytes))
    }

    /// Lets the provider go on with everything that it holds.
    async fn finish(&self, answers: usize) {
        eventually(BACKGROUND, "the provider is heard to its end", async || {
            self.provider.go_on();
            self.provider.finished() >= answers
        })
        .await;
    }

    /// Waits until Postgres has so many completions of this kind.
    async fn counts(&self, completions: i64, filter: &str) {
        let count = format!("SELECT count(*) FROM ai_usage WHERE {filter}");
        eventually(BACKGROUND, &format!("{completions} where {filter}"), async || {
            self.world.sql_number(&count).await == completions
        })
        .await;
    }
}

async fn logs(process: &Process, text: &str) {
    eventually(BACKGROUND, text, async || process.log().contains(text)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completions_outlast_sigterm() {
    let mut gateway = Gateway::start_draining_for(300, |builder| builder).await;
    let mut under_way = Vec::new();
    for (http2, stream) in [(true, true), (false, true), (true, false), (false, false)] {
        under_way.push(gateway.begin(http2, stream).await);
    }
    // One whose client leaves.
    gateway.begin(false, true).await.abort();
    gateway.world.edge().process.signal("TERM");
    logs(&gateway.world.edge().process, GOES_ON).await;
    gateway.finish(5).await;
    for heard in under_way {
        heard.await.unwrap().assert_whole();
    }
    let status = block_in_place(|| gateway.world.edges[0].process.wait());
    assert!(status.success(), "{status}");
    assert_eq!(gateway.provider.left(), 0);
    // What could not be written in time is the next edge's to write.
    gateway.world.restart_edge(0).await;
    gateway.counts(3, &format!("certainty = 2 AND completion_tokens = {WORDS}")).await;
    gateway.counts(2, "certainty = 2 AND completion_tokens = 12").await;
    gateway.counts(5, "true").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn completions_that_last_too_long_are_cut_off_and_charged_by_what_was_seen() {
    let mut gateway = Gateway::start_draining_for(1, |builder| builder).await;
    let mut under_way = Vec::new();
    for (http2, stream) in [(true, true), (false, true), (true, false), (false, false)] {
        under_way.push(gateway.begin(http2, stream).await);
    }
    let status = block_in_place(|| gateway.world.edges[0].process.stop());
    assert!(status.success(), "{status}");
    for heard in under_way {
        heard.await.unwrap().assert_cut_off();
    }
    gateway.world.restart_edge(0).await;
    gateway.counts(4, "certainty = 1 AND prompt_tokens BETWEEN 1 AND 60").await;
    gateway.counts(2, &format!("completion_tokens BETWEEN 1 AND {WORDS}")).await;
    gateway.counts(2, "completion_tokens = 0").await;
    gateway.counts(4, "true").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_edge_takes_over_and_no_connection_fails() {
    let metrics = ports::free();
    // The path of a Unix socket is short, and that of a world may be long.
    let folder = tempfile::tempdir().unwrap();
    let mut gateway = Gateway::start_draining_for(300, |builder| {
        let socket = folder.path().join("upgrade.sock");
        builder
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{metrics}"))
            .set("EDGE__UPGRADE_SOCKET", socket.display())
    })
    .await;
    let site = gateway.ada.publish("engine", &Site::page("here")).await;
    let (done, visits) = (AtomicBool::new(false), AtomicU32::new(0));
    let (url, browser) = (gateway.world.edge().address(&site.url), gateway.world.edge().fresh_browser());
    let visiting = async {
        while !done.load(Ordering::Relaxed) {
            let answer = browser.get(url.clone()).send().await.expect("a new connection");
            assert_eq!(answer.text().await.unwrap(), "here");
            visits.fetch_add(1, Ordering::Relaxed);
        }
    };
    let some_visits = async || {
        let before = visits.load(Ordering::Relaxed);
        eventually(BACKGROUND, "sites are visited", async || visits.load(Ordering::Relaxed) > before + 10).await;
    };
    let upgrading = async {
        some_visits().await;
        let first = gateway.begin(true, true).await;
        let mut one = gateway.world.start_upgrade(0);
        logs(&gateway.world.edge().process, "waiting for the running edge").await;
        some_visits().await;
        one.signal("QUIT");
        logs(&one, "a new edge has taken over").await;
        some_visits().await;
        // The other order: the signal first. The second edge passes on what it was given itself.
        let second = gateway.begin(false, false).await;
        gateway.world.edge().process.signal("QUIT");
        logs(&gateway.world.edge().process, "handing over").await;
        let mut two = gateway.world.start_upgrade(0);
        logs(&two, "a new edge has taken over").await;
        some_visits().await;
        gateway.world.edge().get("https://api.svc.localhost/health").await.assert_status(200);
        // Edges that only finish what they have begun are not waited for.
        eventually(BACKGROUND, "changes wait for the newest edge only", async || {
            let changed = gateway.ada.activate("engine", &site.id).await.assert_status(200);
            changed.header("x-svc-propagation").starts_with("1/1; ")
        })
        .await;
        eventually(BACKGROUND, "the newest edge has the listener of metrics", async || {
            reqwest::get(format!("http://127.0.0.1:{metrics}/metrics")).await.is_ok_and(|page| page.status() == 200)
        })
        .await;
        gateway.finish(2).await;
        first.await.unwrap().assert_whole();
        second.await.unwrap().assert_whole();
        for process in [&mut one, &mut two] {
            let status = block_in_place(|| process.wait());
            assert!(status.success(), "{status}");
        }
        some_visits().await;
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(visiting, upgrading);
    gateway.complete(&json!({})).await.assert_status(200);
    gateway.counts(1, &format!("certainty = 2 AND completion_tokens = {WORDS}")).await;
    gateway.counts(2, "certainty = 2 AND completion_tokens = 12").await;
    gateway.counts(3, "true").await;
}
