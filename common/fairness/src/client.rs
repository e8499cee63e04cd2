//! The identity of a client, as far as limits know it.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv6 address that name a customer; below them everybody has as many addresses as they like.
const IPV6_CUSTOMER_BITS: u32 = 64;

/// A client as limits know it: the part of its address that it cannot change at will, which is a whole IPv4 address or the
/// /64 of an IPv6 address. An IPv4 address that is written as IPv6 counts as the IPv4 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client(IpAddr);

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => {
                Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - IPV6_CUSTOMER_BITS))).into()
            }
        })
    }
}

impl std::fmt::Display for Client {
    /// `192.0.2.1` or `2001:db8::/64`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/{IPV6_CUSTOMER_BITS}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(address: &str) -> Client {
        Client::from(address.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn a_customers_addresses_are_one_client() {
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:1"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
        assert_eq!(client("2001:db8:1:2:3::4").to_string(), "2001:db8:1:2::/64");
        assert_eq!(client("::ffff:192.0.2.1").to_string(), "192.0.2.1");
    }
}
