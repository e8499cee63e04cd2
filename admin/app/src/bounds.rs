//! Limits on concurrent work that would otherwise exhaust the machine. Each limit also applies per account, or per
//! client where there is no account, so that nobody can use all of it.
//!
//! The account is that of the caller ([`Caller::paying_account`](crate::auth::Caller::paying_account)): the person who
//! asks, whoever owns the project, so that a member cannot use up the share of the organization's creator; or the
//! organization of a deploy token. Work that nobody asked for while signed in, such as pushes, counts for the account
//! that pays for the project. A share belongs to its person: the organizations that one person created have a common
//! one, because they are free to create. Quantities, such as stored bytes, are limited by the plan of the owner instead,
//! not here.
//!
//! `scarce.rs` lists the payer of every limited resource of the program, and its test finds those that are missing.

mod downloads;
mod payment_looks;
mod reports;

use std::{num::NonZeroUsize, path::Path, sync::Arc, thread, time::Duration};

use admin_http::error::{ApiError, Code};
use domain::{
    PayingAccount, SessionId,
    access::SitePassword,
    limits::{MB, UPLOAD_BYTES},
};
use fairness::{AmountLimit, Client, HeldAmount, ShareError, TurnPermit, TurnQueue};
use packs::DiskSpace;
use secrets::passwords;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::{
    downloads::{DOWNLOAD_PAUSE, DownloadPermit, DownloadPermits},
    payment_looks::{CheckTurn, NextCheck, PaymentCheck, PaymentChecks},
    reports::{LinkReportPermit, ReportPermits},
};
use crate::{fullness::DiskSpaceLog, metrics};

/// Threads for the spool, publishing and passwords. Each has a stack, and memory that the allocator keeps for it.
pub const BLOCKING_THREADS: usize = 64;
/// Uploads of one account that are received or wait to be published concurrently.
const ACCOUNT_UPLOADS: usize = 4;
/// Uploads of one account that may wait for one of those to end. Both together cover the jobs of a busy pipeline.
const ACCOUNT_WAITING: usize = 16;
/// Requests of all accounts that may wait for a permit of one kind.
const WAITING: usize = 1_024;
/// Concurrent uploads per core, unless configured.
const UPLOADS_PER_CORE: usize = 128;
/// Uploads written concurrently per core, unless configured: while one waits for the disk, another compresses.
const PUBLISHES_PER_CORE: usize = 2;
/// Small uploads written concurrently per core, in addition to the others, so that a few accounts whose large uploads
/// compress for a minute each do not delay small ones.
const SMALL_PUBLISHES_PER_CORE: usize = 1;
/// Small uploads of one account written concurrently, in addition to the others.
const ACCOUNT_SMALL_PUBLISHES: usize = 1;
/// The size up to which an archive counts as small: its files compress within seconds.
const SMALL_PUBLISH_BYTES: u64 = 1024 * 1024;
/// Minimum of passwords hashed concurrently, unless configured, so that one account never has all permits.
const LEAST_HASHES: usize = 2;
/// The maximum spool space for uploads, in bytes, unless configured.
const SPOOL_BYTES: u64 = 16_000 * MB;
const CLIENT_WEBHOOKS: usize = 32;
/// Webhook bodies received concurrently. Many, as slow ones cost little: their bytes are counted and they time out.
const WEBHOOKS: usize = 8_192;
/// The process's memory divided by this is the memory for webhooks, without large ones, unless configured.
const WEBHOOK_MEMORY_SHARE: u64 = 32;
/// The minimum bytes for webhooks, unless configured, so that one client never has all of them.
const LEAST_WEBHOOK_BYTES: u64 = 2 * CLIENT_WEBHOOK_BYTES;
/// Webhook bytes of one client in memory, without large ones. A delivery of the code host has some 20 KB.
const CLIENT_WEBHOOK_BYTES: u64 = 4 * MB;
const LARGE_WEBHOOKS: usize = 4;
const CLIENT_LARGE_WEBHOOKS: usize = 2;
/// The size up to which a webhook counts as small.
pub const WEBHOOK_SMALL_BYTES: usize = 1024 * 1024;
/// Concurrent checks of custom domains. Each waits, for seconds at most, for servers of strangers.
const DOMAIN_LOOKS: usize = 64;
/// Concurrent checkouts. Each calls the payment provider, which limits the calls per key.
const CHECKOUTS: usize = 32;
const PERSON_CHECKOUTS: usize = 2;
const ACCOUNT_DOMAIN_LOOKS: usize = 8;
/// Maximum memory for listing or comparing a deployment's files: its manifest, which usually has some megabytes.
const LISTING_BYTES: u64 = 64 * MB;
/// The process's memory divided by this is the memory for listings, unless configured.
const LISTING_MEMORY_SHARE: u64 = 16;
/// Minimum of concurrent listings, unless configured, so that one account never has all permits.
const LEAST_LISTINGS: u64 = 2;
/// The memory to assume if the system does not report it.
const USUAL_MEMORY: u64 = 4_096 * MB;
/// Concurrent completions tried out in the console. For the edges, to which each connects, they are one client's.
const TRIES: usize = 32;
const PERSON_TRIES: usize = 4;
/// Concurrent event streams. Each has a connection, an open file and some 20 KB.
const EVENT_STREAMS: usize = 4_096;
const ACCOUNT_EVENT_STREAMS: usize = 16;
/// Concurrent event streams of one session. A browser's streams share a connection with its pages' other requests, and
/// an edge serves 16 requests of a connection concurrently.
const SESSION_EVENT_STREAMS: usize = 8;
/// Event streams that check their person's sign-in and memberships concurrently: fewer than database connections.
const EVENT_LOOKS: usize = 4;
/// Event streams of one person that concurrently check these.
const ACCOUNT_EVENT_LOOKS: usize = 1;
/// The `Retry-After` for an account that has reached its limit of event streams.
const EVENT_STREAMS_RETRY: Duration = Duration::from_secs(30);
/// Pushes fetched and published concurrently. Each may hold 250 MB of the spool, within its account's share.
const PUSHES: usize = 3;
/// Certificates ordered concurrently. Each order mostly waits for the authority.
const ORDERS: usize = 32;
/// Certificates of one payer ordered concurrently by all admins together: half of what one admin orders.
pub const PAYER_ORDERS: usize = ORDERS / 2;
/// Maximum wait of a request for a permit before it is refused.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// The `Retry-After` of an upload for which the spool has no room.
pub const SPOOL_RETRY: Duration = Duration::from_secs(30);
/// Maximum wait of a received upload for its publication: its client is done. Far below the hour after which it is
/// given up.
pub(crate) const PUBLISH_WAIT: Duration = Duration::from_mins(10);

/// The limits. Clones share them.
#[derive(Debug, Clone)]
pub struct ConcurrencyLimits {
    uploads: TurnQueue<PayingAccount>,
    spool: AmountLimit<PayingAccount>,
    /// Logs whether there is room on the disks.
    pub fullness: DiskSpaceLog,
    publishes: TurnQueue<PayingAccount>,
    small_publishes: TurnQueue<PayingAccount>,
    hashes: TurnQueue<PayingAccount>,
    webhooks: TurnQueue<Client>,
    webhook_bytes: AmountLimit<Client>,
    large_webhooks: TurnQueue<Client>,
    domain_looks: TurnQueue<PayingAccount>,
    listings: TurnQueue<PayingAccount>,
    tries: TurnQueue<PayingAccount>,
    event_streams: TurnQueue<PayingAccount>,
    session_event_streams: TurnQueue<SessionId>,
    event_looks: TurnQueue<PayingAccount>,
    checkouts: TurnQueue<PayingAccount>,
    pushes: TurnQueue<PayingAccount>,
    orders: Arc<Semaphore>,
    payment_looks: PaymentChecks,
    reports: ReportPermits,
    downloads: DownloadPermits,
}

/// An account's permit for work that is limited per account.
pub type AccountPermit = TurnPermit<PayingAccount>;

/// The permit of an open event stream, released on drop.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct EventStreamPermit {
    /// Released on drop, before the streams are counted.
    of_account: Option<AccountPermit>,
    all: TurnQueue<PayingAccount>,
    _of_session: Option<TurnPermit<SessionId>>,
}

/// The permit of a webhook that is being received, released on drop.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct WebhookPermit {
    client: Client,
    large_webhooks: TurnQueue<Client>,
    bytes: HeldAmount<Client>,
    large: Option<TurnPermit<Client>>,
    _turn: TurnPermit<Client>,
}

impl ConcurrencyLimits {
    /// Creates the limits from the configuration, or else from the machine. `spool` is the folder for uploads.
    pub fn new(config: &config::Admin, spool: &Path) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let or = |given: usize, else_: usize| if given == 0 { else_ } else { given };
        let turns = |total: usize, share: usize| {
            TurnQueue::new(fairness::TurnBounds { total, share, waiting: WAITING, waiting_share: ACCOUNT_WAITING })
        };
        // One account gets at most half, so that there is always room for another, although it may wait needlessly.
        let halved = |total: usize| turns(total, total.div_ceil(2));
        let uploads = or(config.uploads, cores * UPLOADS_PER_CORE);
        let spool_bytes = match config.spool_bytes {
            0 => DiskSpace::for_folder(spool).map_or(SPOOL_BYTES, |space| (space.free / 2).min(SPOOL_BYTES)),
            given => given,
        };
        let memory = config::machine::memory().unwrap_or(USUAL_MEMORY);
        let webhook_bytes = match config.webhook_bytes {
            0 => webhook_bytes(memory),
            given => given,
        };
        let of_clients =
            |total, share| TurnQueue::new(fairness::TurnBounds { total, share, waiting: total, waiting_share: share });
        // Requests never wait for these.
        let of_accounts =
            |total, share| TurnQueue::new(fairness::TurnBounds { total, share, waiting: 0, waiting_share: 0 });
        Self {
            uploads: turns(uploads, ACCOUNT_UPLOADS),
            spool: AmountLimit::new(spool_bytes, (ACCOUNT_UPLOADS as u64) * UPLOAD_BYTES),
            fullness: DiskSpaceLog::default(),
            publishes: halved(or(config.publishes, cores * PUBLISHES_PER_CORE)),
            small_publishes: turns(cores * SMALL_PUBLISHES_PER_CORE, ACCOUNT_SMALL_PUBLISHES),
            hashes: halved(or(config.password_hashes, cores.max(LEAST_HASHES))),
            webhooks: of_clients(WEBHOOKS, CLIENT_WEBHOOKS),
            webhook_bytes: AmountLimit::new(webhook_bytes, CLIENT_WEBHOOK_BYTES),
            large_webhooks: of_clients(LARGE_WEBHOOKS, CLIENT_LARGE_WEBHOOKS),
            domain_looks: turns(DOMAIN_LOOKS, ACCOUNT_DOMAIN_LOOKS),
            listings: halved(or(config.listings, listings(memory))),
            tries: turns(TRIES, PERSON_TRIES),
            event_streams: of_accounts(EVENT_STREAMS, ACCOUNT_EVENT_STREAMS),
            session_event_streams: TurnQueue::new(fairness::TurnBounds {
                total: EVENT_STREAMS,
                share: SESSION_EVENT_STREAMS,
                waiting: 0,
                waiting_share: 0,
            }),
            event_looks: TurnQueue::new(fairness::TurnBounds {
                total: EVENT_LOOKS,
                share: ACCOUNT_EVENT_LOOKS,
                waiting: EVENT_STREAMS,
                waiting_share: ACCOUNT_EVENT_STREAMS,
            }),
            checkouts: turns(CHECKOUTS, PERSON_CHECKOUTS),
            pushes: of_accounts(PUSHES, PUSHES.div_ceil(2)),
            orders: Arc::new(Semaphore::new(ORDERS)),
            payment_looks: PaymentChecks::new(),
            reports: ReportPermits::new(),
            downloads: DownloadPermits::new(),
        }
    }

    /// Waits for a permit for another upload of `account`. An account has few, however idle the server is.
    pub async fn upload(&self, account: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.uploads.take(account, TURN_WAIT).await.map_err(|refused| match refused {
            ShareError::Share => {
                busy("This account has as many uploads under way as it may at a time; please try again in a moment.")
            }
            ShareError::Full => overloaded().retry_elsewhere(),
        })
    }

    /// Returns the number of uploads that are being received, wait to be published, or are being published.
    pub fn uploads_under_way(&self) -> usize {
        self.uploads.in_use()
    }

    /// Rejects an upload of `account` if the spool has no room for its `length` bytes.
    pub fn check_spool(&self, account: &PayingAccount, length: u64) -> Result<(), ApiError> {
        // Released immediately: bytes are reserved as they arrive, so that a slow upload holds only what it has sent.
        let refused = self.spool(account).grow(length);
        refused.map_err(|refused| self.spool_full_error(refused))?;
        self.fullness.spool_has_room();
        Ok(())
    }

    /// Returns the error for an upload for which the spool has no room.
    pub fn spool_full_error(&self, refused: ShareError) -> ApiError {
        if refused == ShareError::Share {
            return busy(
                "This account's uploads take as much room as they may at a time; please try again in a moment.",
            );
        }
        self.fullness.spool_is_full(self.spool.held());
        let message = "There is no room for more uploads at the moment; please try again later.";
        ApiError::new(Code::Busy, message).retry_after(SPOOL_RETRY).retry_elsewhere()
    }

    /// Creates the spool reservation for an upload of `account`, initially empty.
    pub fn spool(&self, account: &PayingAccount) -> HeldAmount<PayingAccount> {
        self.spool.hold(account.clone())
    }

    /// Waits for a permit to write a received archive of `bytes` bytes of `account` to the store. Accounts take turns
    /// round robin. A small archive does not wait for large ones.
    pub async fn publish(&self, account: &PayingAccount, bytes: u64) -> Result<AccountPermit, ApiError> {
        let turns = if bytes > SMALL_PUBLISH_BYTES {
            &self.publishes
        } else if let Ok(turn) = self.publishes.try_take(account) {
            return Ok(turn);
        } else {
            &self.small_publishes
        };
        turns.take(account, PUBLISH_WAIT).await.map_err(|_| overloaded())
    }

    /// Returns a permit for a client's webhook, if the client has one left.
    pub fn webhook(&self, client: Client) -> Result<WebhookPermit, ApiError> {
        let turn = self.webhooks.try_take(&client).map_err(|_| overloaded())?;
        Ok(WebhookPermit {
            client,
            large_webhooks: self.large_webhooks.clone(),
            bytes: self.webhook_bytes.hold(client),
            large: None,
            _turn: turn,
        })
    }

    /// Waits for a permit to check a custom domain for `account`.
    pub async fn domain_look(&self, account: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.domain_looks.take(account, TURN_WAIT).await.map_err(|_| overloaded())
    }

    /// Waits for a permit of `account` to list or compare files of a deployment.
    pub async fn listing(&self, account: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.listings.take(account, TURN_WAIT).await.map_err(|_| overloaded())
    }

    /// Waits for a permit for `person` to try out a completion.
    pub async fn completion_try(&self, person: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.tries.take(person, TURN_WAIT).await.map_err(|_| overloaded())
    }

    /// Returns a permit for an event stream of a person, by this session if any.
    pub fn event_stream(
        &self,
        person: &PayingAccount,
        session: Option<&SessionId>,
    ) -> Result<EventStreamPermit, ApiError> {
        let refuse = |bound, refused| {
            metrics::event_stream_refused(if refused == ShareError::Full { "process" } else { bound });
            match refused {
                ShareError::Full => overloaded(),
                ShareError::Share => ApiError::new(
                    Code::RateLimitExceeded,
                    "You follow events in as many places as may be at a time; close one of them.",
                )
                .retry_after(EVENT_STREAMS_RETRY),
            }
        };
        let of_session = session.map(|session| self.session_event_streams.try_take(session)).transpose();
        let of_session = of_session.map_err(|refused| refuse("session", refused))?;
        let of_account = self.event_streams.try_take(person).map_err(|refused| refuse("account", refused))?;
        metrics::event_streams(self.event_streams.in_use());
        Ok(EventStreamPermit { of_account: Some(of_account), all: self.event_streams.clone(), _of_session: of_session })
    }

    /// Waits for a permit for an event stream of `person` to query the database, which it must do eventually.
    pub async fn event_look(&self, person: &PayingAccount) -> Option<AccountPermit> {
        self.event_looks.take(person, TURN_WAIT).await.ok()
    }

    /// Waits for a permit for a checkout of `person` to call the payment provider.
    pub async fn checkout(&self, person: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.checkouts.take(person, TURN_WAIT).await.map_err(|_| overloaded())
    }

    /// Returns the permits for payment checks triggered by webhooks.
    pub fn payment_looks(&self) -> &PaymentChecks {
        &self.payment_looks
    }

    /// Returns the permits for reports on visits.
    pub fn reports(&self) -> &ReportPermits {
        &self.reports
    }

    /// Returns the permits for downloads of deployments.
    pub fn downloads(&self) -> &DownloadPermits {
        &self.downloads
    }

    /// Returns whether no further push can be deployed now.
    pub fn is_full_of_pushes(&self) -> bool {
        self.pushes.in_use() >= self.pushes.bounds().total
    }

    /// Returns a permit for deploying a push of `account`, if it has one left: one account never has all of them.
    pub fn push(&self, account: &PayingAccount) -> Option<AccountPermit> {
        self.pushes.try_take(account).ok()
    }

    /// Takes all free permits for ordering certificates.
    pub fn orders(&self) -> Vec<OwnedSemaphorePermit> {
        std::iter::from_fn(|| self.orders.clone().try_acquire_owned().ok()).take(ORDERS).collect()
    }

    /// Hashes a site's password on a blocking thread, after waiting for a permit of `account`.
    pub async fn hash(&self, account: &PayingAccount, password: SitePassword) -> Result<String, ApiError> {
        let turn = self.hashes.take(account, TURN_WAIT).await.map_err(|_| overloaded())?;
        let hashing = tokio::task::spawn_blocking(move || {
            let hash = passwords::hash(&password);
            drop(turn);
            hash
        });
        hashing.await.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }
}

impl Drop for EventStreamPermit {
    fn drop(&mut self) {
        self.of_account = None;
        metrics::event_streams(self.all.in_use());
    }
}

impl WebhookPermit {
    /// Counts the next `more` bytes of a body after `read` bytes. A body that grows large waits for a permit.
    pub async fn grow(&mut self, read: usize, more: usize) -> Result<(), ApiError> {
        if self.large.is_none() && read + more > WEBHOOK_SMALL_BYTES {
            let large = self.large_webhooks.take(&self.client, TURN_WAIT).await.map_err(|_| overloaded())?;
            self.large = Some(large);
        }
        // Large bodies are bounded by their permit instead.
        if self.large.is_none() {
            self.bytes.grow(more as u64).map_err(|_| overloaded())?;
        }
        Ok(())
    }
}

fn webhook_bytes(memory: u64) -> u64 {
    (memory / WEBHOOK_MEMORY_SHARE).max(LEAST_WEBHOOK_BYTES)
}

fn listings(memory: u64) -> usize {
    let fitting = (memory / LISTING_MEMORY_SHARE / LISTING_BYTES).max(LEAST_LISTINGS);
    usize::try_from(fitting).unwrap_or(usize::MAX)
}

/// Returns the error for a request that got no permit.
pub fn overloaded() -> ApiError {
    busy("Too much is going on at once; please try again in a moment.")
}

fn busy(message: &'static str) -> ApiError {
    ApiError::new(Code::Busy, message).retry_after(TURN_WAIT)
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[test]
    fn what_the_configuration_leaves_open_follows_from_the_memory() {
        let of = |memory: u64| (webhook_bytes(memory * MB), listings(memory * MB));
        assert_eq!(of(64), (8 * MB, 2));
        assert_eq!(of(4_096), (128 * MB, 4));
        assert_eq!(of(65_536), (2_048 * MB, 64));
    }

    #[tokio::test]
    async fn the_configuration_has_the_last_word() {
        let bounds = |listings, webhook_bytes| {
            let config = config::Admin { listings, webhook_bytes, ..config::Admin::default() };
            ConcurrencyLimits::new(&config, Path::new("/"))
        };
        let given = bounds(7, 16);
        assert_eq!((given.listings.bounds().total, given.listings.bounds().share), (7, 4));
        let mut webhook = given.webhook("192.0.2.1".parse::<std::net::IpAddr>().unwrap().into()).unwrap();
        webhook.grow(0, 16).await.unwrap();
        assert_eq!(webhook.grow(16, 1).await.unwrap_err().code(), Code::Busy);
        assert!(bounds(0, 0).listings.bounds().total >= 2);
    }

    #[tokio::test]
    async fn a_small_archive_does_not_wait_for_the_large_ones_of_others() {
        let account =
            |name: &str| PayingAccount::from(format!("usr_00000000000000000{name}").parse::<domain::UserId>().unwrap());
        let bounds =
            ConcurrencyLimits::new(&config::Admin { publishes: 2, ..config::Admin::default() }, Path::new("/"));
        let large = SMALL_PUBLISH_BYTES + 1;
        let _held = (
            bounds.publish(&account("ada"), large).now_or_never().unwrap().unwrap(),
            bounds.publish(&account("bob"), large).now_or_never().unwrap().unwrap(),
        );
        assert!(bounds.publish(&account("eve"), large).now_or_never().is_none());
        let small = bounds.publish(&account("eve"), SMALL_PUBLISH_BYTES).now_or_never().unwrap().unwrap();
        assert!(bounds.publish(&account("eve"), 1).now_or_never().is_none(), "an account has one of these turns");
        drop(small);
        assert!(bounds.publish(&account("eve"), 1).now_or_never().is_some());
    }
}
