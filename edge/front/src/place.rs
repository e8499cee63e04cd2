//! Places: what a host leads to. A host is classified once, and the result is passed along with the request.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use domain::{
    Hostname,
    addresses::{HostKey, HostKind, PlatformAddresses},
};
use fairness::budget::BudgetAccount;
use gateway::ConnectionCompletions;
use platform::PlatformProxy;
use tokio::sync::Semaphore;
use traffic::{Country, TrafficCounter};

use super::refusal::ResponseForm;

/// A host, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedHost {
    /// Lower case, without port.
    pub(super) host: Arc<str>,
    /// The host that its visits count for: for a deployment's address, the project's own.
    pub(super) counted_host: Arc<str>,
    pub(super) kind: HostKind,
    /// Whether the host is the platform's or under one of its domains, rather than a custom domain.
    pub(super) is_own: bool,
}

/// The properties of a connection that its requests depend on.
#[derive(Debug, Clone)]
pub struct ClientConnection {
    /// The address of the peer.
    pub peer: IpAddr,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// The place named in the TLS handshake. Only requests for the same application are answered; if `None`, all are.
    pub place: Option<Arc<ResolvedHost>>,
    /// Charged for bytes that its visitors have not read yet.
    pub account: BudgetAccount,
    pub(crate) completions: ConnectionCompletions,
    /// Slots for its platform requests, created with the first of them.
    platform_places: OnceLock<Arc<Semaphore>>,
    /// The country of the peer, looked up with the first request that is counted.
    country: OnceLock<Country>,
}

impl ClientConnection {
    /// Creates a connection from `peer`, over TLS or not, that is charged to `account` and has no place yet.
    pub fn new(peer: IpAddr, tls: bool, account: BudgetAccount, completions: ConnectionCompletions) -> Self {
        let (platform_places, country) = (OnceLock::new(), OnceLock::new());
        Self { peer, tls, place: None, account, completions, platform_places, country }
    }

    /// Returns the form of responses at the host named over TLS; `None` unless it is under the platform's own domains.
    pub fn own_form(&self) -> Option<ResponseForm> {
        let place = self.place.as_deref().filter(|place| self.tls && place.is_own)?;
        Some(ResponseForm::at(Some(place)))
    }

    pub(super) fn country(&self, traffic: &TrafficCounter, address: IpAddr) -> Country {
        if address == self.peer {
            return *self.country.get_or_init(|| traffic.country(address));
        }
        traffic.country(address)
    }

    pub(super) fn platform_places(&self) -> Arc<Semaphore> {
        self.platform_places.get_or_init(PlatformProxy::connection_slots).clone()
    }
}

/// The kinds of places. A connection is for one of them: a certificate for `*.{site_domain}` lets browsers send the
/// console's requests over a site's connection and vice versa, and the two must not share a connection's fate.
#[derive(PartialEq, Eq)]
enum Application<'p> {
    /// Sites under our own domains, the gateway, and unknown hosts.
    Sites,
    Platform,
    /// One custom domain and nothing else. A network observer sees the name of a connection, and must not see one
    /// domain while another is visited; nor must a certificate with several names move a visit off its domain.
    Domain(&'p Hostname),
}

impl ResolvedHost {
    pub(super) fn classify(addresses: &PlatformAddresses, host: &str) -> Self {
        let (shown, kind): (Arc<str>, _) = (host.into(), addresses.classify(host));
        let counted_host = match &kind {
            // A deployment's label ends with the project's name.
            HostKind::Site(HostKey::Deployment(..)) => host.split_once("--").map_or(host, |(_, rest)| rest).into(),
            _ => shown.clone(),
        };
        Self { host: shown, counted_host, kind, is_own: addresses.is_own_host(host) }
    }

    pub(super) fn site(&self) -> Option<&HostKey> {
        match &self.kind {
            HostKind::Site(key) => Some(key),
            HostKind::Api | HostKind::Console | HostKind::Gateway | HostKind::Unknown => None,
        }
    }

    pub(super) fn is_platform(&self) -> bool {
        self.application() == Application::Platform
    }

    /// Returns whether a certificate authority may validate the host: it is the platform's, or a customer's hostname.
    pub(super) fn is_provable(&self) -> bool {
        self.is_own || self.kind != HostKind::Unknown
    }

    pub(super) fn shares_connections_with(&self, other: &Self) -> bool {
        self.application() == other.application()
    }

    fn application(&self) -> Application<'_> {
        match &self.kind {
            HostKind::Api | HostKind::Console => Application::Platform,
            HostKind::Site(HostKey::Domain(name)) => Application::Domain(name),
            HostKind::Site(_) | HostKind::Gateway | HostKind::Unknown => Application::Sites,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_for_one_application() {
        let addresses = config::Site::default().addresses();
        let shares = |one: &str, other: &str| {
            let (one, other) = (ResolvedHost::classify(&addresses, one), ResolvedHost::classify(&addresses, other));
            assert_eq!(one.shares_connections_with(&other), other.shares_connections_with(&one));
            one.shares_connections_with(&other)
        };
        for (one, other) in [
            ("blog.svc.localhost", "shop.svc.localhost"),
            ("blog.svc.localhost", "a-b-c.share.localhost"),
            ("blog.svc.localhost", "ai.svc.localhost"),
            ("blog.svc.localhost", "a_b.example.com"),
            ("api.svc.localhost", "app.svc.localhost"),
            ("www.example.com", "www.example.com"),
        ] {
            assert!(shares(one, other), "{one} {other}");
        }
        for (one, other) in [
            ("blog.svc.localhost", "api.svc.localhost"),
            ("blog.svc.localhost", "www.example.com"),
            ("www.example.com", "api.svc.localhost"),
            ("www.example.com", "example.com"),
        ] {
            assert!(!shares(one, other), "{one} {other}");
        }
    }
}
