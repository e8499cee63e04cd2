//! Whole objects in a location laid out like a store: a folder or a bucket.
//!
//! A backup copies packs byte for byte and stores objects of its own next to them; it does not need
//! [`PackStore`](crate::PackStore)'s knowledge of their content. Objects appear atomically: a folder's are written
//! under a temporary name, synced and renamed, and a bucket shows an object once it is complete.

use std::{
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, FileExt as _},
    path::{Path as FilePath, PathBuf},
    sync::Arc,
};

use bytes::{Bytes, BytesMut};
use domain::DeploymentId;
use futures_util::TryStreamExt as _;
use object_store::{ObjectStore, ObjectStoreExt as _, WriteMultipart, aws::AmazonS3, path::Path};

use crate::{StoreError, blocking, bucket};

/// Bytes read at a time.
const PIECE_BYTES: u64 = 4 * 1024 * 1024;
/// Bytes of a part of a multipart upload; S3 requires at least 5 MiB. A smaller object is sent in one request.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Parts of one object that are uploaded concurrently.
const PARTS_AT_ONCE: usize = 2;
/// Name prefix of unfinished objects in a folder.
const INCOMING: &str = ".incoming-";

/// The folder of packs in a store and in a backup.
pub const DEPLOYMENTS: &str = "deployments";

/// Returns the names of the two objects of a pack. `data` comes first, because a pack exists once its `manifest` does.
pub fn pack_objects(id: &DeploymentId) -> [String; 2] {
    ["data", "manifest"].map(|object| format!("{DEPLOYMENTS}/{id}/{object}"))
}

/// A folder or a bucket of objects. Cheap to clone.
#[derive(Debug, Clone)]
pub struct BlobStore {
    place: BlobBackend,
}

#[derive(Debug, Clone)]
enum BlobBackend {
    Folder(Arc<FilePath>),
    Bucket(Arc<AmazonS3>, Path),
}

/// A listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Its name relative to the location, with `/` between the parts.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
}

impl BlobStore {
    /// Opens the location of a section such as `[store]`. Creates nothing: a nonexistent folder has no objects.
    pub fn open(config: &config::Store) -> Result<Self, StoreError> {
        let place = match config.url.scheme() {
            "file" => {
                let folder = config.url.to_file_path().map_err(|()| {
                    StoreError::Config(format!("`{}` is not of the form `file:///folder`", config.url))
                })?;
                BlobBackend::Folder(folder.into())
            }
            "s3" => {
                let (s3, prefix) = bucket::connect(config)?;
                BlobBackend::Bucket(s3, prefix)
            }
            other => {
                return Err(StoreError::Config(format!(
                    "`{other}:` is neither `file:///folder` nor `s3://bucket/prefix`"
                )));
            }
        };
        Ok(Self { place })
    }

    /// Opens an object for sequential reading.
    pub async fn read(&self, name: &str) -> Result<ObjectReader, StoreError> {
        match &self.place {
            BlobBackend::Folder(folder) => {
                let path = folder.join(name);
                let (file, len) = blocking(move || {
                    let file = File::open(path).map_err(not_found)?;
                    let len = file.metadata()?.len();
                    Ok::<_, StoreError>((file, len))
                })
                .await?;
                Ok(ObjectReader { len, offset: 0, source: ReaderSource::File(Arc::new(file)) })
            }
            BlobBackend::Bucket(s3, prefix) => {
                let path = below(prefix, name);
                let len = bucket::head(s3, &path).await?.size;
                Ok(ObjectReader { len, offset: 0, source: ReaderSource::Object(Arc::clone(s3), path) })
            }
        }
    }

    /// Reads a small object, or returns `None` if there is none. An object of more than `most` bytes is damaged.
    pub async fn read_whole(&self, name: &str, most: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let mut reader = match self.read(name).await {
            Ok(reader) => reader,
            Err(StoreError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        if reader.len > most {
            return Err(StoreError::Damaged(format!("{name} is larger than {most} bytes")));
        }
        let mut whole = Vec::new();
        while let Some(piece) = reader.next().await? {
            whole.extend_from_slice(&piece);
        }
        Ok(Some(whole))
    }

    /// Starts writing an object. Finishing it replaces one of the same name; otherwise nothing is left behind.
    pub async fn write(&self, name: &str) -> Result<ObjectWriter, StoreError> {
        match &self.place {
            BlobBackend::Folder(folder) => {
                let place = folder.join(name);
                let incoming = blocking(move || IncomingFile::create(place)).await?;
                Ok(ObjectWriter { target: WriterTarget::File(incoming) })
            }
            BlobBackend::Bucket(s3, prefix) => Ok(ObjectWriter {
                target: WriterTarget::Object {
                    s3: Arc::clone(s3),
                    path: below(prefix, name),
                    buffer: BytesMut::new(),
                    upload: None,
                },
            }),
        }
    }

    /// Writes a small object.
    pub async fn write_whole(&self, name: &str, content: Vec<u8>) -> Result<(), StoreError> {
        let mut writer = self.write(name).await?;
        writer.write(content.into()).await?;
        writer.finish().await
    }

    /// Lists the objects below a folder such as `deployments`, in no particular order, all in memory.
    pub async fn list(&self, folder: &str) -> Result<Vec<ListedObject>, StoreError> {
        match &self.place {
            BlobBackend::Folder(root) => {
                let (root, folder) = (Arc::clone(root), root.join(folder));
                blocking(move || {
                    let mut found = Vec::new();
                    list_files(&root, folder, &mut found)?;
                    Ok(found)
                })
                .await
            }
            BlobBackend::Bucket(s3, prefix) => {
                let mut objects = s3.list(Some(&below(prefix, folder)));
                let mut found = Vec::new();
                while let Some(object) = objects.try_next().await? {
                    let Some(parts) = object.location.prefix_match(prefix) else { continue };
                    let parts: Vec<String> = parts.map(|part| part.as_ref().to_owned()).collect();
                    found.push(ListedObject { name: parts.join("/"), bytes: object.size });
                }
                Ok(found)
            }
        }
    }

    /// Removes an object and, in a folder store, its parent folder if that is empty. Succeeds if there is none.
    pub async fn remove(&self, name: &str) -> Result<(), StoreError> {
        match &self.place {
            BlobBackend::Folder(folder) => {
                let path = folder.join(name);
                blocking(move || {
                    match fs::remove_file(&path) {
                        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                        _ => {}
                    }
                    // Fails unless the folder is empty.
                    let _ = path.parent().map(fs::remove_dir);
                    Ok(())
                })
                .await
            }
            BlobBackend::Bucket(s3, prefix) => match s3.delete(&below(prefix, name)).await {
                Ok(()) => Ok(()),
                Err(error) => bucket::ignore_missing(error),
            },
        }
    }
}

fn below(prefix: &Path, name: &str) -> Path {
    name.split('/').fold(prefix.clone(), Path::join)
}

fn not_found(error: io::Error) -> StoreError {
    if error.kind() == io::ErrorKind::NotFound { StoreError::NotFound } else { error.into() }
}

fn list_files(root: &FilePath, folder: PathBuf, found: &mut Vec<ListedObject>) -> Result<(), StoreError> {
    let mut folders = vec![folder];
    while let Some(folder) = folders.pop() {
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let metadata = match fs::metadata(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue, // removed meanwhile
                metadata => metadata?,
            };
            if metadata.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.strip_prefix(root).ok().and_then(FilePath::to_str);
            if let Some(name) = name {
                found.push(ListedObject { name: name.to_owned(), bytes: metadata.len() });
            }
        }
    }
    Ok(())
}

/// A reader of an object.
#[derive(Debug)]
pub struct ObjectReader {
    len: u64,
    offset: u64,
    source: ReaderSource,
}

#[derive(Debug)]
enum ReaderSource {
    File(Arc<File>),
    Object(Arc<AmazonS3>, Path),
}

impl ObjectReader {
    /// Returns the object's size in bytes.
    pub fn bytes(&self) -> u64 {
        self.len
    }

    /// Reads the next piece, or returns `None` at the end. Each piece is a request of its own, so the reader may be
    /// slow.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        let end = self.len.min(self.offset + PIECE_BYTES);
        if end == self.offset {
            return Ok(None);
        }
        let offset = self.offset;
        let piece: Bytes = match &self.source {
            ReaderSource::File(file) => {
                let file = Arc::clone(file);
                let mut piece = vec![0; usize::try_from(end - offset).unwrap_or_default()];
                blocking(move || {
                    file.read_exact_at(&mut piece, offset)?;
                    Ok::<_, StoreError>(piece.into())
                })
                .await?
            }
            ReaderSource::Object(s3, path) => s3.get_range(path, offset..end).await?,
        };
        if piece.len() as u64 != end - offset {
            return Err(StoreError::Damaged("an object ends before its size".into()));
        }
        self.offset = end;
        Ok(Some(piece))
    }
}

/// A writer of an object.
#[derive(Debug)]
pub struct ObjectWriter {
    target: WriterTarget,
}

#[derive(Debug)]
enum WriterTarget {
    File(IncomingFile),
    Object { s3: Arc<AmazonS3>, path: Path, buffer: BytesMut, upload: Option<WriteMultipart> },
}

impl ObjectWriter {
    /// Appends to the object.
    pub async fn write(&mut self, content: Bytes) -> Result<(), StoreError> {
        match &mut self.target {
            WriterTarget::File(incoming) => {
                let file = Arc::clone(&incoming.file);
                blocking(move || Ok((&*file).write_all(&content)?)).await
            }
            WriterTarget::Object { s3, path, buffer, upload } => {
                if let Some(upload) = upload {
                    upload.wait_for_capacity(PARTS_AT_ONCE).await?;
                    upload.put(content);
                    return Ok(());
                }
                buffer.extend_from_slice(&content);
                if buffer.len() >= PART_BYTES {
                    let parts = s3.put_multipart(path).await.map_err(bucket::put_error)?;
                    let begun = upload.insert(WriteMultipart::new_with_chunk_size(parts, PART_BYTES));
                    begun.put(std::mem::take(buffer).freeze());
                }
                Ok(())
            }
        }
    }

    /// Moves the object into place, durably.
    pub async fn finish(self) -> Result<(), StoreError> {
        match self.target {
            WriterTarget::File(incoming) => blocking(move || incoming.finish()).await,
            WriterTarget::Object { upload: Some(upload), .. } => Ok(upload.finish().await.map(drop)?),
            WriterTarget::Object { s3, path, buffer, upload: None } => {
                s3.put(&path, buffer.freeze().into()).await.map(drop).map_err(bucket::put_error)
            }
        }
    }

    /// Aborts the write. In a folder, dropping the writer suffices.
    pub async fn abort(self) {
        if let WriterTarget::Object { upload: Some(upload), path, .. } = self.target
            && let Err(error) = upload.abort().await
        {
            tracing::warn!(%error, object = %path, "an upload to the bucket could not be called off");
        }
    }
}

/// A file under its temporary name, removed if it is dropped before it is finished.
#[derive(Debug)]
struct IncomingFile {
    file: Arc<File>,
    incoming: PathBuf,
    place: PathBuf,
    finished: bool,
}

impl IncomingFile {
    fn create(place: PathBuf) -> Result<Self, StoreError> {
        let named = place.parent().zip(place.file_name());
        let (folder, name) = named.ok_or_else(|| StoreError::Config(format!("{} is no file", place.display())))?;
        DirBuilder::new().recursive(true).mode(0o750).create(folder)?;
        let incoming = folder.join(format!("{INCOMING}{}", name.display()));
        // The caller ensures that nobody else writes it. A leftover of a killed program is overwritten.
        let file = File::create(&incoming)?;
        Ok(Self { file: Arc::new(file), incoming, place, finished: false })
    }

    fn finish(mut self) -> Result<(), StoreError> {
        self.file.sync_all()?;
        fs::rename(&self.incoming, &self.place)?;
        self.finished = true;
        // Syncs the file's entry, and that of its folder, which may be new.
        for folder in self.place.ancestors().skip(1).take(2) {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }
}

impl Drop for IncomingFile {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_file(&self.incoming);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(folder: &FilePath) -> BlobStore {
        let url = url::Url::from_directory_path(folder).unwrap();
        BlobStore::open(&config::Store { url, ..config::Store::default() }).unwrap()
    }

    #[tokio::test]
    async fn an_object_is_there_entirely_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let objects = objects(&folder.path().join("place"));
        assert!(objects.list("backups").await.unwrap().is_empty());
        assert!(objects.read_whole("backups/a/dump", 10).await.unwrap().is_none());

        let mut abandoned = objects.write("backups/a/dump").await.unwrap();
        abandoned.write(Bytes::from_static(b"half")).await.unwrap();
        assert!(matches!(objects.read("backups/a/dump").await, Err(StoreError::NotFound)));
        abandoned.abort().await;
        assert!(objects.list("backups").await.unwrap().is_empty());

        let content = vec![7; usize::try_from(PIECE_BYTES).unwrap() + 3];
        objects.write_whole("backups/a/dump", b"former".to_vec()).await.unwrap();
        objects.write_whole("backups/a/dump", content.clone()).await.unwrap();
        objects.write_whole("backups/b/empty", Vec::new()).await.unwrap();
        let mut listed = objects.list("backups").await.unwrap();
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        let bytes = content.len() as u64;
        assert_eq!(listed[0], ListedObject { name: "backups/a/dump".into(), bytes });
        assert_eq!(listed[1], ListedObject { name: "backups/b/empty".into(), bytes: 0 });
        assert_eq!(objects.read_whole("backups/a/dump", bytes).await.unwrap().as_ref(), Some(&content));
        assert!(matches!(objects.read_whole("backups/a/dump", 9).await, Err(StoreError::Damaged(_))));
        assert_eq!(objects.read_whole("backups/b/empty", 9).await.unwrap(), Some(Vec::new()));

        objects.remove("backups/a/dump").await.unwrap();
        objects.remove("backups/a/dump").await.unwrap();
        assert!(!folder.path().join("place/backups/a").exists());
    }
}
