//! Rates: the control plane's per token, `/auth`'s per client address.
//!
//! Counted in Redis, for all admins together; in this process, while Redis does not answer. A window begins with its
//! first request, so `Retry-After` is exact.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderName},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use governor::{
    Quota,
    clock::{Clock as _, QuantaClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};
use live::Redis;

use super::client::ClientAddress;
use crate::{
    app::App,
    auth::Authentication,
    error::{ApiError, Code, PossibleError},
};

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const TEN_MINUTES: Duration = Duration::from_mins(10);
/// Wrong operator's secrets on the local sign-in page, per client address and ten minutes.
const SIGN_IN_GUESSES: u32 = 10;
/// Sign-ins begun on the web, per client address and ten minutes: many people may share one.
const SIGN_INS: u32 = 200;
/// Tickets into gated sites, per person and ten minutes.
const GATE_TICKETS: u32 = 300;
/// Invitations that an organization may send by mail in an hour. Beyond it, invites go without.
const INVITE_MAILS: u32 = 100;
/// After a failure Redis is left alone for so long, so that its absence does not slow every request.
const REDIS_PAUSE: Duration = Duration::from_secs(1);
/// Subjects counted in this process, at most; beyond it those that have been quiet are forgotten.
const LOCAL_SUBJECTS: usize = 100_000;

/// The errors of [`per_client`] and [`per_token`].
pub const RATE_LIMIT_ERRORS: &[PossibleError] =
    &[PossibleError::new(Code::RateLimitExceeded, "the rate limit is used up; `Retry-After` says how long to wait")];

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bucket {
    /// `POST /auth/device`.
    AuthDevice,
    /// `POST /auth/device/poll`.
    AuthPoll,
    /// The control plane outside `/auth`.
    Api,
    /// Wrong secrets on the local sign-in page.
    SignInGuess,
    /// Sign-ins begun on the web.
    SignIn,
    /// Tickets into gated sites, per person.
    GateTicket,
    /// What anybody may ask of the control plane without a token.
    Public,
    /// Invitations by mail, per organization.
    InviteMail,
}

impl Bucket {
    fn name(self) -> &'static str {
        match self {
            Self::AuthDevice => "auth-device",
            Self::AuthPoll => "auth-poll",
            Self::Api => "api",
            Self::SignInGuess => "sign-in-guess",
            Self::SignIn => "sign-in",
            Self::GateTicket => "gate-ticket",
            Self::Public => "public",
            Self::InviteMail => "invite-mail",
        }
    }
}

/// Where a subject stands after a request was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    limit: u32,
    remaining: u32,
    /// Set when this request is one too many.
    retry_after: Option<Duration>,
}

impl Standing {
    fn of(limit: u32, events: u64, resets_in: Duration) -> Self {
        let remaining = u32::try_from(u64::from(limit).saturating_sub(events)).unwrap_or(0);
        Self { limit, remaining, retry_after: (events > u64::from(limit)).then_some(resets_in) }
    }

    /// The refusal, when this request is one too many.
    pub fn check(&self) -> Result<(), ApiError> {
        let Some(wait) = self.retry_after else { return Ok(()) };
        let message = "Too many requests; wait as long as Retry-After says, then go on.";
        Err(ApiError::new(Code::RateLimitExceeded, message).retry_after(wait))
    }

    fn write(&self, headers: &mut HeaderMap) {
        headers.insert(X_RATELIMIT_LIMIT, self.limit.into());
        headers.insert(X_RATELIMIT_REMAINING, self.remaining.into());
    }
}

/// The counters of every bucket. Cheap to clone.
#[derive(Clone)]
pub struct RateLimits {
    redis: Redis,
    buckets: Arc<[Limiter; 8]>,
    redis_paused_until: Arc<Mutex<Option<Instant>>>,
}

impl RateLimits {
    /// With the configured rates.
    pub fn new(redis: Redis, limits: &config::Limits) -> Self {
        let buckets = Arc::new([
            Limiter::new(limits.auth_device_per_10_min, TEN_MINUTES),
            Limiter::new(limits.auth_poll_per_10_min, TEN_MINUTES),
            Limiter::new(limits.api_per_min, Duration::from_mins(1)),
            Limiter::new(SIGN_IN_GUESSES, TEN_MINUTES),
            Limiter::new(SIGN_INS, TEN_MINUTES),
            Limiter::new(GATE_TICKETS, TEN_MINUTES),
            Limiter::new(limits.api_per_min, Duration::from_mins(1)),
            Limiter::new(INVITE_MAILS, Duration::from_hours(1)),
        ]);
        Self { redis, buckets, redis_paused_until: Arc::default() }
    }

    fn limiter(&self, bucket: Bucket) -> &Limiter {
        let [device, poll, api, guess, sign_in, ticket, public, invite_mail] = &*self.buckets;
        match bucket {
            Bucket::AuthDevice => device,
            Bucket::AuthPoll => poll,
            Bucket::Api => api,
            Bucket::SignInGuess => guess,
            Bucket::SignIn => sign_in,
            Bucket::GateTicket => ticket,
            Bucket::Public => public,
            Bucket::InviteMail => invite_mail,
        }
    }

    /// Counts a request of `subject`.
    pub async fn count(&self, bucket: Bucket, subject: &str) -> Standing {
        let limiter = self.limiter(bucket);
        if self.redis_is_paused() {
            return limiter.count_here(subject);
        }
        match self.redis.count(bucket.name(), subject, limiter.window).await {
            Ok(count) => Standing::of(limiter.limit, count.events, count.resets_in),
            Err(error) => {
                tracing::warn!("limits are kept in this process, because Redis does not answer: {error}");
                *self.redis_paused_until.lock().unwrap_or_else(PoisonError::into_inner) =
                    Some(Instant::now() + REDIS_PAUSE);
                limiter.count_here(subject)
            }
        }
    }

    /// Takes a request back that turned out not to be one of those that are limited.
    pub async fn uncount(&self, bucket: Bucket, subject: &str) {
        if !self.redis_is_paused()
            && let Err(error) = self.redis.uncount(bucket.name(), subject).await
        {
            tracing::warn!("a request could not be uncounted: {error}");
        }
    }

    fn redis_is_paused(&self) -> bool {
        let until = *self.redis_paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }
}

type LocalCounter = governor::RateLimiter<String, DashMapStateStore<String>, QuantaClock, StateInformationMiddleware>;

struct Limiter {
    limit: u32,
    window: Duration,
    here: LocalCounter,
}

impl Limiter {
    fn new(limit: u32, window: Duration) -> Self {
        let burst = NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN);
        let every = window / burst.get();
        let quota = Quota::with_period(every).unwrap_or(Quota::per_second(burst)).allow_burst(burst);
        Self { limit, window, here: governor::RateLimiter::dashmap(quota).with_middleware() }
    }

    fn count_here(&self, subject: &str) -> Standing {
        if self.here.len() > LOCAL_SUBJECTS {
            self.here.retain_recent();
        }
        let (remaining, retry_after) = match self.here.check_key(&subject.to_owned()) {
            Ok(state) => (state.remaining_burst_capacity(), None),
            Err(refusal) => (0, Some(refusal.wait_time_from(QuantaClock::default().now()))),
        };
        Standing { limit: self.limit, remaining, retry_after }
    }
}

/// Whom an address is counted as. A household or a server has a whole IPv6 /64.
pub fn subject(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).to_string()
        }
    }
}

/// Middleware: limits a route per client address.
pub async fn per_client(State((app, bucket)): State<(App, Bucket)>, request: Request, next: Next) -> Response {
    let client = request.extensions().get::<ClientAddress>().map(|&ClientAddress(address)| subject(address));
    limited(&app, bucket, &client.unwrap_or_default(), request, next).await
}

/// Middleware: limits the control plane per token. Requests without a working token end in 401 and are not counted.
pub async fn per_token(State(app): State<App>, request: Request, next: Next) -> Response {
    match request.extensions().get::<Authentication>() {
        Some(Authentication::Known(caller)) => {
            let credential = caller.credential().to_owned();
            limited(&app, Bucket::Api, &credential, request, next).await
        }
        _ => next.run(request).await,
    }
}

async fn limited(app: &App, bucket: Bucket, subject: &str, request: Request, next: Next) -> Response {
    let standing = app.rate_limits.count(bucket, subject).await;
    let mut response = match standing.check() {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    standing.write(response.headers_mut());
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_still_admitted() {
        let wait = Duration::from_secs(30);
        assert_eq!(Standing::of(10, 1, wait), Standing { limit: 10, remaining: 9, retry_after: None });
        assert_eq!(Standing::of(10, 10, wait), Standing { limit: 10, remaining: 0, retry_after: None });
        assert_eq!(Standing::of(10, 11, wait), Standing { limit: 10, remaining: 0, retry_after: Some(wait) });
    }

    #[test]
    fn without_redis_the_same_number_is_admitted() {
        let limiter = Limiter::new(3, TEN_MINUTES);
        let remaining: Vec<u32> = (0..3).map(|_| limiter.count_here("a").remaining).collect();
        assert_eq!(remaining, [2, 1, 0]);
        let refused = limiter.count_here("a");
        assert!(refused.check().is_err() && refused.retry_after.unwrap() <= TEN_MINUTES / 3);
        assert!(limiter.count_here("b").check().is_ok());
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        assert_eq!(subject("2001:db8:1:2:3:4:5:6".parse().unwrap()), "2001:db8:1:2::");
        assert_eq!(subject("203.0.113.9".parse().unwrap()), "203.0.113.9");
    }
}
