//! An exchange with the admins: tries one after the other for as long as a retry is safe.
//!
//! A request is retried
//!
//! - when an admin could not be reached, or refused it before any work for a reason of its own ([`ELSEWHERE`]);
//! - when it only reads (GET, HEAD), and the connection ended, or the admin became silent, before a response started;
//! - when the connection ended without a response and the admin had reported that it is stopping, which finishes its
//!   work.
//!
//! The body must still be whole: it was read beforehand because it is small, or nothing of it has been sent, because an
//! upload waits until admin wants it (`Expect: 100-continue`). Other requests are not retried, including PUT and
//! DELETE: an admin that disconnected may have processed them, and the resource may have changed since.

use std::sync::Arc;

use bytes::Bytes;
use edge_metrics as metrics;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt as _, Limited};
use http_types::BodyError;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use pingora::{apps::ServerApp as _, proxy::HttpProxy};
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until, timeout},
};

use super::{
    admins::{AdminPool, AdminState},
    answers::PlatformFailure,
    attempt::{ATTEMPT, AdminAttempt, AttemptFailure},
    body::SharedBody,
    held::HeldResources,
    proxy::AdminProxy,
    relay::AdminBody,
};

/// Marks a refusal that an admin made before any work, and that does not apply to other admins.
pub(super) const ELSEWHERE: HeaderName = HeaderName::from_static("x-svc-elsewhere");

pub(super) struct AdminExchanges {
    pub(super) proxy: Arc<HttpProxy<AdminProxy>>,
    pub(super) admins: Arc<AdminPool>,
    /// Pingora's proxy requires a shutdown signal; `listen/` ends connections, so it never fires.
    stops: watch::Receiver<bool>,
    _never: watch::Sender<bool>,
}

enum ExchangeOutcome {
    Answer(Response<Incoming>),
    /// A refusal that may not apply to other admins.
    Refusal(Response<Bytes>),
    Failure(AttemptFailure),
}

impl AdminExchanges {
    pub(super) fn new(proxy: HttpProxy<AdminProxy>, admins: Arc<AdminPool>) -> Self {
        let (never, stops) = watch::channel(false);
        Self { proxy: Arc::new(proxy), admins, stops, _never: never }
    }

    /// Obtains a response from the admins. The request holds `held` until its end; `is_health` marks a health check.
    pub(super) async fn answer<B>(
        &self,
        head: Parts,
        body: SharedBody<B>,
        held: HeldResources,
        is_health: bool,
    ) -> Result<Response<AdminBody>, PlatformFailure>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let held = Arc::new(held);
        tokio::select! {
            biased;
            () = held.revoked() => Err(PlatformFailure::Busy),
            answered = self.ask(head, body, held.clone(), is_health) => answered,
        }
    }

    async fn ask<B>(
        &self,
        head: Parts,
        body: SharedBody<B>,
        held: Arc<HeldResources>,
        is_health: bool,
    ) -> Result<Response<AdminBody>, PlatformFailure>
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let (mut tried, mut begun, mut refusal, mut failure) = (Vec::new(), 0, None, PlatformFailure::NoAdmin);
        let mut is_last = false;
        loop {
            let admin = match self.admins.choose(&tried) {
                Some(admin) => admin,
                // The next program may listen where the last one did: the remaining admins are tried once more.
                None if !is_last && refusal.is_none() && !tried.is_empty() => {
                    is_last = true;
                    tried.clear();
                    sleep(limits::ADMIN_PAUSE).await;
                    continue;
                }
                None => break,
            };
            tried.push(admin.clone());
            // A refusal is a response: only a healthy admin may have a better one.
            if refusal.is_some() && admin.state() != AdminState::Healthy {
                break;
            }
            let has_other = self.admins.has_healthy(&tried);
            let attempt = AdminAttempt::new(admin);
            match self.attempt(&head, &body, &attempt, &held, has_other, is_health).await {
                ExchangeOutcome::Answer(answer) => {
                    let (head, answer) = answer.into_parts();
                    let answer = AdminBody::relayed(answer, &head.headers, held);
                    return Ok(Response::from_parts(head, answer));
                }
                ExchangeOutcome::Refusal(refused) => {
                    if has_other {
                        metrics::platform_retried("refused");
                    }
                    refusal = Some(refused);
                }
                ExchangeOutcome::Failure(why) => {
                    let is_lost = Self::is_lost(&head, &attempt, why) || body.has_left();
                    failure = if is_lost { PlatformFailure::Unanswered } else { PlatformFailure::NoAdmin };
                    begun += usize::from(why != AttemptFailure::Unreached);
                    let is_too_late = why == AttemptFailure::Late && !is_health;
                    if is_lost || is_too_late || begun == limits::ADMIN_ATTEMPTS {
                        break;
                    }
                    metrics::platform_retried(why.label());
                }
            }
        }
        match refusal {
            Some(refused) => {
                body.discard().await;
                Ok(refused.map(|body| AdminBody::whole(body, held)))
            }
            None => Err(failure),
        }
    }

    /// Returns whether an admin may have processed a request that it did not answer.
    fn is_lost(head: &Parts, attempt: &AdminAttempt, why: AttemptFailure) -> bool {
        let is_untouched = match why {
            AttemptFailure::Unreached => true,
            AttemptFailure::Ended => attempt.admin.is_leaving(),
            AttemptFailure::Late | AttemptFailure::Silent | AttemptFailure::Hung => false,
        };
        // A request that only reads has no effect to lose.
        let is_lost = !is_untouched && !head.method.is_safe();
        metrics::platform_failed(why.label());
        // The health check logs the problem of an unhealthy admin.
        if attempt.admin.state() == AdminState::Healthy {
            let (admin, method) = (attempt.admin.address(), &head.method);
            tracing::warn!(%admin, %method, why = why.label(), is_lost, "an admin did not answer a request");
        }
        is_lost
    }

    async fn attempt<B>(
        &self,
        head: &Parts,
        body: &SharedBody<B>,
        attempt: &Arc<AdminAttempt>,
        held: &Arc<HeldResources>,
        has_other: bool,
        is_health: bool,
    ) -> ExchangeOutcome
    where
        B: http_body::Body<Data = Bytes, Error: Into<BodyError>> + Send + Unpin + 'static,
    {
        let (ours, theirs) = tokio::io::duplex(limits::HANDOVER_BYTES);
        // All tasks end with the pipe: when the response is read, the visitor disconnected, or the attempt over. The
        // turn is released with the last of what it covers: the connection to admin, or the bytes in the pipe.
        let (proxy, stops, proxied, holds) = (self.proxy.clone(), self.stops.clone(), attempt.clone(), held.clone());
        let working = async move {
            tokio::select! {
                _ = proxy.process_new(Box::new(theirs), &stops) => {}
                () = proxied.finished() => {}
                () = holds.revoked() => {}
            }
            drop(holds);
        };
        tokio::spawn(ATTEMPT.scope(attempt.clone(), working));
        let mut client = hyper::client::conn::http1::Builder::new();
        client.max_buf_size(limits::HANDOVER_BYTES);
        let Ok((mut sender, connection)) = client.handshake(TokioIo::new(ours)).await else {
            return ExchangeOutcome::Failure(AttemptFailure::Unreached);
        };
        tokio::spawn(connection);
        let mut head = head.clone();
        if !body.is_whole() {
            head.headers.insert(header::EXPECT, HeaderValue::from_static("100-continue"));
        }
        let request = Request::from_parts(head, body.attempt(attempt));
        let can_be_asked_again = request.method().is_safe() && has_other;
        let deadline = Instant::now() + if is_health { limits::HEALTH_ATTEMPT } else { limits::ADMIN_READ };
        let answered = tokio::select! {
            answered = sender.send_request(request) => answered,
            () = attempt.silent(can_be_asked_again) => {
                attempt.given_up.cancel();
                return ExchangeOutcome::Failure(AttemptFailure::Silent);
            }
            () = sleep_until(deadline), if is_health => {
                attempt.given_up.cancel();
                return ExchangeOutcome::Failure(AttemptFailure::Late);
            }
        };
        let Ok(answer) = answered else { return ExchangeOutcome::Failure(attempt.failure()) };
        let is_refusal = answer.status() == StatusCode::SERVICE_UNAVAILABLE
            && (answer.headers().contains_key(ELSEWHERE) || is_health)
            && !body.has_left();
        if !is_refusal {
            // Lets the rest of the body be sent as usual.
            attempt.wants_body.cancel();
            return ExchangeOutcome::Answer(answer);
        }
        let (head, rest) = answer.into_parts();
        let rest = timeout(limits::REFUSAL_WAIT, Limited::new(rest, limits::REFUSAL_BYTES).collect()).await;
        attempt.given_up.cancel();
        match rest {
            Ok(Ok(rest)) => ExchangeOutcome::Refusal(Response::from_parts(head, rest.to_bytes())),
            Ok(Err(_)) | Err(_) => ExchangeOutcome::Failure(AttemptFailure::Ended),
        }
    }
}
