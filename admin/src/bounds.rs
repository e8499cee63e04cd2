//! Bounds on work that runs concurrently, where more of it would exhaust the machine. Each is kept for every account, or for
//! every client where there is no account, so that nobody takes all of it.
//!
//! An account is the owner of what is published: the person or the org whose plan it counts against. A deploy token has no
//! person, and members of one org who deploy together are one workload; a share is its person's. The organizations that one person created
//! have a share together, since they are free to make.
//!
//! Whose each scarce thing of the program is, here and elsewhere, is listed in `scarce.rs`, whose test finds those that are not.

mod downloads;
mod payment_looks;
mod reports;

use std::{num::NonZeroUsize, path::Path, sync::Arc, thread, time::Duration};

use domain::{
    PayingAccount, SessionId,
    access::SitePassword,
    limits::{MB, UPLOAD_BYTES},
};
use fairness::{Amounts, Client, Held, Refused, Turn, Turns};
use packs::Space;
use secrets::passwords;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub use self::{
    downloads::{DOWNLOAD_PAUSE, Downloads},
    payment_looks::{LookTurn, NextLook, PaymentLook, PaymentLooks},
    reports::{LinkTurn, Reports},
};
use crate::{
    error::{ApiError, Code},
    fullness::Fullness,
    metrics,
};

/// Threads for what blocks: the spool, publishing, passwords. Each has a stack, and memory that the allocator keeps for it.
pub const BLOCKING_THREADS: usize = 64;
/// Uploads of one account that are received, or wait to be published, at a time.
const ACCOUNT_UPLOADS: usize = 4;
/// Uploads of one account that wait for one of those to end. Together with them: the jobs of a busy pipeline.
const ACCOUNT_WAITING: usize = 16;
/// Requests of all accounts that wait for a turn of one kind.
const WAITING: usize = 1_024;
/// Uploads received at a time for each core, when the configuration names no number.
const UPLOADS_PER_CORE: usize = 128;
/// Uploads written at a time for each core, when the configuration names no number: while one waits for the disk, another
/// compresses.
const PUBLISHES_PER_CORE: usize = 2;
/// Small uploads written at a time for each core, beside the others: a few accounts whose large uploads compress for a minute each keep
/// nobody's page waiting.
const SMALL_PUBLISHES_PER_CORE: usize = 1;
/// Small uploads of one account written at a time, beside the others.
const ACCOUNT_SMALL_PUBLISHES: usize = 1;
/// The size up to which an archive counts as small: its files are compressed within seconds.
const SMALL_PUBLISH_BYTES: u64 = 1024 * 1024;
/// Fewest passwords hashed at a time, when the configuration names no number: one account never has all of them.
const LEAST_HASHES: usize = 2;
/// Most bytes of the spool that uploads take, when the configuration names no number.
const SPOOL_BYTES: u64 = 16_000 * MB;
/// Bodies of webhooks that one client sends at a time.
const CLIENT_WEBHOOKS: usize = 32;
/// Bodies of webhooks that are received at a time. Many, because a slow one costs little: what it has sent is counted in
/// bytes, and it has some seconds.
const WEBHOOKS: usize = 8_192;
/// The part of the memory that bytes of webhooks take, without the large ones, when the configuration names no number: one in so
/// many.
const WEBHOOK_MEMORY_SHARE: u64 = 32;
/// Fewest bytes of webhooks, when the configuration names no number: one client never has all of them.
const LEAST_WEBHOOK_BYTES: u64 = 2 * CLIENT_WEBHOOK_BYTES;
/// Bytes of webhooks that one client has in memory, without the large ones. A delivery of the code host has some 20 KB.
const CLIENT_WEBHOOK_BYTES: u64 = 4 * MB;
/// Webhooks received at a time that are larger than [`WEBHOOK_SMALL_BYTES`].
const LARGE_WEBHOOKS: usize = 4;
/// Large webhooks that one client sends at a time.
const CLIENT_LARGE_WEBHOOKS: usize = 2;
/// The size up to which a webhook counts as small.
pub const WEBHOOK_SMALL_BYTES: usize = 1024 * 1024;
/// Looks at custom domains at a time. Each waits for strangers' servers, for seconds at most.
const DOMAIN_LOOKS: usize = 64;
/// Checkouts at a time. Each asks the payment provider, which answers only so many calls of one key.
const CHECKOUTS: usize = 32;
/// Checkouts of one person at a time.
const PERSON_CHECKOUTS: usize = 2;
/// Looks at custom domains at a time for one account.
const ACCOUNT_DOMAIN_LOOKS: usize = 8;
/// Most memory that is taken by a deployment whose files are listed or compared: that of a manifest, which is some megabytes as
/// a rule.
const LISTING_BYTES: u64 = 64 * MB;
/// The part of the memory that listings take, when the configuration names no number: one in so many.
const LISTING_MEMORY_SHARE: u64 = 16;
/// Fewest listings at a time, when the configuration names no number: one account never has all of them.
const LEAST_LISTINGS: u64 = 2;
/// The memory that is reckoned with where the system does not say it.
const USUAL_MEMORY: u64 = 4_096 * MB;
/// Completions tried out in the console at a time. Each has a connection to an edge, to which all of them are one client's.
const TRIES: usize = 32;
/// Completions tried out at a time by one person.
const PERSON_TRIES: usize = 4;
/// Event streams at a time. Each has a connection and an open file, and some 20 KB.
const EVENT_STREAMS: usize = 4_096;
/// Event streams of one person at a time.
const ACCOUNT_EVENT_STREAMS: usize = 16;
/// Event streams of one session at a time: those of a browser share a connection with whatever else its pages ask for, and an
/// edge answers 16 requests of a connection at a time.
const SESSION_EVENT_STREAMS: usize = 8;
/// Event streams that look at the same time whether their person still belongs where they belonged, and is signed in: fewer than
/// there are connections to the database.
const EVENT_LOOKS: usize = 4;
/// Event streams of one person that look at the same time.
const ACCOUNT_EVENT_LOOKS: usize = 1;
/// The `Retry-After` of an account with as many event streams as it may have.
const EVENT_STREAMS_RETRY: Duration = Duration::from_secs(30);
/// Most pushes being fetched and published. Each may hold 250 MB of the spool, within what its account may hold of it.
const PUSHES: usize = 3;
/// Most certificates that are ordered at a time. Each waits for the authority most of the time.
const ORDERS: usize = 32;
/// Most certificates of one payer that are ordered at a time, by all admins together: half of what one admin orders.
pub(crate) const PAYER_ORDERS: usize = ORDERS / 2;
/// Longest wait of a request for a turn before it is refused.
const TURN_WAIT: Duration = Duration::from_secs(10);
/// The `Retry-After` of an upload for which the spool has no room.
pub(crate) const SPOOL_RETRY: Duration = Duration::from_secs(30);
/// How long an upload that was received waits to be published: its client has done its part. Far below the hour after which
/// an upload is given up for dead.
pub(crate) const PUBLISH_WAIT: Duration = Duration::from_mins(10);

/// The bounds. Clones share them.
#[derive(Debug, Clone)]
pub struct Bounds {
    uploads: Turns<PayingAccount>,
    spool: Amounts<PayingAccount>,
    /// Whether there is room on the disks, for those who look there.
    pub(crate) fullness: Fullness,
    publishes: Turns<PayingAccount>,
    small_publishes: Turns<PayingAccount>,
    hashes: Turns<PayingAccount>,
    webhooks: Turns<Client>,
    webhook_bytes: Amounts<Client>,
    large_webhooks: Turns<Client>,
    domain_looks: Turns<PayingAccount>,
    listings: Turns<PayingAccount>,
    tries: Turns<PayingAccount>,
    event_streams: Turns<PayingAccount>,
    session_event_streams: Turns<SessionId>,
    event_looks: Turns<PayingAccount>,
    checkouts: Turns<PayingAccount>,
    pushes: Turns<PayingAccount>,
    orders: Arc<Semaphore>,
    payment_looks: PaymentLooks,
    reports: Reports,
    downloads: Downloads,
}

/// The turn of an account for work of which it has a share.
pub type AccountTurn = Turn<PayingAccount>;

/// An event stream that is open, until it is dropped.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct EventStreamTurn {
    /// Given back when this is dropped, before the streams are counted.
    of_account: Option<AccountTurn>,
    all: Turns<PayingAccount>,
    _of_session: Option<Turn<SessionId>>,
}

/// A webhook that is being received, until it is dropped.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct WebhookTurn {
    client: Client,
    large_webhooks: Turns<Client>,
    bytes: Held<Client>,
    large: Option<Turn<Client>>,
    _turn: Turn<Client>,
}

impl Bounds {
    /// The bounds of the configuration; what it leaves open is worked out from the machine. `spool` is the folder in which
    /// uploads are received.
    pub fn new(config: &config::Admin, spool: &Path) -> Self {
        let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let or = |given: usize, else_: usize| if given == 0 { else_ } else { given };
        let turns = |total: usize, share: usize| {
            Turns::new(fairness::Bounds { total, share, waiting: WAITING, waiting_share: ACCOUNT_WAITING })
        };
        // Half of them, so that there is always one for somebody else, though a single account waits where it need not.
        let halved = |total: usize| turns(total, total.div_ceil(2));
        let uploads = or(config.uploads, cores * UPLOADS_PER_CORE);
        let spool_bytes = match config.spool_bytes {
            0 => Space::of(spool).map_or(SPOOL_BYTES, |space| (space.free / 2).min(SPOOL_BYTES)),
            given => given,
        };
        let memory = config::machine::memory().unwrap_or(USUAL_MEMORY);
        let webhook_bytes = match config.webhook_bytes {
            0 => webhook_bytes(memory),
            given => given,
        };
        let of_clients =
            |total, share| Turns::new(fairness::Bounds { total, share, waiting: total, waiting_share: share });
        // Nobody waits for these.
        let of_accounts = |total, share| Turns::new(fairness::Bounds { total, share, waiting: 0, waiting_share: 0 });
        Self {
            uploads: turns(uploads, ACCOUNT_UPLOADS),
            spool: Amounts::new(spool_bytes, (ACCOUNT_UPLOADS as u64) * UPLOAD_BYTES),
            fullness: Fullness::default(),
            publishes: halved(or(config.publishes, cores * PUBLISHES_PER_CORE)),
            small_publishes: turns(cores * SMALL_PUBLISHES_PER_CORE, ACCOUNT_SMALL_PUBLISHES),
            hashes: halved(or(config.password_hashes, cores.max(LEAST_HASHES))),
            webhooks: of_clients(WEBHOOKS, CLIENT_WEBHOOKS),
            webhook_bytes: Amounts::new(webhook_bytes, CLIENT_WEBHOOK_BYTES),
            large_webhooks: of_clients(LARGE_WEBHOOKS, CLIENT_LARGE_WEBHOOKS),
            domain_looks: turns(DOMAIN_LOOKS, ACCOUNT_DOMAIN_LOOKS),
            listings: halved(or(config.listings, listings(memory))),
            tries: turns(TRIES, PERSON_TRIES),
            event_streams: of_accounts(EVENT_STREAMS, ACCOUNT_EVENT_STREAMS),
            session_event_streams: Turns::new(fairness::Bounds {
                total: EVENT_STREAMS,
                share: SESSION_EVENT_STREAMS,
                waiting: 0,
                waiting_share: 0,
            }),
            event_looks: Turns::new(fairness::Bounds {
                total: EVENT_LOOKS,
                share: ACCOUNT_EVENT_LOOKS,
                waiting: EVENT_STREAMS,
                waiting_share: ACCOUNT_EVENT_STREAMS,
            }),
            checkouts: turns(CHECKOUTS, PERSON_CHECKOUTS),
            pushes: of_accounts(PUSHES, PUSHES.div_ceil(2)),
            orders: Arc::new(Semaphore::new(ORDERS)),
            payment_looks: PaymentLooks::new(),
            reports: Reports::new(),
            downloads: Downloads::new(),
        }
    }

    /// Waits until `account` may send another upload: at a time it has few, however many others there are.
    pub async fn upload(&self, account: &PayingAccount) -> Result<AccountTurn, ApiError> {
        self.uploads.take(account, TURN_WAIT).await.map_err(|refused| match refused {
            Refused::Share => {
                busy("This account has as many uploads under way as it may at a time; please try again in a moment.")
            }
            Refused::Full => too_much().of_this_admin(),
        })
    }

    /// Uploads that are being received, wait to be published, or are published.
    pub fn uploads_under_way(&self) -> usize {
        self.uploads.taken()
    }

    /// Refuses an upload of `account` for which the spool has no room if it has `length` bytes.
    pub fn check_spool(&self, account: &PayingAccount, length: u64) -> Result<(), ApiError> {
        // Given back at once: it is taken as it comes, so that an upload that is slow holds no more than it has sent.
        let refused = self.spool(account).grow(length);
        refused.map_err(|refused| self.spool_refuses(refused))?;
        self.fullness.spool_has_room();
        Ok(())
    }

    /// The answer to an upload for which the spool has no room.
    pub fn spool_refuses(&self, refused: Refused) -> ApiError {
        if refused == Refused::Share {
            return busy(
                "This account's uploads take as much room as they may at a time; please try again in a moment.",
            );
        }
        self.fullness.spool_is_full(self.spool.held());
        let message = "There is no room for more uploads at the moment; please try again later.";
        ApiError::new(Code::Busy, message).retry_after(SPOOL_RETRY).of_this_admin()
    }

    /// The bytes that an upload of `account` takes of the spool: none yet.
    pub fn spool(&self, account: &PayingAccount) -> Held<PayingAccount> {
        self.spool.hold(account.clone())
    }

    /// Waits until an archive of `bytes` that was received of `account` may be written to the store. Accounts take their turns round
    /// robin. A small archive does not wait for large ones.
    pub async fn publish(&self, account: &PayingAccount, bytes: u64) -> Result<AccountTurn, ApiError> {
        let turns = if bytes > SMALL_PUBLISH_BYTES {
            &self.publishes
        } else if let Ok(turn) = self.publishes.try_take(account) {
            return Ok(turn);
        } else {
            &self.small_publishes
        };
        turns.take(account, PUBLISH_WAIT).await.map_err(|_| too_much())
    }

    /// Takes the turn of a client that sends a webhook, if it has one left.
    pub fn webhook(&self, client: Client) -> Result<WebhookTurn, ApiError> {
        let turn = self.webhooks.try_take(&client).map_err(|_| too_much())?;
        Ok(WebhookTurn {
            client,
            large_webhooks: self.large_webhooks.clone(),
            bytes: self.webhook_bytes.hold(client),
            large: None,
            _turn: turn,
        })
    }

    /// Waits until somebody may look at a custom domain for `account`.
    pub async fn domain_look(&self, account: &PayingAccount) -> Result<AccountTurn, ApiError> {
        self.domain_looks.take(account, TURN_WAIT).await.map_err(|_| too_much())
    }

    /// Waits until the files of a deployment of `account` may be listed or compared.
    pub async fn listing(&self, account: &PayingAccount) -> Result<AccountTurn, ApiError> {
        self.listings.take(account, TURN_WAIT).await.map_err(|_| too_much())
    }

    /// Waits until `person` may try a completion out.
    pub async fn completion_try(&self, person: &PayingAccount) -> Result<AccountTurn, ApiError> {
        self.tries.take(person, TURN_WAIT).await.map_err(|_| too_much())
    }

    /// Takes a turn to follow events for a person, by this session if by one.
    pub fn event_stream(
        &self,
        person: &PayingAccount,
        session: Option<&SessionId>,
    ) -> Result<EventStreamTurn, ApiError> {
        let refuse = |bound, refused| {
            metrics::event_stream_refused(if refused == Refused::Full { "process" } else { bound });
            match refused {
                Refused::Full => too_much(),
                Refused::Share => ApiError::new(
                    Code::RateLimitExceeded,
                    "You follow events in as many places as may be at a time; close one of them.",
                )
                .retry_after(EVENT_STREAMS_RETRY),
            }
        };
        let of_session = session.map(|session| self.session_event_streams.try_take(session)).transpose();
        let of_session = of_session.map_err(|refused| refuse("session", refused))?;
        let of_account = self.event_streams.try_take(person).map_err(|refused| refuse("account", refused))?;
        metrics::event_streams(self.event_streams.taken());
        Ok(EventStreamTurn { of_account: Some(of_account), all: self.event_streams.clone(), _of_session: of_session })
    }

    /// Waits until an event stream of `person` may ask the database about them; not for ever, since it has to look at last.
    pub async fn event_look(&self, person: &PayingAccount) -> Option<AccountTurn> {
        self.event_looks.take(person, TURN_WAIT).await.ok()
    }

    /// Waits until a checkout of `person` may ask the payment provider.
    pub async fn checkout(&self, person: &PayingAccount) -> Result<AccountTurn, ApiError> {
        self.checkouts.take(person, TURN_WAIT).await.map_err(|_| too_much())
    }

    /// Looks at payments that webhooks ask for.
    pub fn payment_looks(&self) -> &PaymentLooks {
        &self.payment_looks
    }

    /// Reports on visits.
    pub fn reports(&self) -> &Reports {
        &self.reports
    }

    /// Downloads of deployments.
    pub fn downloads(&self) -> &Downloads {
        &self.downloads
    }

    /// Whether nobody may deploy another push now.
    pub fn is_full_of_pushes(&self) -> bool {
        self.pushes.taken() >= self.pushes.bounds().total
    }

    /// Takes a turn of `account` to deploy a push, if it has one left: one account never has all of them.
    pub fn push(&self, account: &PayingAccount) -> Option<AccountTurn> {
        self.pushes.try_take(account).ok()
    }

    /// Takes the turns that are left for ordering certificates.
    pub fn orders(&self) -> Vec<OwnedSemaphorePermit> {
        std::iter::from_fn(|| self.orders.clone().try_acquire_owned().ok()).take(ORDERS).collect()
    }

    /// Hashes a site's password for `account` on a blocking thread, once it is the account's turn.
    pub async fn hash(&self, account: &PayingAccount, password: SitePassword) -> Result<String, ApiError> {
        let turn = self.hashes.take(account, TURN_WAIT).await.map_err(|_| too_much())?;
        let hashing = tokio::task::spawn_blocking(move || {
            let hash = passwords::hash(&password);
            drop(turn);
            hash
        });
        hashing.await.map_err(ApiError::internal)?.map_err(ApiError::internal)
    }
}

impl Drop for EventStreamTurn {
    fn drop(&mut self) {
        self.of_account = None;
        metrics::event_streams(self.all.taken());
    }
}

impl WebhookTurn {
    /// Counts the next `more` bytes of a body that has `read` already. One that grows large waits for a turn of the large.
    pub async fn grow(&mut self, read: usize, more: usize) -> Result<(), ApiError> {
        if self.large.is_none() && read + more > WEBHOOK_SMALL_BYTES {
            let large = self.large_webhooks.take(&self.client, TURN_WAIT).await.map_err(|_| too_much())?;
            self.large = Some(large);
        }
        // What is large is bounded by its turn.
        if self.large.is_none() {
            self.bytes.grow(more as u64).map_err(|_| too_much())?;
        }
        Ok(())
    }
}

/// Bytes of webhooks where the process may have so much memory.
fn webhook_bytes(memory: u64) -> u64 {
    (memory / WEBHOOK_MEMORY_SHARE).max(LEAST_WEBHOOK_BYTES)
}

/// Listings at a time where the process may have so much memory.
fn listings(memory: u64) -> usize {
    let fitting = (memory / LISTING_MEMORY_SHARE / LISTING_BYTES).max(LEAST_LISTINGS);
    usize::try_from(fitting).unwrap_or(usize::MAX)
}

/// The answer to a request for which there is no turn.
pub fn too_much() -> ApiError {
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
            Bounds::new(&config, Path::new("/"))
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
        let bounds = Bounds::new(&config::Admin { publishes: 2, ..config::Admin::default() }, Path::new("/"));
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
