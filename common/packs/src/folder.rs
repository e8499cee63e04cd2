//! Packs in a folder of this machine, or in one that is mounted on all of them.
//!
//! A pack is written under a temporary name next to the finished ones, synced, and renamed into place: it exists
//! completely or not at all, even after a power cut.

mod root;
mod trash;

use std::{
    ffi::OsStr,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use domain::DeploymentId;
use rustix::io::Errno;

use super::StoreError;

/// Name prefix of unfinished packs.
const INCOMING: &str = ".incoming-";
const DATA: &str = "data";
/// The file that locates them.
const MANIFEST: &str = "manifest";
const DAMAGED: &str = "damaged";

/// A folder of packs. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PackFolder {
    deployments: Arc<Path>,
    trash: Arc<Path>,
}

/// An unfinished pack, removed if it is dropped before [`IncomingPack::finish`].
#[derive(Debug)]
pub(super) struct IncomingPack {
    folder: PathBuf,
    place: PathBuf,
    finished: bool,
}

impl PackFolder {
    pub(super) fn open(config: &config::Store) -> Result<Self, StoreError> {
        let path = config
            .url
            .to_file_path()
            .map_err(|()| StoreError::Config(format!("`{}` is not of the form `file:///folder`", config.url)))?;
        Ok(Self { deployments: path.join("deployments").into(), trash: path.join("trash").into() })
    }

    /// Creates the folder if it does not exist.
    pub(super) fn make(&self) -> Result<(), StoreError> {
        DirBuilder::new().recursive(true).mode(0o750).create(&self.deployments).map_err(|error| {
            StoreError::Config(format!("the folder {} cannot be made: {error}", self.deployments.display()))
        })
    }

    /// Fails if the folder of all packs does not exist. Called after something was not found, so that a pack is not
    /// reported as lost when the whole store is missing.
    pub(super) fn require(&self) -> Result<(), StoreError> {
        match fs::metadata(&self.deployments) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(StoreError::Absent(format!("the store's folder {} is not there", self.deployments.display())))
            }
            Err(error) => Err(error.into()),
            Ok(_) => Ok(()),
        }
    }

    pub(super) fn open_manifest(&self, id: &DeploymentId) -> Result<(File, u64), StoreError> {
        let file = self.open_file(&self.place(id).join(MANIFEST))?;
        let len = file.metadata()?.len();
        Ok((file, len))
    }

    /// Fills `body` with a pack's data from `offset` on.
    pub(super) fn read(&self, id: &DeploymentId, offset: u64, body: &mut [u8]) -> Result<(), StoreError> {
        let file = self.open_file(&self.place(id).join(DATA))?;
        file.read_exact_at(body, offset).map_err(read_error)
    }

    pub(super) fn data_len(&self, id: &DeploymentId) -> Result<u64, StoreError> {
        Ok(self.open_file(&self.place(id).join(DATA))?.metadata()?.len())
    }

    pub(super) fn remove(&self, id: &DeploymentId) -> Result<(), StoreError> {
        for folder in [self.place(id), self.incoming(id)] {
            match fs::remove_dir_all(&folder) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }

    pub(super) fn begin(&self, id: &DeploymentId) -> Result<IncomingPack, StoreError> {
        let folder = self.incoming(id);
        self.require()?;
        DirBuilder::new().mode(0o750).create(&folder)?;
        Ok(IncomingPack { folder, place: self.place(id), finished: false })
    }

    /// Starts writing the pack of `id`, removing an unfinished copy of it.
    pub(super) fn begin_again(&self, id: &DeploymentId) -> Result<IncomingPack, StoreError> {
        match fs::remove_dir_all(self.incoming(id)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
            _ => self.begin(id),
        }
    }

    /// Returns the location for a damaged pack that is set aside as `name`.
    pub(super) fn damaged_path(&self, name: &str) -> PathBuf {
        self.deployments.with_file_name(DAMAGED).join(name)
    }

    pub(super) fn path(&self) -> &Path {
        &self.deployments
    }

    fn open_file(&self, path: &Path) -> Result<File, StoreError> {
        match File::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.require()?;
                Err(StoreError::NotFound)
            }
            file => Ok(file?),
        }
    }

    fn place(&self, id: &DeploymentId) -> PathBuf {
        self.deployments.join(id.as_str())
    }

    fn incoming(&self, id: &DeploymentId) -> PathBuf {
        self.deployments.join(format!("{INCOMING}{id}"))
    }
}

impl IncomingPack {
    /// Returns the temporary folder of the pack.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Creates the file of the pack's bodies.
    pub(super) fn data(&self) -> Result<File, StoreError> {
        Ok(OpenOptions::new().read(true).write(true).create_new(true).open(self.folder.join(DATA))?)
    }

    /// Moves the pack into place, durably.
    pub(super) fn finish(self, data: &File, manifest: &[u8]) -> Result<(), StoreError> {
        self.finish_over(data, manifest, None)
    }

    /// Moves the pack into place, durably. An existing pack is moved to `aside`.
    pub(super) fn finish_over(mut self, data: &File, manifest: &[u8], aside: Option<&Path>) -> Result<(), StoreError> {
        data.sync_all()?;
        let mut file = File::create_new(self.folder.join(MANIFEST))?;
        file.write_all(manifest)?;
        file.sync_all()?;
        File::open(&self.folder)?.sync_all()?;
        if let Some(aside) = aside {
            if let Some(parent) = aside.parent() {
                DirBuilder::new().recursive(true).mode(0o750).create(parent)?;
            }
            match fs::rename(&self.place, aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        // Fails if a pack exists: packs are never overwritten.
        fs::rename(&self.folder, &self.place)?;
        self.finished = true;
        if let Some(parent) = self.place.parent() {
            File::open(parent)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for IncomingPack {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            tracing::warn!(%error, folder = %self.folder.display(), "a half-written pack could not be removed");
        }
    }
}

/// Converts a failed read. Data that ends too early or is unreadable on disk is damaged, so retrying does not help.
pub(super) fn read_error(error: io::Error) -> StoreError {
    let is_of_disk = [Errno::IO, Errno::BADMSG].iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()));
    match error.kind() {
        io::ErrorKind::UnexpectedEof => StoreError::Damaged("its data ends before a span".into()),
        _ if is_of_disk => StoreError::Damaged(format!("the disk cannot read it: {error}")),
        _ => error.into(),
    }
}

fn parse_pack_id(name: &OsStr) -> Option<DeploymentId> {
    let name = name.to_str()?;
    name.strip_prefix(INCOMING).unwrap_or(name).parse().ok()
}
