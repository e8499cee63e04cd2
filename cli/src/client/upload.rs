//! The upload of a packed folder.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use api::deployments::Uploaded;
use domain::access::SitePassword;
use futures_util::{Stream, stream};
use indicatif::ProgressBar;
use reqwest::{
    Body, Method,
    header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue},
};

use super::{ApiResponse, Client, RetrySafety, idempotency_key};
use crate::{failure::Failure, pack::PackedArchive};

/// The timeout of one upload: 100 MB at half a megabit per second take 27 minutes.
const UPLOAD_TIMEOUT: Duration = Duration::from_mins(30);
const CHUNK: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct UploadRequest<'a> {
    pub(crate) path: &'a str,
    pub(crate) archive: PackedArchive,
    pub(crate) git_sha: Option<String>,
    /// The password of a share, sent with the upload so that the gate is in place before the first request.
    pub(crate) password: Option<&'a SitePassword>,
    pub(crate) progress: &'a ProgressBar,
}

impl Client {
    /// Uploads the archive. If the connection drops, it is sent again with the same `Idempotency-Key`.
    pub(crate) async fn upload(&self, upload: UploadRequest<'_>) -> Result<ApiResponse<Uploaded>, Failure> {
        let UploadRequest { path, archive, git_sha, password, progress } = upload;
        let password = password.map(header_password).transpose()?;
        let file = Arc::new(Mutex::new(archive.file));
        let key = idempotency_key();
        let request = || {
            progress.set_message("Uploading");
            progress.set_position(0);
            let content = chunks(Arc::clone(&file), progress.clone());
            let mut request = self
                .signed(Method::POST, path)?
                .timeout(UPLOAD_TIMEOUT)
                .header(CONTENT_TYPE, archive.media_type)
                .header(CONTENT_LENGTH, archive.bytes)
                .header("Idempotency-Key", &key)
                .header("X-Svc-Cli-Version", env!("CARGO_PKG_VERSION"));
            if let Some(sha) = &git_sha {
                request = request.header("X-Svc-Git-Sha", sha);
            }
            if let Some(password) = &password {
                request = request.header("X-Svc-Share-Password", password);
            }
            Ok(request.body(Body::wrap_stream(content)))
        };
        self.answer(request, RetrySafety::Repeatable).await
    }
}

fn header_password(password: &SitePassword) -> Result<HeaderValue, Failure> {
    let text = password.expose();
    let refused = || Failure::usage("The password must not begin or end with a space, nor hold control characters.");
    if text.trim_matches([' ', '\t']) != text {
        return Err(refused());
    }
    let mut value = HeaderValue::from_bytes(text.as_bytes()).map_err(|_| refused())?;
    value.set_sensitive(true);
    Ok(value)
}

/// Streams the file from its beginning. Every read seeks, because an earlier attempt may still be reading.
fn chunks(file: Arc<Mutex<File>>, progress: ProgressBar) -> impl Stream<Item = io::Result<Vec<u8>>> {
    stream::try_unfold(0_u64, move |offset| {
        let read = read_at(&file, offset);
        let progress = progress.clone();
        async move {
            let chunk = read?;
            progress.inc(chunk.len() as u64);
            let next = offset + chunk.len() as u64;
            if progress.length() == Some(next) {
                // The upload is complete; the service unpacks it and notifies its edges.
                progress.set_message("Publishing");
            }
            Ok((!chunk.is_empty()).then_some((chunk, next)))
        }
    })
}

fn read_at(file: &Mutex<File>, offset: u64) -> io::Result<Vec<u8>> {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    file.seek(SeekFrom::Start(offset))?;
    let mut chunk = Vec::with_capacity(CHUNK);
    file.by_ref().take(CHUNK as u64).read_to_end(&mut chunk)?;
    Ok(chunk)
}
