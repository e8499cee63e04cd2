//! Traces: a span for each completion, by OpenTelemetry's conventions for generative AI, for a collector of the
//! operator.
//!
//! All parts that work on a completion hold its [`CompletionSpan`], which ends when the last of them drops it. A span has the
//! model, the usage and how the completion ended, and no content of prompts or answers: no field could hold any, except
//! for finish reasons, which are taken from a fixed list. Spans wait in a bounded queue; if it is full they are dropped
//! and counted, and nothing waits for a collector. Providers receive no trace headers. Start with [`CompletionTraces::begin`].

mod context;
mod otlp;
mod send;

use std::sync::{Arc, Mutex, PoisonError};

use config::models::Model;
use domain::{Account, Clock, CompletionId, usage::Ending};
use edge_metrics as metrics;
use http::{HeaderMap, StatusCode};
use memchr::memmem;
use openai::{error_code::ErrorCode, usage::TokenUsage};
use tokio::{sync::mpsc, time::Instant};

pub use self::send::{TraceSetupError, TraceTask, start};
use self::{context::SpanContext, otlp::EndedSpan};

/// Precedes a finish reason. Inside a string, the quotes would be escaped, so an answer's words never match.
const FINISH_REASON: &[u8] = b"\"finish_reason\":";
/// The finish reasons that a span can have.
const KNOWN_REASONS: [&str; 5] = ["stop", "length", "tool_calls", "content_filter", "function_call"];

/// Creates spans.
#[derive(Clone)]
pub struct CompletionTraces {
    ended: mpsc::Sender<EndedSpan>,
    percent: u8,
    names_accounts: bool,
    clock: Clock,
}

/// The span of a completion, which ends when its last clone is dropped.
#[derive(Clone)]
pub struct CompletionSpan(Arc<ActiveSpan>);

struct ActiveSpan {
    ended: mpsc::Sender<EndedSpan>,
    started: Instant,
    /// The data to send, taken at the end.
    recorded: Mutex<Option<EndedSpan>>,
}

impl CompletionTraces {
    /// Begins the span of a completion of `model` for `account`, in the trace that `headers` name or in a new one.
    /// Returns `None` if the client did not sample its trace, or the configured percentage excludes it.
    pub fn begin(&self, headers: &HeaderMap, account: &Account, model: &Arc<Model>) -> Option<CompletionSpan> {
        let context = SpanContext::from_headers(headers, self.percent)?;
        let recorded = EndedSpan {
            context,
            start_millis: self.clock.now().unix_millis(),
            nanos: 0,
            model: model.clone(),
            account: self.names_accounts.then(|| account.as_str().to_owned()),
            completion: None,
            usage: None,
            reasons: Vec::new(),
            error: None,
            status: None,
        };
        let recorded = Mutex::new(Some(recorded));
        Some(CompletionSpan(Arc::new(ActiveSpan { ended: self.ended.clone(), started: Instant::now(), recorded })))
    }
}

impl CompletionSpan {
    fn record(&self, change: impl FnOnce(&mut EndedSpan)) {
        // The code under this lock does not panic.
        if let Some(recorded) = &mut *self.0.recorded.lock().unwrap_or_else(PoisonError::into_inner) {
            change(recorded);
        }
    }

    /// Records the completion's id and its usage.
    pub fn record_usage(&self, id: &CompletionId, usage: &TokenUsage) {
        self.record(|span| (span.completion, span.usage) = (Some(id.to_string()), Some(*usage)));
    }

    /// Records that the provider of `model` serves the completion.
    pub fn record_model(&self, model: &Arc<Model>) {
        self.record(|span| span.model.clone_from(model));
    }

    /// Records how an answer without a `finish_reason` ended.
    pub fn record_ending(&self, ending: Ending) {
        let reason = match ending {
            Ending::Stop => "stop",
            Ending::Length => "length",
            Ending::ToolCalls => "tool_calls",
            Ending::ContentFilter => "content_filter",
            Ending::ClientGone | Ending::ProviderError | Ending::Cut | Ending::Lost => return,
        };
        self.record(|span| span.reasons.push(reason));
    }

    /// Records the status of the response, and its error unless one was recorded before.
    pub fn record_response(&self, status: StatusCode, error: Option<ErrorCode>) {
        self.record(|span| {
            span.status = Some(status.as_u16());
            span.error = span.error.or(error);
        });
    }

    /// Records the error with which a stream failed, in place of any that was recorded before.
    pub fn record_error(&self, error: ErrorCode) {
        self.record(|span| span.error = Some(error));
    }

    /// Reads the finish reasons in frames of a chat completion, or in a whole one.
    pub fn record_finish_reasons(&self, chat: &[u8]) {
        for at in memmem::find_iter(chat, FINISH_REASON) {
            let rest = chat.get(at + FINISH_REASON.len()..).unwrap_or_default().trim_ascii_start();
            let Some(rest) = rest.strip_prefix(b"\"") else { continue };
            let reason = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
            let known = KNOWN_REASONS.iter().find(|known| known.as_bytes() == reason);
            self.record(|span| {
                if span.reasons.len() < limits::FINISH_REASONS {
                    span.reasons.push(known.copied().unwrap_or("other"));
                }
            });
        }
    }
}

impl Drop for ActiveSpan {
    fn drop(&mut self) {
        let recorded = self.recorded.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(mut ended) = recorded.take() else { return };
        ended.nanos = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if self.ended.try_send(ended).is_err() {
            metrics::spans_dropped("queue", 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use config::{Gateway, models::ModelCatalog};
    use domain::Timestamp;

    use super::*;

    #[test]
    fn a_span_says_what_is_known_and_no_word_of_an_answer() {
        let models = ModelCatalog::from_config(&Gateway::default(), |_| Some("key".to_owned())).unwrap();
        let model = models.find("svc/gpt-oss-120b").unwrap().clone();
        let (ended, mut sent) = mpsc::channel(1);
        let clock = Clock::from_fn(|| Timestamp::from_unix_millis(1_790_000_000_000));
        let traces = CompletionTraces { ended, percent: 100, names_accounts: false, clock };
        let begin = || traces.begin(&HeaderMap::new(), &"usr_0000000000000000001a".parse().unwrap(), &model).unwrap();
        let (span, dropped) = (begin(), begin());
        span.record_finish_reasons(
            br#"data: {"choices":[{"delta":{"content":"\"finish_reason\":\"xyzzy\""},"finish_reason":null}]}"#,
        );
        span.record_finish_reasons(br#"{"choices":[{"finish_reason": "stop"},{"finish_reason":"xyzzy"}]}"#);
        span.record_response(StatusCode::OK, None);
        let held = span.clone();
        drop(span);
        assert!(sent.try_recv().is_err(), "somebody holds it");
        drop(held);
        drop(dropped);
        let ended = sent.try_recv().unwrap();
        assert!(sent.try_recv().is_err(), "there was no place for the other");
        assert_eq!((ended.reasons.as_slice(), ended.status), (&["stop", "other"][..], Some(200)));
        let json =
            otlp::request(&[ended], &otlp::SpanResource { edge: "e".to_owned(), machine: "m".to_owned() }).to_string();
        assert!(!json.contains("xyzzy") && !json.contains("usr_"), "{json}");
        assert!(json.contains(r#""name":"chat svc/gpt-oss-120b""#) && json.contains("1790000000000000000"), "{json}");
    }
}
