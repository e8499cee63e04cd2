//! Grants of a client beyond its share for new work, and one outside the total for when others hold everything.
//!
//! A client whose share is filled with unconsumed bytes would get nothing more, however fast it consumes new responses.
//! So it gets some grants beyond its share: the newest push out the oldest, except those whose bytes are being
//! consumed. A connection that floods its client pushes out its own grants first, because several people may share one
//! client.

use std::{
    collections::VecDeque,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use tokio::sync::Notify;

use super::{BudgetAccount, BudgetLevel, ByteGrant, ExhaustedError};

/// The grants of one client beyond its share, oldest first.
#[derive(Default)]
pub(super) struct ExtraGrants(Mutex<VecDeque<Arc<RingSlot>>>);

struct RingSlot {
    connection: Weak<BudgetLevel>,
    is_kept: AtomicBool,
    is_pushed_out: AtomicBool,
    pushed_out: Notify,
}

/// Bytes beyond the share of a client, released on drop.
#[must_use = "what is dropped is given back"]
pub struct ExtraGrant {
    level: Arc<BudgetLevel>,
    place: Arc<RingSlot>,
    _grant: ByteGrant,
}

/// A client's grant outside the total, released on drop.
#[must_use = "what is dropped is given back"]
pub struct FirstGrant {
    client: Arc<BudgetLevel>,
    _grant: ByteGrant,
}

impl RingSlot {
    fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    fn is_of(&self, connection: &Weak<BudgetLevel>) -> bool {
        Weak::ptr_eq(&self.connection, connection)
    }
}

/// Returns the grant to push out for another one of `connection`: the oldest unkept one of the largest connection.
fn choose_evicted(places: &VecDeque<Arc<RingSlot>>, connection: &Weak<BudgetLevel>) -> Option<usize> {
    let not_kept = || places.iter().enumerate().filter(|(_, place)| !place.is_kept());
    let of_connection = |place: &RingSlot| {
        let count = not_kept().filter(|(_, other)| other.is_of(&place.connection)).count();
        // Counts the new grant as well.
        count + usize::from(place.is_of(connection))
    };
    let (at, _) = not_kept().min_by_key(|(at, place)| (std::cmp::Reverse(of_connection(place)), *at))?;
    Some(at)
}

impl ExtraGrants {
    fn places(&self) -> MutexGuard<'_, VecDeque<Arc<RingSlot>>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetAccount {
    /// Draws `bytes` of the total that do not count toward the client's share, if half of the total is left afterwards.
    /// A client has up to `most` such grants. At that limit, the oldest grant that is not [kept](ExtraGrant::keep), of the
    /// connection with the most grants, is pushed out.
    pub fn take_extra(&self, bytes: u64, most: usize) -> Result<ExtraGrant, ExhaustedError> {
        let level = self.0.client_level().ok_or(ExhaustedError)?;
        let (all, _) = level.shrinks.as_ref().ok_or(ExhaustedError)?;
        // Many idle clients may each have these grants; the other half is for clients within their shares.
        let grant = Self(all.clone()).try_take_spare(bytes)?;
        let connection = Arc::downgrade(&self.0);
        let (is_kept, is_pushed_out, pushed_out) = Default::default();
        let place = Arc::new(RingSlot { connection, is_kept, is_pushed_out, pushed_out });
        let mut places = level.beyond.places();
        if places.len() >= most {
            let oldest = choose_evicted(&places, &place.connection).ok_or(ExhaustedError)?;
            if let Some(oldest) = places.remove(oldest) {
                oldest.is_pushed_out.store(true, Ordering::Relaxed);
                oldest.pushed_out.notify_one();
            }
        }
        places.push_back(place.clone());
        drop(places);
        Ok(ExtraGrant { level, place, _grant: grant })
    }
}

impl BudgetAccount {
    /// Draws `bytes` outside the total, so that a new client need not wait until others release unconsumed bytes. A
    /// client has one such grant; those of all clients share a quarter of the total.
    pub fn take_first(&self, bytes: u64) -> Result<FirstGrant, ExhaustedError> {
        let client = self.0.client_level().ok_or(ExhaustedError)?;
        let shared = client.client.as_ref().and_then(|(shared, _)| shared.upgrade()).ok_or(ExhaustedError)?;
        if client.has_first.swap(true, Ordering::AcqRel) {
            return Err(ExhaustedError);
        }
        let granted = Self(shared.firsts.clone()).try_take(bytes);
        let Ok(grant) = granted else {
            client.has_first.store(false, Ordering::Release);
            return Err(ExhaustedError);
        };
        Ok(FirstGrant { client, _grant: grant })
    }
}

impl Drop for FirstGrant {
    fn drop(&mut self) {
        self.client.has_first.store(false, Ordering::Release);
    }
}

impl fmt::Debug for FirstGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("First").finish_non_exhaustive()
    }
}

impl ExtraGrant {
    /// Protects the grant from being pushed out, because its bytes are being consumed.
    pub fn keep(&self) {
        self.place.is_kept.store(true, Ordering::Relaxed);
    }

    /// Completes when a newer grant needs the place. Only one caller may wait.
    pub async fn evicted(&self) {
        while !self.place.is_pushed_out.load(Ordering::Relaxed) {
            self.place.pushed_out.notified().await;
        }
    }
}

impl Drop for ExtraGrant {
    fn drop(&mut self) {
        self.level.beyond.places().retain(|place| !Arc::ptr_eq(place, &self.place));
    }
}

impl fmt::Debug for ExtraGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beyond").finish_non_exhaustive()
    }
}
