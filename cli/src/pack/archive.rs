//! Writes the tarball: gzip members, compressed in parallel, one after another in a temporary file.
//!
//! A gzip file may consist of many members, and the API reads all of them. The boundaries between members depend only
//! on the files, so the bytes are the same for any number of threads.

use std::{
    fs::File,
    io::{self, Seek as _, Write as _},
    num::NonZero,
    sync::mpsc,
    thread,
};

use anyhow::Context as _;
use domain::limits;
use flate2::{Compression, write::GzEncoder};
use tar::{EntryType, Header};

use super::walk::{Selection, SiteFile};
use crate::{failure::Failure, output::size};

/// Level 2, as measured with the Python documentation (63 MB) on one thread: 0.14 s and 17.6 MB at level 1, 0.28 s and
/// 14.0 MB at 2, 0.84 s and 11.8 MB at 6. Level 2 goes live first on lines between 100 and 400 Mbit/s, and is close to
/// that on others. The service compresses again for its visitors anyway.
const LEVEL: Compression = Compression::new(2);
/// A gzip member is closed after this much content: small enough to distribute the work, large enough to compress well.
const MEMBER_BYTES: u64 = 1024 * 1024;
/// Each thread holds at most one finished and one growing member: with files of 25 MB, 50 MB in the worst case.
const MAX_THREADS: usize = 4;
const TAR_END: [u8; 1024] = [0; 1024];
const BLOCK: usize = 512;

/// A packed tarball in a temporary file that is removed on drop.
#[derive(Debug)]
pub(crate) struct PackedArchive {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    pub(crate) media_type: &'static str,
}

pub(crate) fn write(selection: &Selection) -> anyhow::Result<PackedArchive> {
    if let Some((path, media_type)) = &selection.archive {
        let file = File::open(path).with_context(|| format!("Cannot read {}", path.display()))?;
        let bytes = file.metadata()?.len();
        check_size(bytes)?;
        return Ok(PackedArchive { file, bytes, media_type });
    }
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(MAX_THREADS);
    write_with(selection, threads)
}

fn write_with(selection: &Selection, threads: usize) -> anyhow::Result<PackedArchive> {
    let members = members(&selection.entries);
    let mut file = tempfile::tempfile().context("Cannot make a temporary file to pack into")?;

    thread::scope(|scope| -> anyhow::Result<()> {
        // Thread n packs members n, n + threads, …; reading the threads in turn yields all members in order.
        let packed: Vec<_> = (0..threads)
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(1);
                let mine = members.iter().skip(first).step_by(threads);
                scope.spawn(move || {
                    for member in mine {
                        let result = pack_member(member);
                        let failed = result.is_err();
                        if sender.send(result).is_err() || failed {
                            return;
                        }
                    }
                });
                receiver
            })
            .collect();
        for index in 0..members.len() {
            let member = packed[index % threads].recv().context("Packing stopped")??;
            file.write_all(&member).context("Cannot write the packed files; is the disk full?")?;
        }
        Ok(())
    })?;
    file.write_all(&final_member(selection.redirects.as_deref())?)?;

    let bytes = file.stream_position()?;
    check_size(bytes)?;
    file.rewind()?;
    Ok(PackedArchive { file, bytes, media_type: "application/gzip" })
}

fn check_size(bytes: u64) -> Result<(), Failure> {
    if bytes > limits::UPLOAD_BYTES {
        let message = format!("The site is larger than {} compressed.", size(limits::UPLOAD_BYTES));
        return Err(Failure::limit(message).with_hint("Leave large files out with .svcignore."));
    }
    Ok(())
}

/// Splits the files, in order, into runs of about [`MEMBER_BYTES`].
fn members(entries: &[SiteFile]) -> Vec<&[SiteFile]> {
    let mut size = 0;
    entries
        .chunk_by(|before, _| {
            size += before.bytes;
            let full = size >= MEMBER_BYTES;
            if full {
                size = 0;
            }
            !full
        })
        .collect()
}

fn pack_member(entries: &[SiteFile]) -> anyhow::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(DetachableWriter(Some(GzEncoder::new(Vec::new(), LEVEL))));
    for entry in entries {
        append(&mut tar, entry).with_context(|| format!("Cannot read {}", entry.source.display()))?;
    }
    let encoder = tar.get_mut().0.take().context("a member is taken once")?;
    Ok(encoder.finish()?)
}

/// Creates the last member: the generated rules of the site, if any, and the blocks that end the tarball.
fn final_member(redirects: Option<&str>) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), LEVEL);
    if let Some(redirects) = redirects {
        let mut header = plain_header(redirects.len() as u64);
        header.set_path("_redirects")?;
        header.set_cksum();
        encoder.write_all(header.as_bytes())?;
        encoder.write_all(redirects.as_bytes())?;
        encoder.write_all(&vec![0; redirects.len().next_multiple_of(BLOCK) - redirects.len()])?;
    }
    encoder.write_all(&TAR_END)?;
    encoder.finish()
}

fn append<W: io::Write>(tar: &mut tar::Builder<W>, entry: &SiteFile) -> io::Result<()> {
    let file = File::open(&entry.source)?;
    let mut header = plain_header(entry.bytes);
    tar.append_data(&mut header, &entry.name, FixedSizeReader { file, left: entry.bytes })
}

fn plain_header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_mode(0o644);
    header.set_mtime(0);
    header.set_size(bytes);
    header
}

/// A writer that discards everything once its inner writer is taken. A tar builder that is dropped ends the tarball,
/// which only the last member may do.
struct DetachableWriter<W>(Option<W>);

impl<W: io::Write> io::Write for DetachableWriter<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.0.as_mut().map_or(Ok(buf.len()), |inner| inner.write(buf))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), io::Write::flush)
    }
}

/// A file whose size is already in the tar header: additional bytes are left out, and a shorter file is an error.
struct FixedSizeReader {
    file: File,
    left: u64,
}

impl io::Read for FixedSizeReader {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let want = buf.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let read = self.file.read(&mut buf[..want])?;
        if read == 0 && want > 0 {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "it changed while it was being packed; try again",
            ));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read as _};

    use flate2::read::MultiGzDecoder;

    use super::*;
    use crate::pack::select;

    fn bytes(mut archive: PackedArchive) -> Vec<u8> {
        let mut bytes = Vec::new();
        archive.file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len() as u64, archive.bytes);
        bytes
    }

    /// Creates files for several members, one larger than a member and one with a name longer than tar's field.
    fn site() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..40_u8 {
            fs::write(dir.path().join(format!("{n}.bin")), vec![n; 100_000]).unwrap();
        }
        fs::write(dir.path().join("big.bin"), vec![7; 3_000_000]).unwrap();
        fs::write(dir.path().join(format!("{}.html", "long".repeat(50))), "long").unwrap();
        fs::write(dir.path().join("empty.txt"), "").unwrap();
        dir
    }

    #[test]
    fn the_tarball_holds_every_file_and_ends_once() {
        let dir = site();
        let selection = select(dir.path(), false).unwrap();
        let packed = bytes(write(&selection).unwrap());
        let mut plain = Vec::new();
        MultiGzDecoder::new(&*packed).read_to_end(&mut plain).unwrap();
        assert!(plain.ends_with(&TAR_END));

        let mut found = Vec::new();
        for entry in tar::Archive::new(&*plain).entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut body = Vec::new();
            entry.read_to_end(&mut body).unwrap();
            let name = entry.path().unwrap().to_str().unwrap().to_owned();
            assert_eq!(body, fs::read(dir.path().join(&name)).unwrap(), "{name}");
            found.push(name);
        }
        let wanted: Vec<&str> = selection.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_same_files_give_the_same_bytes_on_any_number_of_threads() {
        let (one, other) = (site(), site());
        let first = bytes(write_with(&select(one.path(), false).unwrap(), 1).unwrap());
        for threads in [2, 3, 4] {
            assert_eq!(first, bytes(write_with(&select(other.path(), false).unwrap(), threads).unwrap()), "{threads}");
        }
    }

    #[test]
    fn a_file_that_shrinks_meanwhile_fails_the_packing() {
        let dir = site();
        let selection = select(dir.path(), false).unwrap();
        fs::write(dir.path().join("big.bin"), "small now").unwrap();
        let error = write(&selection).unwrap_err();
        assert!(format!("{error:#}").contains("big.bin"), "{error:#}");
    }
}
