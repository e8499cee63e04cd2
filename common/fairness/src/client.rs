//! The identity of a client for limits.

use std::net::{IpAddr, Ipv6Addr};

const IPV4_BITS: u8 = 32;
/// The prefix of an IPv6 address that identifies a customer, who can pick any address within it.
const IPV6_CUSTOMER_BITS: u8 = 64;
/// The prefix of an IPv6 address for the largest block assigned to one customer: 65,536 customers of the size above.
const IPV6_BLOCK_BITS: u8 = 48;

/// A client for limits: the part of an address that it cannot change at will, which is a whole IPv4 address or the /64
/// of an IPv6 address. An IPv4-mapped IPv6 address counts as the IPv4 address. Some customers have a /48 and can act as
/// many clients. Each limit shared by clients therefore has a second one for their [block](Self::block).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    address: IpAddr,
    bits: u8,
}

impl Client {
    /// Returns the /48 of an IPv6 client; `None` for IPv4 clients and for blocks.
    pub fn block(self) -> Option<Self> {
        match self.address {
            IpAddr::V6(address) if self.bits > IPV6_BLOCK_BITS => Some(Self::from_v6(address, IPV6_BLOCK_BITS)),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    }

    /// Returns whether this is a block of clients.
    pub fn is_block(self) -> bool {
        self.address.is_ipv6() && self.bits == IPV6_BLOCK_BITS
    }

    /// Returns the client's block, or the client itself without one: the same for every address of a customer.
    #[must_use]
    pub fn widest(self) -> Self {
        self.block().unwrap_or(self)
    }

    fn from_v6(address: Ipv6Addr, bits: u8) -> Self {
        let address = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - u32::from(bits))));
        Self { address: address.into(), bits }
    }
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self { address: address.into(), bits: IPV4_BITS },
            IpAddr::V6(address) => Self::from_v6(address, IPV6_CUSTOMER_BITS),
        }
    }
}

impl std::fmt::Display for Client {
    /// Formats as `192.0.2.1` or `2001:db8::/64`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            IpAddr::V4(address) => address.fmt(f),
            IpAddr::V6(network) => write!(f, "{network}/{}", self.bits),
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
    #[test]
    fn a_block_is_a_customers_who_has_many_networks() {
        let block = client("2001:db8:1:2::1").block().unwrap();
        assert_eq!(block.to_string(), "2001:db8:1::/48");
        assert_eq!((client("2001:db8:1:ffff::").block(), block.block()), (Some(block), None));
        assert_ne!(client("2001:db8:2::").block(), Some(block));
        assert_ne!(client("2001:db8:1::"), block, "its first network is not all of it");
        let v4 = client("192.0.2.1");
        assert_eq!((v4.block(), v4.widest(), client("2001:db8:1::9").widest()), (None, v4, block));
    }
}
