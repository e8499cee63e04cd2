//! Limits on downloads of deployments. A download holds the list of its files and a window of their contents, and
//! compresses, for as long as its client takes.
//!
//! Clients that take their time must not keep strangers out. While an account without a download waits and all permits
//! are taken, the slowest download of the person with the most is ended. If nobody has two, it is one whose client takes
//! less than [`CROWDED_RATE`], or else the one that has gone on longest beyond its fair time, which depends on its size.
//! However many accounts download, at whatever pace they read, a newcomer finds a permit within minutes. While nobody
//! waits, a download has [`DownloadPermits::max_duration`].

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use admin_http::error::ApiError;
use domain::PayingAccount;
use fairness::{ShareError, TurnBounds, TurnQueue};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{AccountPermit, TURN_WAIT, busy, overloaded};

/// Concurrent downloads of deployments. Each takes some megabytes of memory.
const DOWNLOADS: usize = 16;
const ACCOUNT_DOWNLOADS: usize = 4;
/// Downloads that may wait, for one account and in total.
const ACCOUNT_WAITING: usize = 16;
const WAITING: usize = 256;
/// Maximum stall of a download's client.
pub const DOWNLOAD_PAUSE: Duration = Duration::from_mins(1);
/// Maximum duration of a download, in addition to the time its bytes take at [`DOWNLOAD_RATE`].
const DOWNLOAD_TIME: Duration = Duration::from_mins(5);
/// Minimum average rate of a download, in bytes per second: slower clients would hold a permit for hours.
const DOWNLOAD_RATE: u64 = 32 * 1024;
/// Minimum rate of a download, in bytes per second, while others wait and nobody has two permits.
const CROWDED_RATE: u64 = 128 * 1024;
/// Minimum time of a person's only download, even while others wait.
const FAIR_TIME: Duration = Duration::from_secs(30);
/// The rate in bytes per second at which a download's bytes add to its [`FAIR_TIME`], unless it trickles.
const FAIR_RATE: u64 = 1_000_000;
/// The time over which the rate of a download is measured: the last one to two of these.
const RATE_WINDOW: Duration = Duration::from_secs(5);
/// Wait of an account without a download before it takes the permit of another, and before it takes one more.
const REVOKE_AFTER: Duration = Duration::from_secs(2);

/// Permits for downloads. Clones share them.
#[derive(Debug, Clone)]
pub struct DownloadPermits {
    turns: TurnQueue<PayingAccount>,
    under_way: Arc<DownloadList>,
}

/// The permit of a download, released on drop.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct DownloadPermit {
    progress: DownloadProgress,
    id: u64,
    under_way: Arc<DownloadList>,
    _turn: AccountPermit,
}

/// The progress of a download, recorded by its body. Clones share it.
#[derive(Debug, Clone)]
pub struct DownloadProgress(Arc<DownloadState>);

#[derive(Debug)]
struct DownloadState {
    account: PayingAccount,
    revoked: CancellationToken,
    begun: Instant,
    /// The time after which it gives way to others, even if it does not trickle.
    fair_time: Duration,
    taken: Mutex<TakenBytes>,
}

/// The bytes that a client has taken, with the marks from which its rate is measured.
#[derive(Debug, Clone, Copy)]
struct TakenBytes {
    bytes: u64,
    /// The beginnings of the current window and of the one before, each with the bytes taken until then.
    current: (Instant, u64),
    previous: (Instant, u64),
}

#[derive(Debug, Default)]
struct DownloadList {
    next_id: AtomicU64,
    downloads: Mutex<HashMap<u64, Arc<DownloadState>>>,
}

impl DownloadPermits {
    pub(super) fn new() -> Self {
        Self {
            turns: TurnQueue::new(TurnBounds {
                total: DOWNLOADS,
                share: ACCOUNT_DOWNLOADS,
                waiting: WAITING,
                waiting_share: ACCOUNT_WAITING,
            }),
            under_way: Arc::default(),
        }
    }

    /// Waits for a permit of `account` to download a deployment of `bytes` bytes.
    pub async fn acquire(&self, account: &PayingAccount, bytes: u64) -> Result<DownloadPermit, ApiError> {
        let mut turn = std::pin::pin!(self.turns.take(account, TURN_WAIT));
        let turn = loop {
            match timeout_at(Instant::now() + REVOKE_AFTER, &mut turn).await {
                Ok(turn) => break turn,
                Err(_) if self.turns.in_use() >= DOWNLOADS => self.under_way.revoke_for(account),
                Err(_) => {}
            }
        };
        let turn = turn.map_err(|refused| match refused {
            ShareError::Share => {
                busy("This account has as many downloads under way as it may at a time; please try again in a moment.")
            }
            ShareError::Full => overloaded(),
        })?;
        Ok(self.under_way.add(account.clone(), bytes, turn))
    }

    /// Returns the maximum duration of a download of `bytes` bytes.
    pub fn max_duration(bytes: u64) -> Duration {
        DOWNLOAD_TIME + Duration::from_secs(bytes / DOWNLOAD_RATE)
    }
}

impl DownloadPermit {
    /// Returns the progress to record what the client takes in.
    pub fn progress(&self) -> DownloadProgress {
        self.progress.clone()
    }

    /// Returns once another account needs the permit.
    pub async fn revoked(&self) {
        self.progress.0.revoked.cancelled().await;
    }
}

impl Drop for DownloadPermit {
    fn drop(&mut self) {
        self.under_way.downloads().remove(&self.id);
    }
}

impl DownloadProgress {
    /// Records that the client has taken `bytes` more.
    pub fn record(&self, bytes: usize) {
        let (mut taken, now) = (self.0.taken(), Instant::now());
        taken.bytes += bytes as u64;
        if now - taken.current.0 >= RATE_WINDOW {
            taken.previous = taken.current;
            taken.current = (now, taken.bytes);
        }
    }
}

impl DownloadState {
    fn taken(&self) -> MutexGuard<'_, TakenBytes> {
        // Nothing panics while the lock is held, so its contents are consistent.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the bytes per second that the client has lately taken; `None` if it has only begun.
    fn rate(&self, now: Instant) -> Option<u64> {
        let taken = *self.taken();
        let (since, before) = taken.previous;
        let seconds = Some(now - since).filter(|time| *time >= RATE_WINDOW)?.as_secs().max(1);
        Some((taken.bytes - before) / seconds)
    }
}

impl DownloadList {
    fn add(self: &Arc<Self>, account: PayingAccount, bytes: u64, turn: AccountPermit) -> DownloadPermit {
        let begun = Instant::now();
        let taken = TakenBytes { bytes: 0, current: (begun, 0), previous: (begun, 0) };
        let (revoked, fair_time) = (CancellationToken::new(), FAIR_TIME + Duration::from_secs(bytes / FAIR_RATE));
        let state = Arc::new(DownloadState { account, revoked, begun, fair_time, taken: Mutex::new(taken) });
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        self.downloads().insert(id, state.clone());
        DownloadPermit { progress: DownloadProgress(state), id, under_way: self.clone(), _turn: turn }
    }

    /// Ends a download of others, unless the person behind `account` has one, or one is ending.
    fn revoke_for(&self, account: &PayingAccount) {
        let downloads = self.downloads();
        let mut counts: HashMap<&str, usize> = HashMap::new();
        for state in downloads.values() {
            *counts.entry(state.account.person_or_account()).or_default() += 1;
        }
        let is_ending = downloads.values().any(|state| state.revoked.is_cancelled());
        if is_ending || counts.contains_key(account.person_or_account()) {
            return;
        }
        let now = Instant::now();
        let is_trickle = |rate: u64, state: &DownloadState| rate < CROWDED_RATE && now - state.begun >= FAIR_TIME;
        let of_several_or_trickle = downloads
            .values()
            .map(|state| (counts[state.account.person_or_account()], state.rate(now).unwrap_or(u64::MAX), state))
            .filter(|&(count, rate, state)| count > 1 || is_trickle(rate, state))
            .min_by_key(|&(count, rate, _)| (std::cmp::Reverse(count), rate))
            .map(|(_, rate, state)| (rate, state));
        // Nobody has two.
        let longest = || {
            let beyond = |state: &DownloadState| (now - state.begun).checked_sub(state.fair_time);
            let (_, state) =
                downloads.values().filter_map(|state| Some((beyond(state)?, state))).max_by_key(|of| of.0)?;
            Some((state.rate(now).unwrap_or_default(), state))
        };
        if let Some((rate, state)) = of_several_or_trickle.or_else(longest) {
            tracing::debug!(account = %state.account.account(), rate, "ending a download, because others wait");
            state.revoked.cancel();
        }
    }

    fn downloads(&self) -> MutexGuard<'_, HashMap<u64, Arc<DownloadState>>> {
        // Nothing panics while the lock is held, so its contents are consistent.
        self.downloads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use domain::{Clock, UserId};
    use futures_util::{
        FutureExt as _,
        future::{join_all, select_all},
    };
    use tokio::time::sleep;

    use super::*;
    use admin_http::error::Code;

    fn account() -> PayingAccount {
        PayingAccount::from(UserId::new(Clock::system().now()))
    }

    /// Bytes of a deployment whose fair time is long.
    const LARGE: u64 = 200_000_000;

    /// Downloads at `rate` until the permit is revoked.
    fn download(permit: DownloadPermit, rate: usize) -> tokio::task::JoinHandle<PayingAccount> {
        tokio::spawn(async move {
            let reading = async {
                loop {
                    sleep(Duration::from_secs(1)).await;
                    permit.progress().record(rate);
                }
            };
            tokio::select! {
                () = permit.revoked() => permit.progress.0.account.clone(),
                () = reading => unreachable!(),
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_has_all_downloads() {
        let downloads = DownloadPermits::new();
        let (greedy, modest) = (account(), account());
        let mut held = Vec::new();
        for _ in 0..ACCOUNT_DOWNLOADS {
            held.push(downloads.acquire(&greedy, 0).await.unwrap());
        }
        assert_eq!(downloads.acquire(&greedy, 0).await.unwrap_err().code(), Code::Busy);
        drop(downloads.acquire(&modest, 0).await.unwrap());
        held.pop();
        drop(downloads.acquire(&greedy, 0).await.unwrap());
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_accounts_give_up_their_slowest_download_to_a_newcomer() {
        let downloads = DownloadPermits::new();
        let greedy: Vec<_> = (0..7).map(|_| account()).collect();
        let mut running = Vec::new();
        // Each takes as many as it gets: their shares shrink, until all permits are taken.
        for (place, account) in greedy.iter().enumerate() {
            while let Some(permit) = downloads.acquire(account, 0).now_or_never() {
                running.push(download(permit.unwrap(), if place == 1 { 1_000 } else { 100_000_000 }));
            }
        }
        sleep(2 * RATE_WINDOW).await;
        assert_eq!(downloads.turns.in_use(), DOWNLOADS);
        let newcomer = downloads.acquire(&account(), 0).await.unwrap();
        let (ended, _, running) = select_all(running).await;
        assert_eq!(ended.unwrap(), greedy[1], "it has as many as the first account, and they are slower");
        // An account that has a download takes no permit of others.
        assert!(downloads.acquire(&newcomer.progress.0.account, 0).await.is_err());
        assert!(running.iter().all(|download| !download.is_finished()));
        for download in running {
            download.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_download_each_only_a_trickle_is_ended() {
        for (rate, is_ended) in [(1_000, true), (1_000_000, false)] {
            let downloads = DownloadPermits::new();
            let permits =
                join_all((0..DOWNLOADS).map(async |_| downloads.acquire(&account(), LARGE).await.unwrap())).await;
            let running: Vec<_> = permits.into_iter().map(|permit| download(permit, rate)).collect();
            assert!(downloads.acquire(&account(), 0).await.is_err(), "each has its time");
            sleep(FAIR_TIME).await;
            assert_eq!(downloads.acquire(&account(), 0).await.is_ok(), is_ended, "{rate}");
            assert_eq!(running.iter().filter(|download| download.is_finished()).count(), usize::from(is_ended));
            for download in running {
                download.abort();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_one_download_each_the_one_that_has_gone_on_longest_is_ended() {
        let downloads = DownloadPermits::new();
        let mut running = Vec::new();
        for number in 0..DOWNLOADS {
            // The second is the longest beyond its time, which for the first is longer.
            let bytes = if number == 0 { LARGE } else { LARGE / 2 };
            running.push(download(downloads.acquire(&account(), bytes).await.unwrap(), 1_000_000));
            sleep(Duration::from_secs(2)).await;
        }
        assert!(downloads.acquire(&account(), 0).await.is_err(), "each has its time");
        sleep(Duration::from_secs(LARGE / 2 / FAIR_RATE)).await;
        assert!(running.iter().all(|download| !download.is_finished()), "nobody waits");
        assert!(downloads.acquire(&account(), 0).await.is_ok());
        let finished: Vec<_> = running.iter().map(tokio::task::JoinHandle::is_finished).collect();
        assert!(finished[1] && finished.iter().filter(|is_finished| **is_finished).count() == 1, "{finished:?}");
        for download in running {
            download.abort();
        }
    }

    #[test]
    fn the_largest_deployment_may_be_taken_slowly() {
        assert!(DownloadPermits::max_duration(domain::limits::DEPLOYMENT_BYTES) > Duration::from_hours(2));
    }
}
