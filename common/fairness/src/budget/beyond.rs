//! A few grants of a client beyond its share, for what it has just begun; and one beside the whole, where others hold everything.
//!
//! A client whose share is used up by what it does not take would get nothing any more, however readily it takes what it asks for now. So it
//! has some grants of the whole beside its share: the newest of them push out the oldest, except for those whose bytes were seen to be taken.
//! A connection that floods its client pushes out its own: several people may be one client.

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

/// The grants of one client beyond its share, the oldest first.
#[derive(Default)]
pub(super) struct Ring(Mutex<VecDeque<Arc<Place>>>);

/// The place of a grant in its ring.
struct Place {
    /// The connection that holds the grant.
    connection: Weak<Level>,
    is_kept: AtomicBool,
    is_pushed_out: AtomicBool,
    pushed_out: Notify,
}

/// Bytes beyond the share of a client, given back when this is dropped.
#[must_use = "what is dropped is given back"]
pub struct Beyond {
    level: Arc<Level>,
    place: Arc<Place>,
    _grant: Grant,
}

/// The grant of a client beside the whole, given back when this is dropped.
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

/// The place to push out for another grant of `connection`: the oldest that is not kept, of the connection that has most of them.
fn next_out(places: &VecDeque<Arc<Place>>, connection: &Weak<Level>) -> Option<usize> {
    let not_kept = || places.iter().enumerate().filter(|(_, place)| !place.is_kept());
    let of_connection = |place: &Place| {
        let count = not_kept().filter(|(_, other)| other.is_of(&place.connection)).count();
        // The new one is about to be one more.
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
    /// Draws `bytes` of the whole that do not count for the client, if half of it is left then. The client has up to `most` such grants at a
    /// time: of as many, the oldest is pushed out that is not [kept](Beyond::keep), of the connection that has most of them.
    pub fn take_beyond(&self, bytes: u64, most: usize) -> Result<Beyond, Exhausted> {
        let level = self.0.client_level().ok_or(Exhausted)?;
        let (all, _) = level.shrinks.as_ref().ok_or(Exhausted)?;
        // Of many clients that take nothing each has these grants: what is left is for those within their shares.
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
    /// Draws `bytes` beside the whole, so that whoever comes now need not wait until others have given up what they do not take. A client has
    /// one such grant, and all clients together have a quarter of the whole for them.
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
    /// Keeps the grant from being pushed out: what it is for is being taken.
    pub fn keep(&self) {
        self.place.is_kept.store(true, Ordering::Relaxed);
    }

    /// Done when a newer grant needs the place. Only one waits for it.
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
