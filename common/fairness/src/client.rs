//! The identity of a client, as far as limits know it.

use std::net::{IpAddr, Ipv6Addr};

/// Bits of an IPv4 address.
const IPV4_BITS: u8 = 32;
/// Bits of an IPv6 address that name a customer; below them everybody has as many addresses as they like.
const IPV6_CUSTOMER_BITS: u8 = 64;
/// Bits of an IPv6 address that name the largest block which one customer is given: 65,536 customers by the above.
const IPV6_BLOCK_BITS: u8 = 48;

/// A client as limits know it: the part of its address that it cannot change at will, which is a whole IPv4 address or the
/// /64 of an IPv6 address. An IPv4 address that is written as IPv6 counts as the IPv4 address.
///
/// Some customers are given a /48, so that they are as many clients as they like. So each bound that clients share has a second
/// one for their [block](Self::block).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    address: IpAddr,
    bits: u8,
}

impl Client {
    /// The /48 of an IPv6 client; none of another, nor of a block itself.
    pub fn block(self) -> Option<Self> {
        match self.address {
            IpAddr::V6(address) if self.bits > IPV6_BLOCK_BITS => Some(Self::of_v6(address, IPV6_BLOCK_BITS)),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    }

    /// Whether it is a block of clients.
    pub fn is_block(self) -> bool {
        self.address.is_ipv6() && self.bits == IPV6_BLOCK_BITS
    }

    /// The client's block, or the client itself where it is in none: what changes with nothing that a customer is given.
    #[must_use]
    pub fn widest(self) -> Self {
        self.block().unwrap_or(self)
    }

    fn of_v6(address: Ipv6Addr, bits: u8) -> Self {
        let address = Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << (128 - u32::from(bits))));
        Self { address: address.into(), bits }
    }
}

impl From<IpAddr> for Client {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self { address: address.into(), bits: IPV4_BITS },
            IpAddr::V6(address) => Self::of_v6(address, IPV6_CUSTOMER_BITS),
        }
    }
}

impl std::fmt::Display for Client {
    /// `192.0.2.1` or `2001:db8::/64`.
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
