//! Writes tar archives that no honest program would write.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

/// Bytes of a tar block.
pub const BLOCK: usize = 512;

/// A header block that can be spoiled before its checksum is made.
#[derive(Debug, Clone)]
pub struct Header([u8; BLOCK]);

impl Header {
    /// A POSIX header.
    pub fn new(kind: u8, path: impl AsRef<[u8]>, size: u64) -> Self {
        let mut header = Self([0; BLOCK]);
        let path = path.as_ref();
        header.put(0, &path[..path.len().min(100)]);
        header.put(100, b"0000644\0");
        header.put(108, b"0000000\0");
        header.put(116, b"0000000\0");
        header.put(124, format!("{size:011o}\0").as_bytes());
        header.put(136, b"14524770000\0");
        header.0[156] = kind;
        header.put(257, b"ustar\x0000");
        header
    }

    /// Overwrites bytes of it.
    pub fn put(&mut self, at: usize, bytes: &[u8]) -> &mut Self {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
        self
    }

    /// The block, with its checksum.
    pub fn block(mut self) -> [u8; BLOCK] {
        let sum = self.sum();
        self.block_with_sum(&format!("{sum:06o}\0 "))
    }

    /// The checksum.
    pub fn sum(&mut self) -> u32 {
        self.put(148, b"        ");
        self.0.iter().map(|&b| u32::from(b)).sum()
    }

    /// The block, with this field of eight bytes for its checksum.
    pub fn block_with_sum(mut self, field: &str) -> [u8; BLOCK] {
        self.put(148, field.as_bytes());
        self.0
    }
}

/// A gzipped tar archive that is being written.
#[derive(Debug)]
pub struct Tarball(GzEncoder<Vec<u8>>);

impl Default for Tarball {
    fn default() -> Self {
        Self::new()
    }
}

#[expect(clippy::expect_used, reason = "writing to memory does not fail")]
impl Tarball {
    /// An empty one.
    pub fn new() -> Self {
        Self(GzEncoder::new(Vec::new(), Compression::fast()))
    }

    /// Adds bytes as they are.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.write_all(bytes).expect("memory");
        self
    }

    /// Adds so many zeros.
    #[must_use]
    pub fn zeros(mut self, mut count: usize) -> Self {
        let zeros = [0; 16 * 1024];
        while count > 0 {
            let some = count.min(zeros.len());
            self = self.raw(&zeros[..some]);
            count -= some;
        }
        self
    }

    /// Adds bytes and fills their last block.
    #[must_use]
    pub fn padded(self, bytes: &[u8]) -> Self {
        self.raw(bytes).zeros(bytes.len().next_multiple_of(BLOCK) - bytes.len())
    }

    /// Adds an entry of any kind.
    #[must_use]
    pub fn entry(self, kind: u8, path: impl AsRef<[u8]>, body: &[u8]) -> Self {
        self.raw(&Header::new(kind, path, body.len() as u64).block()).padded(body)
    }

    /// Adds a regular file.
    #[must_use]
    pub fn file(self, path: impl AsRef<[u8]>, body: &[u8]) -> Self {
        self.entry(b'0', path, body)
    }

    /// Adds a regular file of zeros.
    #[must_use]
    pub fn zero_file(self, path: impl AsRef<[u8]>, size: usize) -> Self {
        self.raw(&Header::new(b'0', path, size as u64).block()).zeros(size.next_multiple_of(BLOCK))
    }

    /// Adds a symlink or a hard link.
    #[must_use]
    pub fn link(self, kind: u8, path: &str, target: &str) -> Self {
        let mut header = Header::new(kind, path, 0);
        header.put(157, target.as_bytes());
        self.raw(&header.block())
    }

    /// Adds a PAX header for the next entry.
    #[must_use]
    pub fn pax(self, key: &str, value: impl AsRef<[u8]>) -> Self {
        self.entry(b'x', "PaxHeaders/next", &pax_record(key, value.as_ref()))
    }

    /// Adds a GNU long name for the next entry.
    #[must_use]
    pub fn long_name(self, name: impl AsRef<[u8]>) -> Self {
        self.entry(b'L', "././@LongLink", name.as_ref())
    }

    /// Ends the archive and the gzip data.
    pub fn end(self) -> Vec<u8> {
        self.zeros(2 * BLOCK).cut()
    }

    /// Ends the gzip data alone.
    pub fn cut(self) -> Vec<u8> {
        self.0.finish().expect("memory")
    }
}

/// A record of a PAX header: its own length in front.
pub fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3; // space, equals, newline
    let digits = (1..20).find(|digits| (rest + digits).to_string().len() == *digits).unwrap_or(1);
    [format!("{} {key}=", rest + digits).as_bytes(), value, b"\n"].concat()
}

/// Gzips bytes as one member.
#[expect(clippy::expect_used, reason = "writing to memory does not fail")]
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}
