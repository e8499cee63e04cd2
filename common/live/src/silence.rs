//! A connection that is silent: it stands, and no answer comes over it.
//!
//! A machine that loses its power says nothing, and an address that moves leaves its old connections behind. TCP waits many
//! minutes for what it has sent; and a client that lets an answer be late waits for the next one as patiently.

use std::{
    sync::{
        Arc, Mutex, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{
    RedisError,
    io::tcp::{TcpSettings, socket2::TcpKeepalive},
};

/// Late answers after which a connection is given up.
const LATE_ANSWERS: u32 = 3;
/// Time within which they must have been late.
const LATE_WITHIN: Duration = Duration::from_secs(10);
/// Longest time for which bytes that were sent may be unacknowledged, and about the longest silence of the other side's
/// kernel.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);
/// Silence after which the other side's kernel is asked whether it lives, and the pause between two such questions.
const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Questions that may stay without an answer.
const PROBES: u32 = 2;

/// The settings of every connection to Redis.
pub(super) fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(PROBE_EVERY).with_interval(PROBE_EVERY).with_retries(PROBES);
    // Without nodelay a command waits until Redis has answered the one before.
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(UNACKNOWLEDGED)
}

/// A connection that is replaced by a new one when it falls silent.
pub(super) struct Replaceable<C>(RwLock<Arc<Watched<C>>>);

/// A connection, and the answers that did not come over it in time.
pub(super) struct Watched<C> {
    pub(super) connection: C,
    late: Mutex<Late>,
    is_late: AtomicBool,
}

/// How many answers were late, and since when.
struct Late {
    answers: u32,
    since: Instant,
}

impl<C> Replaceable<C> {
    pub(super) fn new(connection: C) -> Self {
        Self(RwLock::new(Watched::new(connection)))
    }

    /// The present connection.
    pub(super) fn present(&self) -> Arc<Watched<C>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records that an answer was late that was to come over `used`. After too many of them a new connection takes its
    /// place, unless another caller has seen to that.
    pub(super) fn record_late(&self, used: &Arc<Watched<C>>, connect: impl FnOnce() -> Result<C, RedisError>) {
        if used.record_late() < LATE_ANSWERS {
            return;
        }
        let mut present = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // It fails only where the address cannot be understood, and then it is the first that did.
        if Arc::ptr_eq(&present, used)
            && let Ok(connection) = connect()
        {
            *present = Watched::new(connection);
        }
    }

    /// Puts `connection` in the place of `used`, unless another caller has replaced that.
    pub(super) fn replace(&self, used: &Arc<Watched<C>>, connection: C) {
        let mut present = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&present, used) {
            *present = Watched::new(connection);
        }
    }
}

impl<C> Watched<C> {
    fn new(connection: C) -> Arc<Self> {
        let late = Mutex::new(Late { answers: 0, since: Instant::now() });
        Arc::new(Self { connection, late, is_late: AtomicBool::new(false) })
    }

    /// Counts a late answer. Returns the number of them.
    fn record_late(&self) -> u32 {
        self.is_late.store(true, Ordering::Relaxed);
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late.answers == 0 || late.since.elapsed() > LATE_WITHIN {
            *late = Late { answers: 0, since: Instant::now() };
        }
        late.answers += 1;
        late.answers
    }

    /// Records that an answer came in time: there is somebody at the other end.
    pub(super) fn record_answer(&self) {
        // Mostly it is false, and only read.
        if self.is_late.load(Ordering::Relaxed) {
            self.is_late.store(false, Ordering::Relaxed);
            self.late.lock().unwrap_or_else(PoisonError::into_inner).answers = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_replaced_after_late_answers_in_a_row() {
        let connections = Replaceable::new(1);
        let first = connections.present();
        for _ in 0..3 {
            for _ in 1..LATE_ANSWERS {
                connections.record_late(&first, || Ok(2));
            }
            first.record_answer();
        }
        assert_eq!(connections.present().connection, 1);
        for _ in 0..LATE_ANSWERS {
            connections.record_late(&first, || Ok(2));
        }
        assert_eq!(connections.present().connection, 2);
        // Late answers of the old one say nothing of the new one.
        for _ in 0..LATE_ANSWERS {
            connections.record_late(&first, || Ok(3));
        }
        assert_eq!(connections.present().connection, 2);
    }
}
