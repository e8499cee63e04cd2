//! Streams that are cut at any byte, at both ends of an edge, and gone on with.

use super::*;

/// Cuts, or as many as `SVC_TEST_CUTS` says.
const CUTS: usize = 30;
/// Words of each stream.
const WORDS: usize = 40;

/// What a client has of a stream.
#[derive(Default)]
struct Heard {
    /// The events that are there whole.
    text: String,
    /// The bytes in which it was sent, comments aside.
    cuts: usize,
}

impl Heard {
    /// Reads so many more bytes, or to the end, and is cut off then. Returns whether that was the end.
    async fn read(&mut self, mut response: Response, bytes: usize) -> bool {
        assert_eq!(response.status(), 200, "{:?}", response.text().await);
        let mut read = Vec::new();
        let is_end = loop {
            if read.len() >= bytes {
                read.truncate(bytes);
                break false;
            }
            match response.chunk().await {
                Ok(Some(chunk)) => read.extend_from_slice(&chunk),
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        self.cuts += usize::from(!is_end);
        // A word may be cut within a character.
        let text = String::from_utf8_lossy(&read);
        let end = text.rfind("\n\n").map_or(0, |at| at + 2);
        self.text.push_str(&without_comments(&text[..end]));
        is_end
    }

    fn last_id(&self) -> Option<&str> {
        last_id(&self.text)
    }
}

/// Asks for a stream, and again as clients do while the gateway is busy: it refuses what it cannot check in time.
async fn ask(gateway: &Gateway, edge: usize, once: Once<'_>, last: Option<&str>) -> Response {
    let mut response = None;
    eventually(BACKGROUND, "the gateway has time for a request", async || {
        let asked = gateway.send_once(edge, once, last).await;
        let is_busy = asked.status() == 503;
        response = Some(asked);
        !is_busy
    })
    .await;
    response.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::print_stderr, reason = "figures, for who asks for them")]
async fn a_stream_that_is_cut_anywhere_goes_on_byte_for_byte() {
    let wanted = std::env::var("SVC_TEST_CUTS").map_or(CUTS, |text| text.parse().unwrap());
    let mut gateway = Gateway::start_edges(2).await;
    let (mut cuts, mut kills, mut streams, mut bytes) = (0, 0, 0, 0);
    while cuts < wanted {
        let (path, key) = (PATHS[streams % 3], format!("key-{streams}"));
        let once = Once { path, stream: true, key: &key };
        // Every other stream is under way until its client has come back.
        let is_held = streams % 2 == 0;
        // Now and then the edge is killed at which the client has come back, and not the exchange's.
        let is_killed = kills < cuts.div_ceil(10);
        let script = Script::usual_stream(WORDS);
        gateway.provider.next(if is_held { script.held_after(WORDS / 2) } else { script });
        let mut heard = Heard::default();
        let owner = rand::random_range(0..2);
        let mut end = heard.read(ask(&gateway, owner, once, None).await, rand::random_range(1..2_000)).await;
        if is_killed && !end {
            kills += 1;
            let last = heard.last_id().map(str::to_owned);
            let mut response = ask(&gateway, 1 - owner, once, last.as_deref()).await;
            let first = response.chunk().await;
            gateway.world.edges[1 - owner].process.kill();
            drop((first, response));
            heard.cuts += 1;
        }
        if is_held {
            gateway.provider.go_on();
        }
        while !end {
            let edge = if is_killed { owner } else { rand::random_range(0..2) };
            let last = heard.last_id().map(str::to_owned);
            end = heard.read(ask(&gateway, edge, once, last.as_deref()).await, rand::random_range(1..8_000)).await;
        }
        let whole = Answer::read(key.clone(), ask(&gateway, owner, once, None).await).await.assert_status(200);
        assert_eq!(heard.text, without_comments(&whole.text()), "{key} {path}");
        assert!(heard.text.matches("wörd").count() >= WORDS, "{}", heard.text);
        (cuts, streams, bytes) = (cuts + heard.cuts, streams + 1, bytes + heard.text.len());
        if is_killed {
            gateway.world.restart_edge(1 - owner).await;
        }
    }
    assert_eq!(gateway.provider.asked().len(), streams);
    gateway.assert_paid(i64::try_from(streams).unwrap()).await;
    let paid = "SELECT coalesce(sum(completion_tokens), 0)::bigint FROM ai_usage";
    assert_eq!(gateway.world.sql_number(paid).await, i64::try_from(streams * WORDS).unwrap());
    eprintln!(
        "{cuts} cuts of {streams} streams, {bytes} bytes, {kills} edges killed: nothing lost, doubled or paid twice"
    );
}
