//! `POST /v1/chat/completions`, from the admitted request to its answer.

use std::{
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Shared,
    body::Body,
    catalog::Served,
    drains::Gone,
    gzip::Unzipping,
    json,
    keys::GatewayKey,
    meter::{Admitted, Rate, Rates, Refused, Ticket, Usage},
    refusal::{Fault, Refusal},
    request::{Completion, likely_tokens},
    sse::{Frames, reported, written_usage},
    stream::{Flow, Metered, Stream},
    upstream::{Answer, Broken, NoAnswer},
};
use crate::{limits, metrics};

/// Answers a judged request. It is polled on when its client has gone.
pub(super) async fn complete(
    shared: Arc<Shared>,
    key: Arc<GatewayKey>,
    completion: Completion,
    request_id: String,
    gone: Gone,
) -> Response<Body> {
    let Ok(permit) = shared.under_way.clone().try_acquire_owned() else {
        metrics::gateway(&completion.served.model.id, StatusCode::SERVICE_UNAVAILABLE);
        return refuse(Refusal::busy(), None);
    };
    let model = completion.served.model.clone();
    let response = exchange(shared, key, completion, request_id, gone, permit).await;
    metrics::gateway(&model.id, response.status());
    response
}

async fn exchange(
    shared: Arc<Shared>,
    key: Arc<GatewayKey>,
    completion: Completion,
    request_id: String,
    gone: Gone,
    permit: OwnedSemaphorePermit,
) -> Response<Body> {
    let Completion { served, is_stream, reserve, likely_prompt, body } = completion;
    let most = reserve.completion;
    let Admitted { ticket, rates } = match shared.meter.admit(&key, &served.model, reserve).await {
        Ok(admitted) => admitted,
        Err(refused) => {
            let rates = match &refused {
                Refused::Requests { rates, .. } | Refused::Tokens { rates, .. } => Some(rates),
                Refused::Credit { .. } | Refused::Unavailable { .. } => None,
            };
            return refuse(Refusal::metered(&refused), rates);
        }
    };
    if gone.is_set() {
        ticket.release();
        return refuse(Refusal::broken_body(), None);
    }
    let exchange = Exchange { shared, served, likely_prompt, most, request_id };
    let answered = match exchange.ask(body, is_stream).await {
        Ok(answer) if is_stream => exchange.stream(answer, ticket, permit),
        Ok(answer) => exchange.whole(answer, ticket).await,
        Err(fault) => {
            ticket.release();
            Err(fault)
        }
    };
    match answered {
        Ok(mut response) => {
            put_rates(response.headers_mut(), &rates);
            response
        }
        Err(fault) => refuse(Refusal::upstream(fault), Some(&rates)),
    }
}

/// One request to a provider.
struct Exchange {
    shared: Arc<Shared>,
    served: Arc<Served>,
    likely_prompt: u64,
    most: u64,
    request_id: String,
}

impl Exchange {
    /// The provider's answer, if it is one.
    async fn ask(&self, body: Bytes, is_stream: bool) -> Result<Answer, Fault> {
        let provider = &self.served.upstream.name;
        let asked = Instant::now();
        let answer = self.served.upstream.ask(body, is_stream).await;
        metrics::upstream(provider, asked.elapsed());
        let answer = answer.map_err(|error| {
            metrics::upstream_failed(provider, error.word());
            self.warn(&error);
            match error {
                NoAnswer::Slow | NoAnswer::SlowConnect => Fault::Slow,
                NoAnswer::Connect(_) | NoAnswer::Broken(_) => Fault::FAILED,
            }
        })?;
        let kind = answer.headers.get(header::CONTENT_TYPE).map_or(&b""[..], HeaderValue::as_bytes);
        let is_event_stream = kind.starts_with(b"text/event-stream");
        if answer.status == StatusCode::OK && (is_event_stream == is_stream || kind.is_empty()) {
            return Ok(answer);
        }
        self.warn(&format_args!(
            "status {}, {}",
            answer.status.as_u16(),
            if is_event_stream { "events" } else { "no events" }
        ));
        metrics::upstream_failed(provider, answer.status.as_str().to_owned());
        let fault = self.fault_of(&answer);
        self.put_away(answer);
        Err(fault)
    }

    fn fault_of(&self, answer: &Answer) -> Fault {
        let retry_after = || retry_after(&answer.headers, &self.shared.clock);
        match answer.status.as_u16() {
            400 | 413 | 422 => Fault::Refused,
            408 | 504 => Fault::Slow,
            429 => Fault::Limited { retry_after: retry_after() },
            500.. => Fault::Failed { retry_after: retry_after() },
            // Our key, our address, our money: nothing that the client can help.
            _ => Fault::FAILED,
        }
    }

    /// Reads what a provider says beside its status, unseen, so that the connection can be used again.
    fn put_away(&self, mut answer: Answer) {
        let served = self.served.clone();
        self.shared.drains.take_over(async move {
            let mut read = 0;
            let end = tokio::time::timeout(limits::STREAM_END, async {
                while let Some(Ok(chunk)) = poll_fn(|cx| answer.poll_chunk(cx)).await {
                    read += chunk.len();
                    if read > limits::PROVIDER_ERROR_BYTES {
                        return false;
                    }
                }
                true
            });
            if end.await.unwrap_or(false) {
                served.upstream.keep(answer.into_line());
            }
        });
    }

    fn stream(self, mut answer: Answer, ticket: Ticket, permit: OwnedSemaphorePermit) -> Result<Response<Body>, Fault> {
        let unzipping = match Unzipping::of(&answer.headers) {
            Ok(unzipping) => unzipping,
            Err(bad) => {
                self.warn(&bad);
                ticket.release();
                return Err(Fault::FAILED);
            }
        };
        // A stream lasts, and nobody asks for them again.
        answer.headers = HeaderMap::new();
        let frames = Frames::new(self.served.clone(), self.likely_prompt, self.most);
        let flow = Flow {
            answer,
            metered: Metered::new(frames, ticket),
            unzipping,
            served: self.served,
            request_id: self.request_id,
            permit,
            read: 0,
            out: BytesMut::new(),
        };
        let mut response = Response::new(Stream::new(flow, self.shared.drains.clone()).into());
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        // Proxies of nginx's kind would hold frames back.
        headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
        Ok(response)
    }

    async fn whole(&self, answer: Answer, ticket: Ticket) -> Result<Response<Body>, Fault> {
        match self.read(answer).await {
            Ok((body, usage)) => {
                ticket.settle(usage);
                let mut response = Response::new(body.into());
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                Ok(response)
            }
            Err(fault) => {
                ticket.release();
                Err(fault)
            }
        }
    }

    async fn read(&self, mut answer: Answer) -> Result<(Bytes, Usage), Fault> {
        let failed = |why: &dyn std::fmt::Display| {
            metrics::upstream_failed(&self.served.upstream.name, "unusable answer");
            self.warn(why);
            Fault::FAILED
        };
        let mut unzipping = Unzipping::of(&answer.headers).map_err(|bad| failed(&bad))?;
        let mut body = BytesMut::new();
        while let Some(chunk) = poll_fn(|cx| answer.poll_chunk(cx)).await {
            let chunk = chunk.map_err(|broken| {
                metrics::upstream_failed(&self.served.upstream.name, "answer broke off");
                self.warn(&broken);
                if broken == Broken::Slow { Fault::Slow } else { Fault::FAILED }
            })?;
            match &mut unzipping {
                None => body.extend_from_slice(&chunk),
                Some(unzipping) => {
                    for piece in chunk.chunks(limits::ZIPPED_PIECE_BYTES) {
                        body.extend_from_slice(&unzipping.take(piece).map_err(|bad| failed(&bad))?);
                        if body.len() > limits::ANSWER_BYTES {
                            break;
                        }
                    }
                }
            }
            if body.len() > limits::ANSWER_BYTES {
                return Err(failed(&"the answer is too large"));
            }
        }
        self.served.upstream.keep(answer.into_line());
        self.put_right(&body).ok_or_else(|| failed(&"the answer is no completion"))
    }

    /// The answer under our name of the model, and its usage.
    fn put_right(&self, body: &[u8]) -> Option<(Bytes, Usage)> {
        let mut out = BytesMut::with_capacity(body.len() + limits::ADDED_BYTES);
        let (mut written, mut usage, mut choices) = (0, None, None);
        for field in json::fields(body) {
            let field = field.ok()?;
            let value = body.get(field.value.clone())?;
            match &*field.name() {
                b"model" => {
                    out.extend_from_slice(body.get(written..field.value.start)?);
                    out.extend_from_slice(self.served.id_json.as_bytes());
                    written = field.value.end;
                }
                b"usage" => usage = reported(value),
                b"choices" => choices = Some(value),
                b"error" if value != b"null" => return None,
                _ => {}
            }
        }
        out.extend_from_slice(body.get(written..)?);
        let choices = choices.filter(|choices| choices.starts_with(b"["))?;
        if let Some(usage) = usage {
            return Some((out.freeze(), usage));
        }
        let completion = likely_tokens(choices.len().saturating_sub(limits::CHOICE_BYTES)).clamp(1, self.most.max(1));
        let usage = Usage { prompt: self.likely_prompt, completion, estimated: true };
        out.truncate(out.trim_ascii_end().len() - 1);
        out.extend_from_slice(b",\"usage\":");
        out.extend_from_slice(written_usage(&usage).as_bytes());
        out.extend_from_slice(b"}");
        Some((out.freeze(), usage))
    }

    fn warn(&self, why: &dyn std::fmt::Display) {
        tracing::warn!(provider = self.served.upstream.name, request = self.request_id, %why, "a completion failed");
    }
}

/// A refusal, as an answer.
pub(super) fn refuse(refusal: Refusal, rates: Option<&Rates>) -> Response<Body> {
    let (status, headers, body) = refusal.into_parts();
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if let Some(rates) = rates {
        put_rates(response.headers_mut(), rates);
    }
    response
}

fn put_rates(headers: &mut HeaderMap, rates: &Rates) {
    const REQUESTS: [HeaderName; 3] = [
        HeaderName::from_static("x-ratelimit-limit-requests"),
        HeaderName::from_static("x-ratelimit-remaining-requests"),
        HeaderName::from_static("x-ratelimit-reset-requests"),
    ];
    const TOKENS: [HeaderName; 3] = [
        HeaderName::from_static("x-ratelimit-limit-tokens"),
        HeaderName::from_static("x-ratelimit-remaining-tokens"),
        HeaderName::from_static("x-ratelimit-reset-tokens"),
    ];
    for ([limit, remaining, reset], Rate { limit: most, remaining: left, reset: wait }) in
        [(REQUESTS, &rates.requests), (TOKENS, &rates.tokens)]
    {
        headers.insert(limit, HeaderValue::from(*most));
        headers.insert(remaining, HeaderValue::from(*left));
        if let Ok(wait) = HeaderValue::try_from(span(*wait)) {
            headers.insert(reset, wait);
        }
    }
}

/// A span of time as `OpenAI` writes it: `6m0s`, `1s`, `20ms`.
fn span(wait: Duration) -> String {
    let seconds = wait.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{}ms", wait.subsec_millis()),
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// What a provider says of when to come again, within reason: a client would sleep as long as it is told.
fn retry_after(headers: &HeaderMap, clock: &domain::Clock) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = if let Ok(seconds) = text.parse() {
        Duration::from_secs(seconds)
    } else {
        let at = httpdate::parse_http_date(text).ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
        at.saturating_sub(Duration::from_millis(clock.now().unix_millis()))
    };
    Some(wait.clamp(Duration::from_secs(1), limits::PROVIDER_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_written_as_openai_does() {
        for (millis, written) in
            [(0, "0ms"), (20, "20ms"), (1_000, "1s"), (59_999, "59s"), (360_000, "6m0s"), (86_399_000, "23h59m59s")]
        {
            assert_eq!(span(Duration::from_millis(millis)), written);
        }
    }

    #[test]
    fn a_provider_is_believed_within_reason_about_when_to_come_again() {
        let now = domain::Timestamp::from_unix_millis(784_111_777_000);
        let clock = domain::Clock::from_fn(move || now);
        for (said, believed) in [
            ("7", Some(7)),
            ("0", Some(1)),
            ("999999", Some(limits::PROVIDER_RETRY_AFTER.as_secs())),
            ("Sun, 06 Nov 1994 08:49:57 GMT", Some(20)),
            ("Sat, 06 Nov 1993 08:49:57 GMT", Some(1)),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(header::RETRY_AFTER, said.parse().unwrap())]);
            assert_eq!(retry_after(&headers, &clock).map(|wait| wait.as_secs()), believed, "{said}");
        }
    }
}
