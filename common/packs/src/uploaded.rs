//! Sequential reading of a pack's uploaded files, for downloads of a deployment.
//!
//! Parts of a few blocks are read and verified at a time, so that memory does not grow with the files. Adjacent small
//! files share one read, because each read of a bucket is a request.

use std::ops::Range;

use bytes::Bytes;
use domain::DeploymentId;
use sha2::{Digest as _, Sha256};

use super::{DIGEST_BLOCK_BYTES, PackStore, Span, StoreError, StoredBody};

/// Bytes of a file that are read at a time: whole blocks.
const PART_BYTES: u64 = 8 * DIGEST_BLOCK_BYTES as u64;

#[derive(Debug)]
pub(super) struct UploadedFile {
    pub(super) path: Box<str>,
    pub(super) body: StoredBody,
}

/// The uploaded files of a pack, sorted by path: [`Self::next_file`] starts each, [`Self::part`] reads it to its end.
#[derive(Debug)]
pub struct UploadedFiles {
    store: PackStore,
    id: DeploymentId,
    files: Vec<UploadedFile>,
    begun: usize,
    read: u64,
    /// The hash of the bytes read, for a file that can only be verified as a whole.
    hash: Sha256,
    /// The last read of the data: its offset and bytes.
    window: (u64, Bytes),
}

impl UploadedFiles {
    pub(super) fn new(store: PackStore, id: DeploymentId, files: Vec<UploadedFile>) -> Self {
        Self { store, id, files, begun: 0, read: 0, hash: Sha256::new(), window: (0, Bytes::new()) }
    }

    /// Returns the total bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.body.span.len).sum()
    }

    /// Reads and keeps the first part of the first nonempty file, to notice lost files before anything is sent.
    pub async fn prefetch(&mut self) -> Result<(), StoreError> {
        let Some(first) = self.files.iter().position(|file| file.body.span.len > 0) else { return Ok(()) };
        let Span { offset, len } = self.files[first].body.span;
        let bytes = self.stored(offset, len.min(PART_BYTES), first + 1).await?;
        let body = &self.files[first].body;
        if body.is_checked_by_block() && !body.has_blocks(0, &bytes) {
            return Err(self.damaged_error(first));
        }
        Ok(())
    }

    /// Starts the next file. Returns its path and its length.
    pub fn next_file(&mut self) -> Option<(String, u64)> {
        let file = self.files.get(self.begun)?;
        (self.read, self.hash) = (0, Sha256::new());
        self.begun += 1;
        Some((file.path.to_string(), file.body.span.len))
    }

    /// Reads the next part of the current file, or returns `None` at its end. If a damaged file can only be verified as
    /// a whole, its last part fails.
    pub async fn part(&mut self) -> Result<Option<Bytes>, StoreError> {
        let Some(index) = self.begun.checked_sub(1) else { return Ok(None) };
        let Span { offset, len } = self.files[index].body.span;
        let take = PART_BYTES.min(len - self.read);
        if take == 0 {
            return Ok(None);
        }
        let ahead = if self.read + take == len { self.begun } else { self.files.len() };
        let bytes = self.stored(offset + self.read, take, ahead).await?;
        let body = &self.files[index].body;
        let is_stored = if body.is_checked_by_block() {
            body.has_blocks(self.read, &bytes)
        } else {
            self.hash.update(&bytes);
            self.read + take < len || body.is_whole(self.hash.clone())
        };
        if !is_stored {
            return Err(self.damaged_error(index));
        }
        self.read += take;
        Ok(Some(bytes))
    }

    fn damaged_error(&self, index: usize) -> StoreError {
        StoreError::Damaged(format!("{} is not what was stored", self.files[index].path))
    }

    /// Returns bytes of the data, from the window or a new read, which includes directly following files from `ahead`
    /// on.
    async fn stored(&mut self, offset: u64, len: u64, ahead: usize) -> Result<Bytes, StoreError> {
        if let Some(range) = within(&self.window, offset, len) {
            return Ok(self.window.1.slice(range));
        }
        let mut end = offset + len;
        for Span { offset: begin, len } in self.files[ahead..].iter().map(|file| file.body.span).filter(|it| it.len > 0)
        {
            if begin < offset || begin + len > offset + PART_BYTES {
                break;
            }
            end = end.max(begin + len);
        }
        self.window = (offset, self.store.read(&self.id, offset, end - offset).await?);
        let range = within(&self.window, offset, len);
        range.map(|range| self.window.1.slice(range)).ok_or_else(|| StoreError::Damaged("its data ends early".into()))
    }
}

/// Returns the range in a window of the data's bytes from `offset` on.
fn within((begin, bytes): &(u64, Bytes), offset: u64, len: u64) -> Option<Range<usize>> {
    let from = usize::try_from(offset.checked_sub(*begin)?).ok()?;
    let to = from.checked_add(usize::try_from(len).ok()?)?;
    (to <= bytes.len()).then_some(from..to)
}
