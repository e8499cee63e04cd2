//! Reads response bodies into memory, with a limit on their size.

use reqwest::Response;

#[derive(Debug)]
pub(super) enum BodyError {
    Broken(reqwest::Error),
    TooLong,
}

/// Reads a body to its end, and fails if it is longer than `most` bytes.
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
