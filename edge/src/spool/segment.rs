//! One file of a spool, and its name.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

use super::{Record, SegmentId};

/// A segment that this process writes, or has written. Its lock is held as long as the value lives.
pub(super) struct Segment {
    pub(super) id: SegmentId,
    path: PathBuf,
    pub(super) file: File,
    /// The size of the file, as far as it was written by complete writes.
    pub(super) bytes: u64,
    /// The number of records that are not released.
    pub(super) unreleased: usize,
    /// Whether there is a record in it, released or not.
    has_records: bool,
    /// Whether something was written since the last [`unsynced_handle`](Self::unsynced_handle).
    pub(super) is_unsynced: bool,
}

impl Segment {
    /// Creates the file, and its folder, locks it, and writes the lines that are no record. Where that fails, there is no file.
    pub(super) fn create(path: PathBuf, id: SegmentId, head: &[u8]) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
            check_owner(folder)?;
        }
        let mut file = File::options().append(true).create_new(true).mode(0o600).open(&path)?;
        let begun = file.try_lock().map_err(io::Error::from).and_then(|()| {
            // Whoever looks for the segments of the dead may have locked it first, found nothing in it, and deleted it.
            if !is_at(&file, &path)? {
                return Err(io::Error::new(io::ErrorKind::NotFound, "the segment was taken over before it was locked"));
            }
            file.write_all(head)
        });
        if let Err(error) = begun {
            // On a full disk files can be made, and not written: one would be left at each try.
            let _ = fs::remove_file(&path);
            return Err(error);
        }
        let bytes = head.len() as u64;
        Ok(Self { id, path, file, bytes, unreleased: 0, has_records: false, is_unsynced: true })
    }

    /// Writes a record, which is unreleased then.
    pub(super) fn write(&mut self, line: &[u8]) -> io::Result<()> {
        self.is_unsynced = true;
        self.file.write_all(line)?;
        self.bytes += line.len() as u64;
        self.unreleased += 1;
        self.has_records = true;
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

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Puts a segment whose records are all released aside, as `target`; or deletes it, when there is nothing to keep or that
    /// fails.
    pub(super) fn retire(self, target: &Path) {
        // How long it has been kept is counted from now, and not from its last record.
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

    /// Deletes a segment whose records are all released.
    pub(super) fn delete(self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether the path leads to the file. Until its lock was got, whoever had it may have deleted the file or put it aside.
pub(super) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        found => found?,
    };
    let own = file.metadata()?;
    Ok((own.dev(), own.ino()) == (found.dev(), found.ino()))
}

/// For this user alone: whoever puts a segment there says what others have used.
pub(super) fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

/// Fails if another user than ours and root owns the folder, or may write to it.
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

/// The path of a segment.
pub(super) fn path<R: Record>(folder: &Path, owner: &str, SegmentId(number): SegmentId) -> PathBuf {
    folder.join(format!("{owner}-{number:08}{}", R::SUFFIX))
}

/// The owner and the number in a segment's path, or `None` if the file is no segment of this kind of record.
pub(super) fn parse_path<R: Record>(path: &Path) -> Option<(String, SegmentId)> {
    let (owner, number) = path.file_name()?.to_str()?.strip_suffix(R::SUFFIX)?.rsplit_once('-')?;
    Some((owner.to_owned(), SegmentId(number.parse().ok()?)))
}
