//! Appends to a file what may turn out not to be wanted.

use std::{
    fs::File,
    io::{self, Write},
    os::unix::fs::FileExt as _,
};

use super::{Span, digest::BlockHasher};

/// Bytes moved at once.
const CHUNK_BYTES: usize = 128 * 1024;

/// Writes drafts at the end of a file. A draft that is not kept is overwritten by the next.
pub(super) struct Appender<'f> {
    file: &'f File,
    kept: u64,
    draft: u64,
    /// Hashes the draft.
    hasher: BlockHasher,
    /// The first write that failed: compressors swallow errors when they are closed, so [`Self::keep`] tells.
    failed: Option<io::Error>,
}

impl<'f> Appender<'f> {
    /// Appends to `file`, which is empty.
    pub(super) fn new(file: &'f File) -> Self {
        Self { file, kept: 0, draft: 0, hasher: BlockHasher::default(), failed: None }
    }

    /// Appends whole bodies, of which the SHA-256 is asked for, to `file`, which is empty.
    pub(super) fn of_bodies(file: &'f File) -> Self {
        Self { hasher: BlockHasher::of_whole(), ..Self::new(file) }
    }

    /// Bytes of the draft.
    pub(super) fn draft(&self) -> u64 {
        self.draft
    }

    /// Keeps the draft. Returns its place and the digests of its blocks.
    pub(super) fn keep(&mut self) -> io::Result<(Span, String)> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let span = Span { offset: self.kept, len: self.draft };
        self.kept += self.draft;
        self.draft = 0;
        Ok((span, self.hasher.finish()))
    }

    /// Ends a draft that is a whole body. Returns its SHA-256 and the digests of its blocks, if it has more than one.
    pub(super) fn finish_body(&mut self) -> ([u8; 32], String) {
        self.hasher.finish_whole()
    }

    /// Forgets the draft.
    pub(super) fn discard(&mut self) {
        self.draft = 0;
        self.hasher.finish();
    }

    /// The file, in which the kept drafts are.
    pub(super) fn file(&self) -> &'f File {
        self.file
    }

    /// Cuts off what was written of a draft that was not kept: it would be billed and stored. Returns the file.
    pub(super) fn finish(&mut self) -> io::Result<&'f File> {
        self.draft = 0;
        self.file.set_len(self.kept)?;
        Ok(self.file)
    }
}

impl Write for Appender<'_> {
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

/// Moves bytes within a file towards its beginning.
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
