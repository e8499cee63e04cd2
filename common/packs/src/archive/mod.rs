//! Reads and judges an uploaded archive: it is decompressed (`decode`) and walked by the `tar` crate (`tarball`), or it is
//! walked by `rawzip` (`zip`), and its entries are entered in an `inventory` under our own rules.
//!
//! Nothing of it is trusted. Where a library is lenient the raw bytes are judged first (`header`), sizes are counted as they
//! stream, and only regular files come out. Nothing here writes. Start with [`Archive`].

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
pub use self::root::Root;
use domain::{
    limits::{DEPLOYMENT_BYTES, MB},
    size,
};

use rawzip::{FileReader, ReaderAt};

use self::{
    decode::Decoder,
    inventory::{Entered, Inventory},
};
use super::{StoreError, WriteError};

/// Bytes of one PAX header or GNU long name, at most. It is read into memory.
const METADATA_BYTES: u64 = MB;
/// Bytes by which the form of an archive is known.
const BEGINNING_BYTES: usize = 4;
/// Bytes of everything that is not a file's body: headers, padding, skipped entries, what follows the end. With
/// [`DEPLOYMENT_BYTES`] and [`REST_BYTES`] the bound on what any upload decompresses to.
const OVERHEAD_BYTES: u64 = 64 * MB;
/// Bytes of files that are not published: those that a later one of their path replaces, and those that no site needs.
const REST_BYTES: u64 = DEPLOYMENT_BYTES;
/// Reads a whole repository, of which only a folder is published.
const REPO_OVERHEAD_BYTES: u64 = 256 * MB;
/// Bytes of the files of a repository that are not published.
const REPO_REST_BYTES: u64 = 2_048 * MB;
/// Bytes of a body that are passed over at once.
const SKIP_BYTES: usize = 4 * 1024;

/// Why an archive was refused: one sentence for the person who uploaded it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    /// The archive is over a limit on sizes.
    #[error("{0}")]
    TooLarge(String),
    /// The file is not an archive, or holds what may not be stored.
    #[error("{0}")]
    Invalid(String),
}

impl ArchiveError {
    /// Whether the archive is over a limit on sizes, rather than invalid.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge(_))
    }

    /// Refuses a file that changes what stands before the end of an archive, and stands where programs differ in whether it has
    /// ended.
    pub fn past_end(path: &str) -> Self {
        let path = path::shown(path.as_bytes());
        Self::Invalid(format!("{path} follows a single block of zeros, where the archive ends for some programs"))
    }

    fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// A tar archive, compressed by gzip.
    #[default]
    TarGzip,
    /// A tar archive, compressed by Zstandard.
    TarZstd,
    /// A zip archive.
    Zip,
}

impl Format {
    /// The form of an archive with this beginning, if it is one.
    fn of_beginning(beginning: [u8; BEGINNING_BYTES]) -> Option<Self> {
        match &beginning {
            [0x1f, 0x8b, ..] => Some(Self::TarGzip),
            b"\x28\xb5\x2f\xfd" => Some(Self::TarZstd),
            b"PK\x03\x04" | b"PK\x05\x06" => Some(Self::Zip),
            _ => None,
        }
    }

    /// The media type with which it is sent.
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

/// An upload that was received.
pub trait Upload: Read {
    /// Gives the upload to be read in any order, and its length.
    fn positioned(self) -> io::Result<(impl ReaderAt, u64)>;
}

impl Upload for File {
    fn positioned(self) -> io::Result<(impl ReaderAt, u64)> {
        let len = self.metadata()?.len();
        Ok((FileReader::from(self), len))
    }
}

impl Upload for &[u8] {
    fn positioned(self) -> io::Result<(impl ReaderAt, u64)> {
        Ok((self, self.len() as u64))
    }
}

/// An archive that can be read once, from its beginning to its end.
#[derive(Debug)]
pub struct Archive<U> {
    upload: U,
    format: Format,
    root: Root,
}

/// A file of an archive.
#[derive(Debug)]
pub enum Member<'m, 'b> {
    /// A regular file.
    File {
        /// Its path. An archive may hold it more than once: the last one counts.
        path: &'m str,
        /// Its content.
        body: &'m mut Body<'b>,
        /// Whether it stands where some programs no longer read. Its path has come before; what is read here must be equal, or
        /// the archive is refused with [`ArchiveError::past_end`].
        must_repeat: bool,
    },
    /// A further path of a file that came before. It has no content of its own.
    Link {
        /// The further path.
        path: &'m str,
        /// The path under which the file came.
        target: &'m str,
        /// Whether both paths must have the same content already, as for a file.
        must_repeat: bool,
    },
}

/// What is done with each member.
type Visit<'v> = dyn FnMut(Member<'_, '_>) -> Result<(), WriteError> + 'v;

/// What an archive that is valid as a whole holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Summary {
    /// The number of its files.
    pub files: usize,
    /// The bytes of their contents.
    pub bytes: u64,
    /// What the person who uploaded it should know of.
    pub notes: Vec<String>,
}

impl Archive<File> {
    /// Opens a spooled upload at its beginning. `root` names the part that is published.
    pub fn open(mut upload: File, format: Format, root: Root) -> Result<Self, WriteError> {
        let limit = root.tarball_bytes();
        let rewound = upload.rewind().and_then(|()| upload.metadata());
        if rewound.map_err(StoreError::Io)?.len() > limit {
            return Err(ArchiveError::TooLarge(format!("the upload is larger than {}", size(limit))).into());
        }
        let mut beginning = [0; BEGINNING_BYTES];
        // A shorter one is none of them.
        let is_read = std::os::unix::fs::FileExt::read_exact_at(&upload, &mut beginning, 0).is_ok();
        if let Some(found) = Format::of_beginning(beginning).filter(|found| is_read && *found != format) {
            let (what, media_type) = (found.described(), found.media_type());
            let why = format!("the upload is {what}; send it with `Content-Type: {media_type}`");
            return Err(ArchiveError::invalid(why).into());
        }
        Ok(Self { upload, format, root })
    }
}

impl<U: Upload> Archive<U> {
    /// Reads an upload, all of which is published.
    pub fn new(upload: U, format: Format) -> Self {
        Self { upload, format, root: Root::Archive }
    }

    /// Gives each file to `visit`, in the order of the archive. Only when this succeeds has the archive been judged whole.
    pub fn read(self, mut visit: impl FnMut(Member<'_, '_>) -> Result<(), WriteError>) -> Result<Summary, WriteError> {
        let Self { upload, format, root } = self;
        let mut inventory = Inventory::new(root);
        match format {
            Format::TarGzip => tarball::read(Decoder::gzip(upload), &mut inventory, &mut visit)?,
            Format::TarZstd => tarball::read(Decoder::zstd(upload)?, &mut inventory, &mut visit)?,
            Format::Zip => {
                let (upload, len) = upload.positioned().map_err(StoreError::Io)?;
                zip::read(upload, len, &mut inventory, &mut visit)?;
            }
        }
        Ok(inventory.finish()?)
    }
}

/// The content of a file, which is counted and judged as it is read.
pub struct Body<'b> {
    source: &'b mut dyn Read,
    /// Tells what an error of the source means.
    cause: fn(io::Error) -> WriteError,
    inventory: &'b mut Inventory,
    file: &'b mut Entered,
}

impl Body<'_> {
    /// Reads some bytes; 0 at the end.
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

    /// Shows the file to `visit`, if it is published, and reads what that left.
    fn visit(mut self, visit: &mut Visit<'_>) -> Result<(), WriteError> {
        if self.file.is_published {
            let (path, must_repeat) = (self.file.path.clone(), self.inventory.is_past_end());
            visit(Member::File { path: &path, body: &mut self, must_repeat })?;
        }
        let mut skipped = [0; SKIP_BYTES];
        while self.read(&mut skipped)? > 0 {}
        Ok(())
    }
}

impl std::fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Body").field("file", &self.file).finish_non_exhaustive()
    }
}
