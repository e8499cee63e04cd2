//! Sets of networks, as `edge.trusted_proxies` lists them.

use std::net::IpAddr;

use ipnet::IpNet;

/// Networks in CIDR form; a single address is a network of one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks(Vec<IpNet>);

/// The text is neither an address nor `address/prefix`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address or a network like 10.0.0.0/8")]
pub struct NetworkError(String);

impl Networks {
    /// Parses a list of addresses and networks.
    pub fn parse(list: &[String]) -> Result<Self, NetworkError> {
        let network = |text: &String| {
            let trimmed = text.trim();
            let parsed = trimmed.parse::<IpNet>().or_else(|_| trimmed.parse::<IpAddr>().map(IpNet::from));
            parsed.map_err(|_| NetworkError(text.clone()))
        };
        list.iter().map(network).collect::<Result<_, _>>().map(Self)
    }

    /// Whether `address` lies in one of them. An IPv4 address written as IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        let networks =
            Networks::parse(&["10.0.0.0/8".into(), "::1".into(), "2001:db8::/32".into(), " 192.0.2.77/24 ".into()])
                .unwrap();
        for inside in ["10.255.0.1", "::1", "2001:db8:1::7", "::ffff:10.0.0.1", "192.0.2.1"] {
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
