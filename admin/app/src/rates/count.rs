//! Counts requests: in Redis for all admins together, or in this process while Redis does not answer.

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use admin_http::error::{ApiError, Code};
use axum::http::{HeaderMap, HeaderName};
use fairness::Client;
use governor::{
    Quota,
    clock::{Clock as _, QuantaClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};
use live::Redis;
use secrets::{KeyPurpose, MasterKey};
use telemetry::{OutageLine, OutageLog};

use super::{
    Bucket, CLIENTS_OF_BLOCK, LOCAL_KEYS, PROVEN, PROVEN_FOR, PersonRate, REDIS_PAUSE, RatePayer, SUBJECT_BYTES,
};

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");

/// The keys under which a client is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientKey {
    own: String,
    /// The block of networks that contains it: one customer may control all of it.
    block: Option<String>,
}

/// The state of a limit after a request was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitState {
    limit: u32,
    remaining: u32,
    /// Set if this request exceeds the limit.
    retry_after: Option<Duration>,
}

impl LimitState {
    fn after_count(limit: u32, events: u64, resets_in: Duration) -> Self {
        let remaining = u32::try_from(u64::from(limit).saturating_sub(events)).unwrap_or(0);
        Self { limit, remaining, retry_after: (events > u64::from(limit)).then_some(resets_in) }
    }

    /// Rejects the request if it exceeds the limit.
    pub fn check(&self) -> Result<(), ApiError> {
        self.check_or("Too many requests; wait as long as Retry-After says, then go on.")
    }

    /// Rejects the request with `message` if it exceeds the limit.
    pub fn check_or(&self, message: &'static str) -> Result<(), ApiError> {
        let Some(wait) = self.retry_after else { return Ok(()) };
        Err(ApiError::new(Code::RateLimitExceeded, message).retry_after(wait))
    }

    /// Adds `X-RateLimit-Limit` and `X-RateLimit-Remaining` to a response.
    pub fn write(&self, headers: &mut HeaderMap) {
        headers.insert(X_RATELIMIT_LIMIT, self.limit.into());
        headers.insert(X_RATELIMIT_REMAINING, self.remaining.into());
    }
}

/// The counters of all buckets. Cheap to clone.
#[derive(Clone)]
pub struct RateLimits {
    redis: Redis,
    master_key: MasterKey,
    /// In the order of [`Bucket::ALL`].
    buckets: Arc<[LocalLimiter]>,
    proven: moka::sync::Cache<[u8; 32], ()>,
    redis_pause: Arc<Mutex<RedisPause>>,
}

/// Whether requests to Redis are paused, because it did not answer.
#[derive(Debug, Default)]
struct RedisPause {
    until: Option<Instant>,
    outage: OutageLog,
}

impl RateLimits {
    /// Creates the counters with the configured rates.
    pub fn new(redis: Redis, limits: &config::Limits, master_key: MasterKey) -> Self {
        let proven = moka::sync::Cache::builder().max_capacity(PROVEN).time_to_idle(PROVEN_FOR).build();
        Self { redis, master_key, buckets: Self::buckets(limits), proven, redis_pause: Arc::default() }
    }

    /// Returns these limits with another configuration. Counts in Redis carry over; those in this process start again.
    #[must_use]
    pub fn reconfigured(&self, limits: &config::Limits) -> Self {
        Self { buckets: Self::buckets(limits), ..self.clone() }
    }

    fn buckets(limits: &config::Limits) -> Arc<[LocalLimiter]> {
        let limiter = |bucket: &Bucket| {
            let (limit, window) = bucket.rate(limits);
            LocalLimiter::new(limit, window)
        };
        Bucket::ALL.iter().map(limiter).collect()
    }

    fn limiter(&self, bucket: Bucket) -> &LocalLimiter {
        &self.buckets[bucket as usize]
    }

    /// Counts one request under `key`, which identifies the bucket's [`Payer`](domain::Payer).
    pub async fn count(&self, bucket: Bucket, key: &str) -> LimitState {
        self.count_up_to(bucket, key, 1, 1).await
    }

    /// Counts a request that takes `amount` of what the bucket counts.
    pub async fn count_amount(&self, bucket: Bucket, key: &str, amount: NonZeroU32) -> LimitState {
        self.count_up_to(bucket, key, 1, amount.get()).await
    }

    /// Counts `amount` under `key`, for which the limit is `times` the bucket's rate.
    async fn count_up_to(&self, bucket: Bucket, key: &str, times: u32, amount: u32) -> LimitState {
        let limiter = self.limiter(bucket);
        if self.redis_is_paused() {
            return limiter.count_locally(key, times, amount);
        }
        match self.redis.count(bucket.name(), &self.subject(key), limiter.window, amount).await {
            Ok(count) => {
                if let Some(lasted) = self.redis_pause().outage.record_success() {
                    tracing::info!(seconds = lasted.as_secs(), "limits are kept in Redis again");
                }
                LimitState::after_count(limiter.limit.saturating_mul(times), count.events, count.resets_in)
            }
            Err(error) => {
                let mut pause = self.redis_pause();
                pause.until = Some(Instant::now() + REDIS_PAUSE);
                if let Some(OutageLine { lasted, .. }) = pause.outage.record_failure() {
                    let seconds = lasted.as_secs();
                    tracing::warn!(seconds, "limits are kept in this process, because Redis does not answer: {error}");
                }
                limiter.count_locally(key, times, amount)
            }
        }
    }

    /// Counts one request for its payer: for the organization first, so that its refused requests cost the others
    /// nothing.
    pub async fn count_for(&self, pool: PersonRate, counted: &RatePayer) -> LimitState {
        if let Some(share) = &counted.org {
            let bucket = pool.org_bucket();
            let of_org = self.count_amount(bucket, share.org.as_str(), share.cost(self.limiter(bucket).limit)).await;
            if of_org.check().is_err() {
                return of_org;
            }
        }
        self.count(pool.person_bucket(), &counted.payer).await
    }

    /// Undoes the counting of a request.
    pub async fn uncount_for(&self, pool: PersonRate, counted: &RatePayer) {
        if let Some(share) = &counted.org {
            let bucket = pool.org_bucket();
            self.uncount_amount(bucket, share.org.as_str(), share.cost(self.limiter(bucket).limit).get()).await;
        }
        self.uncount(pool.person_bucket(), &counted.payer).await;
    }

    /// Counts one request of a client, and of the client's block, whose limit is [`CLIENTS_OF_BLOCK`] times the rate.
    pub async fn count_client(&self, bucket: Bucket, client: &ClientKey) -> LimitState {
        let own = self.count(bucket, &client.own).await;
        let Some(block) = client.block.as_ref().filter(|_| own.check().is_ok()) else { return own };
        let of_block = self.count_up_to(bucket, block, CLIENTS_OF_BLOCK, 1).await;
        if of_block.check().is_err() { of_block } else { own }
    }

    /// Undoes the counting of a client's request that turned out not to be limited.
    pub async fn uncount_client(&self, bucket: Bucket, client: &ClientKey) {
        for key in std::iter::once(&client.own).chain(&client.block) {
            self.uncount(bucket, key).await;
        }
    }

    /// Undoes the counting of a request that turned out not to be limited.
    pub async fn uncount(&self, bucket: Bucket, key: &str) {
        self.uncount_amount(bucket, key, 1).await;
    }

    async fn uncount_amount(&self, bucket: Bucket, key: &str, amount: u32) {
        if !self.redis_is_paused()
            && let Err(error) = self.redis.uncount(bucket.name(), &self.subject(key), amount).await
        {
            tracing::warn!("a request could not be uncounted: {error}");
        }
    }

    /// Returns a key's name in Redis: a keyed hash, because there are few enough addresses to try them all.
    fn subject(&self, key: &str) -> String {
        hex::encode(&self.master_key.derive(KeyPurpose::CountedSubjects, key.as_bytes())[..SUBJECT_BYTES])
    }

    /// Returns whether a credential with this hash was accepted recently. The credential is checked regardless; this
    /// only decides whether the request is counted before that.
    pub fn is_recently_accepted(&self, credential: &[u8; 32]) -> bool {
        self.proven.get(credential).is_some()
    }

    /// Remembers that the credential was accepted.
    pub fn remember_accepted(&self, credential: [u8; 32]) {
        self.proven.insert(credential, ());
    }

    /// Forgets that the credential was accepted.
    pub fn forget_accepted(&self, credential: &[u8; 32]) {
        self.proven.invalidate(credential);
    }

    fn redis_pause(&self) -> MutexGuard<'_, RedisPause> {
        // The lock is never poisoned: no code panics while holding it.
        self.redis_pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn redis_is_paused(&self) -> bool {
        let until = self.redis_pause().until;
        until.is_some_and(|until| Instant::now() < until)
    }
}

type LocalCounter = governor::RateLimiter<String, DashMapStateStore<String>, QuantaClock, StateInformationMiddleware>;

struct LocalLimiter {
    limit: u32,
    window: Duration,
    here: LocalCounter,
    /// For blocks, whose limit is [`CLIENTS_OF_BLOCK`] times as high.
    here_of_blocks: LocalCounter,
}

impl LocalLimiter {
    fn new(limit: u32, window: Duration) -> Self {
        let counter = |limit: u32| {
            let burst = NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN);
            let every = window / burst.get();
            let quota = Quota::with_period(every).unwrap_or(Quota::per_second(burst)).allow_burst(burst);
            governor::RateLimiter::dashmap(quota).with_middleware()
        };
        let here_of_blocks = counter(limit.saturating_mul(CLIENTS_OF_BLOCK));
        Self { limit, window, here: counter(limit), here_of_blocks }
    }

    fn count_locally(&self, key: &str, times: u32, amount: u32) -> LimitState {
        let here = if times == 1 { &self.here } else { &self.here_of_blocks };
        if here.len() > LOCAL_KEYS {
            here.retain_recent();
        }
        let amount = NonZeroU32::new(amount).unwrap_or(NonZeroU32::MIN);
        let (remaining, retry_after) = match here.check_key_n(&key.to_owned(), amount) {
            Ok(Ok(state)) => (state.remaining_burst_capacity(), None),
            Ok(Err(refusal)) => (0, Some(refusal.wait_time_from(QuantaClock::default().now()))),
            // It never fits.
            Err(_) => (0, Some(self.window)),
        };
        LimitState { limit: self.limit.saturating_mul(times), remaining, retry_after }
    }
}

/// Returns the keys under which a client address is counted. An IPv6 client is its /64, which one household or server
/// controls, and its block is the /48, which a customer may control.
pub fn client(address: IpAddr) -> ClientKey {
    let client = Client::from(address);
    ClientKey { own: client.to_string(), block: client.block().map(|block| block.to_string()) }
}

#[cfg(test)]
mod tests {
    use domain::OrgId;

    use super::{
        super::{OrgShare, TEN_MINUTES},
        *,
    };

    #[test]
    fn the_limit_itself_is_still_admitted() {
        let wait = Duration::from_secs(30);
        assert_eq!(LimitState::after_count(10, 1, wait), LimitState { limit: 10, remaining: 9, retry_after: None });
        assert_eq!(LimitState::after_count(10, 10, wait), LimitState { limit: 10, remaining: 0, retry_after: None });
        assert_eq!(
            LimitState::after_count(10, 11, wait),
            LimitState { limit: 10, remaining: 0, retry_after: Some(wait) }
        );
    }

    #[test]
    fn without_redis_the_same_number_is_admitted() {
        let limiter = LocalLimiter::new(3, TEN_MINUTES);
        let remaining: Vec<u32> = (0..3).map(|_| limiter.count_locally("a", 1, 1).remaining).collect();
        assert_eq!(remaining, [2, 1, 0]);
        let refused = limiter.count_locally("a", 1, 1);
        assert!(refused.check().is_err() && refused.retry_after.unwrap() <= TEN_MINUTES / 3);
        assert!(limiter.count_locally("b", 1, 1).check().is_ok());
    }

    #[test]
    fn an_amount_counts_as_many() {
        let limiter = LocalLimiter::new(10, TEN_MINUTES);
        assert_eq!(limiter.count_locally("a", 1, 7).remaining, 3);
        assert!(limiter.count_locally("a", 1, 4).check().is_err());
        assert!(limiter.count_locally("a", 1, 3).check().is_ok());
        assert_eq!(limiter.count_locally("b", 1, 11).retry_after, Some(TEN_MINUTES));
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let v6 = client("2001:db8:1:2:3:4:5:6".parse().unwrap());
        assert_eq!((&*v6.own, v6.block.as_deref()), ("2001:db8:1:2::/64", Some("2001:db8:1::/48")));
        let v4 = client("203.0.113.9".parse().unwrap());
        assert_eq!((&*v4.own, v4.block), ("203.0.113.9", None));
    }

    #[tokio::test]
    async fn a_block_of_networks_has_a_rate_too() {
        // Nothing listens there, so each process counts by itself.
        let redis = Redis::connect("redis://127.0.0.1:1").unwrap();
        let limits = config::Limits { api_per_min: 2, ..config::Limits::default() };
        let rates = RateLimits::new(redis, &limits, MasterKey::generate());
        let mut admitted = 0;
        for network in 0..100 {
            let client = client(format!("2001:db8:7:{network:x}::1").parse().unwrap());
            admitted += u32::from(rates.count_client(Bucket::Public, &client).await.check().is_ok());
        }
        assert_eq!(admitted, 2 * CLIENTS_OF_BLOCK);
        let neighbour = client("2001:db8:8::1".parse().unwrap());
        assert!(rates.count_client(Bucket::Public, &neighbour).await.check().is_ok());
    }

    #[tokio::test]
    async fn one_organization_leaves_the_others_their_part() {
        let redis = Redis::connect("redis://127.0.0.1:1").unwrap();
        let limits = config::Limits { api_account_per_min: 12, ..config::Limits::default() };
        let rates = RateLimits::new(redis, &limits, MasterKey::generate());
        let org = || OrgId::new(domain::Clock::system().now());
        let (leaked, leaked_too, other) = (org(), org(), org());
        let admitted = async |org: &OrgId| {
            let share = OrgShare { org: org.clone(), sharing: 3 };
            let counted = RatePayer { payer: "organizations of somebody".to_owned(), org: Some(share) };
            let mut admitted = 0;
            for _ in 0..100 {
                admitted += u32::from(rates.count_for(PersonRate::Api, &counted).await.check().is_ok());
            }
            admitted
        };
        assert_eq!((admitted(&leaked).await, admitted(&leaked_too).await, admitted(&other).await), (3, 3, 3));
        // Further ones have what is free, and nothing more.
        assert_eq!((admitted(&org()).await, admitted(&org()).await), (3, 0));
    }
}
