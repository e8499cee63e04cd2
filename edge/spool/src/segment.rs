//! One file of a spool, and its name.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

use super::{SegmentId, SpoolRecord};

/// A segment that this process writes or has written. Holds the file's lock until it is dropped.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    path: PathBuf,
    pub(super) file: File,
    /// The size of the file, counting complete writes only.
    pub(super) bytes: u64,
    pub(super) unreleased: usize,
    has_records: bool,
    pub(super) is_unsynced: bool,
}

impl Segment {
    /// Creates the folder and the file, locks it, and writes the head lines. If that fails, no file is left.
    pub(super) fn create(path: PathBuf, id: SegmentId, head: &[u8]) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
            check_owner(folder)?;
        }
        let mut file = File::options().append(true).create_new(true).mode(0o600).open(&path)?;
        let begun = file.try_lock().map_err(io::Error::from).and_then(|()| {
            // A search for dead owners' segments may have locked this one first, found it empty and deleted it.
            if !is_at(&file, &path)? {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the segment was taken over before it was locked"));
            }
            file.write_all(head)
        });
        if let Err(error) = begun {
            // On a full disk, files can be created but not written: each attempt would leave one behind.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let bytes = head.len() as u64;
        Ok(Self { id, path, file, bytes, unreleased: 0, has_records: false, is_unsynced: true })
    }

    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.is_unsynced = true;
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        self.unreleased += 1;
        self.has_records = true;
        Ok(())
    }

    /// Returns a second handle for syncing without blocking writers; `None` if nothing was written since the last one.
    pub(super) fn unsynced_handle(&mut self) -> Option<io::Result<File>> {
        std::mem::take(&mut self.is_unsynced).then(|| self.file.try_clone())
    }

    pub(super) fn mark_unsynced(&mut self) {
        self.is_unsynced = true;
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves a fully released segment to `target`, or deletes it if it has no records or the move fails.
    pub(super) fn retire(self, target: &Path) {
        // The retention period starts now, not with the last record.
        let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
        let keep = || -> io::Result<()> {
            create_folder(target.parent().unwrap_or(target))?;
            futimens(&self.file, &Timestamps { last_access: now, last_modification: now })?;
            fs::rename(&self.path, target)
        };
        if !self.has_records || keep().is_err() {
            self.delete();
        }
    }

    pub(super) fn delete(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Returns whether the path still leads to the file: its previous lock holder may have deleted or moved it.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let own = file.metadata()?;
    Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
}

/// Creates the folder with access for this user alone, because the contents of segments are trusted.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Fails if a user other than this one and root owns the folder, or if others may write to it.
pub(super) fn check_owner(folder: &Path) -> io::Result<()> {
    let metadata = fs::metadata(folder)?;
    let us = rustix::process::geteuid().as_raw();
    let is_ours = [us, 0].contains(&metadata.uid());
    let is_writable_by_others = metadata.mode() & 0o022 != 0;
    if is_ours && !is_writable_by_others {
        return Ok(());
    }
    let folder = folder.display();
    let message = format!("other users may write to {folder}: `chown {us} {folder}; chmod 700 {folder}`");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, message))
}

pub(super) fn path<R: SpoolRecord>(folder: &Path, owner: &str, SegmentId(number): SegmentId) -> PathBuf {
    folder.join(format!("{owner}-{number:08}{}", R::SUFFIX))
}

/// Parses the owner and the number from a segment's path; `None` if it is no segment of this kind of record.
pub(super) fn parse_path<R: SpoolRecord>(path: &Path) -> Option<(String, SegmentId)> {
    let (owner, number) = path.file_name()?.to_str()?.strip_suffix(R::SUFFIX)?.rsplit_once('-')?;
    Some((owner.to_owned(), SegmentId(number.parse().ok()?)))
}
