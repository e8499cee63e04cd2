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

use super::{Account, Exhausted, Grant, Level};

/// The grants of one client beyond its share, oldest first.
#[derive(Default)]
pub(super) struct Ring(Mutex<VecDeque<Arc<Place>>>);

struct Place {
    connection: Weak<Level>,
    is_kept: AtomicBool,
    is_pushed_out: AtomicBool,
    pushed_out: Notify,
}

/// Bytes beyond the share of a client, released on drop.
#[must_use = "what is dropped is given back"]
pub struct Beyond {
    level: Arc<Level>,
    place: Arc<Place>,
    _grant: Grant,
}

/// A client's grant outside the total, released on drop.
#[must_use = "what is dropped is given back"]
pub struct First {
    client: Arc<Level>,
    _grant: Grant,
}

impl Place {
    fn is_kept(&self) -> bool {
        self.is_kept.load(Ordering::Relaxed)
    }

    fn is_of(&self, connection: &Weak<Level>) -> bool {
        Weak::ptr_eq(&self.connection, connection)
    }
}

/// Returns the grant to push out for another one of `connection`: the oldest unkept one of the largest connection.
fn next_out(places: &VecDeque<Arc<Place>>, connection: &Weak<Level>) -> Option<usize> {
    let not_kept = || places.iter().enumerate().filter(|(_, place)| !place.is_kept());
    let of_connection = |place: &Place| {
        let count = not_kept().filter(|(_, other)| other.is_of(&place.connection)).count();
        // Counts the new grant as well.
        count + usize::from(place.is_of(connection))
    };
    let (at, _) = not_kept().min_by_key(|(at, place)| (std::cmp::Reverse(of_connection(place)), *at))?;
    Some(at)
}

impl Ring {
    fn places(&self) -> MutexGuard<'_, VecDeque<Arc<Place>>> {
        // Nothing panics while the lock is held.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Draws `bytes` of the total that do not count toward the client's share, if half of the total is left afterwards.
    /// A client has up to `most` such grants. At that limit, the oldest grant that is not [kept](Beyond::keep), of the
    /// connection with the most grants, is pushed out.
    pub fn take_beyond(&self, bytes: u64, most: usize) -> Result<Beyond, Exhausted> {
        let level = self.0.client_level().ok_or(Exhausted)?;
        let (all, _) = level.shrinks.as_ref().ok_or(Exhausted)?;
        // Many idle clients may each have these grants; the other half is for clients within their shares.
        let grant = Self(all.clone()).try_take_spare(bytes)?;
        let connection = Arc::downgrade(&self.0);
        let (is_kept, is_pushed_out, pushed_out) = Default::default();
        let place = Arc::new(Place { connection, is_kept, is_pushed_out, pushed_out });
        let mut places = level.beyond.places();
        if places.len() >= most {
            let oldest = next_out(&places, &place.connection).ok_or(Exhausted)?;
            if let Some(oldest) = places.remove(oldest) {
                oldest.is_pushed_out.store(true, Ordering::Relaxed);
                oldest.pushed_out.notify_one();
            }
        }
        places.push_back(place.clone());
        drop(places);
        Ok(Beyond { level, place, _grant: grant })
    }
}

impl Account {
    /// Draws `bytes` outside the total, so that a new client need not wait until others release unconsumed bytes. A
    /// client has one such grant; those of all clients share a quarter of the total.
    pub fn take_first(&self, bytes: u64) -> Result<First, Exhausted> {
        let client = self.0.client_level().ok_or(Exhausted)?;
        let shared = client.client.as_ref().and_then(|(shared, _)| shared.upgrade()).ok_or(Exhausted)?;
        if client.has_first.swap(true, Ordering::AcqRel) {
            return Err(Exhausted);
        }
        let granted = Self(shared.firsts.clone()).try_take(bytes);
        let Ok(grant) = granted else {
            client.has_first.store(false, Ordering::Release);
            return Err(Exhausted);
        };
        Ok(First { client, _grant: grant })
    }
}

impl Drop for First {
    fn drop(&mut self) {
        self.client.has_first.store(false, Ordering::Release);
    }
}

impl fmt::Debug for First {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("First").finish_non_exhaustive()
    }
}

impl Beyond {
    /// Protects the grant from being pushed out, because its bytes are being consumed.
    pub fn keep(&self) {
        self.place.is_kept.store(true, Ordering::Relaxed);
    }

    /// Completes when a newer grant needs the place. Only one caller may wait.
    pub async fn pushed_out(&self) {
        while !self.place.is_pushed_out.load(Ordering::Relaxed) {
            self.place.pushed_out.notified().await;
        }
    }
}

impl Drop for Beyond {
    fn drop(&mut self) {
        self.level.beyond.places().retain(|place| !Arc::ptr_eq(place, &self.place));
    }
}

impl fmt::Debug for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beyond").finish_non_exhaustive()
    }
}
