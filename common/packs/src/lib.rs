//! Deployment packs, the stored form of an upload that edges serve.
//!
//! A pack is two immutable objects under `deployments/<dep id>/`: `data`, with every distinct file body and its
//! compressed variants, and `manifest`, which locates them. [`archive`] reads and validates the uploaded archive,
//! [`writer`] writes the pack, [`rules`] compiles its `_headers` and `_redirects`, and a folder or a bucket stores it.
//! A pack exists once its manifest does. Removed packs stay in the trash for a while ([`PackStore::trash`]).
//!
//! Stored data is verifiable: the manifest is sealed ([`seal`]) and has a digest of each block of the data
//! ([`digest`]). [`check`] verifies a whole pack, [`copies`] copies it to and from a replica. Start with [`PackStore`]
//! and [`manifest`].

mod advice;
mod appender;
pub mod archive;
mod bucket;
mod check;
mod compress;
mod copies;
mod dates;
mod digest;
mod encoded;
mod error;
mod export;
mod files;
mod fingerprints;
mod folder;
mod identity;
mod listing;
pub mod manifest;
mod measured;
pub mod objects;
mod open_manifest;
mod parts;
pub mod rules;
mod seal;
mod space;
mod trash;
mod types;
mod uploaded;
mod writer;

use std::{
    collections::BTreeMap,
    fs::File,
    sync::{
        Arc,
        atomic::AtomicU8,
        mpsc::{self, Receiver},
    },
};

use bytes::Bytes;

pub use archive::{ArchiveError, PublishRoot, UploadFormat};
pub use check::{CheckStep, FAULTY_PATHS, FaultKind, PackFault, ReadPace};
pub use copies::WholePack;
pub use digest::{BlockDigest, BodyDigests, DIGEST_BLOCK_BYTES, StoredBody, block_digests};
pub use encoded::decoded;
pub use error::{StoreError, WriteError};
pub use export::{ArchiveSink, DownloadFormat, ExportError, write_archive};
pub use identity::{DatabaseName, NAME_OBJECT, RULER_OBJECT, StoreRuler};
pub use listing::{ChangedFile, ChangedFiles, ListedFile, PackChanges};
pub use manifest::{Encoding, FileEntry, Manifest, Span};
pub use open_manifest::OpenManifest;
pub use space::DiskSpace;
pub use trash::{StoredPack, TrashedPack};
pub use uploaded::UploadedFiles;

use domain::{DeploymentId, Timestamp};

use self::{
    bucket::PackBucket, dates::FileDates, folder::PackFolder, listing::PackOutline, measured::measured,
    open_manifest::ManifestSource,
};

/// Largest manifest that is read: 10,000 files with long names stay far below it.
const MANIFEST_BYTES: u64 = 64 * 1024 * 1024;

/// The store of packs, in a folder or a bucket. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PackStore {
    place: StoreBackend,
    /// Whether packs may be removed: an [`identity::RemovalHold`].
    held: Arc<AtomicU8>,
}

#[derive(Debug, Clone)]
enum StoreBackend {
    Folder(PackFolder),
    Bucket(PackBucket),
}

/// The properties of a written pack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenPack {
    /// Number of regular files in the archive.
    pub files: u32,
    /// Total size of the files, extracted, in bytes.
    pub bytes: u64,
    /// The pack's own size in bytes: its manifest, every distinct file once, and the compressed variants.
    pub stored_bytes: u64,
    /// Skipped and duplicate files of the archive, and skipped lines of `_headers` and `_redirects`, with reasons.
    pub warnings: Vec<String>,
}

impl PackStore {
    /// Opens the configured store, creating the folder if it does not exist.
    pub fn open(config: &config::Store) -> Result<Self, StoreError> {
        let store = Self::open_existing(config)?;
        if let StoreBackend::Folder(folder) = &store.place {
            folder.make()?;
        }
        Ok(store)
    }

    /// Opens the configured store without creating anything. Reads of a missing folder fail with
    /// [`StoreError::Absent`].
    pub fn open_existing(config: &config::Store) -> Result<Self, StoreError> {
        let place = match config.url.scheme() {
            "file" => StoreBackend::Folder(PackFolder::open(config)?),
            "s3" => StoreBackend::Bucket(PackBucket::open(config)?),
            other => {
                return Err(StoreError::Config(format!(
                    "`{other}:` is neither `file:///folder` nor `s3://bucket/prefix`"
                )));
            }
        };
        Ok(Self { place, held: Arc::default() })
    }

    /// Reads the manifest of a pack.
    pub async fn manifest(&self, id: &DeploymentId) -> Result<Manifest, StoreError> {
        self.open_manifest(id).await?.read().await
    }

    /// Opens the manifest of a pack, so that its size is known before it is read.
    pub async fn open_manifest(&self, id: &DeploymentId) -> Result<OpenManifest, StoreError> {
        measured("open_manifest", self.open_unmeasured(id)).await
    }

    async fn open_unmeasured(&self, id: &DeploymentId) -> Result<OpenManifest, StoreError> {
        let (len, source) = match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                let (file, len) = blocking(move || folder.open_manifest(&id)).await?;
                (len, ManifestSource::File(file))
            }
            StoreBackend::Bucket(bucket) => {
                let found = bucket.open_manifest(id).await?;
                (found.meta.size, ManifestSource::Object(Box::new(found)))
            }
        };
        if len > MANIFEST_BYTES {
            return Err(StoreError::Damaged("its manifest is too large".into()));
        }
        Ok(OpenManifest { id: id.clone(), len, source })
    }

    /// Lists at most `most` files of a pack after the path `after`, sorted by path. Needs memory for the stored
    /// manifest, so the caller bounds how many listings run concurrently.
    pub async fn files(
        &self,
        id: &DeploymentId,
        after: Option<String>,
        most: usize,
    ) -> Result<Vec<ListedFile>, StoreError> {
        let json = self.manifest_json(id).await?;
        blocking(move || listing::files(&json, after.as_deref(), most)).await
    }

    /// Returns the entries of `paths` that the pack has. Needs memory like [`Self::files`].
    pub async fn entries(
        &self,
        id: &DeploymentId,
        paths: &'static [&'static str],
    ) -> Result<BTreeMap<String, FileEntry>, StoreError> {
        let json = self.manifest_json(id).await?;
        blocking(move || listing::entries(&json, paths)).await
    }

    /// Opens the uploaded files for reading. Needs memory like [`Self::files`], and keeps the pack's paths and digests.
    pub async fn uploaded(&self, id: &DeploymentId) -> Result<UploadedFiles, StoreError> {
        let json = self.manifest_json(id).await?;
        let files = blocking(move || listing::uploaded(&json)).await?;
        Ok(UploadedFiles::new(self.clone(), id.clone(), files))
    }

    /// Compares a pack with an earlier one, or with none, naming at most `most` files per kind. Needs memory like
    /// [`Self::files`], plus a pack's paths and hashes.
    pub async fn changes(
        &self,
        id: &DeploymentId,
        before: Option<&DeploymentId>,
        most: usize,
    ) -> Result<PackChanges, StoreError> {
        let outline = match before {
            None => PackOutline::empty(),
            Some(before) => {
                let json = self.manifest_json(before).await?;
                blocking(move || PackOutline::from_manifest(&json)).await?
            }
        };
        let json = self.manifest_json(id).await?;
        blocking(move || outline.changes_to(&json, most)).await
    }

    async fn manifest_json(&self, id: &DeploymentId) -> Result<Vec<u8>, StoreError> {
        self.open_manifest(id).await?.read_json().await
    }

    /// Reads exactly `len` bytes of a pack's data from `offset`, in one read.
    pub async fn read(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        measured("read", self.read_unmeasured(id, offset, len)).await
    }

    async fn read_unmeasured(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                let len =
                    usize::try_from(len).map_err(|_| StoreError::Damaged("a span is larger than memory".into()))?;
                // Allocated on the thread that drops it: the allocator retains memory per allocating thread.
                let mut body = vec![0; len];
                blocking(move || folder.read(&id, offset, &mut body).map(|()| body.into())).await
            }
            StoreBackend::Bucket(bucket) => bucket.read(id, offset, len).await,
        }
    }

    /// Returns whether each read is a network request.
    pub fn is_remote(&self) -> bool {
        matches!(self.place, StoreBackend::Bucket(_))
    }

    /// Permanently deletes an unpublished or partial pack, if there is one. For published packs use [`Self::trash`].
    pub async fn remove(&self, id: &DeploymentId) -> Result<(), StoreError> {
        self.check_removals_allowed()?;
        measured("remove", async {
            match &self.place {
                StoreBackend::Folder(folder) => {
                    let (folder, id) = (folder.clone(), id.clone());
                    blocking(move || folder.remove(&id)).await
                }
                StoreBackend::Bucket(bucket) => bucket.remove(id).await,
            }
        })
        .await
    }

    /// Returns the disk space that [`Self::write`] uses: the folder's, or that of the temporary files for a bucket.
    pub async fn space(&self) -> Result<DiskSpace, StoreError> {
        let folder = match &self.place {
            StoreBackend::Folder(folder) => folder.path().to_owned(),
            StoreBackend::Bucket(_) => std::env::temp_dir(),
        };
        blocking(move || Ok(DiskSpace::for_folder(&folder)?)).await
    }

    /// Validates a spooled archive and writes it as the pack of `id`. Nothing remains if this fails. Uses all cores and
    /// some tens of megabytes of memory, so the caller bounds how many packs are written concurrently.
    pub async fn write(
        &self,
        id: &DeploymentId,
        spooled: File,
        format: UploadFormat,
        now: Timestamp,
    ) -> Result<WrittenPack, WriteError> {
        self.write_root(id, spooled, format, PublishRoot::Archive, None, now).await
    }

    /// Validates a spooled archive and writes the part selected by `root` as the pack of `id`. Files that are unchanged
    /// since `earlier` keep their dates. Nothing remains if this fails.
    pub async fn write_root(
        &self,
        id: &DeploymentId,
        spooled: File,
        format: UploadFormat,
        root: PublishRoot,
        earlier: Option<&DeploymentId>,
        now: Timestamp,
    ) -> Result<WrittenPack, WriteError> {
        measured("write", async {
            let (tx, dates) = mpsc::sync_channel(1);
            // Runs while the archive is read, which takes longer.
            let dating = async move {
                // A failed send means that the writer has given up.
                let _ = tx.send(self.dates(earlier).await);
            };
            tokio::join!(self.write_unmeasured(id, spooled, format, root, now, dates), dating).0
        })
        .await
    }

    async fn write_unmeasured(
        &self,
        id: &DeploymentId,
        spooled: File,
        format: UploadFormat,
        root: PublishRoot,
        now: Timestamp,
        dates: Receiver<FileDates>,
    ) -> Result<WrittenPack, WriteError> {
        match &self.place {
            StoreBackend::Folder(folder) => {
                let (folder, id) = (folder.clone(), id.clone());
                blocking(move || {
                    let incoming = folder.begin(&id)?;
                    let data = incoming.data()?;
                    let (manifest, mut written) =
                        writer::write_pack(spooled, format, root, &data, incoming.folder(), now, &dates)?;
                    let manifest = seal::seal(&id, &manifest)?;
                    written.stored_bytes = stored_bytes(&data, &manifest)?;
                    incoming.finish(&data, &manifest)?;
                    Ok(written)
                })
                .await
            }
            StoreBackend::Bucket(bucket) => {
                let sealed_for = id.clone();
                let (data, manifest, written) = blocking(move || {
                    let data = tempfile::tempfile().map_err(StoreError::Io)?;
                    let (manifest, mut written) =
                        writer::write_pack(spooled, format, root, &data, &std::env::temp_dir(), now, &dates)?;
                    let manifest = seal::seal(&sealed_for, &manifest)?;
                    written.stored_bytes = stored_bytes(&data, &manifest)?;
                    Ok::<_, WriteError>((data, manifest, written))
                })
                .await?;
                bucket.put(id, data, manifest).await?;
                Ok(written)
            }
        }
    }
}

fn stored_bytes(data: &File, manifest: &[u8]) -> Result<u64, StoreError> {
    Ok(data.metadata()?.len() + manifest.len() as u64)
}

/// Runs file work outside the runtime's threads.
async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, E>
where
    T: Send + 'static,
    E: From<StoreError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(stopped) => match stopped.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(StoreError::Stopping.into()),
        },
    }
}
