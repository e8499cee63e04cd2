//! The networks of agents: the built-in snapshot, and newer ones that admin has fetched.

use std::{collections::HashMap, net::IpAddr};

use domain::traffic::agents::networks::{AddressRanges, snapshot};
use ipnet::IpNet;

pub(super) struct AgentNetworkMap(HashMap<Box<str>, AddressRanges>);

impl AgentNetworkMap {
    /// Merges the snapshot with `read`, which replaces the networks of its sources.
    pub(super) fn from_sources(read: &[db::stats::agents::AgentNetworks]) -> Self {
        let mut sources: HashMap<Box<str>, AddressRanges> = snapshot()
            .into_iter()
            .map(|(source, networks)| (source.into(), AddressRanges::from_networks(&networks)))
            .collect();
        for source in read {
            let networks: Vec<IpNet> = source.networks.iter().filter_map(|network| network.parse().ok()).collect();
            if !networks.is_empty() {
                sources.insert(source.source.as_str().into(), AddressRanges::from_networks(&networks));
            }
        }
        Self(sources)
    }

    pub(super) fn contains(&self, source: &str, address: IpAddr) -> bool {
        self.0.get(source).is_some_and(|networks| networks.contains(address))
    }
}
