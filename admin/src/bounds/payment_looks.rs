//! Looks at payments that webhooks ask for. Anybody can send such a webhook, so a client has a share of the looks, and a payment
//! has one at a time: webhooks about it that come meanwhile are answered by the look that follows, together.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use fairness::{Bounds, Client, Turn, Turns};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{TURN_WAIT, too_much};
use crate::error::ApiError;

/// Looks at payments at a time. Each waits for the provider.
const LOOKS: usize = 32;
/// Looks at a time that webhooks of one client began.
const CLIENT_LOOKS: usize = 4;
/// Webhooks of all clients that wait for a look.
const WAITING: usize = 1_024;
/// Webhooks of one client that wait for a look. The provider sends many from few addresses.
const CLIENT_WAITING: usize = 32;
/// Time between the beginnings of two looks at one payment. It is added to the time that a webhook which is sent twice is answered
/// after, so it stays far below the provider's patience of 15 seconds.
const PAUSE: Duration = Duration::from_secs(2);
/// Payments that are being looked at, or were within [`PAUSE`].
const REMEMBERED: usize = 16_384;

/// The looks. Clones share them.
#[derive(Debug, Clone)]
pub struct PaymentLooks {
    turns: Turns<Client>,
    recent: Arc<Mutex<HashMap<String, Recent>>>,
}

/// A payment that is being looked at, or was a moment ago.
#[derive(Debug)]
struct Recent {
    /// The number of looks that have begun.
    begun: u64,
    /// Whether somebody waits for another look.
    is_wanted: bool,
    /// The number of the last look that has ended.
    ended: watch::Receiver<u64>,
}

/// What becomes of a webhook about a payment.
#[derive(Debug)]
pub enum LookTurn {
    /// It has the payment looked at.
    First(PaymentLook),
    /// A look began a moment ago, and may have been too early for what the webhook tells of: it waits for the next one.
    Joined(NextLook),
}

/// The next look at a payment, which somebody else makes.
#[derive(Debug)]
pub struct NextLook {
    number: u64,
    ended: watch::Receiver<u64>,
}

/// The looks at one payment, one after another. Nobody else looks at it until this is dropped.
#[derive(Debug)]
#[must_use = "a turn that is dropped is given back"]
pub struct PaymentLook {
    looks: PaymentLooks,
    id: String,
    client: Client,
    begun_at: Instant,
    ended: watch::Sender<u64>,
}

impl PaymentLooks {
    pub(super) fn new() -> Self {
        let bounds = Bounds { total: LOOKS, share: CLIENT_LOOKS, waiting: WAITING, waiting_share: CLIENT_WAITING };
        Self { turns: Turns::new(bounds), recent: Arc::default() }
    }

    /// Joins the look that follows, when the payment was looked at a moment ago.
    pub fn join(&self, id: &str) -> Option<NextLook> {
        self.recent().get_mut(id).map(Recent::join)
    }

    /// Begins to look at a payment for a client, unless somebody has.
    pub fn begin(&self, id: &str, client: Client) -> Result<LookTurn, ApiError> {
        let mut recent = self.recent();
        if let Some(known) = recent.get_mut(id) {
            return Ok(LookTurn::Joined(known.join()));
        }
        if recent.len() >= REMEMBERED {
            return Err(too_much());
        }
        let (ended, receiver) = watch::channel(0);
        recent.insert(id.to_owned(), Recent { begun: 1, is_wanted: false, ended: receiver });
        drop(recent);
        let (looks, id) = (self.clone(), id.to_owned());
        Ok(LookTurn::First(PaymentLook { looks, id, client, begun_at: Instant::now(), ended }))
    }

    fn recent(&self) -> MutexGuard<'_, HashMap<String, Recent>> {
        // Nothing panics while the lock is held.
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Recent {
    fn join(&mut self) -> NextLook {
        self.is_wanted = true;
        NextLook { number: self.begun + 1, ended: self.ended.clone() }
    }
}

impl NextLook {
    /// Waits until the look has ended, however it did.
    pub async fn ended(mut self) {
        // An error means that whoever was to look has gone.
        let _ = self.ended.wait_for(|&number| number >= self.number).await;
    }
}

impl PaymentLook {
    /// The payment's id at its provider.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Waits until the client may look.
    pub async fn turn(&self) -> Result<Turn<Client>, ApiError> {
        self.looks.turns.take(&self.client, TURN_WAIT).await.map_err(|_| too_much())
    }

    /// Whether a webhook waits for a look that has not begun.
    pub fn is_wanted(&self) -> bool {
        self.looks
            .recent()
            .get(&self.id)
            .is_some_and(|known| known.is_wanted && known.ended.same_channel(&self.ended.subscribe()))
    }

    /// Notes that a look has ended, and waits until the next one may begin. Returns false, for ever, when nobody wants one.
    pub async fn is_wanted_again(&mut self) -> bool {
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
                // Within the lock: who comes now begins anew.
                recent.remove(&self.id);
                false
            }
        }
    }
}

impl Drop for PaymentLook {
    fn drop(&mut self) {
        let mut recent = self.looks.recent();
        // Another one's, when this one had ended by itself.
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

    fn first(looks: &PaymentLooks, id: &str) -> PaymentLook {
        match looks.begin(id, client(1)).unwrap() {
            LookTurn::First(look) => look,
            LookTurn::Joined(_) => panic!("{id} is looked at already"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn webhooks_about_one_payment_share_the_look_that_follows() {
        let looks = PaymentLooks::new();
        let mut look = first(&looks, "tr_1");
        let joined: Vec<_> = (0..1_000).map(|_| looks.join("tr_1").unwrap()).collect();
        assert!(looks.join("tr_2").is_none());
        assert!(matches!(looks.begin("tr_1", client(2)), Ok(LookTurn::Joined(_))));
        let began = Instant::now();
        assert!(look.is_wanted_again().await, "the one look for all of them");
        assert_eq!(began.elapsed(), PAUSE);
        let waiting = tokio::spawn(async move {
            for next in joined {
                next.ended().await;
            }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished(), "the first look was too early for them");
        assert!(!look.is_wanted_again().await);
        waiting.await.unwrap();
        // It is over: the next one begins anew.
        drop(first(&looks, "tr_1"));
        drop(look);
        assert!(looks.recent().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_breaks_off_holds_nobody() {
        let looks = PaymentLooks::new();
        let look = first(&looks, "tr_1");
        let joined = looks.join("tr_1").unwrap();
        drop(look);
        joined.ended().await;
        drop(first(&looks, "tr_1"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_client_has_a_share_of_the_looks() {
        let looks = PaymentLooks::new();
        let begun: Vec<_> = (0..CLIENT_LOOKS).map(|number| first(&looks, &format!("tr_{number}"))).collect();
        let mut held = Vec::new();
        for look in &begun {
            held.push(look.turn().await.unwrap());
        }
        let one_more = first(&looks, "tr_more");
        assert!(one_more.turn().await.is_err());
        let LookTurn::First(other) = looks.begin("tr_other", client(2)).unwrap() else { panic!("it is nobody's") };
        assert!(other.turn().await.is_ok());
    }
}
