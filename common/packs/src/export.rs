//! Archives of uploaded files: a gzip-compressed tarball or a zip archive, generated while it is sent.
//!
//! Output is deterministic: files are sorted by path, and have one date, one mode and no owner.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use flate2::{Compression, GzBuilder, write::DeflateEncoder};
use rawzip::{
    CompressionMethod, Header as At, ZipArchiveWriter,
    extra_fields::ExtraFieldId,
    path::{EntryPath, ZipFilePath},
    time::UtcDateTime,
};
use tar::{EntryType, Header};
use tokio::sync::mpsc::{self, error::SendTimeoutError};

use super::{StoreError, UploadedFiles};

/// Bytes compressed before the task yields.
const SLICE_BYTES: usize = 32 * 1024;
/// Approximate bytes sent at a time.
const SENT_BYTES: usize = 64 * 1024;
const TAR_BLOCK: usize = 512;
const TAR_NAME: usize = 100;
const MODE: u32 = 0o644;
/// The mode bits of a regular file in a zip archive.
const REGULAR: u32 = 0o100_000;

/// The format of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownloadFormat {
    /// A gzip-compressed tarball.
    TarGz,
    /// A zip archive.
    Zip,
}

/// The reason an archive was not fully written.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The store failed, or a file in it is missing or damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The receiver disconnected.
    #[error("nobody wants the archive any more")]
    Gone,
    /// The receiver stalled.
    #[error("the archive is not being taken")]
    Stalled,
    /// The archive could not be generated.
    #[error("the archive cannot be made: {0}")]
    Form(io::Error),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Form(error)
    }
}

impl From<rawzip::Error> for ExportError {
    fn from(error: rawzip::Error) -> Self {
        Self::Form(io::Error::other(error))
    }
}

/// The receiver of an archive, part by part.
#[derive(Debug)]
pub struct ArchiveSink {
    /// The channel for the parts.
    pub to: mpsc::Sender<Bytes>,
    /// Maximum time to wait until a part is received.
    pub patience: Duration,
}

impl ArchiveSink {
    async fn send(&self, bytes: Vec<u8>) -> Result<(), ExportError> {
        self.to.send_timeout(bytes.into(), self.patience).await.map_err(|error| match error {
            SendTimeoutError::Timeout(_) => ExportError::Stalled,
            SendTimeoutError::Closed(_) => ExportError::Gone,
        })
    }
}

/// Writes an archive of `files`, all dated `modified` in seconds since 1970.
///
/// Needs some hundred kilobytes of memory, plus the directory for a zip archive.
pub async fn write_archive(
    files: &mut UploadedFiles,
    form: DownloadFormat,
    modified: i64,
    sink: &ArchiveSink,
) -> Result<(), ExportError> {
    let made = OutputBuffer::default();
    match form {
        DownloadFormat::TarGz => write_tarball(files, modified, &made, sink).await?,
        DownloadFormat::Zip => write_zip(files, modified, &made, sink).await?,
    }
    sink.send(made.take()).await
}

async fn write_tarball(
    files: &mut UploadedFiles,
    modified: i64,
    made: &OutputBuffer,
    sink: &ArchiveSink,
) -> Result<(), ExportError> {
    let mut out = GzBuilder::new().write(made.clone(), Compression::fast());
    while let Some((path, len)) = files.next_file() {
        out.write_all(&tar_head(&path, len, modified))?;
        let mut written = 0;
        while let Some(part) = files.part().await? {
            for slice in part.chunks(SLICE_BYTES) {
                out.write_all(slice)?;
                made.pass_on(sink).await?;
            }
            written += part.len();
        }
        out.write_all(&[0; TAR_BLOCK][..written.next_multiple_of(TAR_BLOCK) - written])?;
        made.pass_on(sink).await?;
    }
    out.write_all(&[0; 2 * TAR_BLOCK])?;
    out.finish()?;
    Ok(())
}

async fn write_zip(
    files: &mut UploadedFiles,
    modified: i64,
    made: &OutputBuffer,
    sink: &ArchiveSink,
) -> Result<(), ExportError> {
    let mut archive = ZipArchiveWriter::new(made.clone());
    let date = UtcDateTime::from_unix(modified);
    while let Some((path, _)) = files.next_file() {
        let (name, beside) = zip_name(&path);
        let mut entry = archive.new_file(name).compression_method(CompressionMethod::DEFLATE);
        if let Some(field) = beside {
            // Only in the directory: with the field in both places, unzip reports the next file as overlapping.
            entry = entry.extra_field(ExtraFieldId::INFO_ZIP_UNICODE_PATH, &field, At::CENTRAL)?;
        }
        let (mut entry, config) = entry.last_modified(date).unix_permissions(REGULAR | MODE).start()?;
        let mut out = config.wrap(DeflateEncoder::new(&mut entry, Compression::fast()));
        while let Some(part) = files.part().await? {
            for slice in part.chunks(SLICE_BYTES) {
                out.write_all(slice)?;
                made.pass_on(sink).await?;
            }
        }
        let (encoder, descriptor) = out.finish()?;
        encoder.finish()?;
        entry.finish(descriptor)?;
        made.pass_on(sink).await?;
    }
    archive.finish()?;
    Ok(())
}

/// Returns the header of a tar entry, preceded by an extended header if the name is long or not ASCII.
fn tar_head(path: &str, len: u64, modified: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(TAR_BLOCK);
    if path.len() > TAR_NAME || !path.is_ascii() {
        let record = pax_record("path", path);
        bytes.extend_from_slice(
            tar_block("PaxHeaders/file", EntryType::XHeader, record.len() as u64, modified).as_bytes(),
        );
        bytes.extend_from_slice(&record);
        bytes.resize(bytes.len().next_multiple_of(TAR_BLOCK), 0);
    }
    bytes.extend_from_slice(tar_block(path, EntryType::Regular, len, modified).as_bytes());
    bytes
}

fn tar_block(path: &str, kind: EntryType, len: u64, modified: i64) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(kind);
    header.set_size(len);
    header.set_mode(MODE);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(modified.try_into().unwrap_or_default());
    let name = &path.as_bytes()[..path.floor_char_boundary(TAR_NAME)];
    header.as_old_mut().name[..name.len()].copy_from_slice(name);
    header.set_cksum();
    header
}

/// Returns a record of an extended header: its length, which includes itself, the key and the value.
fn pax_record(key: &str, value: &str) -> Vec<u8> {
    let rest = key.len() + value.len() + " =\n".len();
    let mut len = rest;
    while len != rest + len.to_string().len() {
        len = rest + len.to_string().len();
    }
    format!("{len} {key}={value}\n").into_bytes()
}

/// Returns the name of a zip entry, and an extra field with it if it needs one. The zip writer would normalize some
/// names, such as one with a colon; those are written verbatim, with a field that marks them as UTF-8 if they are not
/// ASCII.
fn zip_name(path: &str) -> (EntryPath<'_>, Option<Vec<u8>>) {
    if ZipFilePath::from_str(path).as_str() == path {
        return (EntryPath::conformant(path), None);
    }
    let beside = (!path.is_ascii()).then(|| {
        let (version, name) = ([1], path.as_bytes());
        [&version[..], &rawzip::crc32(name).to_le_bytes(), name].concat()
    });
    (EntryPath::verbatim(path.as_bytes()), beside)
}

/// Generated bytes that are not sent yet.
#[derive(Debug, Clone, Default)]
struct OutputBuffer(Arc<Mutex<Vec<u8>>>);

impl OutputBuffer {
    /// Sends the generated bytes once there are enough, and yields.
    async fn pass_on(&self, sink: &ArchiveSink) -> Result<(), ExportError> {
        if self.len() >= SENT_BYTES {
            sink.send(self.take()).await?;
        }
        tokio::task::yield_now().await;
        Ok(())
    }

    fn len(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Write for OutputBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_counts_its_own_length() {
        for len in [1, 88, 89, 90, 91, 986, 987, 988, 989, 990, 1_024] {
            let record = pax_record("path", &"x".repeat(len));
            let (said, _) = record.split_at(record.iter().position(|&byte| byte == b' ').unwrap());
            assert_eq!(std::str::from_utf8(said).unwrap().parse(), Ok(record.len()), "{len}");
        }
    }

    #[test]
    fn names_are_written_as_they_are() {
        for (path, is_beside) in
            [("a/b.txt", false), ("é", false), ("File:A.html", false), ("File:É.html", true), ("a..b", false)]
        {
            let (name, beside) = zip_name(path);
            assert_eq!(beside.is_some(), is_beside, "{path}");
            let mut bytes = Vec::new();
            let mut archive = ZipArchiveWriter::new(&mut bytes);
            let (entry, config) = archive.new_file(name).start().unwrap();
            let (_, descriptor) = config.wrap(Vec::new()).finish().unwrap();
            entry.finish(descriptor).unwrap();
            archive.finish().unwrap();
            assert!(bytes.windows(path.len()).any(|part| part == path.as_bytes()), "{path}");
        }
    }
}
