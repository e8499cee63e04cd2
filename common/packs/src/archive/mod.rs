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
    collections::{HashMap, hash_map::Entry},
    fs::File,
    io::{Read, Seek as _},
    mem,
};

pub use self::root::Root;
use domain::{
    limits::{ARCHIVE_FILES, DEPLOYMENT_BYTES, FILE_BYTES, MB},
    size,
};

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
    /// The files so far, with the bytes of each.
    sizes: HashMap<String, u64>,
    /// Bytes of their bodies.
    bytes: u64,
    /// Bytes of the bodies that are passed over.
    rest: u64,
    /// Bytes of everything else.
    overhead: u64,
    ended: bool,
}

/// A file of an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Member {
    /// A regular file of this path, whose body comes next.
    File(String),
    /// A further path of a file that came before. It has no body of its own.
    Link {
        /// The further path.
        path: String,
        /// The path under which the file came.
        target: String,
    },
}

/// The headers that stood before an entry and belong to it.
#[derive(Default)]
struct Extras {
    pax: Option<Records>,
    long_name: Option<Vec<u8>>,
    long_link: Option<Vec<u8>>,
}

/// What an entry with a body of its own or another's is called, and how long its own is.
struct Named<'n> {
    raw: &'n [u8],
    link: &'n [u8],
    size: u64,
}

impl Archive<File> {
    /// Opens a spooled upload at its beginning. `root` names the part that is published.
    pub fn open(mut upload: File, root: Root) -> Result<Self, WriteError> {
        let limit = root.tarball_bytes();
        let rewound = upload.rewind().and_then(|()| upload.metadata());
        if rewound.map_err(StoreError::Io)?.len() > limit {
            return Err(ArchiveError::TooLarge(format!("the upload is larger than {}", size(limit))).into());
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
            sizes: HashMap::new(),
            bytes: 0,
            rest: 0,
            overhead: 0,
            ended: false,
        }
    }

    /// Goes to the next file and returns it; `None` at the end of an archive that is valid as a whole.
    pub fn next_file(&mut self) -> Result<Option<Member>, WriteError> {
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
                if extras.pax.is_some() || extras.long_name.is_some() || extras.long_link.is_some() {
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
                let limit = size(REPO_REST_BYTES);
                return Err(ArchiveError::TooLarge(format!("the repository is larger than {limit}")).into());
            }
            return Ok(read);
        }
        self.came += read as u64;
        if self.came > FILE_BYTES {
            let (path, limit) = (shown(self.current.as_bytes()), size(FILE_BYTES));
            return Err(ArchiveError::TooLarge(format!("{path} is larger than {limit}")).into());
        }
        self.count_bytes(read as u64)?;
        Ok(read)
    }

    fn count_bytes(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.bytes += bytes;
        if self.bytes > DEPLOYMENT_BYTES {
            let limit = size(DEPLOYMENT_BYTES);
            return Err(ArchiveError::TooLarge(format!("the files are larger than {limit} together")));
        }
        Ok(())
    }

    /// Returns the number of files so far.
    pub fn files(&self) -> usize {
        self.sizes.len()
    }

    /// Returns the bytes of the files' bodies so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Judges an entry by its header. Gives it when it is a file that is published.
    fn enter(&mut self, header: &Header<'_>, extras: &mut Extras) -> Result<Option<Member>, WriteError> {
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
                let name = self.long_name(own_size()?)?;
                announce_once(extras.long_name.replace(name).is_none())?;
            }
            Kind::LongLink => {
                let link = self.long_name(own_size()?)?;
                announce_once(extras.long_link.replace(link).is_none())?;
            }
            Kind::PaxGlobal => {
                let records = Records::parse(&self.metadata(own_size()?)?)?;
                if records != Records::default() {
                    return Err(ArchiveError::invalid("a global PAX header names or sizes the files after it").into());
                }
            }
            Kind::File | Kind::HardLink | Kind::Skipped => {
                let Extras { pax, long_name, long_link } = mem::take(extras);
                let Records { path, link, size } = pax.unwrap_or_default();
                if path.is_some() && long_name.is_some() || link.is_some() && long_link.is_some() {
                    return Err(ArchiveError::invalid(format!("{} has two long names", shown(&own_path))).into());
                }
                // The PAX size is the true one: going by the header's instead would read a body as headers.
                let size = size.map_or_else(own_size, Ok)?;
                let raw = path.or(long_name).unwrap_or(own_path);
                let link = link.or(long_link).map_or_else(|| header.link(), Ok);
                let named = |link| Named { raw: &raw, link, size };
                return match kind {
                    Kind::HardLink => self.enter_link(&named(&link?)),
                    Kind::Skipped => Self::skip(&named(b"")).map(|()| None),
                    _ => self.enter_file(&named(b"")),
                };
            }
        }
        Ok(None)
    }

    /// Passes over an entry that is no file.
    fn skip(named: &Named<'_>) -> Result<(), WriteError> {
        path::judge(named.raw, Names::Folder)?;
        if named.size > 0 {
            let why = format!("{} is not a regular file, and has a body", shown(named.raw));
            return Err(ArchiveError::invalid(why).into());
        }
        Ok(())
    }

    fn enter_file(&mut self, named: &Named<'_>) -> Result<Option<Member>, WriteError> {
        let path = path::judge(named.raw, Names::File)?;
        self.body = named.size;
        self.came = 0;
        self.padding = padding(named.size);
        let published = self.root.published(&path)?.map(str::to_owned);
        self.wanted = published.is_some();
        self.current = published.unwrap_or(path);
        if !self.wanted {
            return Ok(None);
        }
        let path = self.current.clone();
        self.add(path.clone(), named.size)?;
        Ok(Some(Member::File(path)))
    }

    /// A hard link is the file that it leads to, which stands before it: an archiver writes the content once.
    fn enter_link(&mut self, named: &Named<'_>) -> Result<Option<Member>, WriteError> {
        let path = path::judge(named.raw, Names::File)?;
        let link = path::judge(named.link, Names::File)?;
        if named.size > 0 {
            return Err(ArchiveError::invalid(format!("{} is a hard link, and has a body", shown(named.raw))).into());
        }
        // Where it leads is judged also when it is not published.
        let target = self.root.published(&link)?;
        let Some(path) = self.root.published(&path)?.map(str::to_owned) else { return Ok(None) };
        let target = target.and_then(|target| self.sizes.get_key_value(target));
        let Some((target, bytes)) = target.map(|(target, bytes)| (target.clone(), *bytes)) else {
            let (link, target) = (shown(named.raw), shown(named.link));
            let why =
                format!("{link} is a hard link to {target}, which is no file that stands before it in the archive");
            return Err(ArchiveError::invalid(why).into());
        };
        self.add(path.clone(), bytes)?;
        self.count_bytes(bytes)?;
        Ok(Some(Member::Link { path, target }))
    }

    fn add(&mut self, path: String, bytes: u64) -> Result<(), ArchiveError> {
        if self.sizes.len() == *ARCHIVE_FILES.end() {
            let why = format!("the archive has more than {} files", ARCHIVE_FILES.end());
            return Err(ArchiveError::invalid(why));
        }
        match self.sizes.entry(path) {
            Entry::Vacant(place) => {
                place.insert(bytes);
                Ok(())
            }
            Entry::Occupied(known) => Err(path::twice(known.key())),
        }
    }

    /// The body of a GNU entry that names another.
    fn long_name(&mut self, size: u64) -> Result<Vec<u8>, WriteError> {
        let mut name = self.metadata(size)?;
        name.truncate(name.iter().rposition(|&b| b != 0).map_or(0, |last| last + 1));
        Ok(name)
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
        if self.sizes.is_empty() {
            return Err(ArchiveError::invalid(self.root.nothing()).into());
        }
        let mut paths: Vec<&str> = self.sizes.keys().map(String::as_str).collect();
        Ok(path::check_collisions(&mut paths)?)
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
            let limit = size(limit);
            let why = format!("the archive has more than {limit} of headers, folders and padding");
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
