//! Reports on visits: each reads days and hours of lists from the database. An account has a share of them; whoever reads a public
//! link has one by client, and beside it the link's project has one, so that neither a client nor a link keeps others from theirs.

use std::time::Duration;

use domain::{PayingAccount, ProjectId};
use fairness::{Bounds, Client, Refused, Turn, Turns};

use super::{AccountTurn, TURN_WAIT, too_much};
use crate::error::ApiError;

/// Reports read at a time for members, fewer than there are connections to the database.
const REPORTS: usize = 8;
/// Reports read at a time of one account's projects.
const ACCOUNT_REPORTS: usize = 2;
/// Reports of one account that wait: a page of the console asks for half a dozen.
const ACCOUNT_WAITING: usize = 64;
/// Reports read at a time by public links.
const PUBLIC_REPORTS: usize = 4;
/// Reports read at a time by one project's link.
const PROJECT_REPORTS: usize = 1;
/// Reports by one project's link that wait.
const PROJECT_WAITING: usize = 64;
/// Reports by public links under way, those that wait included.
const READERS: usize = 1_024;
/// Reports by public links of one client under way.
const CLIENT_READERS: usize = 4;
/// Longest wait for the turn of a further part.
const PART_WAIT: Duration = Duration::from_mins(2);
/// Reports that wait, of all accounts or by all links.
const WAITING: usize = 1_024;

/// The reports. Clones share them.
#[derive(Debug, Clone)]
pub struct Reports {
    accounts: Turns<PayingAccount>,
    readers: Turns<Client>,
    links: Turns<ProjectId>,
}

/// The right to read a report by a public link.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct LinkTurn {
    _reader: Turn<Client>,
    _link: Turn<ProjectId>,
}

impl Reports {
    pub(super) fn new() -> Self {
        let bounds = |total, share, waiting_share| Bounds { total, share, waiting: WAITING, waiting_share };
        Self {
            accounts: Turns::new(bounds(REPORTS, ACCOUNT_REPORTS, ACCOUNT_WAITING)),
            readers: Turns::new(Bounds { total: READERS, share: CLIENT_READERS, waiting: 0, waiting_share: 0 }),
            links: Turns::new(bounds(PUBLIC_REPORTS, PROJECT_REPORTS, PROJECT_WAITING)),
        }
    }

    /// Waits until a report on a project of `account` may be read.
    pub async fn of_account(&self, account: &PayingAccount) -> Result<AccountTurn, ApiError> {
        self.accounts.take(account, TURN_WAIT).await.map_err(|_| too_much())
    }

    /// Waits until a further part of a report that has begun may be read: its beginning is with the client, so it waits for long.
    pub async fn later_of_account(&self, account: &PayingAccount) -> Result<AccountTurn, Refused> {
        self.accounts.take(account, PART_WAIT).await
    }

    /// Waits until a client may read a report by the link of `project`.
    pub async fn by_link(&self, client: Client, project: &ProjectId) -> Result<LinkTurn, ApiError> {
        // Nobody waits for this one, so that those who wait for the link's turn keep no other client from it.
        let reader = self.readers.try_take(&client).map_err(|_| too_much())?;
        let link = self.links.take(project, TURN_WAIT).await.map_err(|_| too_much())?;
        Ok(LinkTurn { _reader: reader, _link: link })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use domain::Clock;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn neither_a_client_nor_a_link_keeps_others_from_theirs() {
        let reports = Reports::new();
        let client = |last: u8| Client::from(IpAddr::from([192, 0, 2, last]));
        let project = || ProjectId::new(Clock::system().now());
        let (flooded, other) = (project(), project());
        let held = reports.by_link(client(1), &flooded).await.unwrap();
        // Many clients at one link: one reads, the others wait.
        let waiting: Vec<_> = (2..50)
            .map(|last| {
                let (reports, flooded) = (reports.clone(), flooded.clone());
                tokio::spawn(async move { reports.by_link(client(last), &flooded).await.map(drop) })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(reports.by_link(client(60), &other).await.unwrap());
        // One client at many links.
        let mut greedy = vec![held];
        for _ in 1..PUBLIC_REPORTS {
            greedy.push(reports.by_link(client(1), &project()).await.unwrap());
        }
        assert!(reports.by_link(client(1), &other).await.is_err());
        greedy.pop();
        drop(reports.by_link(client(61), &other).await.unwrap());
        drop(greedy);
        for one in waiting {
            one.await.unwrap().unwrap();
        }
    }
}
