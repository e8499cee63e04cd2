//! Sets of networks, as `edge.trusted_proxies` lists them, and the check for globally reachable addresses.

use std::{
    net::{IpAddr, Ipv4Addr},
    sync::LazyLock,
};

use ipnet::IpNet;

/// Networks in CIDR form; a single address is a network of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkSet(Vec<IpNet>);

/// The text is neither an address nor `address/prefix`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network like 10.0.0.0/8")]
pub struct NetworkError(String);

impl NetworkSet {
    /// Parses a list of addresses and networks.
    pub fn parse(list: &[String]) -> Result<Self, NetworkError> {
        let network = |text: &String| {
            let trimmed = text.trim();
            let parsed = trimmed.parse::<IpNet>().or_else(|_| trimmed.parse::<IpAddr>().map(IpNet::from));
            parsed.map_err(|_| NetworkError(text.clone()))
        };
        list.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether one of the networks contains `address`. An IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// IPv4 networks that are not globally reachable (IANA's registry of special-purpose addresses, RFC 6890).
const SPECIAL_V4: [&str; 15] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
];
/// IPv6 global unicast, followed by its reserved parts: protocol assignments, including Teredo, and documentation.
/// Every address outside global unicast is special.
const GLOBAL_V6: &str = "2000::/3";
const SPECIAL_V6: [&str; 3] = ["2001::/23", "2001:db8::/32", "3fff::/20"];
/// NAT64 (RFC 6052): the last four bytes are an IPv4 address.
const NAT64: &str = "64:ff9b::/96";
/// 6to4 (RFC 3056): an IPv4 address follows the prefix.
const SIX_TO_FOUR: &str = "2002::/16";

static SPECIAL: LazyLock<SpecialNetworks> = LazyLock::new(|| SpecialNetworks {
    v4: constants(&SPECIAL_V4),
    v6: constants(&SPECIAL_V6),
    global_v6: constants(&[GLOBAL_V6]),
    nat64: constants(&[NAT64]),
    six_to_four: constants(&[SIX_TO_FOUR]),
});

struct SpecialNetworks {
    v4: NetworkSet,
    v6: NetworkSet,
    global_v6: NetworkSet,
    nat64: NetworkSet,
    six_to_four: NetworkSet,
}

fn constants(list: &[&str]) -> NetworkSet {
    NetworkSet(list.iter().filter_map(|network| network.parse().ok()).collect())
}

/// Returns whether `address` is globally reachable: not in a network that IANA reserves, whichever way an IPv4 address
/// is written as IPv6 (mapped, NAT64, 6to4).
pub fn is_global(address: IpAddr) -> bool {
    let special = &*SPECIAL;
    match address.to_canonical() {
        v4 @ IpAddr::V4(_) => !special.v4.contains(v4),
        IpAddr::V6(v6) => {
            let bits = v6.to_bits();
            if special.nat64.contains(v6.into()) {
                return is_global(Ipv4Addr::from_bits(low_32(bits)).into());
            }
            if special.six_to_four.contains(v6.into()) {
                return is_global(Ipv4Addr::from_bits(low_32(bits >> 80)).into());
            }
            special.global_v6.contains(v6.into()) && !special.v6.contains(v6.into())
        }
    }
}

fn low_32(bits: u128) -> u32 {
    u32::try_from(bits & u128::from(u32::MAX)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_is_a_network() {
        let SpecialNetworks { v4, v6, global_v6, nat64, six_to_four } = &*SPECIAL;
        let counts = [v4, v6, global_v6, nat64, six_to_four].map(|networks| networks.0.len());
        assert_eq!(counts, [SPECIAL_V4.len(), SPECIAL_V6.len(), 1, 1, 1]);
    }

    #[test]
    fn only_the_worlds_addresses_are_global() {
        for global in [
            "1.1.1.1",
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "2606:4700::1111",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
            "2002:101:101::1",
            "2a00::1",
        ] {
            assert!(is_global(global.parse().unwrap()), "{global}");
        }
        for not in [
            "0.0.0.0",
            "10.1.2.3",
            "100.64.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.8",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2001::1",
            "2001:db8::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
            "100::1",
            "3fff::1",
            "5f00::1",
        ] {
            assert!(!is_global(not.parse().unwrap()), "{not}");
        }
    }

    #[test]
    fn networks_hold_their_addresses() {
        let networks =
            NetworkSet::parse(&["10.0.0.0/8".into(), "::1".into(), "2001:db8::/32".into(), " 192.0.2.77/24 ".into()])
                .unwrap();
        for inside in ["10.255.0.1", "::1", "2001:db8:1::7", "::ffff:10.0.0.1", "192.0.2.1"] {
            assert!(networks.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "::2", "2001:db9::"] {
            assert!(!networks.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(NetworkSet::parse(&["0.0.0.0/0".into()]).unwrap().contains("203.0.113.9".parse().unwrap()));
        for bad in ["10.0.0.0/33", "ten", "10.0.0.0/", ""] {
            assert!(NetworkSet::parse(&[bad.into()]).is_err(), "{bad}");
        }
    }
}
