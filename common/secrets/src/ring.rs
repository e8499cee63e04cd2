//! The keys of a key file, which is read again when it has changed.

use std::{
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use crate::{Exposure, master_key::KeyError};

/// The maximum age of a reading of a key file. `certs rotate-key` relies on it.
pub const RELOAD_EVERY: Duration = Duration::from_secs(2);

/// The keys of one file, the one in use first. Never empty.
pub(crate) struct Ring<K> {
    /// `None` for keys without a file.
    path: Option<PathBuf>,
    form: Form<K>,
    read: RwLock<Reading<K>>,
}

/// How to interpret the text of a key file.
pub(crate) struct Form<K> {
    /// Parses the keys; returns `None` if the text is not a key file.
    pub parse: fn(&str) -> Option<Vec<K>>,
    /// Creates the error for an invalid file, from its path.
    pub wrong: fn(String) -> KeyError,
}

struct Reading<K> {
    keys: Arc<[K]>,
    stamp: Option<Stamp>,
    checked_at: Instant,
}

/// Identifies the version of a file.
type Stamp = (u64, u64, i64, i64);

impl<K> Ring<K> {
    pub(crate) fn without_file(keys: Vec<K>, form: Form<K>) -> Self {
        Self::new(None, keys, None, form)
    }

    pub(crate) fn load(path: &Path, form: Form<K>) -> Result<Self, KeyError> {
        let (keys, stamp) = form.read(path)?;
        if let Some(complaint) = Exposure::of(path).ok().and_then(|exposure| exposure.complaint(path)) {
            tracing::warn!("{complaint}");
        }
        Ok(Self::new(Some(path.to_owned()), keys, Some(stamp), form))
    }

    fn new(path: Option<PathBuf>, keys: Vec<K>, stamp: Option<Stamp>, form: Form<K>) -> Self {
        let read = RwLock::new(Reading { keys: keys.into(), stamp, checked_at: Instant::now() });
        Self { path, form, read }
    }

    /// Returns the keys. Reads the file again if the last reading is older than [`RELOAD_EVERY`].
    pub(crate) fn keys(&self) -> Arc<[K]> {
        let reading = self.read.read().unwrap_or_else(PoisonError::into_inner);
        if self.path.is_none() || reading.checked_at.elapsed() < RELOAD_EVERY {
            return Arc::clone(&reading.keys);
        }
        drop(reading);
        self.read_again();
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
        self.read_again();
        let now = self.keys();
        if Arc::ptr_eq(&known, &now) { opened } else { open(&now) }
    }

    fn read_again(&self) {
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

impl<K> Form<K> {
    fn read(&self, path: &Path) -> Result<(Vec<K>, Stamp), KeyError> {
        let shown = || path.display().to_string();
        // Taken before the text, so that a change in between is noticed at the next check.
        let stamp = stamp(path).map_err(|cause| KeyError::Read { path: shown(), cause })?;
        if let Ok(exposure @ Exposure::Writable(_)) = Exposure::of(path) {
            return Err(KeyError::Writable(exposure.complaint(path).unwrap_or_else(shown)));
        }
        let text = std::fs::read_to_string(path).map_err(|cause| KeyError::Read { path: shown(), cause })?;
        Ok(((self.parse)(&text).ok_or_else(|| (self.wrong)(shown()))?, stamp))
    }
}

fn stamp(path: &Path) -> std::io::Result<Stamp> {
    let about = std::fs::metadata(path)?;
    Ok((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}
