//! Packs in an S3 bucket.
//!
//! Conditional writes are not required, because some servers ignore them: ids are never reused, and a pack without a
//! manifest does not exist.

mod root;
mod trash;

use std::{fs::File, os::unix::fs::FileExt as _, sync::Arc, time::Duration};

use bytes::Bytes;
use domain::{DeploymentId, Timestamp};
use object_store::{
    GetResult, ObjectMeta, ObjectStoreExt as _, RetryConfig, WriteMultipart,
    aws::{AmazonS3, AmazonS3Builder},
    path::Path,
};

use super::{StoreError, blocking};

/// Bytes of a part of a multipart upload; S3 requires at least 5 MiB.
const PART_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of parts uploaded concurrently.
const PARTS_AT_ONCE: usize = 2;

/// Retries of a request, and their total time. Short, because a visitor is waiting.
const RETRIES: usize = 3;
const RETRY_TIME: Duration = Duration::from_secs(10);

/// Timeout for the upload of one part.
const PART_TIME: Duration = Duration::from_secs(20);
/// Timeout for removing a failed upload. The search for orphans finds what remains.
const TAKE_BACK_TIME: Duration = Duration::from_secs(5);

/// A bucket of packs. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct PackBucket {
    s3: Arc<AmazonS3>,
    deployments: Path,
    trash: Path,
    damaged: Path,
}

impl PackBucket {
    pub(super) fn open(config: &config::Store) -> Result<Self, StoreError> {
        let (s3, prefix) = connect(config)?;
        let [deployments, trash, damaged] =
            ["deployments", "trash", "damaged"].map(|folder| prefix.clone().join(folder));
        Ok(Self { s3, deployments, trash, damaged })
    }

    /// Opens a pack's manifest without reading its body.
    pub(super) async fn open_manifest(&self, id: &DeploymentId) -> Result<GetResult, StoreError> {
        Ok(self.s3.get(&self.manifest_path(id)).await?)
    }

    pub(super) async fn read(&self, id: &DeploymentId, offset: u64, len: u64) -> Result<Bytes, StoreError> {
        if len == 0 {
            return Ok(Bytes::new()); // an empty range cannot be asked for
        }
        let end = offset.saturating_add(len);
        let ends_early = || StoreError::Damaged("its data ends before a span".into());
        match self.s3.get_range(&self.data_path(id), offset..end).await {
            Ok(body) if body.len() as u64 == len => Ok(body),
            Ok(_) => Err(ends_early()),
            Err(error @ object_store::Error::NotFound { .. }) => Err(error.into()),
            // Servers report a range beyond the end in different ways.
            Err(error) => match self.data_len(id).await {
                Ok(size) if size < end => Err(ends_early()),
                _ => Err(error.into()),
            },
        }
    }

    pub(super) async fn data_len(&self, id: &DeploymentId) -> Result<u64, StoreError> {
        Ok(head(&self.s3, &self.data_path(id)).await?.size)
    }

    /// Copies the existing objects of a pack to `name` in the folder of damaged packs.
    pub(super) async fn copy_aside(&self, id: &DeploymentId, name: &str) -> Result<(), StoreError> {
        for (path, object) in [(self.data_path(id), "data"), (self.manifest_path(id), "manifest")] {
            match self.s3.copy(&path, &self.damaged.clone().join(name).join(object)).await {
                Ok(()) => {}
                Err(error) => ignore_missing(error)?,
            }
        }
        Ok(())
    }

    /// Overwrites a pack. Each object is replaced atomically.
    pub(super) async fn put_over(&self, id: &DeploymentId, data: File, manifest: Vec<u8>) -> Result<(), StoreError> {
        self.put_data(id, data).await?;
        self.s3.put(&self.manifest_path(id), manifest.into()).await.map_err(put_error)?;
        Ok(())
    }

    /// Deletes a pack, manifest first: without it the pack does not exist, whatever happens next.
    pub(super) async fn remove(&self, id: &DeploymentId) -> Result<(), StoreError> {
        self.delete(&self.manifest_path(id)).await?;
        self.delete(&self.data_path(id)).await
    }

    /// Deletes an object. Succeeds if there is none.
    async fn delete(&self, path: &Path) -> Result<(), StoreError> {
        match self.s3.delete(path).await {
            Ok(()) => Ok(()),
            Err(error) => ignore_missing(error),
        }
    }

    /// Writes the pack of `id` from a file of bodies. Removes the partial pack on failure.
    pub(super) async fn put(&self, id: &DeploymentId, data: File, manifest: Vec<u8>) -> Result<(), StoreError> {
        let put = async {
            self.put_data(id, data).await?;
            with_timeout(PART_TIME, self.put_whole(&self.manifest_path(id), manifest.into())).await?;
            Ok(())
        };
        let result = put.await;
        if result.is_err()
            && let Err(error) = with_timeout(TAKE_BACK_TIME, self.remove(id)).await
        {
            tracing::warn!(%error, %id, "a half-written pack could not be removed");
        }
        result
    }

    async fn put_data(&self, id: &DeploymentId, data: File) -> Result<(), StoreError> {
        let path = self.data_path(id);
        let data = Arc::new(data);
        let len = data.metadata()?.len();
        if len <= PART_BYTES as u64 {
            let data = part(&data, 0, len).await?;
            with_timeout(PART_TIME, self.put_whole(&path, data)).await?;
            return Ok(());
        }
        let begun = async { self.s3.put_multipart(&path).await.map_err(put_error) };
        let upload = with_timeout(PART_TIME, begun).await?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
        let mut offset = 0;
        while offset < len {
            let sent = async {
                with_timeout(PART_TIME, upload.wait_for_capacity(PARTS_AT_ONCE)).await?;
                part(&data, offset, len).await
            };
            match sent.await {
                Ok(bytes) => {
                    offset += bytes.len() as u64;
                    upload.put(bytes);
                }
                Err(error) => {
                    if let Err(error) = with_timeout(TAKE_BACK_TIME, upload.abort()).await {
                        tracing::warn!(%error, %id, "an upload to the bucket could not be called off");
                    }
                    return Err(error);
                }
            }
        }
        // Uploads the last parts and completes the upload.
        with_timeout(2 * PART_TIME, upload.finish()).await?;
        Ok(())
    }

    async fn put_whole(&self, path: &Path, content: Bytes) -> Result<(), StoreError> {
        self.s3.put(path, content.into()).await.map(drop).map_err(put_error)
    }

    fn data_path(&self, id: &DeploymentId) -> Path {
        self.deployments.clone().join(id.as_str()).join("data")
    }

    fn manifest_path(&self, id: &DeploymentId) -> Path {
        self.deployments.clone().join(id.as_str()).join("manifest")
    }
}

/// Creates the client for the configured bucket. Also returns the configured prefix.
pub(super) fn connect(config: &config::Store) -> Result<(Arc<AmazonS3>, Path), StoreError> {
    let name = config.url.host_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| StoreError::Config("`s3://bucket/prefix` needs a bucket".into()))?;
    // Settings missing from the configuration come from the usual AWS_* variables or the machine's role.
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_TIME, ..RetryConfig::default() };
    let mut builder = AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retry);
    if let Some(endpoint) = &config.endpoint {
        builder = builder.with_endpoint(endpoint).with_allow_http(endpoint.starts_with("http://"));
    }
    if let Some(region) = &config.region {
        builder = builder.with_region(region);
    }
    if let (Some(access), Some(secret)) = (&config.access_key, &config.secret_key) {
        builder = builder.with_access_key_id(access).with_secret_access_key(secret);
    }
    let s3 = builder.build().map_err(|error| StoreError::Config(error.to_string()))?;
    let prefix =
        Path::from_url_path(config.url.path()).map_err(|error| StoreError::Config(format!("its prefix: {error}")))?;
    Ok((Arc::new(s3), prefix))
}

const NO_BUCKET: &str = "NoSuchBucket";
const BUCKET_ABSENT: &str = "there is no such bucket";

impl From<object_store::Error> for StoreError {
    fn from(error: object_store::Error) -> Self {
        // A failed list returns another error variant than a read, but also has the code in its text.
        if error.to_string().contains(NO_BUCKET) {
            return Self::Absent(BUCKET_ABSENT.to_owned());
        }
        match error {
            object_store::Error::NotFound { .. } => Self::NotFound,
            error => Self::Bucket(error),
        }
    }
}

/// Converts the error of a write, where only the bucket itself can be missing.
pub(super) fn put_error(error: object_store::Error) -> StoreError {
    match StoreError::from(error) {
        StoreError::NotFound => StoreError::Absent(BUCKET_ABSENT.to_owned()),
        error => error,
    }
}

/// Ignores a missing object, but not a missing bucket.
pub(super) fn ignore_missing(error: object_store::Error) -> Result<(), StoreError> {
    match StoreError::from(error) {
        StoreError::NotFound => Ok(()),
        error => Err(error),
    }
}

/// Returns an object's size and time. The response to `HEAD` has no body that could say whether the object or the
/// bucket is missing, so a missing object is requested again with `GET`.
pub(super) async fn head(s3: &AmazonS3, path: &Path) -> Result<ObjectMeta, StoreError> {
    match s3.head(path).await {
        Ok(found) => Ok(found),
        Err(object_store::Error::NotFound { .. }) => Ok(s3.get(path).await?.meta),
        Err(error) => Err(error.into()),
    }
}

async fn with_timeout<T, E: Into<StoreError>>(
    time: Duration,
    step: impl Future<Output = Result<T, E>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(time, step).await.map_err(|_| StoreError::Stalled)?.map_err(Into::into)
}

async fn part(data: &Arc<File>, offset: u64, len: u64) -> Result<Bytes, StoreError> {
    let data = Arc::clone(data);
    let bytes = usize::try_from(len - offset).unwrap_or(usize::MAX).min(PART_BYTES);
    blocking(move || {
        let mut part = vec![0; bytes];
        data.read_exact_at(&mut part, offset)?;
        Ok(part.into())
    })
    .await
}

fn parse_pack_id(object: &ObjectMeta) -> Option<DeploymentId> {
    object.location.parts().rev().nth(1)?.as_ref().parse().ok()
}

fn modified_at(object: &ObjectMeta) -> Timestamp {
    Timestamp::from_unix_millis(object.last_modified.timestamp_millis())
}
