//! Sets of networks, as `trusted_proxies` lists them.

use std::net::IpAddr;

/// Networks in CIDR form; a single address is a network of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<(IpAddr, u8)>);

/// The text is neither an address nor `address/prefix`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network like 10.0.0.0/8")]
pub struct InvalidNetwork(String);

impl Networks {
    /// Reads a list of addresses and networks.
    pub fn parse(list: &[String]) -> Result<Self, InvalidNetwork> {
        let network = |text: &String| parse(text).ok_or_else(|| InvalidNetwork(text.clone()));
        list.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    /// Whether `address` lies in one of them. IPv4 in IPv6 is IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|&(network, prefix)| match (network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(prefix);
                u32::from(network).checked_shr(shift) == u32::from(address).checked_shr(shift)
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(prefix);
                u128::from(network).checked_shr(shift) == u128::from(address).checked_shr(shift)
            }
            _ => false,
        })
    }
}

fn parse(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = match text.trim().split_once('/') {
        Some((address, prefix)) => (address, Some(prefix.parse::<u8>().ok()?)),
        None => (text.trim(), None),
    };
    let address = address.parse::<IpAddr>().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    Some((address, prefix.unwrap_or(longest))).filter(|&(_, prefix)| prefix <= longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let networks = Networks::parse(&["10.0.0.0/8".into(), "::1".into(), "2001:db8::/32".into()]).unwrap();
        for inside in ["10.255.0.1", "::1", "2001:db8:1::7", "::ffff:10.0.0.1"] {
            assert!(networks.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["11.0.0.1", "::2", "2001:db9::"] {
            assert!(!networks.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(Networks::parse(&["0.0.0.0/0".into()]).unwrap().contains("203.0.113.9".parse().unwrap()));
        for bad in ["10.0.0.0/33", "ten", "10.0.0.0/", ""] {
            assert!(Networks::parse(&[bad.into()]).is_err(), "{bad}");
        }
    }
}
