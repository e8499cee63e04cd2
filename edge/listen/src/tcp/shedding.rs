//! Sheds connections while the machine runs short of files or memory: idle ones are ended gracefully, and if that is
//! not enough, those of the greediest clients are aborted. A visitor with few connections keeps them.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use edge_metrics as metrics;
use fairness::Client;
use tokio::time::{MissedTickBehavior, interval};

use super::{
    machine,
    seats::{ConnectionSeat, ConnectionSeats},
};
use crate::ConnectionBounds;

pub(crate) async fn shed(seats: Arc<ConnectionSeats>, bounds: ConnectionBounds) {
    let mut every = interval(limits::SHED_EVERY);
    every.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_short = false;
    loop {
        every.tick().await;
        metrics::level("svc_connections", seats.taken_count());
        metrics::level("svc_connections_greediest", seats.greediest(1).first().map_or(0, |&(_, count)| count));
        let was_short = is_short;
        is_short = is_pressed(&seats, &bounds);
        if is_short != was_short {
            tracing::warn!(is_short, connections = seats.taken_count(), "files or memory, and with them connections");
        }
        match (was_short, is_short) {
            (false, true) => record_requests(&seats.list()),
            (true, true) => relieve(&seats.list()),
            (_, false) => {}
        }
    }
}

/// Returns whether files, memory, or the maximum of connections are nearly used up.
fn is_pressed(seats: &ConnectionSeats, bounds: &ConnectionBounds) -> bool {
    let above = |percent: u64, taken: u64, all: u64| taken.saturating_mul(100) > all.saturating_mul(percent);
    let files = machine::files_open().unwrap_or_else(|| seats.taken_count());
    above(limits::SHED_CONNECTIONS_PERCENT, seats.taken_count() as u64, seats.total() as u64)
        || above(limits::SHED_ABOVE_PERCENT, files as u64, bounds.files as u64)
        || machine::resident_bytes().is_some_and(|taken| taken > bounds.memory)
}

/// Records the connections' requests so far, so that the next step knows which of them idle.
fn record_requests(seats: &[Arc<ConnectionSeat>]) {
    for seat in seats {
        seat.seen.store(seat.requests.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Takes one step: ends up to [`limits::SHED_BATCH`] connections without a request since the last step gracefully,
/// oldest first. If there are none, aborts as many of the greediest clients'.
fn relieve(seats: &[Arc<ConnectionSeat>]) {
    let mut idle = 0;
    for seat in seats {
        let requests = seat.requests.load(Ordering::Relaxed);
        let is_idle = seat.seen.swap(requests, Ordering::Relaxed) == requests;
        if is_idle && idle < limits::SHED_BATCH && !seat.is_end_requested() {
            seat.request_end();
            idle += 1;
        }
    }
    metrics::connections_shed("idle", idle);
    if idle > 0 {
        return;
    }
    let greedy = greediest_seats(seats);
    for seat in &greedy {
        seat.abort();
    }
    metrics::connections_shed("greediest", greedy.len());
}

/// Returns connections of the clients that have the most, newest first: as many of each that it keeps no more than the
/// next greediest, and none of a client that has few.
fn greediest_seats(seats: &[Arc<ConnectionSeat>]) -> Vec<Arc<ConnectionSeat>> {
    let mut clients: HashMap<Client, Vec<&Arc<ConnectionSeat>>> = HashMap::new();
    for seat in seats {
        if let Some(client) = seat.client {
            clients.entry(client).or_default().push(seat);
        }
    }
    let mut clients: Vec<_> = clients.into_values().filter(|seats| seats.len() > limits::SHED_SPARES).collect();
    let mut greedy = Vec::new();
    while greedy.len() < limits::SHED_BATCH {
        clients.sort_unstable_by_key(|seats| std::cmp::Reverse(seats.len()));
        let next = clients.get(1).map_or(0, Vec::len).max(limits::SHED_SPARES);
        let Some(greediest) = clients.first_mut().filter(|seats| seats.len() > limits::SHED_SPARES) else { break };
        // At least one, so that equal clients take turns.
        let count = (greediest.len() - next).clamp(1, limits::SHED_BATCH - greedy.len());
        greedy.extend(greediest.drain(greediest.len() - count..).map(Arc::clone));
    }
    greedy
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use domain::networks::NetworkSet;
    use futures_util::FutureExt as _;

    use super::{
        super::seats::{SeatBounds, SeatGuard},
        *,
    };

    fn sit(seats: &Arc<ConnectionSeats>, last: u8, count: usize) -> Vec<SeatGuard> {
        let peer = IpAddr::from([192, 0, 2, last]);
        let trusted = NetworkSet::parse(&["192.0.2.9".into()]).unwrap();
        let sit = || {
            let room = seats.wait_for_room(false).now_or_never().flatten().unwrap();
            seats.seat(room, seats.admit(peer, &trusted).unwrap(), peer)
        };
        (0..count).map(|_| sit()).collect()
    }

    fn seats() -> Arc<ConnectionSeats> {
        let bounds = SeatBounds { total: 10_000, share: 10_000 };
        ConnectionSeats::new(bounds, Arc::default())
    }

    fn shed_count(seats: &[Arc<ConnectionSeat>], last: u8) -> usize {
        let client = Client::from(IpAddr::from([192, 0, 2, last]));
        greediest_seats(seats).iter().filter(|seat| seat.client == Some(client)).count()
    }

    #[test]
    fn those_that_idle_go_first_and_are_asked_once() {
        let seats = seats();
        let (idle, busy) = (sit(&seats, 1, 3), sit(&seats, 2, 2));
        let asked = |of: &[SeatGuard]| of.iter().filter(|seated| seated.seat().is_end_requested()).count();
        record_requests(&seats.list());
        for seated in &busy {
            seated.seat().requests.fetch_add(1, Ordering::Relaxed);
        }
        relieve(&seats.list());
        assert_eq!((asked(&idle), asked(&busy)), (3, 0));
    }

    #[test]
    fn the_greediest_are_cut_to_the_measure_of_the_others() {
        let seats = seats();
        let few = limits::SHED_SPARES;
        let _all = [sit(&seats, 1, few + 50), sit(&seats, 2, few + 10), sit(&seats, 3, few), sit(&seats, 9, 500)];
        let list = seats.list();
        assert_eq!(greediest_seats(&list).len(), 60, "what is above the few, and nothing of the proxy's");
        assert_eq!([1, 2, 3].map(|last| shed_count(&list, last)), [50, 10, 0]);
    }

    #[test]
    fn a_step_is_bounded() {
        let seats = seats();
        let _all = [sit(&seats, 1, 2 * limits::SHED_BATCH), sit(&seats, 2, 2 * limits::SHED_BATCH)];
        assert_eq!(greediest_seats(&seats.list()).len(), limits::SHED_BATCH);
    }
}
