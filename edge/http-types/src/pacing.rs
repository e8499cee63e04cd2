//! Paces bodies of sites whose owner has used up the month's bandwidth.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use domain::{Account, site::Site};
use edge_metrics as metrics;
use fairness::{BookingOutcome, Client, RateLimit, RateLimiter};
use http::{HeaderValue, Response, header};
use tokio::time::{Instant, Sleep, sleep_until};

use super::{SiteBody, pages};

/// The rate at which this edge serves the sites of each account over its plan's bandwidth. It applies to all visitors,
/// whether or not their requests count against the plan.
#[derive(Debug, Clone)]
pub struct AccountPaces(Arc<RateLimiter<Account>>);

pub(super) struct BodyPace {
    paces: AccountPaces,
    account: Account,
    client: Client,
    room: usize,
    /// Bytes that may be sent after the wait.
    booked: usize,
    wait: Option<Pin<Box<Sleep>>>,
}

impl AccountPaces {
    /// Creates a pace per account, of at least [`limits::LEAST_PACE`].
    pub fn new(bytes_per_second: u64) -> Self {
        let bytes_per_second = bytes_per_second.max(limits::LEAST_PACE);
        Self(Arc::new(RateLimiter::new(RateLimit {
            bytes_per_second,
            burst: bytes_per_second,
            bookings: limits::PACED_PER_CLIENT,
            backlog: limits::PACED_BACKLOG,
        })))
    }

    /// Returns these paces with all their state if `bytes_per_second` results in the same rate, and otherwise `None`.
    pub fn with_rate(&self, bytes_per_second: u64) -> Option<Self> {
        (self.0.rate().bytes_per_second == bytes_per_second.max(limits::LEAST_PACE)).then(|| self.clone())
    }

    /// Paces the body of `response`, of an account over its bandwidth. Returns an error page if too much is queued.
    pub fn pace_response(&self, response: Response<SiteBody>, site: &Site, client: Client) -> Response<SiteBody> {
        if response.body().left() == 0 {
            return response;
        }
        if self.0.is_crowded(site.owner.account(), Instant::now()) {
            metrics::over_plan("refused");
            let mut page = pages::unavailable();
            let retry = HeaderValue::from(limits::PACED_BACKLOG.as_secs());
            page.headers_mut().insert(header::RETRY_AFTER, retry);
            return page;
        }
        metrics::over_plan("paced");
        let (account, wait) = (site.owner.account().clone(), None);
        let pacing = BodyPace { paces: self.clone(), account, client, room: 0, booked: 0, wait };
        response.map(|body| body.paced(pacing))
    }
}

impl BodyPace {
    /// Polls for the number of bytes that may be sent now, of `left` remaining ones.
    pub(super) fn poll_room(&mut self, cx: &mut Context<'_>, left: u64) -> Poll<usize> {
        while self.room == 0 {
            if let Some(wait) = &mut self.wait {
                ready!(wait.as_mut().poll(cx));
                self.wait = None;
                self.room = std::mem::take(&mut self.booked);
                continue;
            }
            let bytes = usize::try_from(left).unwrap_or(usize::MAX).clamp(1, limits::PACED_BYTES);
            let now = Instant::now();
            let until = match self.paces.0.book(&self.account, self.client, bytes as u64, now) {
                BookingOutcome::From(at) => {
                    self.booked = bytes;
                    at
                }
                BookingOutcome::AskAgain(at) => at,
            };
            if until <= now {
                self.room = std::mem::take(&mut self.booked);
            } else {
                self.wait = Some(Box::pin(sleep_until(until)));
            }
        }
        Poll::Ready(self.room)
    }

    pub(super) fn record_sent(&mut self, bytes: usize) {
        self.room = self.room.saturating_sub(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, net::IpAddr, time::Duration};

    use bytes::Bytes;
    use domain::{
        OrgId, ProjectId,
        site::{SiteGate, SiteKind},
    };
    use http::StatusCode;

    use super::*;

    const PACE: u64 = limits::LEAST_PACE;

    fn site() -> Site {
        let body = "0123456789abcdefghij";
        Site {
            project: ProjectId::from_body(body).unwrap(),
            deployment: None,
            live: None,
            kind: SiteKind::Live,
            gate: SiteGate::Public,
            access_version: 0,
            expires_at: None,
            suspended: None,
            owner: Account::Org(OrgId::from_body(body).unwrap()).into(),
            bandwidth_used_up: None,
        }
    }

    fn client(last: u8) -> Client {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn slowed(paces: &AccountPaces, bytes: usize, last: u8) -> Response<SiteBody> {
        paces.pace_response(Response::new(Bytes::from(vec![b'x'; bytes]).into()), &site(), client(last))
    }

    async fn read(response: Response<SiteBody>) -> usize {
        let (mut body, mut read) = (response.into_body(), 0);
        while let Some(part) = poll_fn(|cx| body.poll_next(cx, limits::BLOCK_BYTES)).await {
            let part = part.unwrap();
            assert!(!part.is_empty() && part.len() <= limits::PACED_BYTES);
            read += part.len();
        }
        read
    }

    #[tokio::test(start_paused = true)]
    async fn answers_come_whole_and_share_the_pace() {
        let (paces, start) = (AccountPaces::new(PACE), Instant::now());
        let bytes = 10 * usize::try_from(PACE).unwrap();
        let reads = [1, 2].map(|last| tokio::spawn(read(slowed(&paces, bytes, last))));
        for each in reads {
            assert_eq!(each.await.unwrap(), bytes);
        }
        // The first second's bytes arrive immediately, and the last piece does not wait.
        let seconds = start.elapsed().as_secs();
        assert!((17..=20).contains(&seconds), "{seconds}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_for_much_does_not_keep_another_waiting() {
        let paces = AccountPaces::new(PACE);
        let greedy: Vec<_> = (0..50).map(|_| tokio::spawn(read(slowed(&paces, 1_000_000, 1)))).collect();
        tokio::time::sleep(Duration::from_secs(5)).await;
        let start = Instant::now();
        assert_eq!(read(slowed(&paces, 1_000, 2)).await, 1_000);
        let most = u32::try_from(limits::PACED_PER_CLIENT).unwrap() + 1;
        assert!(start.elapsed() <= Duration::from_secs(1) * most, "{:?}", start.elapsed());
        for task in greedy {
            task.abort();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_would_wait_too_long_is_refused() {
        let paces = AccountPaces::new(PACE);
        let mut waiting = Vec::new();
        let refused = loop {
            let last = u8::try_from(waiting.len()).unwrap();
            let response = slowed(&paces, 100_000, last);
            if response.status() != StatusCode::OK {
                break response;
            }
            waiting.push(tokio::spawn(read(response)));
            tokio::task::yield_now().await;
        };
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(!refused.body().is_paced() && waiting.len() > 5);
        for task in waiting {
            task.abort();
        }
    }
}
