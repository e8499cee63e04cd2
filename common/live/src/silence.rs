//! Detects stalled connections, which are open but deliver no responses.
//!
//! A machine that loses power sends nothing, and an address that moves leaves its old connections behind. TCP retries
//! unacknowledged data for many minutes, and the client library waits for the next response even after the previous one
//! was late.

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

/// The number of late responses after which a connection is abandoned.
const LATE_ANSWERS: u32 = 3;
/// The time within which they must have been late.
const LATE_WITHIN: Duration = Duration::from_secs(10);
/// The longest time for which sent bytes may stay unacknowledged, and about the longest silence of the peer's kernel.
const UNACKNOWLEDGED: Duration = Duration::from_secs(3);
/// The idle time before a keepalive probe, and the interval of probes.
const PROBE_EVERY: Duration = Duration::from_secs(1);
const PROBES: u32 = 2;

pub(super) fn tcp_settings() -> TcpSettings {
    let keepalive = TcpKeepalive::new().with_time(PROBE_EVERY).with_interval(PROBE_EVERY).with_retries(PROBES);
    // Without nodelay, a command waits until Redis has answered the one before.
    TcpSettings::default().set_nodelay(true).set_keepalive(keepalive).set_user_timeout(UNACKNOWLEDGED)
}

/// A connection that is replaced when it stalls.
pub(super) struct ReplaceableConnection<C>(RwLock<Arc<WatchedConnection<C>>>);

pub(super) struct WatchedConnection<C> {
    pub(super) connection: C,
    late: Mutex<LateResponses>,
    is_late: AtomicBool,
}

struct LateResponses {
    answers: u32,
    since: Instant,
}

impl<C> ReplaceableConnection<C> {
    pub(super) fn new(connection: C) -> Self {
        Self(RwLock::new(WatchedConnection::new(connection)))
    }

    pub(super) fn current(&self) -> Arc<WatchedConnection<C>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Records a late response over `used`. After too many, a new connection replaces it, unless another caller did so.
    pub(super) fn record_late(
        &self,
        used: &Arc<WatchedConnection<C>>,
        connect: impl FnOnce() -> Result<C, RedisError>,
    ) {
        if used.record_late() < LATE_ANSWERS {
            return;
        }
        let mut present = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // `connect` fails only for an invalid address, which the first connection would have rejected.
        if Arc::ptr_eq(&present, used)
            && let Ok(connection) = connect()
        {
            *present = WatchedConnection::new(connection);
        }
    }

    /// Replaces `used` by `connection`, unless another caller has already replaced it.
    pub(super) fn replace(&self, used: &Arc<WatchedConnection<C>>, connection: C) {
        let mut present = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if Arc::ptr_eq(&present, used) {
            *present = WatchedConnection::new(connection);
        }
    }
}

impl<C> WatchedConnection<C> {
    fn new(connection: C) -> Arc<Self> {
        let late = Mutex::new(LateResponses { answers: 0, since: Instant::now() });
        Arc::new(Self { connection, late, is_late: AtomicBool::new(false) })
    }

    fn record_late(&self) -> u32 {
        self.is_late.store(true, Ordering::Relaxed);
        let mut late = self.late.lock().unwrap_or_else(PoisonError::into_inner);
        if late.answers == 0 || late.since.elapsed() > LATE_WITHIN {
            *late = LateResponses { answers: 0, since: Instant::now() };
        }
        late.answers += 1;
        late.answers
    }

    /// Records that a response arrived in time, so that the peer is alive.
    pub(super) fn record_answer(&self) {
        // Usually `false`, and then only read.
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
        let connections = ReplaceableConnection::new(1);
        let first = connections.current();
        for _ in 0..3 {
            for _ in 1..LATE_ANSWERS {
                connections.record_late(&first, || Ok(2));
            }
            first.record_answer();
        }
        assert_eq!(connections.current().connection, 1);
        for _ in 0..LATE_ANSWERS {
            connections.record_late(&first, || Ok(2));
        }
        assert_eq!(connections.current().connection, 2);
        // Late responses of the old connection say nothing about the new one.
        for _ in 0..LATE_ANSWERS {
            connections.record_late(&first, || Ok(3));
        }
        assert_eq!(connections.current().connection, 2);
    }
}
