//! Reads and validates an uploaded archive.
//!
//! A tarball is decompressed (`decode`) and walked by the `tar` crate (`tarball`), a zip archive is walked by `rawzip`
//! (`zip`), and the entries are added to an `inventory` under our own rules. The archive is untrusted: where a library
//! is lenient, the raw bytes are validated first (`header`); sizes are counted while streaming, and only regular files
//! are returned. Nothing is written here. Start with [`UploadArchive`].

mod blocks;
mod codepage;
mod decode;
mod header;
mod inventory;
mod layout;
mod path;
mod pax;
mod root;
mod tarball;
mod zip;

use std::{
    fs::File,
    io::{self, Read, Seek as _},
};

pub(crate) use self::path::shown;
pub use self::root::PublishRoot;
use domain::{
    limits::{DEPLOYMENT_BYTES, MB},
    size,
};

use rawzip::{FileReader, ReaderAt};

use self::{
    decode::UploadDecoder,
    inventory::{ArchiveInventory, EnteredFile},
};
use super::{StoreError, WriteError};

/// Maximum bytes of one PAX header or GNU long name, which is read into memory.
const METADATA_BYTES: u64 = MB;
/// Bytes that identify the format of an archive.
const BEGINNING_BYTES: usize = 4;
/// Maximum bytes outside file bodies: headers, padding, skipped entries, data after the end. Together with
/// [`DEPLOYMENT_BYTES`] and [`REST_BYTES`] it bounds the decompressed size of any upload.
const OVERHEAD_BYTES: u64 = 64 * MB;
/// Maximum bytes of unpublished files: those replaced by a later one of the same path, and system files.
const REST_BYTES: u64 = DEPLOYMENT_BYTES;
/// [`OVERHEAD_BYTES`] for a whole repository, of which only a folder is published.
const REPO_OVERHEAD_BYTES: u64 = 256 * MB;
/// [`REST_BYTES`] for a whole repository.
const REPO_REST_BYTES: u64 = 2_048 * MB;
const SKIP_BYTES: usize = 4 * 1024;

/// The reason an archive is rejected, as one sentence for the person who uploaded it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The archive exceeds a size limit.
    #[error("{0}")]
    TooLarge(String),
    /// The file is not an archive, or contains something that may not be stored.
    #[error("{0}")]
    Invalid(String),
}

impl ArchiveError {
    /// Returns whether the archive exceeds a size limit, rather than being invalid.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }

    /// Creates the error for a file after a possible end of the archive, where programs may not read, that changes
    /// another.
    pub fn past_end(path: &str) -> Self {
        let path = path::shown(path.as_bytes());
        Self::Invalid(format!("{path} follows a single block of zeros, where the archive ends for some programs"))
    }

    fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UploadFormat {
    /// A gzip-compressed tar archive.
    #[default]
    TarGzip,
    /// A Zstandard-compressed tar archive.
    TarZstd,
    /// A zip archive.
    Zip,
}

impl UploadFormat {
    /// Detects the format of an archive from its first bytes.
    fn from_beginning(beginning: [u8; BEGINNING_BYTES]) -> Option<Self> {
        match &beginning {
            [0x1f, 0x8b, ..] => Some(Self::TarGzip),
            b"\x28\xb5\x2f\xfd" => Some(Self::TarZstd),
            b"PK\x03\x04" | b"PK\x05\x06" => Some(Self::Zip),
            _ => None,
        }
    }

    /// Returns the media type for uploads of this format.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::TarGzip => "application/gzip",
            Self::TarZstd => "application/zstd",
            Self::Zip => "application/zip",
        }
    }

    fn described(self) -> &'static str {
        match self {
            Self::TarGzip => "gzip data",
            Self::TarZstd => "Zstandard data",
            Self::Zip => "a zip archive",
        }
    }
}

/// A received upload.
pub trait UploadSource: Read {
    /// Returns the upload for random access, and its length.
    fn positioned(self) -> io::Result<(impl ReaderAt, u64)>;
}

impl UploadSource for File {
    fn positioned(self) -> io::Result<(impl ReaderAt, u64)> {
        let len = self.metadata()?.len();
        Ok((FileReader::from(self), len))
    }
}

impl UploadSource for &[u8] {
    fn positioned(self) -> io::Result<(impl ReaderAt, u64)> {
        Ok((self, self.len() as u64))
    }
}

/// An archive that can be read once, from beginning to end.
#[derive(Debug)]
pub struct UploadArchive<U> {
    upload: U,
    format: UploadFormat,
    root: PublishRoot,
}

/// A file of an archive.
#[derive(Debug)]
pub enum ArchiveMember<'m, 'b> {
    /// A regular file.
    File {
        /// Its path. If a path occurs more than once in an archive, the last file wins.
        path: &'m str,
        /// Its content.
        body: &'m mut MemberBody<'b>,
        /// Whether some programs no longer read here. The path occurred before, and the content must be equal;
        /// otherwise the archive is rejected with [`ArchiveError::past_end`].
        must_repeat: bool,
    },
    /// Another path of an earlier file, without content of its own.
    Link {
        /// The additional path.
        path: &'m str,
        /// The path of the earlier file.
        target: &'m str,
        /// Whether both paths must already have the same content, as for a file.
        must_repeat: bool,
    },
}

type MemberVisitor<'v> = dyn FnMut(ArchiveMember<'_, '_>) -> Result<(), WriteError> + 'v;

/// The contents of a valid archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchiveSummary {
    /// Number of files.
    pub files: usize,
    /// Total bytes of the files.
    pub bytes: u64,
    /// Notes for the person who uploaded it.
    pub notes: Vec<String>,
}

impl UploadArchive<File> {
    /// Opens a spooled upload at its beginning. `root` selects the part to publish.
    pub fn open(mut upload: File, format: UploadFormat, root: PublishRoot) -> Result<Self, WriteError> {
        let limit = root.tarball_bytes();
        let rewound = upload.rewind().and_then(|()| upload.metadata());
        if rewound.map_err(StoreError::Io)?.len() > limit {
            return Err(ArchiveError::TooLarge(format!("the upload is larger than {}", size(limit))).into());
        }
        let mut beginning = [0; BEGINNING_BYTES];
        // A shorter upload has no known format.
        let is_read = std::os::unix::fs::FileExt::read_exact_at(&upload, &mut beginning, 0).is_ok();
        if let Some(found) = UploadFormat::from_beginning(beginning).filter(|found| is_read && *found != format) {
            let (what, media_type) = (found.described(), found.media_type());
            let why = format!("the upload is {what}; send it with `Content-Type: {media_type}`");
            return Err(ArchiveError::invalid(why).into());
        }
        Ok(Self { upload, format, root })
    }
}

impl<U: UploadSource> UploadArchive<U> {
    /// Creates a reader of an upload that is published as a whole.
    pub fn new(upload: U, format: UploadFormat) -> Self {
        Self { upload, format, root: PublishRoot::Archive }
    }

    /// Passes each file to `visit`, in archive order. The archive is validated as a whole only if this succeeds.
    pub fn read(
        self,
        mut visit: impl FnMut(ArchiveMember<'_, '_>) -> Result<(), WriteError>,
    ) -> Result<ArchiveSummary, WriteError> {
        let Self { upload, format, root } = self;
        let mut inventory = ArchiveInventory::new(root);
        match format {
            UploadFormat::TarGzip => tarball::read(UploadDecoder::gzip(upload), &mut inventory, &mut visit)?,
            UploadFormat::TarZstd => tarball::read(UploadDecoder::zstd(upload)?, &mut inventory, &mut visit)?,
            UploadFormat::Zip => {
                let (upload, len) = upload.positioned().map_err(StoreError::Io)?;
                zip::read(upload, len, &mut inventory, &mut visit)?;
            }
        }
        Ok(inventory.finish()?)
    }
}

/// The content of a file, counted and validated while it is read.
pub struct MemberBody<'b> {
    source: &'b mut dyn Read,
    cause: fn(io::Error) -> WriteError,
    inventory: &'b mut ArchiveInventory,
    file: &'b mut EnteredFile,
}

impl MemberBody<'_> {
    /// Reads some bytes. Returns 0 at the end.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        let read = loop {
            match self.source.read(buf) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read.map_err(self.cause)?,
            }
        };
        self.inventory.count(self.file, read as u64)?;
        Ok(read)
    }

    /// Passes the file to `visit` if it is published, then reads the rest of it.
    fn visit(mut self, visit: &mut MemberVisitor<'_>) -> Result<(), WriteError> {
        if self.file.is_published {
            let (path, must_repeat) = (self.file.path.clone(), self.inventory.is_past_end());
            visit(ArchiveMember::File { path: &path, body: &mut self, must_repeat })?;
        }
        let mut skipped = [0; SKIP_BYTES];
        while self.read(&mut skipped)? > 0 {}
        Ok(())
    }
}

impl std::fmt::Debug for MemberBody<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("file", &self.file).finish_non_exhaustive()
    }
}
