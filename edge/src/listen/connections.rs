//! How many connections there may be: what is configured, or else what the machine allows.

use super::tcp::{SeatBounds, connections_allowed, memory_bytes, open_files};
use crate::{limits, platform::Platform};

/// The bounds of this edge's connections, and of what they take.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionBounds {
    /// Connections in all.
    pub connections: usize,
    /// Connections of one client.
    pub per_client: usize,
    /// Requests for the platform in flight.
    pub platform_requests: usize,
    /// Files that the process may open.
    pub(super) files: usize,
    /// Bytes of memory beyond which connections are shed.
    pub(super) memory: Option<u64>,
}

impl ConnectionBounds {
    /// The configured bounds, each worked out from the machine where it is 0. Never more than the files that the process may
    /// open.
    pub fn of(config: &config::Edge) -> Self {
        let files = open_files().unwrap_or(limits::USUAL_OPEN_FILES);
        let platform_requests = Platform::requests_allowed(files);
        let memory = memory_bytes();
        let most = connections_allowed(files, platform_requests, None);
        let connections = match config.connections {
            0 => connections_allowed(files, platform_requests, memory),
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
        Self { connections, per_client: per_client.min(connections), platform_requests, files, memory }
    }

    pub(super) fn seats(&self) -> SeatBounds {
        SeatBounds { total: self.connections, share: self.per_client }
    }
}
