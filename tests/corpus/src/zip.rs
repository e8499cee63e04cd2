//! Writes zip archives that no honest program would write.

use std::io::Write as _;

use flate2::{Compression, Crc, write::DeflateEncoder};

/// A file of a zip archive, of which everything that is said can be spoiled.
#[derive(Debug, Clone)]
pub struct Entry {
    name: Vec<u8>,
    local_name: Option<Vec<u8>>,
    data: Vec<u8>,
    flags: u16,
    method: u16,
    local_method: Option<u16>,
    crc: u32,
    size: u32,
    local_size: Option<u32>,
    compressed_size: Option<u32>,
    made_by: u16,
    attributes: u32,
    extra: Vec<u8>,
    local_extra: Vec<u8>,
    is_zip64: bool,
}

#[expect(clippy::expect_used, clippy::cast_possible_truncation, reason = "what is written here is small")]
impl Entry {
    /// A file that is stored.
    pub fn new(name: impl AsRef<[u8]>, body: &[u8]) -> Self {
        let mut crc = Crc::new();
        crc.update(body);
        Self {
            name: name.as_ref().to_vec(),
            local_name: None,
            data: body.to_vec(),
            flags: 0,
            method: 0,
            local_method: None,
            crc: crc.sum(),
            size: body.len() as u32,
            local_size: None,
            compressed_size: None,
            made_by: 20,
            attributes: 0,
            extra: Vec::new(),
            local_extra: Vec::new(),
            is_zip64: false,
        }
    }

    /// Compresses it.
    #[must_use]
    pub fn deflated(mut self) -> Self {
        let mut deflate = DeflateEncoder::new(Vec::new(), Compression::fast());
        deflate.write_all(&self.data).expect("memory");
        self.data = deflate.finish().expect("memory");
        self.method = 8;
        self
    }

    /// Writes its sizes behind it.
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.flags |= 1 << 3;
        self
    }

    /// Writes its sizes in 64 bits.
    #[must_use]
    pub fn zip64(mut self) -> Self {
        self.is_zip64 = true;
        self
    }

    /// Has it made under Unix, with this mode.
    #[must_use]
    pub fn unix(mut self, mode: u32) -> Self {
        self.made_by = 0x0314;
        self.attributes = mode << 16;
        self
    }

    /// Has it made under this system, with these attributes.
    #[must_use]
    pub fn of_system(mut self, system: u8, attributes: u32) -> Self {
        self.made_by = u16::from(system) << 8 | 0x14;
        self.attributes = attributes;
        self
    }

    /// Says that its name is UTF-8.
    #[must_use]
    pub fn utf8(self) -> Self {
        self.flags(1 << 11)
    }

    /// Sets flags.
    #[must_use]
    pub fn flags(mut self, flags: u16) -> Self {
        self.flags |= flags;
        self
    }

    /// Adds an extra field.
    #[must_use]
    pub fn extra(mut self, id: u16, field: &[u8]) -> Self {
        self.extra.extend([id.to_le_bytes(), (field.len() as u16).to_le_bytes()].concat());
        self.extra.extend(field);
        self
    }

    /// Adds its name in UTF-8, as Info-ZIP does.
    #[must_use]
    pub fn unicode_name(self, name: &str) -> Self {
        let mut crc = Crc::new();
        crc.update(&self.name);
        let field = [&[1][..], &crc.sum().to_le_bytes(), name.as_bytes()].concat();
        self.extra(0x7075, &field)
    }

    /// Adds the same before the file alone.
    #[must_use]
    pub fn local_unicode_name(mut self, name: &str) -> Self {
        let kept = std::mem::take(&mut self.extra);
        let mut named = self.unicode_name(name);
        named.local_extra = std::mem::replace(&mut named.extra, kept);
        named
    }

    /// Says that it is compressed in this way.
    #[must_use]
    pub fn method(mut self, method: u16) -> Self {
        self.method = method;
        self
    }

    /// Says so before the file alone.
    #[must_use]
    pub fn local_method(mut self, method: u16) -> Self {
        self.local_method = Some(method);
        self
    }

    /// Names it so before the file alone.
    #[must_use]
    pub fn local_name(mut self, name: &str) -> Self {
        self.local_name = Some(name.as_bytes().to_vec());
        self
    }

    /// Says that it has this size before the file alone.
    #[must_use]
    pub fn local_size(mut self, size: u32) -> Self {
        self.local_size = Some(size);
        self
    }

    /// Says that it has this checksum.
    #[must_use]
    pub fn crc(mut self, crc: u32) -> Self {
        self.crc = crc;
        self
    }

    /// Says that it has this size.
    #[must_use]
    pub fn size(mut self, size: u32) -> Self {
        self.size = size;
        self
    }

    /// Says that it has this size while it is compressed.
    #[must_use]
    pub fn compressed_size(mut self, size: u32) -> Self {
        self.compressed_size = Some(size);
        self
    }

    /// Replaces what is compressed.
    #[must_use]
    pub fn data(mut self, data: &[u8]) -> Self {
        self.data = data.to_vec();
        self
    }

    /// Puts something behind what is compressed, as if it were part of it.
    #[must_use]
    pub fn trailing(mut self, bytes: &[u8]) -> Self {
        self.data.extend(bytes);
        self
    }

    fn compressed(&self) -> u32 {
        self.compressed_size.unwrap_or(self.data.len() as u32)
    }

    /// The fields that both headers have, and the extra fields.
    fn fields(&self, is_local: bool) -> (Vec<u8>, Vec<u8>) {
        let method = self.local_method.filter(|_| is_local).unwrap_or(self.method);
        let size = self.local_size.filter(|_| is_local).unwrap_or(self.size);
        let mut sizes = [self.crc, self.compressed(), size];
        let mut extra = self.extra.clone();
        if is_local {
            extra.extend(&self.local_extra);
        }
        if is_local && self.flags & 1 << 3 != 0 {
            sizes = [0; 3];
        } else if self.is_zip64 {
            sizes = [self.crc, u32::MAX, u32::MAX];
            let field = [u64::from(size).to_le_bytes(), u64::from(self.compressed()).to_le_bytes()].concat();
            extra.extend([1_u16.to_le_bytes(), 16_u16.to_le_bytes()].concat());
            extra.extend(field);
        }
        let mut fields: Vec<u8> =
            [20, self.flags, method, 0, 0x5c21].iter().flat_map(|n: &u16| n.to_le_bytes()).collect();
        fields.extend(sizes.iter().flat_map(|n| n.to_le_bytes()));
        (fields, extra)
    }
}

/// A zip archive that is being written.
#[derive(Debug, Clone, Default)]
pub struct Zip {
    prefix: Vec<u8>,
    body: Vec<u8>,
    /// The entries of the directory.
    directory: Vec<Vec<u8>>,
    entries: u16,
    said: Option<u16>,
    comment: Vec<u8>,
    last: Option<Entry>,
    before_end: Vec<u8>,
}

#[expect(clippy::cast_possible_truncation, reason = "what is written here is small")]
impl Zip {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    #[must_use]
    pub fn file(mut self, entry: Entry) -> Self {
        let at = self.body.len() as u32;
        let (fields, extra) = entry.fields(true);
        let name = entry.local_name.as_ref().unwrap_or(&entry.name);
        self.body.extend(b"PK\x03\x04");
        self.body.extend(fields);
        self.body.extend([(name.len() as u16).to_le_bytes(), (extra.len() as u16).to_le_bytes()].concat());
        self.body.extend(name);
        self.body.extend(extra);
        self.body.extend(&entry.data);
        if entry.flags & 1 << 3 != 0 {
            self.body.extend(b"PK\x07\x08");
            self.body.extend([entry.crc, entry.compressed(), entry.size].iter().flat_map(|n| n.to_le_bytes()));
        }
        self.list(&entry, at);
        self.last = Some(entry);
        self
    }

    /// Lists the last file again, under this name, as if it stood there.
    #[must_use]
    pub fn again(mut self, name: &str, at: u32) -> Self {
        if let Some(mut entry) = self.last.take() {
            entry.name = name.as_bytes().to_vec();
            self.list(&entry, at);
        }
        self
    }

    fn list(&mut self, entry: &Entry, at: u32) {
        let (fields, extra) = entry.fields(false);
        let mut listed = b"PK\x01\x02".to_vec();
        listed.extend(entry.made_by.to_le_bytes());
        listed.extend(fields);
        let lengths = [entry.name.len() as u16, extra.len() as u16, 0, 0, 0];
        listed.extend(lengths.iter().flat_map(|n| n.to_le_bytes()));
        listed.extend(entry.attributes.to_le_bytes());
        listed.extend(at.to_le_bytes());
        listed.extend(&entry.name);
        listed.extend(extra);
        self.directory.push(listed);
        self.entries += 1;
    }

    /// Says that it has so many entries.
    #[must_use]
    pub fn entries(mut self, entries: u16) -> Self {
        self.said = Some(entries);
        self
    }

    /// Adds a comment.
    #[must_use]
    pub fn comment(mut self, comment: &[u8]) -> Self {
        self.comment = comment.to_vec();
        self
    }

    /// Puts something before it.
    #[must_use]
    pub fn prefix(mut self, prefix: &[u8]) -> Self {
        self.prefix = prefix.to_vec();
        self
    }

    /// Puts something behind the files so far.
    #[must_use]
    pub fn raw(mut self, bytes: &[u8]) -> Self {
        self.body.extend(bytes);
        self
    }

    /// Lists the files in the opposite order.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.directory.reverse();
        self
    }

    /// Puts something between the directory and the end.
    #[must_use]
    pub fn before_end(mut self, bytes: &[u8]) -> Self {
        self.before_end = bytes.to_vec();
        self
    }

    /// Adds an end in 64 bits, which says that the directory has so many entries.
    #[must_use]
    pub fn end64(self, entries: u64) -> Self {
        let (at, len) = (self.body.len() as u64, self.directory.concat().len() as u64);
        let record = [44, 0x2d_002d, 0, entries, entries, len, at];
        let mut bytes = b"PK\x06\x06".to_vec();
        for (index, number) in record.iter().enumerate() {
            // The two versions and the two disks are of four bytes in all, and of eight.
            let number = number.to_le_bytes();
            bytes.extend(if index == 1 { &number[..4] } else { &number[..] });
        }
        bytes.extend(b"PK\x06\x07\0\0\0\0");
        bytes.extend((at + len).to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        self.before_end(&bytes)
    }

    /// Ends it.
    pub fn end(self) -> Vec<u8> {
        let directory = self.directory.concat();
        let (at, len) = (self.body.len() as u32, directory.len() as u32);
        let entries = self.said.unwrap_or(self.entries).to_le_bytes();
        let end = [
            &b"PK\x05\x06\0\0\0\0"[..],
            &entries,
            &entries,
            &len.to_le_bytes(),
            &at.to_le_bytes(),
            &(self.comment.len() as u16).to_le_bytes(),
            &self.comment,
        ];
        [&self.prefix[..], &self.body, &directory, &self.before_end, &end.concat()].concat()
    }
}
