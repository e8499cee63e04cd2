//! Reads and judges an uploaded tarball: gzip, then tar, then our own rules.
//!
//! Nothing of it is trusted and nothing is left to a library's leniency: every byte up to the end of the file is
//! accounted for, sizes are counted as they stream, and only regular files come out. Nothing here writes.
//! Start with [`Archive`].

mod gzip;
mod header;
mod path;
mod pax;
mod root;

use std::{
    fs::File,
    io::{Read, Seek as _},
    mem,
};

pub use self::root::Root;
use domain::limits::{ARCHIVE_FILES, DEPLOYMENT_BYTES, FILE_BYTES, MB};

use self::{
    gzip::Gunzip,
    header::{BLOCK, Header, Kind},
    path::{Names, shown},
    pax::Records,
};
use super::{StoreError, WriteError};

/// Bytes of one PAX header or GNU long name, at most. It is read into memory.
const METADATA_BYTES: u64 = MB;
/// Bytes of everything that is not a file's body: headers, padding, skipped entries, the end. With
/// [`DEPLOYMENT_BYTES`] the bound on what any upload decompresses to.
const OVERHEAD_BYTES: u64 = 64 * MB;
/// Reads a whole repository, of which only a folder is published.
const REPO_OVERHEAD_BYTES: u64 = 256 * MB;
/// Bytes of the files of a repository that are not published.
const REPO_REST_BYTES: u64 = 2_048 * MB;

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

    fn invalid(why: impl Into<String>) -> Self {
        Self::Invalid(why.into())
    }
}

/// A tarball that is being read, once, from its beginning to its end.
///
/// [`Archive::next_file`] until it gives none, and [`Archive::read`] until it gives 0 for each file: only then has the
/// archive been judged whole.
#[derive(Debug)]
pub struct Archive<R: Read> {
    gunzip: Gunzip<R>,
    /// The part of it that is published.
    root: Root,
    /// The current file, as messages call it.
    current: String,
    /// Whether it is among what is published.
    wanted: bool,
    /// Of the current file: bytes still to come by its header's word.
    body: u64,
    /// The bytes of it that came.
    came: u64,
    /// And the padding after them.
    padding: usize,
    /// The files so far.
    paths: Vec<String>,
    /// Bytes of their bodies.
    bytes: u64,
    /// Bytes of the bodies that are passed over.
    rest: u64,
    /// Bytes of everything else.
    overhead: u64,
    ended: bool,
}

/// The headers that stood before an entry and belong to it.
#[derive(Default)]
struct Extras {
    pax: Option<Records>,
    long_name: Option<Vec<u8>>,
    long_link: bool,
}

impl Archive<File> {
    /// Opens a spooled upload at its beginning. `root` names the part that is published.
    pub fn open(mut upload: File, root: Root) -> Result<Self, WriteError> {
        let limit = root.tarball_bytes();
        let rewound = upload.rewind().and_then(|()| upload.metadata());
        if rewound.map_err(StoreError::Io)?.len() > limit {
            return Err(ArchiveError::TooLarge(format!("the upload is larger than {} MB", limit / MB)).into());
        }
        Ok(Self::rooted(upload, root))
    }
}

impl<R: Read> Archive<R> {
    /// Reads an upload, all of which is published.
    pub fn new(upload: R) -> Self {
        Self::rooted(upload, Root::Archive)
    }

    /// Reads an archive of which `root` is published. What is passed over is judged too, but for its sizes and number.
    pub fn rooted(upload: R, root: Root) -> Self {
        Self {
            gunzip: Gunzip::new(upload),
            root,
            current: String::new(),
            wanted: true,
            body: 0,
            came: 0,
            padding: 0,
            paths: Vec::new(),
            bytes: 0,
            rest: 0,
            overhead: 0,
            ended: false,
        }
    }

    /// Goes to the next regular file and returns its path; `None` at the end of an archive that is valid as a whole.
    pub fn next_file(&mut self) -> Result<Option<String>, WriteError> {
        let mut skipped = [0; 8 * BLOCK];
        let mut extras = Extras::default();
        let mut block = [0; BLOCK];
        loop {
            // Whoever skips a body still has it judged.
            while self.read(&mut skipped)? > 0 {}
            if self.ended {
                return Ok(None);
            }
            self.read_overhead(&mut block, "before its two end blocks")?;
            if block == [0; BLOCK] {
                if extras.pax.is_some() || extras.long_name.is_some() || extras.long_link {
                    return Err(ArchiveError::invalid("the archive ends where an entry was announced").into());
                }
                self.finish()?;
                return Ok(None);
            }
            if let Some(file) = self.enter(&Header::parse(&block)?, &mut extras)? {
                return Ok(Some(file));
            }
        }
    }

    /// Reads some bytes of the current file; 0 at its end.
    pub fn read(&mut self, buf: &mut [u8]) -> Result<usize, WriteError> {
        if self.body == 0 {
            return self.skip_padding().map(|()| 0);
        }
        let most = usize::try_from(self.body).unwrap_or(usize::MAX).min(buf.len());
        let read = self.gunzip.read(&mut buf[..most])?;
        if read == 0 && most > 0 {
            let why = format!("the archive ends in the middle of {}; upload it again", shown(self.current.as_bytes()));
            return Err(ArchiveError::invalid(why).into());
        }
        self.body -= read as u64;
        if !self.wanted {
            self.rest += read as u64;
            if self.rest > REPO_REST_BYTES {
                let limit = REPO_REST_BYTES / MB;
                return Err(ArchiveError::TooLarge(format!("the repository is larger than {limit} MB")).into());
            }
            return Ok(read);
        }
        self.came += read as u64;
        self.bytes += read as u64;
        if self.came > FILE_BYTES {
            let (path, limit) = (shown(self.current.as_bytes()), FILE_BYTES / MB);
            return Err(ArchiveError::TooLarge(format!("{path} is larger than {limit} MB")).into());
        }
        if self.bytes > DEPLOYMENT_BYTES {
            let limit = DEPLOYMENT_BYTES / MB;
            return Err(ArchiveError::TooLarge(format!("the files are larger than {limit} MB together")).into());
        }
        Ok(read)
    }

    /// Returns the number of regular files so far.
    pub fn files(&self) -> usize {
        self.paths.len()
    }

    /// Returns the bytes of the files' bodies so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Judges an entry by its header. Gives the path when it is a regular file, whose body then comes next.
    fn enter(&mut self, header: &Header<'_>, extras: &mut Extras) -> Result<Option<String>, WriteError> {
        let own_path = header.path()?;
        let kind = header.kind(&own_path)?;
        let own_size = || {
            header.size().ok_or_else(|| ArchiveError::invalid(format!("{} has an impossible size", shown(&own_path))))
        };
        match kind {
            Kind::Pax => {
                let records = Records::parse(&self.metadata(own_size()?)?)?;
                announce_once(extras.pax.replace(records).is_none())?;
            }
            Kind::LongName => {
                let mut name = self.metadata(own_size()?)?;
                name.truncate(name.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1));
                announce_once(extras.long_name.replace(name).is_none())?;
            }
            Kind::LongLink => {
                // Only symlinks and hard links have targets, and those are never followed.
                self.metadata(own_size()?)?;
                announce_once(!mem::replace(&mut extras.long_link, true))?;
            }
            Kind::PaxGlobal => {
                let records = Records::parse(&self.metadata(own_size()?)?)?;
                if records != Records::default() {
                    return Err(ArchiveError::invalid("a global PAX header names or sizes the files after it").into());
                }
            }
            Kind::File | Kind::Skipped => {
                let Extras { pax, long_name, .. } = mem::take(extras);
                let Records { path, size } = pax.unwrap_or_default();
                if path.is_some() && long_name.is_some() {
                    return Err(ArchiveError::invalid(format!("{} has two long names", shown(&own_path))).into());
                }
                // The PAX size is the true one: going by the header's instead would read a body as headers.
                let size = size.map_or_else(own_size, Ok)?;
                let raw = path.or(long_name).unwrap_or(own_path);
                return self.enter_named(kind, &raw, size);
            }
        }
        Ok(None)
    }

    fn enter_named(&mut self, kind: Kind, raw: &[u8], size: u64) -> Result<Option<String>, WriteError> {
        if kind == Kind::Skipped {
            path::judge(raw, Names::Folder)?;
            if size > 0 {
                let why = format!("{} is a folder or a symlink, and has a body", shown(raw));
                return Err(ArchiveError::invalid(why).into());
            }
            return Ok(None);
        }
        let path = path::judge(raw, Names::File)?;
        self.body = size;
        self.came = 0;
        self.padding = padding(size);
        let published = self.root.published(&path)?.map(str::to_owned);
        self.wanted = published.is_some();
        self.current = published.unwrap_or(path);
        if !self.wanted {
            return Ok(None);
        }
        if self.paths.len() == *ARCHIVE_FILES.end() {
            let why = format!("the archive has more than {} files", ARCHIVE_FILES.end());
            return Err(ArchiveError::invalid(why).into());
        }
        self.paths.push(self.current.clone());
        Ok(Some(self.current.clone()))
    }

    /// The body of an entry that describes another.
    fn metadata(&mut self, size: u64) -> Result<Vec<u8>, WriteError> {
        if size > METADATA_BYTES {
            return Err(ArchiveError::invalid("an extended header is larger than 1 MB").into());
        }
        let padded = size.next_multiple_of(BLOCK as u64);
        let (size, padded) = (usize::try_from(size).unwrap_or(0), usize::try_from(padded).unwrap_or(0));
        let mut text = vec![0; padded];
        self.read_overhead(&mut text, "in the middle of an extended header")?;
        text.truncate(size);
        Ok(text)
    }

    fn skip_padding(&mut self) -> Result<(), WriteError> {
        let padding = mem::take(&mut self.padding);
        self.read_overhead(&mut [0; BLOCK][..padding], "in the padding of a file")
    }

    /// Reads what comes after the first end block: the second one, zeros, and the end of the gzip data.
    fn finish(&mut self) -> Result<(), WriteError> {
        let mut block = [0; BLOCK];
        self.read_overhead(&mut block, "before its two end blocks")?;
        loop {
            if block.iter().any(|&b| b != 0) {
                return Err(ArchiveError::invalid("bytes follow the end of the tar archive").into());
            }
            let read = self.gunzip.read(&mut block)?;
            if read == 0 {
                break;
            }
            block[read..].fill(0);
            self.count_overhead(read)?;
        }
        self.ended = true;
        if self.paths.is_empty() {
            return Err(ArchiveError::invalid(self.root.nothing()).into());
        }
        Ok(path::check_collisions(&mut self.paths)?)
    }

    /// Fills `buf` with what is not a file's body. `place` completes "the archive ends …".
    fn read_overhead(&mut self, mut buf: &mut [u8], place: &str) -> Result<(), WriteError> {
        self.count_overhead(buf.len())?;
        while !buf.is_empty() {
            let read = self.gunzip.read(buf)?;
            if read == 0 {
                return Err(ArchiveError::invalid(format!("the archive ends {place}; upload it again")).into());
            }
            buf = &mut buf[read..];
        }
        Ok(())
    }

    fn count_overhead(&mut self, bytes: usize) -> Result<(), WriteError> {
        self.overhead += bytes as u64;
        let limit = self.root.overhead_bytes();
        if self.overhead > limit {
            let limit = limit / MB;
            let why = format!("the archive has more than {limit} MB of headers, folders and padding");
            return Err(ArchiveError::TooLarge(why).into());
        }
        Ok(())
    }
}

/// Bytes that fill the last block of a body of `size` bytes.
fn padding(size: u64) -> usize {
    usize::try_from(size % BLOCK as u64).map_or(0, |over| (BLOCK - over) % BLOCK)
}

fn announce_once(first: bool) -> Result<(), ArchiveError> {
    if first { Ok(()) } else { Err(ArchiveError::invalid("an entry has two extended headers of one kind")) }
}
