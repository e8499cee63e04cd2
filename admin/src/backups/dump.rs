//! The dump of the database: the output of `pg_dump`, sealed as a stream.
//!
//! It holds people's addresses, hashes of tokens and sealed values; a reader of the place of the backups must not learn
//! them.

use bytes::{Bytes, BytesMut};
use packs::{
    StoreError,
    objects::{BlobStore, ObjectReader, ObjectWriter},
};
use secrets::{
    KeyPurpose, MasterKey,
    master_key::OpenError,
    streams::{CHUNK_BYTES, ChunkLength, HEADER_LEN, StreamSealer},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    process::Child,
};

use super::{
    Manifest, ObjectContent,
    check::describe_difference,
    copy::{ContentHasher, ObjectCopier},
    place::object_name,
    programs,
};

const COMPLAINT_BYTES: u64 = 16 * 1024;

#[derive(Debug, thiserror::Error)]
pub(super) enum OpenDumpError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The dump is not what was sealed.
    #[error("it does not open: it was changed, is damaged or is cut off")]
    Sealed(#[from] OpenError),
    #[error("{0}")]
    Content(String),
    #[error("it could not be passed on: {0}")]
    Target(std::io::Error),
}

/// Dumps the database as of `snapshot` to the place, under the name of the backup.
pub(super) async fn write(
    config: &config::Config,
    server: i32,
    snapshot: &str,
    to: &BlobStore,
    backup: &str,
    key: &MasterKey,
) -> anyhow::Result<ObjectContent> {
    let snapshot = format!("--snapshot={snapshot}");
    let arguments = ["--format=custom", "--no-owner", "--no-password", "--no-sync", &snapshot];
    let mut command = programs::command(config, "pg_dump", server, &arguments).await?;
    let mut child = programs::start(command.stdout(std::process::Stdio::piped()))?;
    let mut writer = to.write(&object_name(backup, "dump")).await?;
    let written = seal_all(&mut child, &mut writer, key).await;
    match written {
        Ok(content) => {
            writer.finish().await?;
            Ok(content)
        }
        Err(error) => {
            writer.abort().await;
            Err(error)
        }
    }
}

/// Seals the output of a program. The last chunk is written only if the program exits successfully.
async fn seal_all(child: &mut Child, writer: &mut ObjectWriter, key: &MasterKey) -> anyhow::Result<ObjectContent> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (header, sealer) = key.seal_stream(KeyPurpose::Backups);
    let mut hash = ContentHasher::default();
    let sealing = async {
        let mut stdout = stdout.ok_or_else(|| anyhow::anyhow!("pg_dump has no output"))?;
        let mut sealer = sealer;
        append(writer, &mut hash, header.into()).await?;
        loop {
            let mut plain = vec![0; CHUNK_BYTES];
            let len = fill(&mut stdout, &mut plain).await?;
            plain.truncate(len);
            if len < CHUNK_BYTES {
                return Ok::<_, anyhow::Error>((sealer, plain));
            }
            let (returned, sealed) = seal(sealer, plain, false).await?;
            sealer = returned;
            append(writer, &mut hash, sealed).await?;
        }
    };
    let (last, complaint) = tokio::join!(sealing, read_stderr(stderr));
    let (sealer, last) = last?;
    let status = child.wait().await?;
    anyhow::ensure!(status.success(), "pg_dump failed ({status}): {}", complaint.trim());
    let (_, sealed) = seal(sealer, last, true).await?;
    append(writer, &mut hash, sealed).await?;
    Ok(hash.finish())
}

async fn seal(mut sealer: StreamSealer, plain: Vec<u8>, is_last: bool) -> anyhow::Result<(StreamSealer, Bytes)> {
    let sealing = tokio::task::spawn_blocking(move || {
        let sealed = sealer.seal(&plain, is_last);
        (sealer, sealed.into())
    });
    Ok(sealing.await?)
}

async fn append(writer: &mut ObjectWriter, hash: &mut ContentHasher, bytes: Bytes) -> Result<(), StoreError> {
    let bytes = hash.update(bytes).await?;
    writer.write(bytes).await
}

/// Reads until `buffer` is full or the input ends. Returns the number of bytes read.
async fn fill(from: &mut (impl AsyncRead + Unpin), buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match from.read(&mut buffer[len..]).await? {
            0 => break,
            read => len += read,
        }
    }
    Ok(len)
}

/// Reads the dump of a backup, and writes its plain text to `to`. A modified chunk is never passed on.
pub(super) async fn open(
    copier: &ObjectCopier,
    from: &BlobStore,
    key: &MasterKey,
    manifest: &Manifest,
    to: &mut (impl AsyncWrite + Unpin),
) -> Result<(), OpenDumpError> {
    let reader = from.read(&object_name(&manifest.name, "dump")).await?;
    let mut sealed = SealedDumpReader { copier, reader, buffer: BytesMut::new(), hash: ContentHasher::default() };
    let header: [u8; HEADER_LEN] = sealed.take_array().await?;
    let mut opener = key.open_stream(KeyPurpose::Backups, &header)?;
    loop {
        let length = ChunkLength::parse(sealed.take_array().await?)?;
        let chunk = sealed.take(length.bytes).await?;
        to.write_all(&opener.open(&chunk, length.is_last)?).await.map_err(OpenDumpError::Target)?;
        if length.is_last {
            break;
        }
    }
    if sealed.has_more().await? {
        return Err(OpenError.into());
    }
    match describe_difference(&sealed.hash.finish(), &manifest.dump) {
        None => Ok(()),
        Some(reason) => Err(OpenDumpError::Content(reason)),
    }
}

struct SealedDumpReader<'c> {
    copier: &'c ObjectCopier,
    reader: ObjectReader,
    buffer: BytesMut,
    hash: ContentHasher,
}

impl SealedDumpReader<'_> {
    async fn take(&mut self, len: usize) -> Result<BytesMut, OpenDumpError> {
        while self.buffer.len() < len {
            let piece = self.copier.next(&mut self.reader).await?.ok_or(OpenError)?;
            let piece = self.hash.update(piece).await?;
            self.buffer.extend_from_slice(&piece);
        }
        Ok(self.buffer.split_to(len))
    }

    async fn take_array<const N: usize>(&mut self) -> Result<[u8; N], OpenDumpError> {
        let taken = self.take(N).await?;
        Ok((&*taken).try_into().map_err(|_| OpenError)?)
    }

    async fn has_more(&mut self) -> Result<bool, OpenDumpError> {
        Ok(!self.buffer.is_empty() || self.copier.next(&mut self.reader).await?.is_some())
    }
}

pub(super) async fn read_stderr(stderr: Option<impl AsyncRead + Unpin>) -> String {
    let mut said = Vec::new();
    if let Some(mut stderr) = stderr {
        let _ = (&mut stderr).take(COMPLAINT_BYTES).read_to_end(&mut said).await;
        // Drain the rest, so that the program does not block.
        let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&said).into_owned()
}
