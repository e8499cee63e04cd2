//! The visitor behind a request. Behind a trusted proxy, the visitor that the proxy reports.

use std::net::IpAddr;

use domain::networks::NetworkSet;
use http::{HeaderMap, HeaderName};

/// The header with the addresses that a request came from, to which each proxy appends its peer's.
pub const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// The header in which a proxy states the visitor's scheme, `http` or `https`.
pub const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
/// The header in which the edge tells admin which host the visitor requested.
pub const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// The client that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor {
    /// Its address, taken from forwarding headers only of trusted proxies.
    pub address: IpAddr,
    /// Whether the visitor uses HTTPS, which a trusted proxy may state in place of the connection.
    pub tls: bool,
}

impl Visitor {
    /// Determines who sent a request over a connection from `peer`. `headers` are read only if the peer is `trusted`.
    pub fn from_request(peer: IpAddr, tls: bool, headers: &HeaderMap, trusted: &NetworkSet) -> Self {
        if !trusted.contains(peer) {
            return Self { address: peer, tls };
        }
        let mut address = peer;
        let lines = headers.get_all(FORWARDED_FOR).iter().rev().filter_map(|line| line.to_str().ok());
        // From the nearest hop outwards: the first that is not a trusted proxy is the visitor.
        for hop in lines.flat_map(|line| line.rsplit(',')) {
            let Ok(hop) = hop.trim().parse::<IpAddr>() else { break };
            address = hop.to_canonical();
            if !trusted.contains(address) {
                break;
            }
        }
        let tls = headers.get(FORWARDED_PROTO).map_or(tls, |proto| proto.as_bytes().eq_ignore_ascii_case(b"https"));
        Self { address, tls }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_hops_are_believed() {
        let trusted = NetworkSet::parse(&["10.0.0.0/8".into(), "::1".into()]).unwrap();
        let address = |peer: &str, lines: &[&str]| {
            let headers = lines.iter().map(|line| (FORWARDED_FOR, line.parse().unwrap())).collect();
            Visitor::from_request(peer.parse().unwrap(), false, &headers, &trusted).address.to_string()
        };
        assert_eq!(address("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(address("10.1.2.3", &["6.6.6.6, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(address("10.1.2.3", &["6.6.6.6", "198.51.100.1, 10.9.9.9"]), "198.51.100.1");
        assert_eq!(address("10.1.2.3", &["nonsense"]), "10.1.2.3");
        assert_eq!(address("::1", &["2001:db8::1"]), "2001:db8::1");
    }

    #[test]
    fn a_trusted_proxy_says_whether_the_visitor_sees_https() {
        let trusted = NetworkSet::parse(&["10.0.0.1".into()]).unwrap();
        let headers = HeaderMap::from_iter([(FORWARDED_PROTO, "https".parse().unwrap())]);
        let tls = |peer: &str| Visitor::from_request(peer.parse().unwrap(), false, &headers, &trusted).tls;
        assert!(tls("10.0.0.1"));
        assert!(!tls("10.0.0.2"));
    }
}
