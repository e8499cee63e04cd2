//! Rate limits: how often a caller may do something, counted in Redis for all admins together. Redis may keep its data in
//! files, so it is told who is counted by a keyed hash: no client address is stored anywhere.
//!
//! While Redis does not answer, each process counts by itself. A window begins with its first request, so `Retry-After`
//! is exact. Not here: which routes are limited, which is `router.rs` with [`crate::middleware::rate_limit`].

use std::{
    net::IpAddr,
    num::NonZeroU32,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use axum::http::{HeaderMap, HeaderName};
use domain::{OrgId, Payer};
use fairness::Client;
use governor::{
    Quota,
    clock::{Clock as _, QuantaClock},
    middleware::StateInformationMiddleware,
    state::keyed::DashMapStateStore,
};
use live::Redis;
use secrets::{MasterKey, Purpose};
use telemetry::{Line, Outage};

use crate::error::{ApiError, Code};

const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
const X_RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
const MINUTE: Duration = Duration::from_mins(1);
const TEN_MINUTES: Duration = Duration::from_mins(10);
const DAY: Duration = Duration::from_hours(24);
/// Wrong operator's secrets accepted from one client address in ten minutes.
const SIGN_IN_GUESSES: u32 = 10;
/// Wrong operator's secrets accepted from all addresses together in ten minutes, where the secret is short enough to be guessed.
const SIGN_IN_GUESSES_IN_ALL: u32 = 200;
/// Webhooks with a wrong signature, or under way, of one client address in a minute.
const WEBHOOK_GUESSES: u32 = 300;
/// Webhooks about payments that are not ours, of one client address in a minute.
const PAYMENT_WEBHOOK_GUESSES: u32 = 120;
/// Looks at payments of ours that webhooks of one client address ask for in a minute: many at the hours of renewals.
const PAYMENT_LOOKS: u32 = 1_200;
/// Keys of the gateway that one person tries out in a minute and that are wrong: fewer than it takes of all clients at one address.
const TRIED_KEYS: u32 = 10;
/// Questions about VAT numbers that the registry is asked for one person in an hour: it blocks callers who ask much.
const VAT_NUMBERS: u32 = 20;
/// Credentials that are remembered for having worked lately.
const PROVEN: u64 = 100_000;
/// How long after its last use a credential is remembered for having worked.
const PROVEN_FOR: Duration = Duration::from_mins(10);
/// Web sign-ins that one client address may begin in ten minutes. Many people may share an address.
const SIGN_INS: u32 = 200;
/// Tickets into gated sites issued to one person in ten minutes.
const GATE_TICKETS: u32 = 300;
/// Requests of an account in a day that change something, or try to: each leaves a row of the audit log. 35 a minute, day and night.
const CHANGES: u32 = 50_000;
/// Requests of an account in a day with an `Idempotency-Key`: each answer is kept for as long.
const IDEMPOTENCY_KEYS: u32 = 10_000;
/// Invitations that an organization may send by mail in an hour. Invites beyond it are made without mail.
const INVITE_MAILS: u32 = 100;
/// Invitations that a person may send by mail in a day, over all organizations.
const INVITE_MAILS_OF_PERSON: u32 = 50;
/// Invitations by mail that one mailbox gets in a day, from everybody together.
const INVITE_MAILS_TO_MAILBOX: u32 = 3;
/// Invitations by mail that one person may send to one mailbox in a day, whatever became of the first.
const INVITE_MAILS_AGAIN: u32 = 1;
/// Looks at custom domains, from outside or in DNS, for one person in a minute, over all their organizations.
const DOMAIN_LOOKS: u32 = 60;
/// Time for which Redis is not asked after it failed, so that its absence does not slow every request.
const REDIS_PAUSE: Duration = Duration::from_secs(1);
/// Bytes of the hash that stands for a counted key.
const SUBJECT_BYTES: usize = 16;
/// How many times the rate of one client the block of networks has that it is in.
const CLIENTS_OF_BLOCK: u32 = 16;
/// Keys counted in this process before those without recent requests are forgotten.
const LOCAL_KEYS: usize = 100_000;

/// Declares the buckets. Each says by whom it is counted: a bound whose key is free to make bounds nothing, so there is no bucket
/// without a [`Payer`].
macro_rules! buckets {
    ($limits:ident => $($(#[$doc:meta])* $bucket:ident($name:literal, $payer:ident) = $most:expr, in $window:expr;)*) => {
        /// Something that is limited, with a rate and counters of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Bucket {
            $($(#[$doc])* $bucket,)*
        }

        impl Bucket {
            /// Every bucket, in the order in which they are declared.
            const ALL: &'static [Self] = &[$(Self::$bucket),*];

            /// What the counters are called in Redis.
            fn name(self) -> &'static str {
                match self {
                    $(Self::$bucket => $name,)*
                }
            }

            /// The payer of the bucket, whose key [`RateLimits::count`] takes.
            pub fn payer(self) -> Payer {
                match self {
                    $(Self::$bucket => Payer::$payer,)*
                }
            }

            /// The requests that are admitted, and in which time.
            fn rate(self, $limits: &config::Limits) -> (u32, Duration) {
                match self {
                    $(Self::$bucket => ($most, $window),)*
                }
            }
        }
    };
}

buckets! { limits =>
    /// `POST /auth/device`.
    AuthDevice("auth-device", Client) = limits.auth_device_per_10_min, in TEN_MINUTES;
    /// `POST /auth/device/poll`.
    AuthPoll("auth-poll", Client) = limits.auth_poll_per_10_min, in TEN_MINUTES;
    /// The control plane outside `/auth`. Beside [`Self::ApiAccount`].
    Api("api", Credential) = limits.api_per_min, in MINUTE;
    /// The control plane outside `/auth`, over all credentials of an account. An organization's tokens count for the person who created
    /// it, over all organizations of theirs: see [`Caller::counted_for`](crate::auth::Caller::counted_for).
    ApiAccount("api-account", Person) = limits.api_account_per_min, in MINUTE;
    /// The part of [`Self::ApiAccount`] that one organization's tokens have.
    ApiOrg("api-org", Org) = part_of_org(limits.api_account_per_min), in MINUTE;
    /// Requests that change something, or try to.
    Change("change", Person) = CHANGES, in DAY;
    /// The part of [`Self::Change`] that one organization's tokens have.
    ChangeOrg("change-org", Org) = part_of_org(CHANGES), in DAY;
    /// Requests with an `Idempotency-Key`, whose answers are kept.
    IdempotencyKey("idempotency-key", Person) = IDEMPOTENCY_KEYS, in DAY;
    /// The part of [`Self::IdempotencyKey`] that one organization's tokens have.
    IdempotencyKeyOrg("idempotency-key-org", Org) = part_of_org(IDEMPOTENCY_KEYS), in DAY;
    /// Wrong operator's secrets on the pages of the local code host.
    SignInGuess("sign-in-guess", Client) = SIGN_IN_GUESSES, in TEN_MINUTES;
    /// Wrong operator's secrets on the pages of the local code host, where the secret is short enough to be guessed.
    SignInGuessInAll("sign-in-guess-in-all", Everybody) = SIGN_IN_GUESSES_IN_ALL, in TEN_MINUTES;
    /// Web sign-ins begun.
    SignIn("sign-in", Client) = SIGN_INS, in TEN_MINUTES;
    /// Tickets into gated sites.
    GateTicket("gate-ticket", Person) = GATE_TICKETS, in TEN_MINUTES;
    /// Routes of the control plane that need no token.
    Public("public", Client) = limits.api_per_min, in MINUTE;
    /// Invitations by mail of an organization. Beside the three that follow.
    InviteMail("invite-mail", Org) = INVITE_MAILS, in Duration::from_hours(1);
    /// Invitations by mail that a person sends, over all organizations.
    InviteMailOfPerson("invite-mail-of-person", Person) = INVITE_MAILS_OF_PERSON, in DAY;
    /// Invitations by mail that a mailbox gets, from everybody together.
    InviteMailToMailbox("invite-mail-to-mailbox", Recipient) = INVITE_MAILS_TO_MAILBOX, in DAY;
    /// Invitations by mail that a person sends to a mailbox.
    InviteMailAgain("invite-mail-again", PersonAndRecipient) = INVITE_MAILS_AGAIN, in DAY;
    /// Requests without a credential that works, on routes of the control plane that need one.
    Unauthorized("unauthorized", Client) = limits.api_per_min, in MINUTE;
    /// Webhooks with a wrong signature.
    Webhook("webhook", Client) = WEBHOOK_GUESSES, in MINUTE;
    /// Looks at custom domains, from outside or in DNS, for the person who stands behind the account that owns the project.
    DomainLook("domain-look", Person) = DOMAIN_LOOKS, in MINUTE;
    /// Webhooks about payments that are not ours, or are looked at already.
    PaymentWebhook("payment-webhook", Client) = PAYMENT_WEBHOOK_GUESSES, in MINUTE;
    /// Looks at payments that webhooks ask for.
    PaymentLook("payment-look", Client) = PAYMENT_LOOKS, in MINUTE;
    /// Completions tried out in the console with a key that the gateway does not know. It sees admin's address, whoever asks.
    TriedKey("tried-key", Person) = TRIED_KEYS, in MINUTE;
    /// Questions about VAT numbers, whichever organizations they are for.
    VatNumber("vat-number", Person) = VAT_NUMBERS, in Duration::from_hours(1);
}

/// What one organization's tokens have of a rate that all organizations of its creator have together: half of it, so that a token that has
/// leaked leaves the others something.
fn part_of_org(rate: u32) -> u32 {
    (rate / 2).max(1)
}

/// A rate of persons, of which the tokens of each of their organizations have a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// Requests.
    Api,
    /// Requests that change something.
    Change,
    /// Requests whose answers are kept.
    IdempotencyKey,
}

impl Pool {
    fn of_all(self) -> Bucket {
        match self {
            Self::Api => Bucket::ApiAccount,
            Self::Change => Bucket::Change,
            Self::IdempotencyKey => Bucket::IdempotencyKey,
        }
    }

    fn of_org(self) -> Bucket {
        match self {
            Self::Api => Bucket::ApiOrg,
            Self::Change => Bucket::ChangeOrg,
            Self::IdempotencyKey => Bucket::IdempotencyKeyOrg,
        }
    }
}

/// Whoever a caller's requests are counted for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedFor {
    /// Who has the whole of a rate.
    pub payer: String,
    /// The organization that has a part of it, if the caller is one of several that share it.
    pub org: Option<OrgId>,
}

/// A client as it is counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientKey {
    own: String,
    /// The block of networks that it is in: one customer may have all of it.
    block: Option<String>,
}

/// The state of a limit after a request was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    limit: u32,
    remaining: u32,
    /// Set when this request exceeds the limit.
    retry_after: Option<Duration>,
}

impl Standing {
    fn of(limit: u32, events: u64, resets_in: Duration) -> Self {
        let remaining = u32::try_from(u64::from(limit).saturating_sub(events)).unwrap_or(0);
        Self { limit, remaining, retry_after: (events > u64::from(limit)).then_some(resets_in) }
    }

    /// Refuses the request when it exceeds the limit.
    pub fn check(&self) -> Result<(), ApiError> {
        let Some(wait) = self.retry_after else { return Ok(()) };
        let message = "Too many requests; wait as long as Retry-After says, then go on.";
        Err(ApiError::new(Code::RateLimitExceeded, message).retry_after(wait))
    }

    /// Adds `X-RateLimit-Limit` and `X-RateLimit-Remaining` to an answer.
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
    buckets: Arc<[Limiter]>,
    /// Hashes of credentials that worked lately.
    proven: moka::sync::Cache<[u8; 32], ()>,
    redis_pause: Arc<Mutex<RedisPause>>,
}

/// Whether Redis is left alone, because it did not answer.
#[derive(Debug, Default)]
struct RedisPause {
    until: Option<Instant>,
    outage: Outage,
}

impl RateLimits {
    /// The counters with the configured rates.
    pub fn new(redis: Redis, limits: &config::Limits, master_key: MasterKey) -> Self {
        let proven = moka::sync::Cache::builder().max_capacity(PROVEN).time_to_idle(PROVEN_FOR).build();
        Self { redis, master_key, buckets: Self::buckets(limits), proven, redis_pause: Arc::default() }
    }

    /// Returns the same limits by another configuration: what was counted so far counts on. What is counted in this process, while Redis does not answer, begins anew.
    #[must_use]
    pub fn with(&self, limits: &config::Limits) -> Self {
        Self { buckets: Self::buckets(limits), ..self.clone() }
    }

    fn buckets(limits: &config::Limits) -> Arc<[Limiter]> {
        let limiter = |bucket: &Bucket| {
            let (limit, window) = bucket.rate(limits);
            Limiter::new(limit, window)
        };
        Bucket::ALL.iter().map(limiter).collect()
    }

    fn limiter(&self, bucket: Bucket) -> &Limiter {
        &self.buckets[bucket as usize]
    }

    /// Counts one request under `key`, which is that of the bucket's [`Payer`].
    pub async fn count(&self, bucket: Bucket, key: &str) -> Standing {
        self.count_up_to(bucket, key, 1).await
    }

    /// Counts one request under `key`, which has so many times the bucket's rate.
    async fn count_up_to(&self, bucket: Bucket, key: &str, times: u32) -> Standing {
        let limiter = self.limiter(bucket);
        if self.redis_is_paused() {
            return limiter.count_here(key, times);
        }
        match self.redis.count(bucket.name(), &self.subject(key), limiter.window).await {
            Ok(count) => {
                if let Some(lasted) = self.redis_pause().outage.ends() {
                    tracing::info!(seconds = lasted.as_secs(), "limits are kept in Redis again");
                }
                Standing::of(limiter.limit.saturating_mul(times), count.events, count.resets_in)
            }
            Err(error) => {
                let mut pause = self.redis_pause();
                pause.until = Some(Instant::now() + REDIS_PAUSE);
                if let Some(Line { lasted, .. }) = pause.outage.fails() {
                    let seconds = lasted.as_secs();
                    tracing::warn!(seconds, "limits are kept in this process, because Redis does not answer: {error}");
                }
                limiter.count_here(key, times)
            }
        }
    }

    /// Counts one request for whoever pays for it: for its organization first, so that what is refused there takes nothing from the others.
    pub async fn count_for(&self, pool: Pool, counted: &CountedFor) -> Standing {
        if let Some(org) = &counted.org {
            let of_org = self.count(pool.of_org(), org.as_str()).await;
            if of_org.check().is_err() {
                return of_org;
            }
        }
        self.count(pool.of_all(), &counted.payer).await
    }

    /// Takes back a request that was counted for somebody.
    pub async fn uncount_for(&self, pool: Pool, counted: &CountedFor) {
        if let Some(org) = &counted.org {
            self.uncount(pool.of_org(), org.as_str()).await;
        }
        self.uncount(pool.of_all(), &counted.payer).await;
    }

    /// Counts one request of a client, and of the block that it is in, which has [`CLIENTS_OF_BLOCK`] times the rate.
    pub async fn count_client(&self, bucket: Bucket, client: &ClientKey) -> Standing {
        let own = self.count(bucket, &client.own).await;
        let Some(block) = client.block.as_ref().filter(|_| own.check().is_ok()) else { return own };
        let of_block = self.count_up_to(bucket, block, CLIENTS_OF_BLOCK).await;
        if of_block.check().is_err() { of_block } else { own }
    }

    /// Takes back a request of a client that was counted and turned out not to be limited.
    pub async fn uncount_client(&self, bucket: Bucket, client: &ClientKey) {
        for key in std::iter::once(&client.own).chain(&client.block) {
            self.uncount(bucket, key).await;
        }
    }

    /// Takes back a request that was counted and turned out not to be limited.
    pub async fn uncount(&self, bucket: Bucket, key: &str) {
        if !self.redis_is_paused()
            && let Err(error) = self.redis.uncount(bucket.name(), &self.subject(key)).await
        {
            tracing::warn!("a request could not be uncounted: {error}");
        }
    }

    /// What a key is called in Redis. Its hash by a key of ours: there are few enough addresses to try them all.
    fn subject(&self, key: &str) -> String {
        hex::encode(&self.master_key.derive(Purpose::CountedSubjects, key.as_bytes())[..SUBJECT_BYTES])
    }

    /// Whether a credential with this hash worked a short while ago. It is looked up all the same: this decides only about
    /// counting it before.
    pub fn is_proven(&self, credential: &[u8; 32]) -> bool {
        self.proven.get(credential).is_some()
    }

    /// Remembers that the credential worked.
    pub fn note_proven(&self, credential: [u8; 32]) {
        self.proven.insert(credential, ());
    }

    /// Forgets that the credential ever worked.
    pub fn forget_proven(&self, credential: &[u8; 32]) {
        self.proven.invalidate(credential);
    }

    fn redis_pause(&self) -> MutexGuard<'_, RedisPause> {
        // Nothing panics while the lock is held.
        self.redis_pause.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn redis_is_paused(&self) -> bool {
        let until = self.redis_pause().until;
        until.is_some_and(|until| Instant::now() < until)
    }
}

type LocalCounter = governor::RateLimiter<String, DashMapStateStore<String>, QuantaClock, StateInformationMiddleware>;

struct Limiter {
    limit: u32,
    window: Duration,
    here: LocalCounter,
    /// Those of blocks, which have [`CLIENTS_OF_BLOCK`] times as many.
    here_of_blocks: LocalCounter,
}

impl Limiter {
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

    fn count_here(&self, key: &str, times: u32) -> Standing {
        let here = if times == 1 { &self.here } else { &self.here_of_blocks };
        if here.len() > LOCAL_KEYS {
            here.retain_recent();
        }
        let (remaining, retry_after) = match here.check_key(&key.to_owned()) {
            Ok(state) => (state.remaining_burst_capacity(), None),
            Err(refusal) => (0, Some(refusal.wait_time_from(QuantaClock::default().now()))),
        };
        Standing { limit: self.limit.saturating_mul(times), remaining, retry_after }
    }
}

/// The keys that a client address is counted under: an IPv6 client is its /64, which one household or server has whole, and part of its
/// /48, which a customer may have whole.
pub fn client(address: IpAddr) -> ClientKey {
    let client = Client::from(address);
    ClientKey { own: client.to_string(), block: client.block().map(|block| block.to_string()) }
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
    fn every_bucket_has_counters_of_its_own_and_somebody_who_pays() {
        let names: std::collections::BTreeSet<_> = Bucket::ALL.iter().map(|bucket| bucket.name()).collect();
        assert_eq!(names.len(), Bucket::ALL.len());
        for (place, &bucket) in Bucket::ALL.iter().enumerate() {
            assert_eq!(bucket as usize, place);
            assert_ne!(bucket.payer(), Payer::Platform, "{bucket:?}");
        }
    }

    #[test]
    fn a_bound_that_is_free_to_get_around_stands_beside_one_that_is_not() {
        let paid_by = |payer| Bucket::ALL.iter().filter(move |bucket| bucket.payer() == payer).collect::<Vec<_>>();
        // Tokens and organizations are free to make: `ApiAccount` and the bounds of persons and mailboxes hold what these leave open.
        assert_eq!(paid_by(Payer::Credential), [&Bucket::Api]);
        let of_orgs = [&Bucket::ApiOrg, &Bucket::ChangeOrg, &Bucket::IdempotencyKeyOrg, &Bucket::InviteMail];
        assert_eq!(paid_by(Payer::Org), of_orgs);
        assert_eq!(paid_by(Payer::Account), [&Bucket::Api; 0]);
        // Strangers can use it up, so it holds only where the secret can be guessed.
        assert_eq!(paid_by(Payer::Everybody), [&Bucket::SignInGuessInAll]);
    }

    #[test]
    fn without_redis_the_same_number_is_admitted() {
        let limiter = Limiter::new(3, TEN_MINUTES);
        let remaining: Vec<u32> = (0..3).map(|_| limiter.count_here("a", 1).remaining).collect();
        assert_eq!(remaining, [2, 1, 0]);
        let refused = limiter.count_here("a", 1);
        assert!(refused.check().is_err() && refused.retry_after.unwrap() <= TEN_MINUTES / 3);
        assert!(limiter.count_here("b", 1).check().is_ok());
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
        // Nobody listens there: each process counts by itself.
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
        let limits = config::Limits { api_account_per_min: 10, ..config::Limits::default() };
        let rates = RateLimits::new(redis, &limits, MasterKey::generate());
        let org = || OrgId::new(domain::Clock::system().now());
        let (leaked, other) = (org(), org());
        let admitted = async |org: &OrgId| {
            let counted = CountedFor { payer: "organizations of somebody".to_owned(), org: Some(org.clone()) };
            let mut admitted = 0;
            for _ in 0..100 {
                admitted += u32::from(rates.count_for(Pool::Api, &counted).await.check().is_ok());
            }
            admitted
        };
        assert_eq!((admitted(&leaked).await, admitted(&other).await, admitted(&org()).await), (5, 5, 0));
    }
}
