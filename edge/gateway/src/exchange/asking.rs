//! Sends a request to a model's providers: first its own and, if that one cannot have begun, the second.
//!
//! A provider cannot have begun if it was not reached, or if it refuses with 429, 503 or 529 before a byte of an
//! answer. After anything else it may be working on the request and bill it, so no other provider is tried. That
//! includes 500, 502 and 504, which servers in front of a provider also return for requests that it received, and
//! connections that break off. If only a rate limit is in the way, requests wait for their turn
//! ([`ProviderPace`](upstream::ProviderPace)).

use domain::PayingAccount;
use edge_metrics as metrics;
use gateway_request::{error::ProviderError, request::FallbackRequest};
use http::StatusCode;
use tokio::time::Instant;
use upstream::{MediaType, PaceError, ProviderHealth, UpstreamBody, UpstreamError, UpstreamResponse};

use super::{super::metered_answer::MeteredAnswer, ProviderExchange, ProviderOutcome};

/// A request as it is sent to a provider.
pub(super) struct ProviderRequest {
    pub(super) body: UpstreamBody,
    pub(super) is_stream: bool,
    pub(super) fallback: Option<Box<FallbackRequest>>,
}

/// How long a request may wait.
struct AttemptDeadlines {
    /// For its turn.
    pass: Instant,
    /// For the beginning of an answer.
    begin: Instant,
}

/// The outcome of one attempt at one provider.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and nearly all have begun")]
enum AttemptOutcome {
    /// The provider may have begun, so there is no other attempt.
    Ended(ProviderOutcome),
    /// The provider cannot have begun.
    NotBegun(ProviderError),
}

impl ProviderExchange {
    /// Sends the request to the model's providers until one may have begun. Returns that provider's answer if it has
    /// the status and media type of a completion. From then on, the exchange belongs to that provider.
    pub(super) async fn send_to_providers(
        &mut self,
        request: ProviderRequest,
        metered: &MeteredAnswer,
        account: &PayingAccount,
    ) -> ProviderOutcome {
        let (now, upstream) = (Instant::now(), &self.model.upstream);
        let deadlines = AttemptDeadlines { pass: now + upstream.queue, begin: now + upstream.first_byte };
        let mut error = None;
        if self.model.pace.try_pass(account) {
            match self.attempt(request.body.clone(), request.is_stream, &deadlines, metered, account).await {
                AttemptOutcome::Ended(asked) => return asked,
                AttemptOutcome::NotBegun(why) => error = Some(why),
            }
        }
        // Boxed because it is rare: a request's future is as large as its largest branch.
        Box::pin(self.send_with_fallback(request, error, &deadlines, metered, account)).await
    }

    /// Tries the second provider, then waits for a turn at the first, which was not tried or cannot have begun
    /// (`error`).
    async fn send_with_fallback(
        &mut self,
        request: ProviderRequest,
        mut error: Option<ProviderError>,
        deadlines: &AttemptDeadlines,
        metered: &MeteredAnswer,
        account: &PayingAccount,
    ) -> ProviderOutcome {
        let ProviderRequest { body, is_stream, fallback } = request;
        if let Some(fallback) = fallback
            && fallback.model.pace.try_pass(account)
        {
            let first = std::mem::replace(&mut self.model, fallback.model.clone());
            // A provider with only chat completions gets the request in that format.
            let native = if fallback.is_native() { None } else { self.native.take() };
            match fallback.write().await {
                Ok(body) => {
                    metrics::fallback(&self.model.upstream.name);
                    metered.serve_by(&self.model.model);
                    match self.attempt(body.into(), is_stream, deadlines, metered, account).await {
                        AttemptOutcome::Ended(asked) => return asked,
                        AttemptOutcome::NotBegun(why) => error = Some(why),
                    }
                }
                Err(()) => self.warn(&"the request cannot be written for the second provider"),
            }
            self.model = first;
            self.native = native.or(self.native.take());
            metered.serve_by(&self.model.model);
        }
        let body = if self.model.pace.is_limited(account) { body.with_retention() } else { body };
        // A large body that was sent cannot be sent again, unless a limit was known beforehand.
        while self.model.pace.is_limited(account) && body.is_available() {
            if let Err(PaceError { retry_after }) = self.model.pace.wait(account, deadlines.pass).await {
                error = Some(ProviderError::RateLimited { retry_after: Some(retry_after) });
                break;
            }
            match self.attempt(body.clone(), is_stream, deadlines, metered, account).await {
                AttemptOutcome::Ended(asked) => return asked,
                AttemptOutcome::NotBegun(why) => error = Some(why),
            }
            if !matches!(error, Some(ProviderError::RateLimited { .. })) {
                break;
            }
        }
        ProviderOutcome::Failed(error.unwrap_or(ProviderError::RateLimited { retry_after: None }))
    }

    /// Sends the request once to the exchange's provider, unless its circuit is open.
    async fn attempt(
        &self,
        body: UpstreamBody,
        is_stream: bool,
        deadlines: &AttemptDeadlines,
        metered: &MeteredAnswer,
        account: &PayingAccount,
    ) -> AttemptOutcome {
        let upstream = &self.model.upstream;
        let permit = match upstream.circuit.admit() {
            Ok(permit) => permit,
            Err(retry_after) => {
                metrics::upstream_failed(&upstream.name, "circuit open");
                return AttemptOutcome::NotBegun(ProviderError::Away { retry_after });
            }
        };
        let sent = Instant::now();
        let route = self.native.as_ref().map_or(self.route, |native| native.route());
        let answer = upstream.send(route, body, is_stream, deadlines.begin, metered.reservation_opener()).await;
        upstream.answer_seconds.record(sent.elapsed());
        let answer = match answer {
            Ok(mut answer) => {
                answer.set_longest(self.longest);
                answer
            }
            Err(error) => {
                upstream.circuit.record_outcome(permit, ProviderHealth::Fails);
                metrics::upstream_failed(&upstream.name, error.metric_label());
                self.warn(&error);
                return match error {
                    UpstreamError::Connect(_) => AttemptOutcome::without_charge(metered, ProviderError::FAILED),
                    UpstreamError::ConnectTimeout => AttemptOutcome::without_charge(metered, ProviderError::Timeout),
                    UpstreamError::Timeout => AttemptOutcome::Ended(ProviderOutcome::Failed(ProviderError::Timeout)),
                    UpstreamError::Broken(_) => AttemptOutcome::Ended(ProviderOutcome::Failed(ProviderError::FAILED)),
                };
            }
        };
        upstream.circuit.record_outcome(permit, ProviderHealth::from_status(answer.status));
        let media_type = MediaType::from_headers(&answer.headers);
        // A client that requested a stream can be answered from a whole answer, and vice versa.
        let is_streamed = match media_type {
            MediaType::EventStream => Some(true),
            MediaType::Json => Some(false),
            MediaType::None => Some(is_stream),
            MediaType::Other => (!is_stream).then_some(false),
        };
        // Answers that are relayed in the provider's own format cannot be converted to the other kind.
        let is_streamed = is_streamed.filter(|is_streamed| self.native.is_none() || *is_streamed == is_stream);
        if answer.status != StatusCode::TOO_MANY_REQUESTS {
            self.model.pace.record_accepted(account);
        }
        match (answer.status, is_streamed) {
            (StatusCode::OK, Some(true)) => return AttemptOutcome::Ended(ProviderOutcome::Stream(answer)),
            (StatusCode::OK, Some(false)) => return AttemptOutcome::Ended(ProviderOutcome::Whole(answer)),
            _ => {}
        }
        // Boxed because it is rare.
        Box::pin(self.classify_refusal(answer, media_type, sent, metered, account)).await
    }

    /// Classifies an answer that is no completion, for a request sent at `sent`.
    async fn classify_refusal(
        &self,
        answer: UpstreamResponse,
        media_type: MediaType,
        sent: Instant,
        metered: &MeteredAnswer,
        account: &PayingAccount,
    ) -> AttemptOutcome {
        let status = answer.status.as_u16();
        // Before the body is read: a client that leaves meanwhile has had nothing.
        metered.set_not_begun();
        metrics::upstream_failed(&self.model.upstream.name, answer.status.as_str().to_owned());
        let error = self.classify_answer(answer, media_type).await;
        if let ProviderError::RateLimited { retry_after } = error
            && !self.model.upstream.queue.is_zero()
        {
            self.model.pace.record_refused(account, sent, retry_after);
        }
        if matches!(status, 429 | 503 | 529) {
            AttemptOutcome::without_charge(metered, error)
        } else {
            AttemptOutcome::Ended(ProviderOutcome::Failed(error))
        }
    }
}

impl AttemptOutcome {
    /// Creates an attempt for which nothing is charged.
    fn without_charge(metered: &MeteredAnswer, error: ProviderError) -> Self {
        metered.set_not_begun();
        Self::NotBegun(error)
    }
}
