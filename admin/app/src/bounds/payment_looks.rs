//! Limits on payment checks triggered by webhooks. Anybody can send such a webhook, so each client has a share of the
//! checks. Each payment is checked once at a time; webhooks that arrive meanwhile share the following check.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use admin_http::error::ApiError;
use fairness::{Client, TurnBounds, TurnPermit, TurnQueue};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{TURN_WAIT, overloaded};

/// Concurrent payment checks. Each waits for the provider.
const LOOKS: usize = 32;
const CLIENT_LOOKS: usize = 4;
const WAITING: usize = 1_024;
/// Webhooks of one client that may wait for a check. The provider sends many from few addresses.
const CLIENT_WAITING: usize = 32;
/// Minimum time between the starts of two checks of one payment. A webhook sent twice is answered that much later, so
/// it stays far below the provider's timeout of 15 seconds.
const PAUSE: Duration = Duration::from_secs(2);
/// The number of payments that are being checked or were within [`PAUSE`].
const REMEMBERED: usize = 16_384;

/// Permits for payment checks. Clones share them.
#[derive(Debug, Clone)]
pub struct PaymentChecks {
    turns: TurnQueue<Client>,
    recent: Arc<Mutex<HashMap<String, RecentCheck>>>,
}

#[derive(Debug)]
struct RecentCheck {
    begun: u64,
    /// Whether a webhook waits for another check.
    is_wanted: bool,
    ended: watch::Receiver<u64>,
}

/// The handling of a webhook about a payment.
#[derive(Debug)]
pub enum CheckTurn {
    /// The webhook starts a check.
    First(PaymentCheck),
    /// A recent check may have missed the change that the webhook announces: the webhook waits for the next one.
    Joined(NextCheck),
}

/// The next check of a payment, made by another webhook's task.
#[derive(Debug)]
pub struct NextCheck {
    number: u64,
    ended: watch::Receiver<u64>,
}

/// The exclusive right to check a payment, repeatedly if needed, until it is dropped.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct PaymentCheck {
    looks: PaymentChecks,
    id: String,
    client: Client,
    begun_at: Instant,
    ended: watch::Sender<u64>,
}

impl PaymentChecks {
    pub(super) fn new() -> Self {
        let bounds = TurnBounds { total: LOOKS, share: CLIENT_LOOKS, waiting: WAITING, waiting_share: CLIENT_WAITING };
        Self { turns: TurnQueue::new(bounds), recent: Arc::default() }
    }

    /// Joins the next check, if the payment was checked recently.
    pub fn join(&self, id: &str) -> Option<NextCheck> {
        self.recent().get_mut(id).map(RecentCheck::join)
    }

    /// Starts to check a payment for a client, or joins the next check if one has started.
    pub fn begin(&self, id: &str, client: Client) -> Result<CheckTurn, ApiError> {
        let mut recent = self.recent();
        if let Some(known) = recent.get_mut(id) {
            return Ok(CheckTurn::Joined(known.join()));
        }
        if recent.len() >= REMEMBERED {
            return Err(overloaded());
        }
        let (ended, receiver) = watch::channel(0);
        recent.insert(id.to_owned(), RecentCheck { begun: 1, is_wanted: false, ended: receiver });
        drop(recent);
        let (looks, id) = (self.clone(), id.to_owned());
        Ok(CheckTurn::First(PaymentCheck { looks, id, client, begun_at: Instant::now(), ended }))
    }

    fn recent(&self) -> MutexGuard<'_, HashMap<String, RecentCheck>> {
        // The lock is never poisoned: no code panics while holding it.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RecentCheck {
    fn join(&mut self) -> NextCheck {
        self.is_wanted = true;
        NextCheck { number: self.begun + 1, ended: self.ended.clone() }
    }
}

impl NextCheck {
    /// Waits until the check has finished, successfully or not.
    pub async fn wait(mut self) {
        // An error means that the checking task is gone.
        let _ = self.ended.wait_for(|&number| number >= self.number).await;
    }
}

impl PaymentCheck {
    /// Returns the payment's id at its provider.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits for a permit of the client.
    pub async fn acquire(&self) -> Result<TurnPermit<Client>, ApiError> {
        self.looks.turns.take(&self.client, TURN_WAIT).await.map_err(|_| overloaded())
    }

    /// Returns whether a webhook waits for a check that has not started.
    pub fn has_waiters(&self) -> bool {
        self.looks
            .recent()
            .get(&self.id)
            .is_some_and(|known| known.is_wanted && known.ended.same_channel(&self.ended.subscribe()))
    }

    /// Records a finished check and waits until the next may start. Returns false for good if no webhook waits for one.
    pub async fn finish_and_wait(&mut self) -> bool {
        let number = self.looks.recent().get(&self.id).map_or(0, |recent| recent.begun);
        self.ended.send_replace(number);
        sleep_until(self.begun_at + PAUSE).await;
        let mut recent = self.looks.recent();
        match recent.get_mut(&self.id) {
            Some(known) if known.is_wanted => {
                known.is_wanted = false;
                known.begun += 1;
                self.begun_at = Instant::now();
                true
            }
            _ => {
                // Under the lock: a webhook that arrives from now on starts a new check.
                recent.remove(&self.id);
                false
            }
        }
    }
}

impl Drop for PaymentCheck {
    fn drop(&mut self) {
        let mut recent = self.looks.recent();
        // The entry belongs to another check if this one had already ended.
        if recent.get(&self.id).is_some_and(|known| known.ended.same_channel(&self.ended.subscribe())) {
            recent.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn client(last: u8) -> Client {
        IpAddr::from([192, 0, 2, last]).into()
    }

    fn first(looks: &PaymentChecks, id: &str) -> PaymentCheck {
        match looks.begin(id, client(1)).unwrap() {
            CheckTurn::First(look) => look,
            CheckTurn::Joined(_) => panic!("{id} is looked at already"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn webhooks_about_one_payment_share_the_look_that_follows() {
        let looks = PaymentChecks::new();
        let mut look = first(&looks, "tr_1");
        let joined: Vec<_> = (0..1_000).map(|_| looks.join("tr_1").unwrap()).collect();
        assert!(looks.join("tr_2").is_none());
        assert!(matches!(looks.begin("tr_1", client(2)), Ok(CheckTurn::Joined(_))));
        let began = Instant::now();
        assert!(look.finish_and_wait().await, "the one look for all of them");
        assert_eq!(began.elapsed(), PAUSE);
        let waiting = tokio::spawn(async move {
            for next in joined {
                next.wait().await;
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the first look was too early for them");
        assert!(!look.finish_and_wait().await);
        waiting.await.unwrap();
        // The check is over, so the next webhook starts a new one.
        drop(first(&looks, "tr_1"));
        drop(look);
        assert!(looks.recent().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_breaks_off_holds_nobody() {
        let looks = PaymentChecks::new();
        let look = first(&looks, "tr_1");
        let joined = looks.join("tr_1").unwrap();
        drop(look);
        joined.wait().await;
        drop(first(&looks, "tr_1"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_has_a_share_of_the_looks() {
        let looks = PaymentChecks::new();
        let begun: Vec<_> = (0..CLIENT_LOOKS).map(|number| first(&looks, &format!("tr_{number}"))).collect();
        let mut held = Vec::new();
        for look in &begun {
            held.push(look.acquire().await.unwrap());
        }
        let one_more = first(&looks, "tr_more");
        assert!(one_more.acquire().await.is_err());
        let CheckTurn::First(other) = looks.begin("tr_other", client(2)).unwrap() else { panic!("it is nobody's") };
        assert!(other.acquire().await.is_ok());
    }
}
