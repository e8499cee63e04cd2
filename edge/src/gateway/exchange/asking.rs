//! Asking the providers of a model: its own, and where that cannot have begun, the second one.
//!
//! A provider cannot have begun if it was not reached, or if it refuses with 429, 503 or 529 before a byte of an answer. After anything
//! else it may be at work, and bill it: nobody else is asked then. That includes 500, 502 and 504, which servers in front of a
//! provider also say of requests that it has had, and connections that break off.
//!
//! Where a rate limit is all that is in the way, requests wait for their turn ([`Pace`](super::super::upstream::Pace)).

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

/// A request as its providers get it.
pub(super) struct ProviderRequest {
    pub(super) body: Sendable,
    pub(super) is_stream: bool,
    /// The request for the second provider.
    pub(super) fallback: Option<Box<FallbackRequest>>,
}

/// Until when a request may wait.
struct Deadlines {
    /// For its turn.
    pass: Instant,
    /// For an answer that begins.
    begin: Instant,
}

/// What came of asking one provider once.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, and nearly all have begun")]
enum Attempt {
    /// It may have begun: there is no other.
    Ended(Asked),
    /// It cannot have begun.
    NotBegun(ProviderError),
}

impl Exchange {
    /// Sends the request to the model's providers until one may have begun, and returns the answer of that one, if it has the status
    /// and the media type of a completion. From then on the exchange is one with that provider.
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
        // Boxed, because it is rare: the future of a request is as large as its largest branch.
        Box::pin(self.ask_on(request, error, &deadlines, metered, account)).await
    }

    /// Asks the second provider, and waits for a turn at the first, which was not asked or cannot have begun because of `error`.
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
            // One that has chat completions alone is asked for one.
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
        // A large body that was sent is gone, unless a limit was known before.
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

    /// Asks the exchange's provider once, unless its circuit is open.
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
        // Whoever asked for a stream gets a whole answer as one, and the other way round.
        let is_streamed = match media_type {
            MediaType::EventStream => Some(true),
            MediaType::Json => Some(false),
            MediaType::None => Some(is_stream),
            MediaType::Other => (!is_stream).then_some(false),
        };
        // Answers that pass as they are cannot be turned into the other kind.
        let is_streamed = is_streamed.filter(|is_streamed| self.native.is_none() || *is_streamed == is_stream);
        if answer.status != StatusCode::TOO_MANY_REQUESTS {
            self.model.pace.taken();
        }
        match (answer.status, is_streamed) {
            (StatusCode::OK, Some(true)) => return Attempt::Ended(Asked::Stream(answer)),
            (StatusCode::OK, Some(false)) => return Attempt::Ended(Asked::Whole(answer)),
            _ => {}
        }
        // Boxed, because it is rare.
        Box::pin(self.refusal(answer, media_type, sent, metered)).await
    }

    /// What an answer means that is no completion, to a request that was sent at `sent`.
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
    /// An attempt for which there is nothing to pay.
    fn not_begun(metered: &MeteredAnswer, error: ProviderError) -> Self {
        metered.set_not_begun();
        Self::NotBegun(error)
    }
}
