//! Another client than the attackers, who goes on asking for a page.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use reqwest::Client;
use url::Url;

use crate::{attacks::pause, world::Edge};

/// Pause between two requests.
const EVERY: Duration = Duration::from_millis(20);
/// The time after which a request has failed.
const PATIENCE: Duration = Duration::from_secs(10);
/// One request in so many is made on a connection of its own.
const AFRESH: usize = 5;

/// A neighbour at work.
pub(super) struct Neighbour {
    is_over: Arc<AtomicBool>,
    /// A thread of its own: what the attackers do in theirs is nothing that the edge could help.
    thread: JoinHandle<Vec<Option<Duration>>>,
}

/// What a neighbour has felt.
pub(super) struct Felt {
    pub(super) requests: usize,
    pub(super) failed: usize,
    pub(super) p99: Duration,
    pub(super) slowest: Duration,
}

impl Neighbour {
    /// A neighbour who asks for `url` at once and until it is asked to end.
    pub(super) fn begin(edge: &Edge, url: &str) -> Self {
        let (kept, fresh) = (edge.another_browser(true), edge.fresh_browser());
        let (url, is_over) = (edge.address(url), Arc::<AtomicBool>::default());
        let over = is_over.clone();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let mut times = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    let client = if times.len() % AFRESH == 0 { &fresh } else { &kept };
                    times.push(ask(client, &url).await);
                    pause(EVERY).await;
                }
                times
            })
        });
        Self { is_over, thread }
    }

    /// Ends it.
    pub(super) fn end(self) -> Felt {
        self.is_over.store(true, Ordering::Relaxed);
        let times = self.thread.join().unwrap();
        let mut served: Vec<Duration> = times.iter().flatten().copied().collect();
        served.sort();
        let p99 = served.get(served.len() * 99 / 100).copied().unwrap_or_default();
        let slowest = served.last().copied().unwrap_or_default();
        Felt { requests: times.len(), failed: times.len() - served.len(), p99, slowest }
    }
}

/// The time until the page was there; none when it did not come.
async fn ask(client: &Client, url: &Url) -> Option<Duration> {
    let start = Instant::now();
    let response = client.get(url.clone()).timeout(PATIENCE).send().await.ok()?;
    let is_page = response.status() == 200 && response.text().await.ok()? == "home";
    is_page.then(|| start.elapsed())
}
