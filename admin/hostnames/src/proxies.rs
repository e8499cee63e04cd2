//! Networks of proxies between a domain's visitors and the servers behind it.

use std::{net::IpAddr, sync::LazyLock};

use domain::networks::NetworkSet;

/// Cloudflare's networks, from <https://www.cloudflare.com/ips-v4> and `/ips-v6`, last changed on 2023-09-28.
const CLOUDFLARE: [&str; 22] = [
    "173.245.48.0/20",
    "103.21.244.0/22",
    "103.22.200.0/22",
    "103.31.4.0/22",
    "141.101.64.0/18",
    "108.162.192.0/18",
    "190.93.240.0/20",
    "188.114.96.0/20",
    "197.234.240.0/22",
    "198.41.128.0/17",
    "162.158.0.0/15",
    "104.16.0.0/13",
    "104.24.0.0/14",
    "172.64.0.0/13",
    "131.0.72.0/22",
    "2400:cb00::/32",
    "2606:4700::/32",
    "2803:f800::/32",
    "2405:b500::/32",
    "2405:8100::/32",
    "2a06:98c0::/29",
    "2c0f:f248::/32",
];

static CLOUDFLARE_NETWORKS: LazyLock<NetworkSet> =
    LazyLock::new(|| NetworkSet::parse(&CLOUDFLARE.map(str::to_owned)).unwrap_or_default());

/// Returns the name of the proxy to which all of these addresses belong.
pub(super) fn find_proxy(addresses: &[IpAddr]) -> Option<&'static str> {
    let is_theirs = !addresses.is_empty() && addresses.iter().all(|address| CLOUDFLARE_NETWORKS.contains(*address));
    is_theirs.then_some("Cloudflare")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_known_by_its_addresses() {
        let proxy =
            |addresses: &[&str]| find_proxy(&addresses.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>());
        assert_eq!(proxy(&["104.21.3.4", "2606:4700:3030::1"]), Some("Cloudflare"));
        assert_eq!(proxy(&["104.21.3.4", "203.0.113.1"]), None);
        assert_eq!(proxy(&[]), None);
    }
}
