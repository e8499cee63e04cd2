//! Limits on reports on visits, which read days and hours of lists from the database. Each account has a share. Readers
//! of public links have a share per client and another per account that pays for the project, so that neither a client nor
//! somebody's links starve others.

use std::time::Duration;

use admin_http::error::ApiError;
use domain::PayingAccount;
use fairness::{Client, ShareError, TurnBounds, TurnPermit, TurnQueue};

use super::{AccountPermit, TURN_WAIT, overloaded};

/// Concurrent reports for members, fewer than there are connections to the database.
const REPORTS: usize = 8;
const ACCOUNT_REPORTS: usize = 2;
/// Reports of one account that may wait: a page of the console requests half a dozen.
const ACCOUNT_WAITING: usize = 64;
const PUBLIC_REPORTS: usize = 4;
/// Concurrent reports through the links of one account's projects.
const PAYER_REPORTS: usize = 1;
const PAYER_WAITING: usize = 64;
/// Reports through public links in progress, including those that wait.
const READERS: usize = 1_024;
const CLIENT_READERS: usize = 4;
/// Maximum wait for the permit of a further part.
const PART_WAIT: Duration = Duration::from_mins(2);
const WAITING: usize = 1_024;

/// Permits for reports. Clones share them.
#[derive(Debug, Clone)]
pub struct ReportPermits {
    accounts: TurnQueue<PayingAccount>,
    readers: TurnQueue<Client>,
    links: TurnQueue<PayingAccount>,
}

/// A permit to read a report through a public link.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct LinkReportPermit {
    _reader: TurnPermit<Client>,
    _link: AccountPermit,
}

impl ReportPermits {
    pub(super) fn new() -> Self {
        let bounds = |total, share, waiting_share| TurnBounds { total, share, waiting: WAITING, waiting_share };
        Self {
            accounts: TurnQueue::new(bounds(REPORTS, ACCOUNT_REPORTS, ACCOUNT_WAITING)),
            readers: TurnQueue::new(TurnBounds { total: READERS, share: CLIENT_READERS, waiting: 0, waiting_share: 0 }),
            links: TurnQueue::new(bounds(PUBLIC_REPORTS, PAYER_REPORTS, PAYER_WAITING)),
        }
    }

    /// Waits for a permit of `account` to read a report on a project.
    pub async fn acquire_for_account(&self, account: &PayingAccount) -> Result<AccountPermit, ApiError> {
        self.accounts.take(account, TURN_WAIT).await.map_err(|_| overloaded())
    }

    /// Waits for a permit to read a further part of a report, for long: the client already has the first part.
    pub async fn acquire_next_part(&self, account: &PayingAccount) -> Result<AccountPermit, ShareError> {
        self.accounts.take(account, PART_WAIT).await
    }

    /// Waits for a permit of the client to read a report through the link of a project for which `payer` pays.
    pub async fn acquire_for_link(&self, client: Client, payer: &PayingAccount) -> Result<LinkReportPermit, ApiError> {
        // Do not wait for this permit: clients waiting for the link's permit would keep other clients from it.
        let reader = self.readers.try_take(&client).map_err(|_| overloaded())?;
        let link = self.links.take(payer, TURN_WAIT).await.map_err(|_| overloaded())?;
        Ok(LinkReportPermit { _reader: reader, _link: link })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use domain::{Clock, UserId};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn neither_a_client_nor_somebodys_links_keep_others_from_theirs() {
        let reports = ReportPermits::new();
        let client = |last: u8| Client::from(IpAddr::from([192, 0, 2, last]));
        let payer = || PayingAccount::from(UserId::new(Clock::system().now()));
        let (flooded, other) = (payer(), payer());
        let held = reports.acquire_for_link(client(1), &flooded).await.unwrap();
        // Many clients at one link: one reads and the others wait.
        let waiting: Vec<_> = (2..50)
            .map(|last| {
                let (reports, flooded) = (reports.clone(), flooded.clone());
                tokio::spawn(async move { reports.acquire_for_link(client(last), &flooded).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(reports.acquire_for_link(client(60), &other).await.unwrap());
        // One client at many links.
        let mut greedy = vec![held];
        for _ in 1..PUBLIC_REPORTS {
            greedy.push(reports.acquire_for_link(client(1), &payer()).await.unwrap());
        }
        assert!(reports.acquire_for_link(client(1), &other).await.is_err());
        greedy.pop();
        drop(reports.acquire_for_link(client(61), &other).await.unwrap());
        drop(greedy);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
    }
}
