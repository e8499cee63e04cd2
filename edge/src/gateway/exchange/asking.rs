//! Sends a request to a model's providers: first its own and, if that one cannot have begun, the second.
//!
//! A provider cannot have begun if it was not reached, or if it refuses with 429, 503 or 529 before a byte of an
//! answer. After anything else it may be working on the request and bill it, so no other provider is tried. That
//! includes 500, 502 and 504, which servers in front of a provider also return for requests that it received, and
//! connections that break off. If only a rate limit is in the way, requests wait for their turn
//! ([`Pace`](super::super::upstream::Pace)).

use domain::PayingAccount;
use http::StatusCode;
use tokio::time::Instant;

use super::{
    super::{
        error::ProviderError,
        metered_answer::MeteredAnswer,
        request::FallbackRequest,
        upstream::{AskError, Health, MediaType, Sendable, TooLate, UpstreamResponse},
    },
    Asked, Exchange,
};
use crate::metrics;

/// A request as it is sent to a provider.
pub(super) struct ProviderRequest {
    pub(super) body: Sendable,
    pub(super) is_stream: bool,
    pub(super) fallback: Option<Box<FallbackRequest>>,
}

/// How long a request may wait.
struct Deadlines {
    /// For its turn.
    pass: Instant,
    /// For the beginning of an answer.
    begin: Instant,
}

/// The outcome of one attempt at one provider.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and nearly all have begun")]
enum Attempt {
    /// The provider may have begun, so there is no other attempt.
    Ended(Asked),
    /// The provider cannot have begun.
    NotBegun(ProviderError),
}

impl Exchange {
    /// Sends the request to the model's providers until one may have begun. Returns that provider's answer if it has
    /// the status and media type of a completion. From then on, the exchange belongs to that provider.
    pub(super) async fn ask(
        &mut self,
        request: ProviderRequest,
        metered: &MeteredAnswer,
        account: &PayingAccount,
    ) -> Asked {
        let (now, upstream) = (Instant::now(), &self.model.upstream);
        let deadlines = Deadlines { pass: now + upstream.queue, begin: now + upstream.first_byte };
        let mut error = None;
        if self.model.pace.try_pass() {
            match self.attempt(request.body.clone(), request.is_stream, &deadlines, metered).await {
                Attempt::Ended(asked) => return asked,
                Attempt::NotBegun(why) => error = Some(why),
            }
        }
        // Boxed because it is rare: a request's future is as large as its largest branch.
        Box::pin(self.ask_on(request, error, &deadlines, metered, account)).await
    }

    /// Tries the second provider, then waits for a turn at the first, which was not tried or cannot have begun
    /// (`error`).
    async fn ask_on(
        &mut self,
        request: ProviderRequest,
        mut error: Option<ProviderError>,
        deadlines: &Deadlines,
        metered: &MeteredAnswer,
        account: &PayingAccount,
    ) -> Asked {
        let ProviderRequest { body, is_stream, fallback } = request;
        if let Some(fallback) = fallback
            && fallback.model.pace.try_pass()
        {
            let first = std::mem::replace(&mut self.model, fallback.model.clone());
            // A provider with only chat completions gets the request in that format.
            let native = if fallback.is_native() { None } else { self.native.take() };
            match fallback.write().await {
                Ok(body) => {
                    metrics::fallback(&self.model.upstream.name);
                    metered.serve_by(&self.model.model);
                    match self.attempt(body.into(), is_stream, deadlines, metered).await {
                        Attempt::Ended(asked) => return asked,
                        Attempt::NotBegun(why) => error = Some(why),
                    }
                }
                Err(()) => self.warn(&"the request cannot be written for the second provider"),
            }
            self.model = first;
            self.native = native.or(self.native.take());
            metered.serve_by(&self.model.model);
        }
        let body = if self.model.pace.is_limited() { body.kept() } else { body };
        // A large body that was sent cannot be sent again, unless a limit was known beforehand.
        while self.model.pace.is_limited() && body.is_there() {
            if let Err(TooLate { retry_after }) = self.model.pace.wait(account, deadlines.pass).await {
                error = Some(ProviderError::RateLimited { retry_after: Some(retry_after) });
                break;
            }
            match self.attempt(body.clone(), is_stream, deadlines, metered).await {
                Attempt::Ended(asked) => return asked,
                Attempt::NotBegun(why) => error = Some(why),
            }
            if !matches!(error, Some(ProviderError::RateLimited { .. })) {
                break;
            }
        }
        Asked::Failed(error.unwrap_or(ProviderError::RateLimited { retry_after: None }))
    }

    /// Sends the request once to the exchange's provider, unless its circuit is open.
    async fn attempt(
        &self,
        body: Sendable,
        is_stream: bool,
        deadlines: &Deadlines,
        metered: &MeteredAnswer,
    ) -> Attempt {
        let upstream = &self.model.upstream;
        let permit = match upstream.circuit.admit() {
            Ok(permit) => permit,
            Err(retry_after) => {
                metrics::upstream_failed(&upstream.name, "circuit open");
                return Attempt::NotBegun(ProviderError::Away { retry_after });
            }
        };
        let sent = Instant::now();
        let route = self.native.as_ref().map_or(self.route, |native| native.route());
        let answer = upstream.ask(route, body, is_stream, deadlines.begin, metered.opener()).await;
        upstream.answer_seconds.record(sent.elapsed());
        let answer = match answer {
            Ok(mut answer) => {
                answer.set_longest(self.longest);
                answer
            }
            Err(error) => {
                upstream.circuit.learn(permit, Health::Fails);
                metrics::upstream_failed(&upstream.name, error.metric_label());
                self.warn(&error);
                return match error {
                    AskError::Connect(_) => Attempt::not_begun(metered, ProviderError::FAILED),
                    AskError::ConnectTimeout => Attempt::not_begun(metered, ProviderError::Timeout),
                    AskError::Timeout => Attempt::Ended(Asked::Failed(ProviderError::Timeout)),
                    AskError::Broken(_) => Attempt::Ended(Asked::Failed(ProviderError::FAILED)),
                };
            }
        };
        upstream.circuit.learn(permit, Health::of(answer.status));
        let media_type = MediaType::of(&answer.headers);
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
            self.model.pace.taken();
        }
        match (answer.status, is_streamed) {
            (StatusCode::OK, Some(true)) => return Attempt::Ended(Asked::Stream(answer)),
            (StatusCode::OK, Some(false)) => return Attempt::Ended(Asked::Whole(answer)),
            _ => {}
        }
        // Boxed because it is rare.
        Box::pin(self.refusal(answer, media_type, sent, metered)).await
    }

    /// Classifies an answer that is no completion, for a request sent at `sent`.
    async fn refusal(
        &self,
        answer: UpstreamResponse,
        media_type: MediaType,
        sent: Instant,
        metered: &MeteredAnswer,
    ) -> Attempt {
        let status = answer.status.as_u16();
        metrics::upstream_failed(&self.model.upstream.name, answer.status.as_str().to_owned());
        let error = self.judge(answer, media_type).await;
        if let ProviderError::RateLimited { retry_after } = error
            && !self.model.upstream.queue.is_zero()
        {
            self.model.pace.refused(sent, retry_after);
        }
        if matches!(status, 429 | 503 | 529) {
            Attempt::not_begun(metered, error)
        } else {
            Attempt::Ended(Asked::Failed(error))
        }
    }
}

impl Attempt {
    /// Creates an attempt for which nothing is charged.
    fn not_begun(metered: &MeteredAnswer, error: ProviderError) -> Self {
        metered.set_not_begun();
        Self::NotBegun(error)
    }
}
