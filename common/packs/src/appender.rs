//! Appends drafts to a file, each of which may be discarded.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
};

use super::{Span, digest::BlockHasher};

const CHUNK_BYTES: usize = 128 * 1024;

/// Writes drafts at the end of a file. A discarded draft is overwritten by the next.
pub(super) struct DraftAppender<'f> {
    file: &'f File,
    kept: u64,
    draft: u64,
    hasher: BlockHasher,
    /// The first failed write. Compressors swallow errors on close, so [`Self::keep`] reports it.
    failed: Option<io::Error>,
}

impl<'f> DraftAppender<'f> {
    /// Creates an appender for `file`, which must be empty.
    pub(super) fn new(file: &'f File) -> Self {
        Self { file, kept: 0, draft: 0, hasher: BlockHasher::default(), failed: None }
    }

    /// Creates an appender of whole bodies, which also computes their SHA-256, for `file`, which must be empty.
    pub(super) fn for_bodies(file: &'f File) -> Self {
        Self { hasher: BlockHasher::for_whole_bodies(), ..Self::new(file) }
    }

    pub(super) fn draft(&self) -> u64 {
        self.draft
    }

    /// Keeps the draft. Returns its span and the digests of its blocks.
    pub(super) fn keep(&mut self) -> io::Result<(Span, String)> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let span = Span { offset: self.kept, len: self.draft };
        self.kept += self.draft;
        self.draft = 0;
        Ok((span, self.hasher.finish()))
    }

    /// Ends a draft that is a whole body. Returns its SHA-256 and, for several blocks, their digests.
    pub(super) fn finish_body(&mut self) -> ([u8; 32], String) {
        self.hasher.finish_whole()
    }

    pub(super) fn discard(&mut self) {
        self.draft = 0;
        self.hasher.finish();
    }

    pub(super) fn file(&self) -> &'f File {
        self.file
    }

    /// Truncates the file to the kept drafts, because a discarded draft would be stored and billed. Returns the file.
    pub(super) fn finish(&mut self) -> io::Result<&'f File> {
        self.draft = 0;
        self.file.set_len(self.kept)?;
        Ok(self.file)
    }
}

impl Write for DraftAppender<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.file.write_all_at(bytes, self.kept + self.draft) {
            Ok(()) => {
                self.draft += bytes.len() as u64;
                self.hasher.update(bytes);
                Ok(bytes.len())
            }
            Err(error) => {
                let kind = error.kind();
                self.failed.get_or_insert(error);
                Err(kind.into())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Moves bytes towards the beginning of a file.
pub(super) fn move_down(file: &File, from: Span, to: u64) -> io::Result<()> {
    if from.offset == to {
        return Ok(());
    }
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut moved = 0;
    while moved < from.len {
        let most = usize::try_from(from.len - moved).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        file.read_exact_at(&mut chunk[..most], from.offset + moved)?;
        file.write_all_at(&chunk[..most], to + moved)?;
        moved += most as u64;
    }
    Ok(())
}
