//! Copies and reads objects at a bounded rate, and computes their digests.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use packs::{
    StoreError,
    objects::{BlobStore, DEPLOYMENTS, ObjectReader},
};
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, sleep_until};

use super::ObjectContent;

pub(super) struct ObjectCopier {
    pace: BytePacer,
    pub(super) at_once: usize,
}

struct BytePacer {
    /// Zero means unbounded.
    bytes_per_second: u64,
    /// The time from which the next bytes may be read.
    next: Mutex<Instant>,
}

impl ObjectCopier {
    pub(super) fn new(config: &config::Backup) -> Self {
        let pace = BytePacer { bytes_per_second: config.bytes_per_second.0, next: Mutex::new(Instant::now()) };
        Self { pace, at_once: config.packs_at_once.max(1) }
    }

    pub(super) async fn copy(&self, from: &BlobStore, to: &BlobStore, name: &str) -> Result<ObjectContent, StoreError> {
        let mut reader = from.read(name).await?;
        let mut writer = to.write(name).await?;
        let mut hash = ContentHasher::default();
        let copied = async {
            while let Some(piece) = self.next(&mut reader).await? {
                let piece = hash.update(piece).await?;
                writer.write(piece).await?;
            }
            Ok(())
        };
        if let Err(error) = copied.await {
            writer.abort().await;
            return Err(error);
        }
        writer.finish().await?;
        Ok(hash.finish())
    }

    /// Reads an object, and keeps only its size and digest.
    pub(super) async fn digest(&self, from: &BlobStore, name: &str) -> Result<ObjectContent, StoreError> {
        let mut reader = from.read(name).await?;
        let mut hash = ContentHasher::default();
        while let Some(piece) = self.next(&mut reader).await? {
            hash.update(piece).await?;
        }
        Ok(hash.finish())
    }

    pub(super) async fn next(&self, reader: &mut ObjectReader) -> Result<Option<Bytes>, StoreError> {
        let piece = reader.next().await?;
        if let Some(piece) = &piece {
            self.pace.wait(piece.len()).await;
        }
        Ok(piece)
    }
}

impl BytePacer {
    async fn wait(&self, bytes: usize) {
        if self.bytes_per_second == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "some bytes more or less")]
        let takes = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let until = {
            let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
            let from = (*next).max(Instant::now());
            *next = from + takes;
            from
        };
        sleep_until(until).await;
    }
}

/// A digest in progress, computed on blocking threads, so that several digests use several cores.
#[derive(Default)]
pub(super) struct ContentHasher {
    hash: Sha256,
    bytes: u64,
}

impl ContentHasher {
    pub(super) async fn update(&mut self, piece: Bytes) -> Result<Bytes, StoreError> {
        self.bytes += piece.len() as u64;
        let mut hash = std::mem::take(&mut self.hash);
        let hashed = tokio::task::spawn_blocking(move || {
            hash.update(&piece);
            (hash, piece)
        });
        let (hash, piece) = hashed.await.map_err(|_| StoreError::Stopping)?;
        self.hash = hash;
        Ok(piece)
    }

    pub(super) fn finish(self) -> ObjectContent {
        ObjectContent { bytes: self.bytes, sha256: hex::encode(self.hash.finalize()) }
    }
}

/// Lists the objects of all packs at a place, and returns their sizes by name.
pub(super) async fn pack_sizes(objects: &BlobStore) -> Result<HashMap<String, u64>, StoreError> {
    let listed = objects.list(DEPLOYMENTS).await?;
    Ok(listed.into_iter().map(|object| (object.name, object.bytes)).collect())
}
