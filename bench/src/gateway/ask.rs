//! The clients of the gateways: each sends a request, reads the whole response, and repeats.

use std::{
    net::Ipv4Addr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, ensure};
use bytes::Bytes;
use clap::Args;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use serde::{Deserialize, Serialize};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::{figures::quantile, wire::TrustedRoots};

/// The timeout of a response: as long as a thousand streams may take through a slow gateway.
pub(super) const PATIENCE: Duration = Duration::from_secs(75);
/// The shortest wait in a stream that is a stall: Nagle's algorithm with an acknowledgement delayed by 40 ms.
pub(super) const STALL: Duration = Duration::from_millis(30);

/// How much of a response's end is kept to find its end: the last event of the responses API repeats the output.
const KEPT_BYTES: usize = 32 << 10;
pub(super) const RESPONSES: &str = "/v1/responses";
pub(super) const MESSAGES: &str = "/v1/messages";

#[derive(Args, Clone, Debug)]
pub(crate) struct ClientArguments {
    /// The gateway's port on this machine.
    #[arg(long)]
    pub(crate) port: u16,
    /// `Host`, and the name in the TLS handshake.
    #[arg(long)]
    pub(crate) host: String,
    /// The path of the request.
    #[arg(long)]
    pub(crate) path: String,
    /// The model that the request names.
    #[arg(long)]
    pub(crate) model: String,
    /// A header line, `name: value`. Repeatable.
    #[arg(long)]
    pub(crate) header: Vec<String>,
    /// The authority to trust; enables TLS.
    #[arg(long)]
    pub(crate) ca_file: Option<PathBuf>,
    /// Whether to request a streamed response.
    #[arg(long)]
    pub(crate) stream: bool,
    /// Milliseconds between the chunks of a stream.
    #[arg(long)]
    pub(crate) pace: Option<u32>,
    /// Milliseconds between the first chunk of a stream and the others.
    #[arg(long)]
    pub(crate) pause: Option<u32>,
    /// Whether the account is at its limit, so that refusals (429) count as responses.
    #[arg(long)]
    pub(crate) at_limit: bool,
    /// The number of clients, each with one connection.
    #[arg(long, default_value_t = 1)]
    pub(crate) clients: usize,
    /// Seconds after which the clients stop sending requests.
    #[arg(long, default_value_t = 0)]
    pub(crate) seconds: u32,
}

#[derive(Serialize, Deserialize, Clone, Copy)]
pub(crate) struct ClientResult {
    pub(crate) answers: f64,
    /// The number of these that were refusals.
    pub(crate) refused: f64,
    pub(crate) per_second: f64,
    /// The median time until a response was complete, in seconds.
    pub(crate) whole_p50: f64,
    /// The 99th percentile of the same.
    pub(crate) whole_p99: f64,
    /// The median time until a response's first byte, in seconds.
    pub(crate) first_p50: f64,
    /// The 99th percentile of the same.
    pub(crate) first_p99: f64,
    /// The median over all responses of the longest wait between two reads, in seconds.
    pub(crate) wait_p50: f64,
    /// The share of responses with a stall.
    pub(crate) stalled: f64,
}

struct ResponseTimes {
    is_refused: bool,
    first: f64,
    whole: f64,
    longest_wait: f64,
}

pub(crate) fn run(asking: &ClientArguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let asked = runtime.block_on(ask(asking))?;
    println!("{}", serde_json::to_string(&asked)?);
    Ok(())
}

async fn ask(asking: &ClientArguments) -> anyhow::Result<ClientResult> {
    let began = Instant::now();
    let until = began + Duration::from_secs(asking.seconds.into());
    let clients = (0..asking.clients).map(|_| tokio::spawn(client(asking.clone(), until))).collect::<Vec<_>>();
    let mut times = Vec::new();
    for client in clients {
        times.extend(client.await??);
    }
    let all = |of: fn(&ResponseTimes) -> f64| times.iter().map(of).collect::<Vec<_>>();
    let (first, whole, waits) = (all(|it| it.first), all(|it| it.whole), all(|it| it.longest_wait));
    let refused = times.iter().filter(|it| it.is_refused).count();
    let stalled = waits.iter().filter(|wait| **wait >= STALL.as_secs_f64()).count();
    #[expect(clippy::cast_precision_loss, reason = "counts far below 2^52")]
    let (answers, refused, stalled) = (times.len() as f64, refused as f64, stalled as f64);
    Ok(ClientResult {
        answers,
        refused,
        per_second: answers / began.elapsed().as_secs_f64(),
        whole_p50: quantile(&whole, 0.5),
        whole_p99: quantile(&whole, 0.99),
        first_p50: quantile(&first, 0.5),
        first_p99: quantile(&first, 0.99),
        wait_p50: quantile(&waits, 0.5),
        stalled: stalled / answers,
    })
}

pub(super) fn body(asking: &ClientArguments) -> anyhow::Result<Bytes> {
    let wish = |name, millis: Option<u32>| millis.map(|millis| format!(" {name}:{millis}")).unwrap_or_default();
    let (pace, pause) = (wish("pace", asking.pace), wish("pause", asking.pause));
    let messages = serde_json::json!([{"role": "user", "content": format!("Write a hundred words.{pace}{pause}")}]);
    let mut body = serde_json::json!({"model": asking.model, "stream": asking.stream});
    // Chat completions and messages use the same names.
    let (ceiling, conversation) =
        if asking.path == RESPONSES { ("max_output_tokens", "input") } else { ("max_tokens", "messages") };
    body[ceiling] = 128.into();
    body[conversation] = messages;
    Ok(Bytes::from(serde_json::to_string(&body)?))
}

/// Returns a text that only the end of a complete stream contains.
fn end_of_stream(path: &str) -> &'static str {
    match path {
        RESPONSES => "response.completed",
        MESSAGES => "message_stop",
        _ => "[DONE]",
    }
}

async fn client(asking: ClientArguments, until: Instant) -> anyhow::Result<Vec<ResponseTimes>> {
    let body = body(&asking)?;
    let mut sender = connect(&asking).await?;
    let mut times = Vec::new();
    loop {
        let mut request = Request::post(&asking.path)
            .header(header::HOST, &asking.host)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::CONTENT_LENGTH, body.len());
        for line in &asking.header {
            let (name, value) = line.split_once(": ").context("a header is `name: value`")?;
            request = request.header(name, value);
        }
        let sent = Instant::now();
        if sender.is_closed() {
            sender = connect(&asking).await?;
        }
        sender.ready().await?;
        let answer = async {
            let response = sender.send_request(request.body(Full::new(body.clone()))?).await?;
            let (status, mut body) = (response.status(), response.into_body());
            let (mut first, mut end) = (None, Vec::new());
            let (mut last, mut longest_wait) = (sent, Duration::ZERO);
            while let Some(frame) = body.frame().await {
                let now = Instant::now();
                longest_wait = longest_wait.max(now - last);
                last = now;
                first.get_or_insert_with(|| now - sent);
                if let Ok(data) = frame?.into_data() {
                    if end.len() > 2 * KEPT_BYTES {
                        end.drain(..end.len() - KEPT_BYTES);
                    }
                    end.extend_from_slice(&data);
                }
            }
            let end = String::from_utf8_lossy(&end);
            let is_refused = asking.at_limit && status == StatusCode::TOO_MANY_REQUESTS;
            ensure!(is_refused || status.is_success(), "{status}: {end}");
            ensure!(
                !asking.stream || is_refused || end.contains(end_of_stream(&asking.path)),
                "a stream without its end: {end}"
            );
            Ok(ResponseTimes {
                is_refused,
                first: first.unwrap_or_default().as_secs_f64(),
                whole: sent.elapsed().as_secs_f64(),
                longest_wait: longest_wait.as_secs_f64(),
            })
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        times.push(answer.with_context(|| format!("no whole answer within {} s", PATIENCE.as_secs()))??);
        if Instant::now() >= until {
            return Ok(times);
        }
    }
}

async fn connect(asking: &ClientArguments) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, asking.port)).await?;
    stream.set_nodelay(true)?;
    let Some(ca_file) = &asking.ca_file else {
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        return Ok(sender);
    };
    let connector = TlsConnector::from(Arc::clone(&TrustedRoots::in_file(ca_file)?.0));
    let stream = connector.connect(ServerName::try_from(asking.host.clone())?, stream).await?;
    let (sender, connection) = handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}
