//! Logs that there is no room for uploads: one line at the start, one a minute, and one at the end.

use std::sync::Arc;

use packs::DiskSpace;
use telemetry::{OutageLine, OutageLog};

use crate::metrics;

#[derive(Debug, Clone, Default)]
pub struct DiskSpaceLog {
    spool: Arc<OutageLog>,
    disk: Arc<OutageLog>,
}

impl DiskSpaceLog {
    /// Records that the spool, of which `held` bytes are reserved, had no room for an upload.
    pub(crate) fn spool_is_full(&self, held: u64) {
        metrics::upload_refused("spool");
        if let Some(OutageLine { lasted, .. }) = self.spool.record_failure() {
            let seconds = lasted.as_secs();
            tracing::warn!(held, seconds, "the spool has no room for uploads (admin.spool, admin.spool_bytes)");
        }
    }

    /// Records that the spool had room for an upload.
    pub(crate) fn spool_has_room(&self) {
        if let Some(lasted) = self.spool.record_success() {
            tracing::info!(seconds = lasted.as_secs(), "the spool has room again");
        }
    }

    /// Records that less than `percent` of a disk is free.
    pub fn disk_is_full(&self, spaces: &[DiskSpace], percent: u8) {
        metrics::upload_refused("disk");
        if let Some(OutageLine { lasted, .. }) = self.disk.record_failure() {
            let seconds = lasted.as_secs();
            tracing::error!(?spaces, percent, seconds, "nothing is published: too little of a disk is free");
        }
    }

    /// Records that all disks have enough free space.
    pub fn disk_has_room(&self) {
        if let Some(lasted) = self.disk.record_success() {
            tracing::info!(seconds = lasted.as_secs(), "enough of each disk is free again");
        }
    }
}
