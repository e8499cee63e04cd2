//! The admins, and their health, which [`super::health`] checks.

use std::{
    collections::HashMap,
    fmt, io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

use arc_swap::ArcSwap;
use tokio::{net::lookup_host, sync::watch, time::timeout};

/// The addresses of the admins, as `edge.admin_upstreams` lists them: `host:port` each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminUpstreams(Vec<String>);

/// The configured admins: every address of every name is one.
pub(super) struct AdminPool {
    upstreams: watch::Sender<AdminUpstreams>,
    list: ArcSwap<Vec<Arc<AdminEndpoint>>>,
    next: AtomicUsize,
}

pub(super) struct AdminEndpoint {
    address: SocketAddr,
    state: watch::Sender<AdminState>,
    /// Whether it has reported that it is stopping, and has not come back since.
    is_leaving: AtomicBool,
}

/// The result of an admin's last health check, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum AdminState {
    /// It reports that it is healthy, or was not checked yet.
    Healthy,
    /// It reports that it is unhealthy: it cannot reach a dependency.
    Unwell,
    /// It reports that it is stopping.
    Draining,
    /// It cannot be reached: no process listens there.
    Unreachable,
    /// It did not answer the last check.
    Silent,
    /// It did not answer [`limits::HUNG_AFTER`] consecutive checks.
    Hung,
}

impl AdminUpstreams {
    /// Parses the names. Fails if one of them is not `host:port`.
    pub fn parse(names: &[String]) -> io::Result<Self> {
        for name in names {
            let port =
                name.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse().ok());
            let _: u16 = port.ok_or_else(|| io::Error::other(format!("`{name}` is not an address and a port")))?;
        }
        Ok(Self(names.to_vec()))
    }

    /// Returns the names that are IP addresses and need no resolver.
    fn literal(&self) -> impl Iterator<Item = SocketAddr> {
        self.0.iter().filter_map(|name| name.parse().ok())
    }
}

impl AdminPool {
    pub(super) fn new(upstreams: AdminUpstreams) -> Self {
        // IP addresses need no resolver: they are available from the start.
        let literal = upstreams.literal().map(|address| Arc::new(AdminEndpoint::new(address)));
        let list = ArcSwap::from_pointee(literal.collect::<Vec<_>>());
        Self { upstreams: watch::Sender::new(upstreams), list, next: AtomicUsize::new(0) }
    }

    /// Replaces the upstreams: IP addresses immediately, names once they are resolved.
    pub(super) fn use_upstreams(&self, upstreams: AdminUpstreams) {
        self.upstreams.send_if_modified(|before| {
            let is_new = *before != upstreams;
            if is_new {
                self.replace(upstreams.literal());
                *before = upstreams;
            }
            is_new
        });
    }

    pub(super) fn upstreams(&self) -> watch::Receiver<AdminUpstreams> {
        self.upstreams.subscribe()
    }

    /// Resolves the names again. A name that cannot be resolved keeps its addresses from `known`.
    pub(super) async fn resolve(&self, known: &mut HashMap<String, Vec<SocketAddr>>) {
        let upstreams = self.upstreams.borrow().clone();
        known.retain(|name, _| upstreams.0.contains(name));
        for name in &upstreams.0 {
            match timeout(limits::RESOLVE_WAIT, lookup_host(name)).await {
                Ok(Ok(addresses)) => {
                    known.insert(name.clone(), addresses.take(limits::ADMINS_PER_NAME).collect());
                }
                Ok(Err(error)) => tracing::warn!(name, %error, "an admin's name cannot be resolved"),
                Err(_) => tracing::warn!(name, "no answer to an admin's name"),
            }
        }
        // The upstreams may have been replaced meanwhile.
        if *self.upstreams.borrow() == upstreams {
            self.replace(upstreams.0.iter().filter_map(|name| known.get(name)).flatten().copied());
        }
    }

    /// Replaces the addresses. Admins that were there before keep their state.
    fn replace(&self, addresses: impl Iterator<Item = SocketAddr>) {
        let before = self.list.load();
        let mut list: Vec<Arc<AdminEndpoint>> = Vec::new();
        for address in addresses {
            if list.iter().all(|admin| admin.address != address) {
                let known = before.iter().find(|admin| admin.address == address);
                list.push(known.cloned().unwrap_or_else(|| Arc::new(AdminEndpoint::new(address))));
            }
        }
        if !list.is_empty() {
            self.list.store(Arc::new(list));
        }
    }

    pub(super) fn all(&self) -> Arc<Vec<Arc<AdminEndpoint>>> {
        self.list.load_full()
    }

    /// Returns the next admin in the best state that is not in `tried`, even a bad one: its state may be wrong.
    pub(super) fn choose(&self, tried: &[Arc<AdminEndpoint>]) -> Option<Arc<AdminEndpoint>> {
        let list = self.list.load();
        let start = self.next.fetch_add(1, Ordering::Relaxed);
        let untried = (0..list.len())
            .map(|n| &list[start.wrapping_add(n) % list.len()])
            .filter(|admin| tried.iter().all(|tried| !Arc::ptr_eq(tried, admin)));
        untried.min_by_key(|admin| admin.state()).cloned()
    }

    pub(super) fn has_healthy(&self, tried: &[Arc<AdminEndpoint>]) -> bool {
        let is_other = |admin: &&Arc<AdminEndpoint>| tried.iter().all(|tried| !Arc::ptr_eq(tried, admin));
        self.list.load().iter().filter(is_other).any(|admin| admin.state() == AdminState::Healthy)
    }
}

impl AdminEndpoint {
    fn new(address: SocketAddr) -> Self {
        Self { address, state: watch::Sender::new(AdminState::Healthy), is_leaving: AtomicBool::new(false) }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn state(&self) -> AdminState {
        *self.state.borrow()
    }

    pub(super) fn set_state(&self, state: AdminState) {
        match state {
            AdminState::Draining => self.is_leaving.store(true, Ordering::Relaxed),
            AdminState::Healthy | AdminState::Unwell => self.is_leaving.store(false, Ordering::Relaxed),
            // It has stopped listening, or is slow to stop.
            AdminState::Unreachable | AdminState::Silent | AdminState::Hung => {}
        }
        self.state.send_if_modified(|before| std::mem::replace(before, state) != state);
    }

    pub(super) fn mark_unreachable(&self) {
        self.state.send_if_modified(|state| {
            let is_news = *state < AdminState::Unreachable;
            *state = (*state).max(AdminState::Unreachable);
            is_news
        });
    }

    /// Returns whether it has reported that it is stopping: it never starts requests that it had not started by then.
    pub(super) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Relaxed)
    }

    pub(super) async fn silent(&self) {
        self.at_least(AdminState::Silent).await;
    }

    /// Waits until it counts as hung.
    pub(super) async fn hung(&self) {
        self.at_least(AdminState::Hung).await;
    }

    async fn at_least(&self, worst: AdminState) {
        let mut state = self.state.subscribe();
        // The sender is in `self`, so it is not dropped meanwhile.
        let _ = state.wait_for(|state| *state >= worst).await;
    }
}

impl fmt::Debug for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admin({}, {:?})", self.address, self.state())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admins(names: &[&str]) -> AdminPool {
        AdminPool::new(upstreams(names))
    }

    fn upstreams(names: &[&str]) -> AdminUpstreams {
        AdminUpstreams::parse(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    fn addresses(of: &str) -> impl Iterator<Item = SocketAddr> {
        of.split(' ').map(|address| address.parse().unwrap())
    }

    #[test]
    fn a_name_without_a_port_is_refused() {
        for wrong in ["admin", "admin:", ":8081", "10.0.0.1", "admin:http"] {
            assert!(AdminUpstreams::parse(&[wrong.to_owned()]).is_err(), "{wrong}");
        }
        assert!(admins(&["admin:8081"]).choose(&[]).is_none());
        assert!(admins(&["[::1]:8081"]).choose(&[]).is_some());
    }

    #[test]
    fn every_address_is_an_admin_and_stays_the_same_one() {
        let admins = admins(&["admin:8081"]);
        admins.replace(addresses("10.0.0.1:8081 10.0.0.2:8081 10.0.0.1:8081"));
        assert_eq!(admins.all().len(), 2);
        let chosen: Vec<_> = (0..4).map(|_| admins.choose(&[]).unwrap().address()).collect();
        assert!(chosen[0] != chosen[1] && chosen[..2] == chosen[2..], "{chosen:?}");
        let second = admins.all()[1].clone();
        admins.replace(addresses("10.0.0.3:8081 10.0.0.2:8081"));
        assert!(Arc::ptr_eq(&second, &admins.all()[1]) && admins.all().len() == 2);
        admins.replace(std::iter::empty());
        assert_eq!(admins.all().len(), 2, "a resolver that knows nothing takes no admin away");
    }

    #[test]
    fn replaced_upstreams_leave_those_that_stay_alone() {
        let admins = admins(&["10.0.0.1:1", "10.0.0.2:1"]);
        let (stays, changes) = (admins.all()[1].clone(), admins.upstreams());
        admins.use_upstreams(upstreams(&["10.0.0.1:1", "10.0.0.2:1"]));
        assert!(!changes.has_changed().unwrap(), "they are the same");
        admins.use_upstreams(upstreams(&["10.0.0.2:1", "10.0.0.3:1"]));
        assert!(changes.has_changed().unwrap() && Arc::ptr_eq(&stays, &admins.all()[0]));
        assert_eq!(
            admins.all().iter().map(|admin| admin.address().to_string()).collect::<Vec<_>>(),
            ["10.0.0.2:1", "10.0.0.3:1"]
        );
    }

    #[test]
    fn a_healthy_one_is_chosen_and_any_when_there_is_none() {
        let admins = admins(&["10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"]);
        let all = admins.all();
        all[0].set_state(AdminState::Hung);
        all[1].set_state(AdminState::Unwell);
        let mut tried = Vec::new();
        while let Some(admin) = admins.choose(&tried) {
            tried.push(admin);
        }
        let order: Vec<_> = tried.iter().map(|admin| admin.state()).collect();
        assert_eq!(order, [AdminState::Healthy, AdminState::Unwell, AdminState::Hung]);
        assert!(admins.has_healthy(&[]) && !admins.has_healthy(&tried[..1]));
    }

    #[test]
    fn one_that_has_said_goodbye_leaves_until_it_is_back() {
        let admins = admins(&["10.0.0.1:1"]);
        let admin = admins.choose(&[]).unwrap();
        let mut leaving = Vec::new();
        for state in [
            AdminState::Unreachable,
            AdminState::Draining,
            AdminState::Unreachable,
            AdminState::Hung,
            AdminState::Healthy,
        ] {
            admin.set_state(state);
            leaving.push(admin.is_leaving());
        }
        assert_eq!(leaving, [false, true, true, true, false]);
        admin.mark_unreachable();
        assert_eq!(admin.state(), AdminState::Unreachable);
        admin.set_state(AdminState::Hung);
        admin.mark_unreachable();
        assert_eq!(admin.state(), AdminState::Hung);
    }
}
