//! The networks of agents: those of the snapshot, and those that admin has read since.

use std::{collections::HashMap, net::IpAddr};

use domain::traffic::agents::networks::{AddressRanges, snapshot};
use ipnet::IpNet;

/// Networks by the name of their source.
pub(super) struct Networks(HashMap<Box<str>, AddressRanges>);

impl Networks {
    /// The snapshot, with what was read of some sources in the place of theirs.
    pub(super) fn of(read: &[db::stats::agents::AgentNetworks]) -> Self {
        let mut sources: HashMap<Box<str>, AddressRanges> =
            snapshot().into_iter().map(|(source, networks)| (source.into(), AddressRanges::of(&networks))).collect();
        for source in read {
            let networks: Vec<IpNet> = source.networks.iter().filter_map(|network| network.parse().ok()).collect();
            if !networks.is_empty() {
                sources.insert(source.source.as_str().into(), AddressRanges::of(&networks));
            }
        }
        Self(sources)
    }

    /// Whether `address` lies in a network of `source`.
    pub(super) fn hold(&self, source: &str, address: IpAddr) -> bool {
        self.0.get(source).is_some_and(|networks| networks.contains(address))
    }
}
