//! A model provider that sends exactly the bytes that a test specifies. It records the requests that it received, and
//! how far it got with its responses.

pub mod dialects;
pub mod paths;
pub mod vendor;

use std::{
    collections::VecDeque,
    io::Write as _,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::AbortHandle,
};

use self::dialects::Dialect;
use super::latency;

/// The gateway's key for the provider.
pub const KEY: &str = "key-of-the-provider-0123456789";
/// Text that fills a provider's responses, and that no client may see.
pub const SECRET: &str = "words-of-the-provider";

/// A step of a provider's response.
#[derive(Debug, Clone)]
pub enum Act {
    Send(Vec<u8>),
    /// Wait this long, like a slow provider.
    Wait(Duration),
    /// Wait until the test calls [`Provider::go_on`], once for each hold.
    Hold,
    /// Wait until the other side has closed the connection.
    Hang,
    Close,
    /// Close the connection with a reset.
    Reset,
}

/// The steps of a provider's response.
#[derive(Debug, Clone)]
pub struct Script(pub Vec<Act>);

/// A request that a provider received.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The index of its connection, from 0.
    pub connection: usize,
    /// The request head, in lower case except for the values.
    pub head: String,
    pub text: String,
}

/// Chooses the response to a request body.
type Answering = dyn Fn(&Value) -> Script + Send + Sync;

#[derive(Default)]
struct Shared {
    next: Mutex<VecDeque<Script>>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    finished: AtomicUsize,
    left: AtomicUsize,
    go_on: Notify,
    /// The maximum number of requests per second, if limited.
    rate: Mutex<Option<Rate>>,
    /// The response if no script is queued; the default one if `None`.
    answer: Option<Box<Answering>>,
    /// The dialect of responses at paths other than chat completions.
    dialect: Option<Dialect>,
}

/// A rate limit per second, as providers have.
#[derive(Debug)]
struct Rate {
    most: usize,
    second: Instant,
    taken: usize,
}

impl Rate {
    fn takes(&mut self) -> bool {
        if self.second.elapsed() >= Duration::from_secs(1) {
            (self.second, self.taken) = (Instant::now(), 0);
        }
        self.taken += 1;
        self.taken <= self.most
    }
}

/// A provider on a local port, which ends when this value is dropped.
pub struct Provider {
    /// Its URL, without `/v1`.
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl Provider {
    /// Starts a provider that answers every request with a completion, streamed if requested.
    pub async fn start() -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Starts a provider that uses a dialect for requests and responses.
    pub async fn start_as(dialect: Dialect) -> Self {
        let answer: Box<Answering> = Box::new(move |body| dialect.answer(body));
        let shared = Shared { answer: Some(answer), dialect: Some(dialect), ..Shared::default() };
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), shared)
    }

    /// Starts a provider whose response is a function of the request body.
    pub async fn start_answering(answer: impl Fn(&Value) -> Script + Send + Sync + 'static) -> Self {
        let shared = Shared { answer: Some(Box::new(answer)), ..Shared::default() };
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), shared)
    }

    /// Starts a provider on a port that is already open.
    pub fn start_on(listener: TcpListener) -> Self {
        Self::serve(listener, Shared::default())
    }

    fn serve(listener: TcpListener, shared: Shared) -> Self {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(shared);
        let serving = shared.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let connection = serving.connections.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(attend(stream, connection, serving.clone()));
            }
        });
        Self { url, shared, server: server.abort_handle() }
    }

    /// Queues the response to the next request.
    pub fn next(&self, script: Script) {
        self.shared.next.lock().unwrap().push_back(script);
    }

    /// Ends the current [`Act::Hold`], or the next one. Two calls before a hold end only one.
    pub fn go_on(&self) {
        self.shared.go_on.notify_one();
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    pub fn last_asked(&self) -> Asked {
        self.asked().pop().expect("the provider was not asked")
    }

    /// Accepts at most `most` requests per second from now on. Others get a 429 and are not recorded.
    pub fn allow_per_second(&self, most: usize) {
        *self.shared.rate.lock().unwrap() = Some(Rate { most, second: Instant::now(), taken: 0 });
    }

    /// Returns how many responses were completed.
    pub fn finished(&self) -> usize {
        self.shared.finished.load(Ordering::SeqCst)
    }

    /// Returns how many responses the other side did not read to the end.
    pub fn left(&self) -> usize {
        self.shared.left.load(Ordering::SeqCst)
    }
}

impl Drop for Provider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Asked {
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// Returns the path, unless it is that of chat completions.
    fn other_path(&self) -> Option<&str> {
        Some(self.path()).filter(|path| !path.ends_with("/chat/completions"))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Script {
    /// Responds with this head and body, and the body's length.
    pub fn answer(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Self {
        let mut head = head(status, fields);
        head.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        Self(vec![Act::Send([&head, body].concat())])
    }

    /// Responds with a completion in JSON.
    pub fn completion() -> Self {
        Self::json(&completion("Hello!"))
    }

    /// Responds with a 200 with this JSON.
    pub fn json(body: &Value) -> Self {
        Self::answer(200, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// Responds with an error in a provider's format, with its own words.
    pub fn error(status: u16) -> Self {
        let body = json!({ "error": { "message": SECRET, "type": SECRET, "code": SECRET } }).to_string();
        Self::answer(status, &[("content-type", "application/json"), ("x-provider", SECRET)], body.as_bytes())
    }

    /// Streams these events, each in its own chunk.
    pub fn events<E: AsRef<str>>(events: &[E]) -> Self {
        let pieces = events.iter().map(|event| format!("{}\n\n", event.as_ref()).into_bytes());
        Self::stream(pieces, true)
    }

    /// Streams these pieces, and ends the stream if `ends`.
    pub fn stream(pieces: impl IntoIterator<Item = Vec<u8>>, ends: bool) -> Self {
        Self::encoded_stream(&[], pieces, ends)
    }

    /// Streams these pieces with additional header fields.
    pub fn encoded_stream(fields: &[(&str, &str)], pieces: impl IntoIterator<Item = Vec<u8>>, ends: bool) -> Self {
        let fields = [&[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")], fields].concat();
        let mut acts = vec![Act::Send([&head(200, &fields)[..], b"\r\n"].concat())];
        acts.extend(pieces.into_iter().map(|piece| Act::Send(chunk(&piece))));
        if ends {
            acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
        }
        Self(acts)
    }

    /// Streams the default answer: `words` words, the finish reason, usage, the end.
    pub fn usual_stream(words: usize) -> Self {
        Self::events(&usual_events(words))
    }

    pub fn then(mut self, act: Act) -> Self {
        self.0.push(act);
        self
    }

    /// Adds a pause before every step but the first.
    pub fn slowly(self, pause: Duration) -> Self {
        self.each_after(&Act::Wait(pause))
    }

    /// Adds a hold before every step but the first.
    pub fn step_by_step(self) -> Self {
        self.each_after(&Act::Hold)
    }

    fn each_after(self, before: &Act) -> Self {
        let acts = self.0.into_iter().flat_map(|act| [before.clone(), act]);
        Self(acts.skip(1).collect())
    }

    /// Adds a hold after this many steps.
    pub fn held_after(mut self, acts: usize) -> Self {
        self.0.insert(acts, Act::Hold);
        self
    }

    /// Sends the same bytes in pieces of this size that arrive one by one.
    pub fn cut(self, size: usize) -> Self {
        let mut acts = Vec::new();
        for act in self.0 {
            match act {
                Act::Send(bytes) => {
                    for piece in bytes.chunks(size) {
                        acts.extend([Act::Send(piece.to_vec()), Act::Wait(Duration::from_micros(200))]);
                    }
                }
                other => acts.push(other),
            }
        }
        Self(acts)
    }
}

/// Returns a completion with usage 9 + 12.
pub fn completion(content: &str) -> Value {
    json!({
        "id": "cmpl-0001", "object": "chat.completion", "created": 1_700_000_000, "model": "upstream-name",
        "choices": [{
            "index": 0, "message": { "role": "assistant", "content": content }, "logprobs": null,
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": 9, "completion_tokens": 12, "total_tokens": 21 },
    })
}

/// Returns the events of a default stream, without their empty lines; usage 9 + `words`.
pub fn usual_events(words: usize) -> Vec<String> {
    let mut events = vec![event(&json!([choice(&json!({ "role": "assistant", "content": "" }), None)]), &Value::Null)];
    events.extend(
        (0..words)
            .map(|word| event(&json!([choice(&json!({ "content": format!("wörd{word} ") }), None)]), &Value::Null)),
    );
    events.push(event(&json!([choice(&json!({}), Some("stop"))]), &Value::Null));
    events
        .push(event(&json!([]), &json!({ "prompt_tokens": 9, "completion_tokens": words, "total_tokens": 9 + words })));
    events.push("data: [DONE]".to_owned());
    events
}

pub fn event(choices: &Value, usage: &Value) -> String {
    let frame = json!({
        "id": "cmpl-0001", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "upstream-name",
        "choices": choices, "usage": usage,
    });
    format!("data: {frame}")
}

pub fn choice(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({ "index": 0, "delta": delta, "finish_reason": finish_reason })
}

/// Compresses `pieces`, flushing after each.
pub fn zipped(pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut zipped: Vec<_> = pieces
        .iter()
        .map(|piece| {
            encoder.write_all(piece).unwrap();
            encoder.flush().unwrap();
            std::mem::take(encoder.get_mut())
        })
        .collect();
    zipped.push(encoder.finish().unwrap());
    zipped
}

fn head(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut head = format!("HTTP/1.1 {status} Whatever\r\nserver: {SECRET}\r\nx-request-id: {SECRET}\r\n");
    head.push_str("set-cookie: provider=1\r\nx-ratelimit-limit-requests: 5\r\n");
    for (name, value) in fields {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.into_bytes()
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

async fn attend(mut stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    stream.set_nodelay(true).unwrap();
    let mut buffer = Vec::new();
    while let Some(asked) = read_request(&mut stream, &mut buffer, connection).await {
        if shared.rate.lock().unwrap().as_mut().is_some_and(|rate| !rate.takes()) {
            if !play(&mut stream, Script::answer(429, &[("retry-after", "1")], SECRET.as_bytes()), &shared).await {
                return;
            }
            continue;
        }
        let is_stream = asked.text.contains("\"stream\":true");
        let elsewhere = asked.other_path().and_then(|path| paths::answer(path, &asked.body(), shared.dialect));
        let own = elsewhere.or_else(|| shared.answer.as_ref().map(|answer| answer(&asked.body())));
        shared.asked.lock().unwrap().push(asked);
        let script = shared.next.lock().unwrap().pop_front();
        let script = script.or(own);
        let script = script.unwrap_or_else(|| if is_stream { Script::usual_stream(5) } else { Script::completion() });
        if !play(&mut stream, script, &shared).await {
            return;
        }
    }
}

/// Plays a script, and returns whether the connection stays open.
async fn play(stream: &mut TcpStream, script: Script, shared: &Shared) -> bool {
    for act in script.0 {
        match act {
            Act::Send(bytes) => {
                // A sent byte may still be refused, which shows only when the next one is sent.
                if is_closed(stream) || stream.write_all(&bytes).await.is_err() {
                    shared.left.fetch_add(1, Ordering::SeqCst);
                    return false;
                }
            }
            Act::Wait(time) => latency(time).await,
            Act::Hold => shared.go_on.notified().await,
            Act::Hang => {
                let mut byte = [0];
                let _ = stream.read(&mut byte).await;
                shared.left.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            Act::Close => {
                shared.finished.fetch_add(1, Ordering::SeqCst);
                return false;
            }
            Act::Reset => {
                shared.finished.fetch_add(1, Ordering::SeqCst);
                stream.set_zero_linger().unwrap();
                return false;
            }
        }
    }
    shared.finished.fetch_add(1, Ordering::SeqCst);
    true
}

fn is_closed(stream: &TcpStream) -> bool {
    let mut byte = [0];
    matches!(stream.try_read(&mut byte), Ok(0))
        || matches!(stream.try_read(&mut byte), Err(e) if e.kind() != std::io::ErrorKind::WouldBlock)
}

async fn read_request(stream: &mut TcpStream, buffer: &mut Vec<u8>, connection: usize) -> Option<Asked> {
    loop {
        if let Some(end) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(buffer[..end].to_vec()).unwrap();
            let field = |line: &str| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::to_owned);
            let len: usize = head.lines().find_map(field).expect("a body of known length").parse().unwrap();
            if buffer.len() >= end + 4 + len {
                let text = String::from_utf8(buffer[end + 4..end + 4 + len].to_vec()).unwrap();
                buffer.drain(..end + 4 + len);
                return Some(Asked { connection, head, text });
            }
        }
        let mut chunk = vec![0; 16 * 1024];
        match stream.read(&mut chunk).await {
            Ok(0) | Err(_) => return None,
            Ok(read) => buffer.extend_from_slice(&chunk[..read]),
        }
    }
}
