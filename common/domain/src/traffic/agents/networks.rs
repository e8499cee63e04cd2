//! Networks that operators publish for their agents: list parsing, a dated snapshot, and address lookup.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::IpNet;

use crate::networks::is_global;

/// The widest networks that are accepted: no crawler has a two-hundred-and-fifty-sixth of all addresses.
const WIDEST_V4: u8 = 9;
const WIDEST_V6: u8 = 24;

/// The networks of each source as published on 5 May 2026, used until admin has read a newer list. Each line is a
/// source and some of its networks, with adjacent ones merged.
const SNAPSHOT: &str = include_str!("networks.txt");

/// The reason a list of networks is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NetworkListError {
    /// The list is empty.
    #[error("it names no network")]
    Empty,
    /// The list has more networks than any operator publishes.
    #[error("it names {0} networks, which is too many")]
    TooLong(usize),
    /// A network is not globally reachable, or is too wide for one operator.
    #[error("it names {0}, which cannot be an operator's")]
    Implausible(IpNet),
    /// The list has far fewer networks than before.
    #[error("it names {now} networks, where there were {before}")]
    Shrunk {
        /// Number of networks in the previous list.
        before: usize,
        /// Number of networks in this list.
        now: usize,
    },
}

/// Parses a published list in any format, JSON or lines of text, and merges adjacent networks.
///
/// A list with more than `most` networks, or less than a quarter of the `before` previous ones, is rejected as broken.
pub fn parse_list(text: &str, most: usize, before: Option<usize>) -> Result<Vec<IpNet>, NetworkListError> {
    let words = text.split(|letter: char| !letter.is_ascii_hexdigit() && !matches!(letter, '.' | ':' | '/'));
    let network = |word: &str| -> Option<IpNet> {
        // Numbers and times have fewer dots and colons than the shortest addresses.
        let is_address = word.matches('.').count() == 3 || word.contains("::") || word.matches(':').count() == 7;
        is_address.then(|| word.parse().ok().or_else(|| word.parse::<IpAddr>().ok().map(IpNet::from))).flatten()
    };
    let found: Vec<IpNet> = words.filter_map(network).take(most + 1).map(|network| network.trunc()).collect();
    if found.len() > most {
        return Err(NetworkListError::TooLong(found.len()));
    }
    let is_plausible = |network: &IpNet| {
        let widest = if network.addr().is_ipv4() { WIDEST_V4 } else { WIDEST_V6 };
        network.prefix_len() >= widest && is_global(network.network()) && is_global(network.broadcast())
    };
    if let Some(network) = found.iter().find(|network| !is_plausible(network)) {
        return Err(NetworkListError::Implausible(*network));
    }
    let networks = IpNet::aggregate(&found);
    match before {
        _ if networks.is_empty() => Err(NetworkListError::Empty),
        Some(before) if networks.len() < before / 4 => Err(NetworkListError::Shrunk { before, now: networks.len() }),
        _ => Ok(networks),
    }
}

/// Returns the networks of each source in the snapshot.
pub fn snapshot() -> BTreeMap<&'static str, Vec<IpNet>> {
    let mut sources = BTreeMap::<_, Vec<IpNet>>::new();
    for line in SNAPSHOT.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let source = words.next().unwrap_or_default();
        sources.entry(source).or_default().extend(words.filter_map(|word| word.parse::<IpNet>().ok()));
    }
    sources
}

/// Networks in which an address is found by binary search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AddressRanges {
    v4: Box<[(Ipv4Addr, Ipv4Addr)]>,
    v6: Box<[(Ipv6Addr, Ipv6Addr)]>,
}

impl AddressRanges {
    /// Creates the set of `networks`.
    pub fn from_networks(networks: &[IpNet]) -> Self {
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        // Aggregated networks are disjoint.
        for network in IpNet::aggregate(&networks.to_vec()) {
            match network {
                IpNet::V4(network) => v4.push((network.network(), network.broadcast())),
                IpNet::V6(network) => v6.push((network.network(), network.broadcast())),
            }
        }
        v4.sort_unstable();
        v6.sort_unstable();
        Self { v4: v4.into(), v6: v6.into() }
    }

    /// Returns whether one of the networks contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(address) => is_within(&self.v4, address),
            IpAddr::V6(address) => is_within(&self.v6, address),
        }
    }
}

fn is_within<A: Ord + Copy>(ranges: &[(A, A)], address: A) -> bool {
    let after = ranges.partition_point(|(first, _)| *first <= address);
    after.checked_sub(1).is_some_and(|place| address <= ranges[place].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::agents::AGENTS;

    #[test]
    fn every_source_of_the_table_is_in_the_snapshot() {
        let snapshot = snapshot();
        for agent in &AGENTS {
            if let Some(source) = agent.networks {
                assert!(snapshot.contains_key(source), "{} has the source {source}", agent.name);
            }
        }
        for source in snapshot.keys() {
            assert!(AGENTS.iter().any(|agent| agent.networks == Some(source)), "nobody has the source {source}");
        }
        let lines = SNAPSHOT.lines().filter(|line| !line.starts_with('#'));
        let words: usize = lines.map(|line| line.split(' ').count() - 1).sum();
        assert_eq!(snapshot.values().map(Vec::len).sum::<usize>(), words, "each word is a network");
        assert!(AddressRanges::from_networks(&snapshot["googlebot"]).contains("66.249.66.1".parse().unwrap()));
        assert!(!AddressRanges::from_networks(&snapshot["gptbot"]).contains("66.249.66.1".parse().unwrap()));
    }

    #[test]
    fn addresses_are_found_at_the_edges_of_networks() {
        let networks = ["9.0.0.0/24", "9.0.1.0/24", "5.5.5.5/32", "2a00:1::/32"].map(|text| text.parse().unwrap());
        let ranges = AddressRanges::from_networks(&networks);
        for inside in ["9.0.0.0", "9.0.1.255", "5.5.5.5", "::ffff:5.5.5.5", "2a00:1::", "2a00:1:ffff::7"] {
            assert!(ranges.contains(inside.parse().unwrap()), "{inside}");
        }
        for outside in ["8.255.255.255", "9.0.2.0", "5.5.5.4", "5.5.5.6", "2a00:2::", "::1"] {
            assert!(!ranges.contains(outside.parse().unwrap()), "{outside}");
        }
        assert!(!AddressRanges::default().contains("9.0.0.0".parse().unwrap()));
    }

    #[test]
    fn lists_are_read_in_every_format() {
        let json = r#"{"creationTime": "2026-05-05T12:00:00.000000", "prefixes": [{"ipv4Prefix": "66.249.64.0/27"},
            {"ipv4Prefix": "66.249.64.32/27"}, {"ipv6Prefix": "2001:4860:4801:10::/64"}]}"#;
        let written: Vec<String> = parse_list(json, 10, None).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(written, ["66.249.64.0/26", "2001:4860:4801:10::/64"]);
        let text = "# of 2026-05-05\n149.154.160.0/20\r\n91.108.4.7\n2a0a:f280::/32\n";
        assert_eq!(parse_list(text, 10, None).unwrap().len(), 3);
    }

    #[test]
    fn broken_lists_are_refused() {
        let many = "9.0.0.1 9.0.0.3 9.0.0.5";
        assert_eq!(parse_list(many, 3, Some(12)).map(|networks| networks.len()), Ok(3));
        assert_eq!(parse_list(many, 2, None), Err(NetworkListError::TooLong(3)));
        assert_eq!(parse_list(many, 3, Some(16)), Err(NetworkListError::Shrunk { before: 16, now: 3 }));
        assert_eq!(parse_list("<html>Not Found, version 1.2.3</html>", 10, None), Err(NetworkListError::Empty));
        for implausible in ["0.0.0.0/0", "10.0.0.0/8", "127.0.0.1", "9.0.0.0/4", "::/0", "fe80::1", "2a00::/12"] {
            let refused = parse_list(&format!("9.9.9.9 {implausible}"), 10, None);
            assert!(matches!(refused, Err(NetworkListError::Implausible(_))), "{implausible}: {refused:?}");
        }
    }
}
