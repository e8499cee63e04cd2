//! The keys of a key file, which is read again when it has changed.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use crate::{FileExposure, master_key::KeyError};

/// The maximum age of a reading of a key file. `certs rotate-key` relies on it.
pub const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// The keys of one file, the one in use first. Never empty.
pub(crate) struct KeyRing<K> {
    /// `None` for keys without a file.
    path: Option<PathBuf>,
    form: KeyFileFormat<K>,
    read: RwLock<KeyFileReading<K>>,
}

/// How to interpret the text of a key file.
pub(crate) struct KeyFileFormat<K> {
    /// Parses the keys; returns `None` if the text is not a key file.
    pub parse: fn(&str) -> Option<Vec<K>>,
    /// Creates the error for an invalid file, from its path.
    pub wrong: fn(String) -> KeyError,
}

struct KeyFileReading<K> {
    keys: Arc<[K]>,
    stamp: Option<FileStamp>,
    checked_at: Instant,
}

/// Identifies the version of a file.
type FileStamp = (u64, u64, i64, i64);

impl<K> KeyRing<K> {
    pub(crate) fn without_file(keys: Vec<K>, form: KeyFileFormat<K>) -> Self {
        Self::new(None, keys, None, form)
    }

    pub(crate) fn load(path: &Path, form: KeyFileFormat<K>) -> Result<Self, KeyError> {
        let (keys, stamp) = form.read(path)?;
        if let Some(complaint) = FileExposure::for_file(path).ok().and_then(|exposure| exposure.warning(path)) {
            tracing::warn!("{complaint}");
        }
        Ok(Self::new(Some(path.to_owned()), keys, Some(stamp), form))
    }

    fn new(path: Option<PathBuf>, keys: Vec<K>, stamp: Option<FileStamp>, form: KeyFileFormat<K>) -> Self {
        let read = RwLock::new(KeyFileReading { keys: keys.into(), stamp, checked_at: Instant::now() });
        Self { path, form, read }
    }

    /// Returns the keys. Reads the file again if the last reading is older than [`RELOAD_EVERY`].
    pub(crate) fn keys(&self) -> Arc<[K]> {
        let reading = self.read.read().unwrap_or_else(PoisonError::into_inner);
        if self.path.is_none() || reading.checked_at.elapsed() < RELOAD_EVERY {
            return Arc::clone(&reading.keys);
        }
        drop(reading);
        self.reload();
        Arc::clone(&self.read.read().unwrap_or_else(PoisonError::into_inner).keys)
    }

    /// Opens something with the keys. If that fails, the needed key may just have been written, and another thread may
    /// just have read it: the file is read again, and retried with any new keys.
    pub(crate) fn open<T, E>(&self, open: impl Fn(&[K]) -> Result<T, E>) -> Result<T, E> {
        let known = self.keys();
        let opened = open(&known);
        if opened.is_ok() {
            return opened;
        }
        self.reload();
        let now = self.keys();
        if Arc::ptr_eq(&known, &now) { opened } else { open(&now) }
    }

    fn reload(&self) {
        let Some(path) = &self.path else { return };
        let mut reading = self.read.write().unwrap_or_else(PoisonError::into_inner);
        reading.checked_at = Instant::now();
        if reading.stamp.is_some() && stamp(path).ok() == reading.stamp {
            return;
        }
        match self.form.read(path) {
            Ok((keys, stamp)) => {
                reading.keys = keys.into();
                reading.stamp = Some(stamp);
            }
            Err(error) => {
                // Log this once, not every two seconds: remember the stamp of the unreadable file.
                tracing::error!(%error, "the changed key file is not used; the keys known so far are kept");
                reading.stamp = stamp(path).ok();
            }
        }
    }
}

impl<K> KeyFileFormat<K> {
    fn read(&self, path: &Path) -> Result<(Vec<K>, FileStamp), KeyError> {
        let shown = || path.display().to_string();
        // Taken before the text, so that a change in between is noticed at the next check.
        let stamp = stamp(path).map_err(|cause| KeyError::Read { path: shown(), cause })?;
        if let Ok(exposure @ FileExposure::Writable(_)) = FileExposure::for_file(path) {
            return Err(KeyError::Writable(exposure.warning(path).unwrap_or_else(shown)));
        }
        let text = std::fs::read_to_string(path).map_err(|cause| KeyError::Read { path: shown(), cause })?;
        Ok(((self.parse)(&text).ok_or_else(|| (self.wrong)(shown()))?, stamp))
    }
}

fn stamp(path: &Path) -> std::io::Result<FileStamp> {
    let about = std::fs::metadata(path)?;
    Ok((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}
