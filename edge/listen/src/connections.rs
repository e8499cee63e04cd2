//! The maximum of connections: what is configured, or what `edge.memory` and the machine allow.

use limits::MemoryShares;
use platform::PlatformProxy;

use super::tcp::{SeatBounds, connections_allowed, open_files, shed_above};

/// The limits of this edge's connections, and of the resources that they use.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionBounds {
    /// Maximum connections.
    pub connections: usize,
    /// Maximum connections of one client.
    pub per_client: usize,
    /// Maximum platform requests in flight.
    pub platform_requests: usize,
    pub(super) files: usize,
    /// Bytes of memory beyond which connections are shed.
    pub(super) memory: u64,
}

impl ConnectionBounds {
    /// Computes the limits from the configuration, or from `edge.memory` and the machine where a configured value is 0.
    /// Never exceeds the files that the process may open.
    pub fn from_config(config: &config::Edge, shares: &MemoryShares) -> Self {
        let files = open_files().unwrap_or(limits::USUAL_OPEN_FILES);
        let platform_requests = PlatformProxy::requests_allowed(files, config.platform_requests);
        let most = connections_allowed(files, platform_requests, None);
        let connections = match config.connections {
            0 => connections_allowed(files, platform_requests, Some(shares.memory)),
            configured if configured > most => {
                tracing::warn!(configured, most, files, "edge.connections is more than the open files allow");
                most
            }
            configured => configured,
        };
        let per_client = match config.connections_per_client {
            0 => limits::CONNECTIONS_PER_CLIENT,
            configured => configured,
        };
        let per_client = per_client.min(connections);
        let memory = shed_above(shares.memory, config::machine::memory());
        Self { connections, per_client, platform_requests, files, memory }
    }

    pub(super) fn seats(&self) -> SeatBounds {
        SeatBounds { total: self.connections, share: self.per_client }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_the_platform_are_configured_or_follow_from_the_files() {
        assert_eq!(PlatformProxy::requests_allowed(65_536, 0), limits::PLATFORM_REQUESTS);
        assert_eq!(PlatformProxy::requests_allowed(800, 0), 100);
        assert_eq!(PlatformProxy::requests_allowed(65_536, 5_000), 5_000);
        assert_eq!(PlatformProxy::requests_allowed(800, 5_000), 400);
        assert_eq!(PlatformProxy::requests_allowed(1, 0), 1);
        let bounds = |config: &config::Edge| ConnectionBounds::from_config(config, &MemoryShares::least().unwrap());
        assert_eq!(bounds(&config::Edge { platform_requests: 7, ..config::Edge::default() }).platform_requests, 7);
    }
}
