//! Receives uploads: checks the headers, waits for the account's turn, and writes the body to a file in the spool
//! folder, never to memory. The permit to publish is acquired once the body has arrived, so that a slow client blocks
//! nobody.

use std::{fs::File, path::Path, time::Duration};

use admin_http::error::{ApiError, Code, PossibleError};
use app::{
    bounds::{AccountPermit, ConcurrencyLimits, SPOOL_RETRY},
    metrics,
};
use axum::{body::Body, http::HeaderMap};
use db::projects::deployments::UploadOrigin;
use domain::{PayingAccount, limits::UPLOAD_BYTES, line, size};
use fairness::HeldAmount;
use futures_util::StreamExt as _;
use http::{HeaderName, header};
use packs::{StoreError, UploadFormat, WriteError};
use sha2::{Digest as _, Sha256};
use tokio::{io::AsyncWriteExt as _, time::Instant};

const STALL: Duration = Duration::from_secs(20);
/// The lowest rate of a body after [`GRACE`], in bytes per second.
const SLOWEST: u64 = 16 * 1024;
/// How long a body may take before its rate is checked.
const GRACE: Duration = Duration::from_secs(30);
/// The longest time for a whole body, well below the hour after which an upload counts as dead.
const LONGEST: Duration = Duration::from_mins(30);
const WRITE_BUFFER: usize = 64 * 1024;

const CLI_VERSION: HeaderName = HeaderName::from_static("x-svc-cli-version");
const GIT_SHA: HeaderName = HeaderName::from_static("x-svc-git-sha");
const ORIGIN_CHARS: usize = 200;

/// The headers that describe the origin of an upload.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes headers that are read by hand, because an odd one is recorded and not refused")]
pub struct OriginHeaders {
    /// The client's version, recorded with the deployment: its first 200 printable characters.
    #[param(rename = "x-svc-cli-version")]
    cli_version: Option<String>,
    /// The commit that is published, recorded with the deployment: its first 200 printable characters.
    #[param(rename = "x-svc-git-sha")]
    git_sha: Option<String>,
}

/// The errors of receiving an archive and creating a deployment from it.
pub const UPLOAD_ERRORS: &[PossibleError] = &[
    PossibleError::new(Code::InvalidRequest, "the upload broke off, or the `Idempotency-Key` breaks a rule"),
    PossibleError::new(
        Code::InvalidArchive,
        "the archive cannot be published; the message names the entry and the reason",
    ),
    PossibleError::new(Code::RequestTimeout, "the body stood still, or arrived too slowly"),
    PossibleError::new(Code::PayloadTooLarge, "the archive, one of its files, or all files together are too large"),
    PossibleError::new(
        Code::UnsupportedMediaType,
        "`Content-Type` is none of `application/gzip`, `application/x-gzip`, `application/zip` and `application/zstd`",
    ),
    PossibleError::new(Code::PlanLimitReached, "the owner's plan has no room for more files"),
    PossibleError::new(
        Code::Busy,
        "the account has as many uploads under way as it may, the server does as much as it can, its disk is nearly full, or its \
         store does not answer",
    ),
];

/// One of an account's limited concurrent uploads, held until it is dropped.
#[derive(Debug)]
pub struct UploadSlot {
    _turn: AccountPermit,
    /// The room that the body takes in the spool.
    spool: HeldAmount<PayingAccount>,
    bounds: ConcurrencyLimits,
}

/// A received body. The file has no name, so it is deleted when this is dropped.
#[derive(Debug)]
pub struct ReceivedBody {
    /// The body.
    pub file: File,
    /// The body's SHA-256.
    pub sha256: [u8; 32],
    /// The slot, held until the upload is published or has failed.
    pub slot: UploadSlot,
}

impl UploadSlot {
    /// Waits for a slot of `account` for the upload with these headers. The body is still unread, so a refused upload
    /// can go to another admin.
    pub async fn wait(
        bounds: &ConcurrencyLimits,
        account: &PayingAccount,
        headers: &HeaderMap,
    ) -> Result<Self, ApiError> {
        bounds.check_spool(account, length(headers).unwrap_or_default())?;
        Ok(Self { _turn: bounds.upload(account).await?, spool: bounds.spool(account), bounds: bounds.clone() })
    }

    /// Writes the body to an unnamed file in `folder`.
    pub async fn receive(mut self, body: Body, folder: &Path) -> Result<ReceivedBody, ApiError> {
        let (spool, bounds) = (&mut self.spool, &self.bounds);
        let spooled = |bytes| spool.grow(bytes).map_err(|refused| bounds.spool_full_error(refused));
        let (file, sha256) = receive(body, folder, spooled).await?;
        Ok(ReceivedBody { file, sha256, slot: self })
    }
}

const FORMATS: [(&str, UploadFormat); 5] = [
    ("application/gzip", UploadFormat::TarGzip),
    ("application/x-gzip", UploadFormat::TarGzip),
    ("application/zip", UploadFormat::Zip),
    // Windows uses this type.
    ("application/x-zip-compressed", UploadFormat::Zip),
    ("application/zstd", UploadFormat::TarZstd),
];

/// Checks the headers of an upload. Returns the format of its archive.
pub fn check_headers(headers: &HeaderMap) -> Result<UploadFormat, ApiError> {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let format = FORMATS.iter().find(|(name, _)| media_type.eq_ignore_ascii_case(name));
    let &(_, format) = format.ok_or_else(|| {
        ApiError::new(
            Code::UnsupportedMediaType,
            "Send a gzipped tarball with `Content-Type: application/gzip`, a zip archive with `application/zip` or a \
             tarball compressed by Zstandard with `application/zstd`. With curl, that is `-H 'Content-Type: …'`, and the \
             archive by `--data-binary @file`.",
        )
    })?;
    if length(headers).is_some_and(|length| length > UPLOAD_BYTES) { Err(too_large()) } else { Ok(format) }
}

/// Returns what the format contributes to the shape of a request, against which its `Idempotency-Key` is compared. Gzip
/// contributes nothing, because earlier versions had only that format.
pub fn format_shape(format: UploadFormat) -> Option<&'static str> {
    FORMATS
        .iter()
        .find(|(_, known)| *known == format)
        .map(|&(name, _)| name)
        .filter(|_| format != UploadFormat::TarGzip)
}

fn length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Writes the body to an unnamed file in `folder`, and returns it with its SHA-256. Calls `spooled` before each write,
/// which may refuse it.
async fn receive(
    body: Body,
    folder: &Path,
    mut spooled: impl FnMut(u64) -> Result<(), ApiError>,
) -> Result<(File, [u8; 32]), ApiError> {
    let spool = tempfile::tempfile_in(folder).map_err(spool_error)?;
    let mut spool = tokio::io::BufWriter::with_capacity(WRITE_BUFFER, tokio::fs::File::from_std(spool));
    let mut chunks = body.into_data_stream();
    let mut sha256 = Sha256::new();
    let mut received = 0;
    let start = Instant::now();
    loop {
        let deadline = (start + slowest_pace(received)).min(Instant::now() + STALL);
        let chunk = match tokio::time::timeout_at(deadline, chunks.next()).await {
            Ok(Some(Ok(chunk))) => chunk,
            Ok(Some(Err(error))) => {
                tracing::debug!(%error, received, "an upload broke off");
                return Err(ApiError::invalid("The upload broke off before it was complete; please try again."));
            }
            Ok(None) => break,
            Err(_) => return Err(too_slow()),
        };
        received += chunk.len() as u64;
        if received > UPLOAD_BYTES {
            return Err(too_large());
        }
        spooled(chunk.len() as u64)?;
        sha256.update(&chunk);
        spool.write_all(&chunk).await.map_err(spool_error)?;
    }
    if received == 0 {
        return Err(ApiError::new(Code::InvalidArchive, "The body is empty; send an archive."));
    }
    spool.flush().await.map_err(spool_error)?;
    let file = spool.into_inner().into_std().await;
    Ok((file, sha256.finalize().into()))
}

/// Returns when a body that has sent this many bytes must send the next one, counted from its start.
fn slowest_pace(received: u64) -> Duration {
    (GRACE + Duration::from_secs(received / SLOWEST)).min(LONGEST)
}

/// Returns the origin of an upload. The headers are for people to read: they are recorded as sent, without unprintable
/// characters.
pub fn origin(headers: &HeaderMap, created_by: String) -> UploadOrigin {
    let recorded = |name| {
        let text = String::from_utf8_lossy(headers.get(name)?.as_bytes()).into_owned();
        let printable = line::strip_hidden(&text, ORIGIN_CHARS);
        Some(printable.trim().to_owned()).filter(|text| !text.is_empty())
    };
    UploadOrigin { cli_version: recorded(CLI_VERSION), git_sha: recorded(GIT_SHA), created_by: Some(created_by) }
}

fn too_large() -> ApiError {
    ApiError::new(Code::PayloadTooLarge, format!("The archive is larger than {}.", size(UPLOAD_BYTES)))
}

fn too_slow() -> ApiError {
    ApiError::new(Code::RequestTimeout, "The upload stood still or was too slow; please try again.")
}

pub(super) fn spool_error(error: std::io::Error) -> ApiError {
    metrics::upload_refused("spool");
    let message = "The upload cannot be kept at the moment; please try again in a moment.";
    ApiError::new(Code::Busy, message).retry_after(SPOOL_RETRY).retry_elsewhere().caused_by(error)
}

/// Converts the error of an archive that cannot be published.
pub(crate) fn write_error(error: WriteError) -> ApiError {
    match error {
        WriteError::Archive(error) if error.is_too_large() => ApiError::new(Code::PayloadTooLarge, error.to_string()),
        WriteError::Archive(error) => ApiError::new(Code::InvalidArchive, error.to_string()),
        WriteError::Store(error) => store_error(error),
    }
}

/// Returns the error for an upload that the store does not accept. A temporary failure may pass; a missing bucket or
/// folder is for the operator to repair.
pub(crate) fn store_error(error: StoreError) -> ApiError {
    if error.is_transient() {
        metrics::store_failed();
        ApiError::store_unavailable().caused_by(error)
    } else {
        ApiError::internal(error)
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_bytes(value.as_bytes()).unwrap())).collect()
    }

    #[test]
    fn only_archives_of_allowed_length_are_let_in() {
        for (media_type, format) in FORMATS {
            assert_eq!(check_headers(&headers(&[(header::CONTENT_TYPE, media_type)])).unwrap(), format);
        }
        for good in ["application/gzip", "Application/X-GZIP", "application/gzip; charset=binary"] {
            assert!(check_headers(&headers(&[(header::CONTENT_TYPE, good)])).is_ok(), "{good}");
        }
        for bad in
            ["application/x-tar", "application/zipped", "application/gzipped", "", "text/plain; application/gzip"]
        {
            let code = check_headers(&headers(&[(header::CONTENT_TYPE, bad)])).unwrap_err().code();
            assert_eq!(code, Code::UnsupportedMediaType, "{bad}");
        }
        assert!(check_headers(&HeaderMap::new()).is_err());
        let length = |text| {
            check_headers(&headers(&[(header::CONTENT_TYPE, "application/gzip"), (header::CONTENT_LENGTH, text)]))
        };
        assert!(length("104857600").is_ok());
        assert_eq!(length("104857601").unwrap_err().code(), Code::PayloadTooLarge);
    }

    #[test]
    fn origins_are_recorded_as_far_as_they_can_be_read() {
        let good = origin(&headers(&[(CLI_VERSION, "svc 1.2.3"), (GIT_SHA, "0123ABC")]), "ada".into());
        assert_eq!((good.cli_version.as_deref(), good.git_sha.as_deref()), (Some("svc 1.2.3"), Some("0123ABC")));
        let odd = origin(&headers(&[(CLI_VERSION, "\t"), (GIT_SHA, "not a\tsha, v1 \u{fc}ber")]), "ada".into());
        assert_eq!((odd.cli_version, odd.git_sha.as_deref()), (None, Some("not asha, v1 \u{fc}ber")));
        let long = HeaderMap::from_iter([(GIT_SHA, HeaderValue::try_from("x".repeat(5_000)).unwrap())]);
        assert_eq!(origin(&long, "ada".into()).git_sha.unwrap().len(), ORIGIN_CHARS);
        assert_eq!(origin(&HeaderMap::new(), "ada".into()).git_sha, None);
    }

    #[test]
    fn the_pace_is_bounded_on_both_sides() {
        assert_eq!(slowest_pace(0), GRACE);
        assert_eq!(slowest_pace(UPLOAD_BYTES), LONGEST);
    }

    #[tokio::test]
    async fn an_empty_body_is_called_empty() {
        let refusal = receive(Body::empty(), &std::env::temp_dir(), |_| Ok(())).await.unwrap_err();
        assert_eq!(refusal.code(), Code::InvalidArchive);
        assert!(refusal.message().contains("empty"));
    }

    #[tokio::test]
    async fn a_body_is_spooled_and_hashed() {
        use std::io::{Read as _, Seek as _};
        let folder = tempfile::tempdir().unwrap();
        let (mut file, sha256) = receive(Body::from("abc"), folder.path(), |_| Ok(())).await.unwrap();
        let full = receive(Body::from("abc"), folder.path(), |_| Err(app::bounds::overloaded())).await.unwrap_err();
        assert_eq!(full.code(), Code::Busy);
        assert_eq!(hex::encode(&sha256[..4]), "ba7816bf");
        file.rewind().unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "abc");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
