//! Bodies that are held in memory whole: each has a bound, whatever its server sends.

use reqwest::Response;

/// Why a body was not read.
#[derive(Debug)]
pub(super) enum BodyError {
    /// The connection broke.
    Broken(reqwest::Error),
    /// It is longer than it may be.
    TooLong,
}

/// Reads a body to its end, unless it is longer than `most` bytes.
pub(super) async fn read(mut response: Response, most: u64) -> Result<Vec<u8>, BodyError> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(BodyError::Broken)? {
        if (body.len() + part.len()) as u64 > most {
            return Err(BodyError::TooLong);
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}
