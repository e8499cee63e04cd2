//! The trash of a folder. A pack is renamed as a whole; a marker file in it records the time of the move.

use std::{
    collections::BTreeSet,
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
};

use domain::{DeploymentId, Timestamp};
use time::OffsetDateTime;

use super::{DATA, MANIFEST, PackFolder, StoreError, parse_pack_id};
use crate::trash::{StoredPack, TrashedPack};

/// The marker file. Its modification time, set by the kernel of the folder's machine, is the time of the move.
const MOVED: &str = "trashed";
/// The file that is written to learn the file system's time.
const CLOCK: &str = ".clock";

impl PackFolder {
    pub(crate) fn now(&self) -> Result<Timestamp, StoreError> {
        let trash = self.trash_folder()?;
        // A unique name, because two admins may do this at the same time.
        let clock = tempfile::Builder::new().prefix(CLOCK).tempfile_in(&trash)?;
        Ok(OffsetDateTime::from(clock.as_file().metadata()?.modified()?).into())
    }

    pub(crate) fn page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<StoredPack>, StoreError> {
        self.require()?;
        let mut packs = Vec::new();
        for id in lowest(self.path(), after, most)? {
            for folder in [self.place(&id), self.incoming(&id)] {
                match fs::metadata(&folder).and_then(|metadata| metadata.modified()) {
                    Ok(modified) => {
                        packs.push(StoredPack { id, written_at: OffsetDateTime::from(modified).into() });
                        break;
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {} // removed meanwhile, or the other one
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(packs)
    }

    pub(crate) fn trash_page(&self, after: Option<&DeploymentId>, most: usize) -> Result<Vec<TrashedPack>, StoreError> {
        let mut packs = Vec::new();
        for id in lowest(&self.trash_folder()?, after, most)? {
            let folder = self.trashed(&id);
            // A pack that somebody moved here by hand has no marker; its time starts now.
            let trashed_at = match written_at(&folder.join(MOVED)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    mark(&folder).and_then(|()| written_at(&folder.join(MOVED)))
                }
                found => found,
            };
            let trashed_at = match trashed_at {
                Ok(at) => at,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // restored meanwhile
                Err(error) => return Err(error.into()),
            };
            let size = |name| fs::metadata(folder.join(name)).map(|metadata| metadata.len());
            let manifest = size(MANIFEST);
            let bytes = manifest.as_ref().copied().unwrap_or_default() + size(DATA).unwrap_or_default();
            packs.push(TrashedPack { id, trashed_at, bytes, is_whole: manifest.is_ok() });
        }
        Ok(packs)
    }

    pub(crate) fn trash(&self, id: &DeploymentId) -> Result<bool, StoreError> {
        self.require()?;
        remove_all(&self.incoming(id))?;
        let place = self.place(id);
        match mark(&place) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(self.trashed(id).join(MANIFEST).try_exists()?);
            }
            marked => marked?,
        }
        let trash = self.trash_folder()?;
        let trashed = self.trashed(id);
        // A copy of the folder may have the pack in both places. Packs never change, so one of them suffices.
        remove_all(&trashed)?;
        fs::rename(&place, &trashed)?;
        sync(&trash)?;
        sync(self.path())?;
        Ok(true)
    }

    pub(crate) fn restore(&self, id: &DeploymentId) -> Result<(), StoreError> {
        self.require()?;
        let (trashed, place) = (self.trashed(id), self.place(id));
        if !trashed.join(MANIFEST).try_exists()? {
            return Err(StoreError::NotFound);
        }
        // An existing one is the same pack, or what is left of it.
        remove_all(&place)?;
        fs::rename(&trashed, &place)?;
        sync(self.path())?;
        match fs::remove_file(place.join(MOVED)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    pub(crate) fn purge(&self, id: &DeploymentId) -> Result<(), StoreError> {
        Ok(remove_all(&self.trashed(id))?)
    }

    fn trashed(&self, id: &DeploymentId) -> PathBuf {
        self.trash.join(id.as_str())
    }

    /// Returns the trash folder, creating it on first use: an edge may not have write permission.
    fn trash_folder(&self) -> Result<PathBuf, StoreError> {
        // Fails if the whole store is missing, because a new folder would look like an empty store.
        self.require()?;
        DirBuilder::new().recursive(true).mode(0o750).create(&self.trash)?;
        Ok(self.trash.to_path_buf())
    }
}

/// Returns the lowest ids after `after` in a folder, at most `most`, holding no more than those in memory.
fn lowest(folder: &Path, after: Option<&DeploymentId>, most: usize) -> io::Result<BTreeSet<DeploymentId>> {
    let mut lowest = BTreeSet::new();
    for entry in fs::read_dir(folder)? {
        let Some(id) = parse_pack_id(&entry?.file_name()) else { continue };
        if after.is_some_and(|after| id <= *after) {
            continue;
        }
        lowest.insert(id);
        if lowest.len() > most {
            lowest.pop_last();
        }
    }
    Ok(lowest)
}

/// Records the current time as the time of the move.
fn mark(folder: &Path) -> io::Result<()> {
    let mark = folder.join(MOVED);
    match fs::remove_file(&mark) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    File::create_new(&mark)?.sync_all()
}

fn written_at(file: &Path) -> io::Result<Timestamp> {
    Ok(OffsetDateTime::from(fs::metadata(file)?.modified()?).into())
}

fn remove_all(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
