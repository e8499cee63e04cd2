//! The provider behind every gateway under test: as fast as possible, always with the same response.
//!
//! A prompt with `pace:N` gets its stream's chunks N milliseconds apart; with `pause:N`, the other chunks follow N
//! milliseconds after the first. Otherwise they are sent as fast as they are read, each in its own write.

use std::{
    convert::Infallible,
    net::Ipv4Addr,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header::CONTENT_TYPE};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, time::Sleep};

pub(super) const CHUNKS: usize = 100;

pub(super) const JSON: &str = r#"{"id":"chatcmpl-bench","object":"chat.completion","created":1700000000,"model":"bench","choices":[{"index":0,"message":{"role":"assistant","content":"The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog. The quick brown fox jumps over the lazy dog."},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":30,"total_tokens":42}}"#;
pub(super) const CHUNK: &str = "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" word\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
const FINISH: &str = "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\",\"choices\":[{\"index\":0,\"delta\":{},\"logprobs\":null,\"finish_reason\":\"stop\"}]}\n\n";
const USAGE: &str = "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"bench\",\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"completion_tokens\":100,\"total_tokens\":112}}\n\n";
const DONE: &str = "data: [DONE]\n\n";

pub(crate) fn run(port: u16) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)));
        }
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Either<Full<Bytes>, ChunkStream>>, Infallible> {
    let body = request.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let streams = text.contains("\"stream\":true") || text.contains("\"stream\": true");
    let (body, kind) = if streams {
        (
            Either::Right(ChunkStream {
                sent: 0,
                pace: parse_millis(&text, "pace:"),
                pause: parse_millis(&text, "pause:"),
                waiting: None,
                rests: true,
            }),
            "text/event-stream",
        )
    } else {
        (Either::Left(Full::from(JSON)), "application/json")
    };
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// Parses the milliseconds that a prompt requests.
fn parse_millis(text: &str, name: &str) -> Option<Duration> {
    let digits = text.split_once(name)?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    digits[..end].parse().ok().map(Duration::from_millis)
}

struct ChunkStream {
    sent: usize,
    pace: Option<Duration>,
    pause: Option<Duration>,
    waiting: Option<Pin<Box<Sleep>>>,
    /// Whether the next poll only yields, so that the chunk is sent.
    rests: bool,
}

impl Body for ChunkStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let wait = match self.sent {
            0 => None,
            1 => self.pause.or(self.pace),
            _ => self.pace,
        };
        if let Some(wait) = wait {
            let sleep = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
            ready!(sleep.as_mut().poll(cx));
            self.waiting = None;
        } else {
            self.rests = !self.rests;
            if self.rests && self.sent > 0 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        }
        let text = match self.sent {
            sent if sent < CHUNKS => CHUNK,
            CHUNKS => FINISH,
            sent if sent == CHUNKS + 1 => USAGE,
            sent if sent == CHUNKS + 2 => DONE,
            _ => return Poll::Ready(None),
        };
        self.sent += 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(text.as_bytes())))))
    }
}
