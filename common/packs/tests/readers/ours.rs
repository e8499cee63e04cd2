//! Our reader.

use std::io;

use packs::{
    WriteError,
    archive::{ArchiveError, ArchiveMember, UploadArchive, UploadFormat},
};
use sha2::{Digest as _, Sha256};

use crate::FileHashes;

pub(crate) fn read(bytes: &[u8], format: UploadFormat) -> Result<FileHashes, String> {
    let mut files = FileHashes::new();
    let read = UploadArchive::new(bytes, format).read(|member| {
        match member {
            ArchiveMember::File { path, body, must_repeat } => {
                let mut hash = Sha256::new();
                let mut chunk = [0; 4_096];
                loop {
                    let read = body.read(&mut chunk)?;
                    if read == 0 {
                        break;
                    }
                    hash.update(&chunk[..read]);
                }
                repeat(&mut files, path, hex::encode(hash.finalize()), must_repeat)?;
            }
            ArchiveMember::Link { path, target, must_repeat } => {
                let target = files[target].clone();
                repeat(&mut files, path, target, must_repeat)?;
            }
        }
        Ok(())
    });
    match read {
        Ok(_) => Ok(files),
        Err(WriteError::Archive(error)) => Err(error.to_string()),
        Err(WriteError::Store(error)) => panic!("{error}"),
    }
}

fn repeat(files: &mut FileHashes, path: &str, hash: String, must_repeat: bool) -> Result<(), ArchiveError> {
    if must_repeat && files.get(path) != Some(&hash) {
        return Err(ArchiveError::past_end(path));
    }
    files.insert(path.to_owned(), hash);
    Ok(())
}

pub(crate) fn decompressed(bytes: &[u8], format: UploadFormat) -> Vec<u8> {
    let mut decoder: Box<dyn io::Read + '_> = if format == UploadFormat::TarZstd {
        Box::new(zstd::Decoder::new(bytes).expect("a decoder"))
    } else {
        Box::new(flate2::read::MultiGzDecoder::new(bytes))
    };
    let mut tar = Vec::new();
    // Both decoders fail on bsdtar's padding at the end.
    let _ = io::copy(&mut decoder, &mut tar);
    assert!(!tar.is_empty(), "an archive cannot be decompressed");
    tar
}
