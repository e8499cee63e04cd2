//! Logs that there is no room for uploads: one line when it begins, one a minute while it lasts, one when it has ended.

use std::sync::Arc;

use packs::Space;
use telemetry::{Line, Outage};

use crate::metrics;

/// Whether the spool or a disk has no room. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fullness {
    spool: Arc<Outage>,
    disk: Arc<Outage>,
}

impl Fullness {
    /// Notes an upload for which the spool, of which `held` bytes are taken, had no room.
    pub(crate) fn spool_is_full(&self, held: u64) {
        metrics::upload_refused("spool");
        if let Some(Line { lasted, .. }) = self.spool.fails() {
            let seconds = lasted.as_secs();
            tracing::warn!(held, seconds, "the spool has no room for uploads (admin.spool, admin.spool_bytes)");
        }
    }

    /// Notes an upload for which the spool had room.
    pub(crate) fn spool_has_room(&self) {
        if let Some(lasted) = self.spool.ends() {
            tracing::info!(seconds = lasted.as_secs(), "the spool has room again");
        }
    }

    /// Notes that less than `percent` of a disk is free.
    pub(crate) fn disk_is_full(&self, spaces: &[Space], percent: u8) {
        metrics::upload_refused("disk");
        if let Some(Line { lasted, .. }) = self.disk.fails() {
            let seconds = lasted.as_secs();
            tracing::error!(?spaces, percent, seconds, "nothing is published: too little of a disk is free");
        }
    }

    /// Notes that enough of each disk is free.
    pub(crate) fn disk_has_room(&self) {
        if let Some(lasted) = self.disk.ends() {
            tracing::info!(seconds = lasted.as_secs(), "enough of each disk is free again");
        }
    }
}
