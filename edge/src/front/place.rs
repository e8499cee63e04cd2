//! Places: what a host leads to. A host is classified once, and the result is carried with the request.

use std::{
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use domain::{
    Hostname,
    addresses::{Addresses, HostKey, HostKind},
};
use fairness::budget::Account;
use tokio::sync::Semaphore;

use super::refusal::Form;
use crate::{
    gateway::ConnectionCompletions,
    platform::Platform,
    traffic::{Country, Traffic},
};

/// A host, and what it leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Lower case, no port.
    pub(super) host: Arc<str>,
    /// The host that its visits count for: of a deployment's address, the project's own.
    pub(super) counted_host: Arc<str>,
    /// The kind of the host.
    pub(super) kind: HostKind,
    /// Whether the host is the platform's or under one of its domains, rather than a custom domain.
    pub(super) is_own: bool,
}

/// The facts about a connection that its requests depend on.
#[derive(Debug, Clone)]
pub struct Connection {
    /// The other end's address.
    pub peer: IpAddr,
    /// Whether the connection is TLS.
    pub tls: bool,
    /// The place that the visitor named in the TLS handshake. Only requests for the same application are answered; with
    /// none, all are.
    pub place: Option<Arc<Place>>,
    /// Where the bytes are charged that its visitors have not taken yet.
    pub account: Account,
    /// Its completions of the gateway that are under way.
    pub(crate) completions: ConnectionCompletions,
    /// Places for its requests for the platform, made with the first of them.
    platform_places: OnceLock<Arc<Semaphore>>,
    /// The country of the other end, looked up with the first request that counts.
    country: OnceLock<Country>,
}

impl Connection {
    /// A connection from `peer`, over TLS or not, that is for no place yet, and charged to `account`.
    pub fn new(peer: IpAddr, tls: bool, account: Account, completions: ConnectionCompletions) -> Self {
        let (platform_places, country) = (OnceLock::new(), OnceLock::new());
        Self { peer, tls, place: None, account, completions, platform_places, country }
    }

    /// The form of the answers at the host under the platform's own domains that the visitor named, over TLS; none where it named
    /// no such host.
    pub(crate) fn own_form(&self) -> Option<Form> {
        let place = self.place.as_deref().filter(|place| self.tls && place.is_own)?;
        Some(Form::at(Some(place)))
    }

    /// The country of the client at `address`, who is at the other end, or behind a proxy there.
    pub(super) fn country(&self, traffic: &Traffic, address: IpAddr) -> Country {
        if address == self.peer {
            return *self.country.get_or_init(|| traffic.country(address));
        }
        traffic.country(address)
    }

    /// Places for the connection's requests for the platform.
    pub(super) fn platform_places(&self) -> Arc<Semaphore> {
        self.platform_places.get_or_init(Platform::places).clone()
    }
}

/// The kinds of places. One connection is for one of them: a certificate for `*.{site_domain}` lets browsers send
/// the console's requests over a site's connection and the other way round, and the two shall not share a fate.
#[derive(PartialEq, Eq)]
enum Application<'p> {
    /// Sites under our own domains, the gateway, and everything unknown.
    Sites,
    /// The control plane and the console.
    Platform,
    /// One custom domain and nothing else. An observer of the network sees the name of a connection, and shall not be
    /// told of one domain while another one is visited; and a certificate of several names moves no visit from its domain.
    Domain(&'p Hostname),
}

impl Place {
    /// The place at `host`: lower case, no port, no trailing dot.
    pub(super) fn of(addresses: &Addresses, host: &str) -> Self {
        let (shown, kind): (Arc<str>, _) = (host.into(), addresses.classify(host));
        let counted_host = match &kind {
            // The label of a deployment's address ends with the project's name.
            HostKind::Site(HostKey::Deployment(..)) => host.split_once("--").map_or(host, |(_, rest)| rest).into(),
            _ => shown.clone(),
        };
        Self { host: shown, counted_host, kind, is_own: addresses.is_own_host(host) }
    }

    /// The site that may be here.
    pub(super) fn site(&self) -> Option<&HostKey> {
        match &self.kind {
            HostKind::Site(key) => Some(key),
            HostKind::Api | HostKind::Console | HostKind::Gateway | HostKind::Unknown => None,
        }
    }

    /// Whether the control plane or the console is here.
    pub(super) fn is_platform(&self) -> bool {
        self.application() == Application::Platform
    }

    /// Whether a certificate authority may ask whose the host is: it is the platform's, or a hostname of somebody's.
    pub(super) fn can_be_proved(&self) -> bool {
        self.is_own || self.kind != HostKind::Unknown
    }

    /// Whether requests for both places may share a connection.
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
            let (one, other) = (Place::of(&addresses, one), Place::of(&addresses, other));
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
