//! One file of a spool, and its name.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use super::{Record, SegmentId};

/// A segment that this process writes, or has written. Its lock is held as long as the value lives.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    path: PathBuf,
    file: File,
    /// The size of the file, as far as it was written by complete writes.
    pub(super) bytes: u64,
    /// The number of records that are not released.
    pub(super) unreleased: usize,
    /// Whether something was written since the last [`unsynced_handle`](Self::unsynced_handle).
    is_unsynced: bool,
}

impl Segment {
    /// Creates the file, and its folder, and locks it.
    pub(super) fn create(path: PathBuf, id: SegmentId) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            // For this user alone: whoever puts a segment there says what others have used.
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
            check_owner(folder)?;
        }
        let file = File::options().append(true).create_new(true).mode(0o600).open(&path)?;
        file.try_lock().map_err(io::Error::from)?;
        Ok(Self { id, path, file, bytes: 0, unreleased: 0, is_unsynced: false })
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.is_unsynced = true;
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        Ok(())
    }

    /// A second handle of the file, to sync it without holding up those who write; `None` if nothing was written since the
    /// last one.
    pub(super) fn unsynced_handle(&mut self) -> Option<io::Result<File>> {
        std::mem::take(&mut self.is_unsynced).then(|| self.file.try_clone())
    }

    /// Has the file synced another time, because the last one failed.
    pub(super) fn mark_unsynced(&mut self) {
        self.is_unsynced = true;
    }

    pub(super) fn delete(self) {
        let _ = fs::remove_file(self.path);
    }
}

/// Fails if another user than ours and root owns the folder, or every user may write to it.
pub(super) fn check_owner(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    let is_ours = [rustix::process::geteuid().as_raw(), 0].contains(&metadata.uid());
    let is_writable_by_others = metadata.mode() & 0o002 != 0;
    if is_ours && !is_writable_by_others {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "the folder is another user's, or every user may write to it"))
}

/// The path of a segment.
pub(super) fn path<R: Record>(folder: &Path, owner: &str, SegmentId(number): SegmentId) -> PathBuf {
    folder.join(format!("{owner}-{number:08}{}", R::SUFFIX))
}

/// The owner and the number in a segment's path, or `None` if the file is no segment of this kind of record.
pub(super) fn parse_path<R: Record>(path: &Path) -> Option<(String, SegmentId)> {
    let (owner, number) = path.file_name()?.to_str()?.strip_suffix(R::SUFFIX)?.rsplit_once('-')?;
    Some((owner.to_owned(), SegmentId(number.parse().ok()?)))
}
