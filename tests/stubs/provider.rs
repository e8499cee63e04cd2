//! A model provider that sends the bytes a test tells it to, however wrong. It records the requests that it was sent, and
//! how far it came with its answers.

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

/// What the gateway shows there.
pub const KEY: &str = "key-of-the-provider-0123456789";
/// What a provider's answers are full of, and no client may see.
pub const SECRET: &str = "words-of-the-provider";

/// One thing that a provider does.
#[derive(Debug, Clone)]
pub enum Act {
    /// Send these bytes.
    Send(Vec<u8>),
    /// Do nothing for this long: the provider is slow.
    Wait(Duration),
    /// Do nothing until the test calls [`Provider::go_on`], once for each hold.
    Hold,
    /// Do nothing until the other side has closed.
    Hang,
    /// Close the connection.
    Close,
    /// Close the connection so that the other side sees a reset.
    Reset,
}

/// What a provider does when it is asked.
#[derive(Debug, Clone)]
pub struct Script(pub Vec<Act>);

/// A request that a provider had.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Which connection it came over: the first is 0.
    pub connection: usize,
    /// The head as it came, in lower case but for the values.
    pub head: String,
    /// The body as it came.
    pub text: String,
}

/// What decides on the answer to the body of a request.
type Answering = dyn Fn(&Value) -> Script + Send + Sync;

#[derive(Default)]
struct Shared {
    next: Mutex<VecDeque<Script>>,
    asked: Mutex<Vec<Asked>>,
    connections: AtomicUsize,
    finished: AtomicUsize,
    left: AtomicUsize,
    go_on: Notify,
    /// The requests that it takes in a second, where those are bounded.
    rate: Mutex<Option<Rate>>,
    /// How it answers where no script says so; as usual, without one.
    answer: Option<Box<Answering>>,
    /// The dialect of the answers at other paths than that of chat completions.
    dialect: Option<Dialect>,
}

/// A rate limit by seconds, as providers have.
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

/// A provider on a port of this machine; it ends with the value.
pub struct Provider {
    /// Where it is, without `/v1`.
    pub url: String,
    shared: Arc<Shared>,
    server: AbortHandle,
}

impl Provider {
    /// Starts one that answers every request with a completion, streamed if that is asked for.
    pub async fn start() -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.unwrap())
    }

    /// Starts one that takes requests, and answers, in a dialect.
    pub async fn start_as(dialect: Dialect) -> Self {
        let answer: Box<Answering> = Box::new(move |body| dialect.answer(body));
        let shared = Shared { answer: Some(answer), dialect: Some(dialect), ..Shared::default() };
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), shared)
    }

    /// Starts one that answers a request with what becomes of its body.
    pub async fn start_answering(answer: impl Fn(&Value) -> Script + Send + Sync + 'static) -> Self {
        let shared = Shared { answer: Some(Box::new(answer)), ..Shared::default() };
        Self::serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), shared)
    }

    /// Starts one on a port that is open already.
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

    /// What it does when it is asked next, and for the times after that when called again.
    pub fn next(&self, script: Script) {
        self.shared.next.lock().unwrap().push_back(script);
    }

    /// Ends the [`Act::Hold`] at which it is, or the next one. Two calls before a hold end one.
    pub fn go_on(&self) {
        self.shared.go_on.notify_one();
    }

    /// What it was asked so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// The last thing it was asked.
    pub fn last_asked(&self) -> Asked {
        self.asked().pop().expect("the provider was not asked")
    }

    /// From now on takes so many requests in each second, and refuses others with 429. Those are no part of what it was asked.
    pub fn allow_per_second(&self, most: usize) {
        *self.shared.rate.lock().unwrap() = Some(Rate { most, second: Instant::now(), taken: 0 });
    }

    /// How many answers it has given to the end.
    pub fn finished(&self) -> usize {
        self.shared.finished.load(Ordering::SeqCst)
    }

    /// How many answers the other side did not hear to the end.
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
    /// The body.
    pub fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|e| panic!("{e}: {}", self.text))
    }

    /// The path that was asked.
    pub fn path(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or_default()
    }

    /// The same, unless it is that of chat completions.
    fn other_path(&self) -> Option<&str> {
        Some(self.path()).filter(|path| !path.ends_with("/chat/completions"))
    }

    /// A field of the head.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

impl Script {
    /// An answer with this head and body, and its length.
    pub fn answer(status: u16, fields: &[(&str, &str)], body: &[u8]) -> Self {
        let mut head = head(status, fields);
        head.extend_from_slice(format!("content-length: {}\r\n\r\n", body.len()).as_bytes());
        Self(vec![Act::Send([&head, body].concat())])
    }

    /// A completion in JSON.
    pub fn completion() -> Self {
        Self::json(&completion("Hello!"))
    }

    /// 200 with this JSON.
    pub fn json(body: &Value) -> Self {
        Self::answer(200, &[("content-type", "application/json")], body.to_string().as_bytes())
    }

    /// An error as providers make them, with their own words in it.
    pub fn error(status: u16) -> Self {
        let body = json!({ "error": { "message": SECRET, "type": SECRET, "code": SECRET } }).to_string();
        Self::answer(status, &[("content-type", "application/json"), ("x-provider", SECRET)], body.as_bytes())
    }

    /// These events as a stream, each in a chunk of its own.
    pub fn events<E: AsRef<str>>(events: &[E]) -> Self {
        let pieces = events.iter().map(|event| format!("{}\n\n", event.as_ref()).into_bytes());
        Self::stream(pieces, true)
    }

    /// These pieces as a stream; it ends as it should, or does not end.
    pub fn stream(pieces: impl IntoIterator<Item = Vec<u8>>, ends: bool) -> Self {
        Self::encoded_stream(&[], pieces, ends)
    }

    /// The same with more fields in its head.
    pub fn encoded_stream(fields: &[(&str, &str)], pieces: impl IntoIterator<Item = Vec<u8>>, ends: bool) -> Self {
        let fields = [&[("content-type", "text/event-stream"), ("transfer-encoding", "chunked")], fields].concat();
        let mut acts = vec![Act::Send([&head(200, &fields)[..], b"\r\n"].concat())];
        acts.extend(pieces.into_iter().map(|piece| Act::Send(chunk(&piece))));
        if ends {
            acts.push(Act::Send(b"0\r\n\r\n".to_vec()));
        }
        Self(acts)
    }

    /// The usual stream: `words` words, the reason to stop, usage, the end.
    pub fn usual_stream(words: usize) -> Self {
        Self::events(&usual_events(words))
    }

    /// Adds an act at the end.
    pub fn then(mut self, act: Act) -> Self {
        self.0.push(act);
        self
    }

    /// Adds a pause before every act but the first.
    pub fn slowly(self, pause: Duration) -> Self {
        self.each_after(&Act::Wait(pause))
    }

    /// Adds a hold before every act but the first.
    pub fn step_by_step(self) -> Self {
        self.each_after(&Act::Hold)
    }

    fn each_after(self, before: &Act) -> Self {
        let acts = self.0.into_iter().flat_map(|act| [before.clone(), act]);
        Self(acts.skip(1).collect())
    }

    /// Adds a hold after this many acts.
    pub fn held_after(mut self, acts: usize) -> Self {
        self.0.insert(acts, Act::Hold);
        self
    }

    /// The same bytes, cut into pieces of this size that arrive one by one.
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

/// A completion with usage 9 + 12.
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

/// The events of a usual stream, without their empty lines; usage 9 + `words`.
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

/// One event of a stream.
pub fn event(choices: &Value, usage: &Value) -> String {
    let frame = json!({
        "id": "cmpl-0001", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "upstream-name",
        "choices": choices, "usage": usage,
    });
    format!("data: {frame}")
}

/// One choice of an event.
pub fn choice(delta: &Value, finish_reason: Option<&str>) -> Value {
    json!({ "index": 0, "delta": delta, "finish_reason": finish_reason })
}

/// `bytes`, compressed and flushed piece by piece.
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

/// Whether the connection goes on.
async fn play(stream: &mut TcpStream, script: Script, shared: &Shared) -> bool {
    for act in script.0 {
        match act {
            Act::Send(bytes) => {
                // A sent byte may still be refused: what the other side did is seen when the next is sent.
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
