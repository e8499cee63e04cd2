//! A country database whose file is read again when it changes: operators replace it now and then.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use maxminddb::{MaxMindDbError, Reader};

pub(super) struct CountryFile {
    path: PathBuf,
    reader: ArcSwap<Reader<Vec<u8>>>,
    /// The file version that was last checked, whether it could be read or not.
    seen: Mutex<Option<FileVersion>>,
}

/// The attributes that change when a file is replaced or written.
#[derive(Clone, PartialEq, Eq)]
struct FileVersion {
    inode: u64,
    len: u64,
    modified: SystemTime,
}

impl FileVersion {
    fn from_path(path: &Path) -> io::Result<Self> {
        let metadata = fs::metadata(path)?;
        Ok(Self { inode: metadata.ino(), len: metadata.len(), modified: metadata.modified()? })
    }
}

impl CountryFile {
    pub(super) fn open(path: &Path) -> Result<Self, MaxMindDbError> {
        let seen = FileVersion::from_path(path).ok();
        let reader = ArcSwap::from_pointee(Reader::open_readfile(path)?);
        Ok(Self { path: path.to_owned(), reader, seen: Mutex::new(seen) })
    }

    pub(super) fn reader(&self) -> arc_swap::Guard<Arc<Reader<Vec<u8>>>> {
        self.reader.load()
    }

    /// Reads the file again if it has changed. While it is missing or invalid, the last database stays. Blocks.
    pub(super) fn refresh(&self) {
        let Ok(version) = FileVersion::from_path(&self.path) else { return };
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.as_ref() == Some(&version) {
            return;
        }
        match Reader::open_readfile(&self.path) {
            Ok(reader) => {
                self.reader.store(Arc::new(reader));
                tracing::info!(file = %self.path.display(), "countries are of another file now (stats.geoip_file)");
            }
            // It may still be being written, in which case it changes again.
            Err(error) => tracing::warn!(%error, "the countries cannot be read again (stats.geoip_file)"),
        }
        *seen = Some(version);
    }
}
