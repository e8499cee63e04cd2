//! Limits on downloads of deployments. A download holds the list of its files and a window of their contents, and
//! compresses, for as long as its client takes.

use std::time::Duration;

use domain::PayingAccount;
use fairness::{ShareError, TurnBounds, TurnQueue};

use super::{AccountPermit, TURN_WAIT, busy, overloaded};
use crate::error::ApiError;

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

/// Permits for downloads. Clones share them.
#[derive(Debug, Clone)]
pub struct DownloadPermits {
    turns: TurnQueue<PayingAccount>,
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
        }
    }

    /// Waits for a permit to download a deployment of `account`.
    pub async fn acquire(&self, account: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.turns.take(account, TURN_WAIT).await.map_err(|refused| match refused {
            ShareError::Share => {
                busy("This account has as many downloads under way as it may at a time; please try again in a moment.")
            }
            ShareError::Full => overloaded(),
        })
    }

    /// Returns the maximum duration of a download of `bytes` bytes.
    pub fn max_duration(bytes: u64) -> Duration {
        DOWNLOAD_TIME + Duration::from_secs(bytes / DOWNLOAD_RATE)
    }
}

#[cfg(test)]
mod tests {
    use domain::{Clock, UserId};

    use super::*;
    use crate::error::Code;

    #[tokio::test(start_paused = true)]
    async fn nobody_has_all_downloads() {
        let downloads = DownloadPermits::new();
        let account = || PayingAccount::from(UserId::new(Clock::system().now()));
        let (greedy, modest) = (account(), account());
        let mut held = Vec::new();
        for _ in 0..ACCOUNT_DOWNLOADS {
            held.push(downloads.acquire(&greedy).await.unwrap());
        }
        assert_eq!(downloads.acquire(&greedy).await.unwrap_err().code(), Code::Busy);
        drop(downloads.acquire(&modest).await.unwrap());
        held.pop();
        drop(downloads.acquire(&greedy).await.unwrap());
    }

    #[test]
    fn the_largest_deployment_may_be_taken_slowly() {
        assert!(DownloadPermits::max_duration(domain::limits::DEPLOYMENT_BYTES) > Duration::from_hours(2));
    }
}
