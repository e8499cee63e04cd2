//! Free disk space.

use std::{io, path::Path};

/// The space of the disk that contains a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskSpace {
    /// Used and free bytes together, as `df` counts them, without those reserved for others.
    pub total: u64,
    /// Bytes that this program can still write.
    pub free: u64,
}

impl DiskSpace {
    /// Queries the disk that contains `folder`.
    pub fn for_folder(folder: &Path) -> io::Result<Self> {
        let disk = rustix::fs::statvfs(folder)?;
        Ok(Self {
            total: disk
                .f_blocks
                .saturating_sub(disk.f_bfree)
                .saturating_add(disk.f_bavail)
                .saturating_mul(disk.f_frsize),
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
        })
    }

    /// Returns whether less than `percent` of the disk is free.
    pub fn is_below(&self, percent: u8) -> bool {
        u128::from(self.free) * 100 < u128::from(self.total) * u128::from(percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_low_below_its_percentage() {
        let disk = |free| DiskSpace { total: 1_000, free };
        assert!(disk(99).is_below(10) && !disk(100).is_below(10));
        assert!(disk(999).is_below(100) && !disk(0).is_below(0));
        let full = DiskSpace { total: u64::MAX, free: u64::MAX };
        assert!(!full.is_below(100));
    }

    #[test]
    fn the_disk_of_a_folder_is_known() {
        let space = DiskSpace::for_folder(&std::env::temp_dir()).unwrap();
        assert!(space.total >= space.free && space.total > 0);
        assert!(DiskSpace::for_folder(Path::new("/no/such/folder")).is_err());
    }
}
