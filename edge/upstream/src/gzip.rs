//! Decodes answers that providers compress although the gateway asks them not to.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};

/// Decodes a gzip-compressed answer piece by piece, as it arrives.
pub struct GzipDecoder(MultiGzDecoder<Vec<u8>>);

/// The answer has an encoding other than gzip, or is not valid gzip.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the answer is compressed in a way that cannot be read")]
pub struct GzipError;

impl GzipDecoder {
    /// Creates the decoder for an answer with these headers, or returns `None` if it is not compressed.
    pub fn for_headers(headers: &HeaderMap) -> Result<Option<Self>, GzipError> {
        let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter();
        let (encoding, other) = (encodings.next().map(|value| value.as_bytes().to_ascii_lowercase()), encodings.next());
        match (encoding.as_deref(), other) {
            (None | Some(b"identity" | b""), None) => Ok(None),
            (Some(b"gzip" | b"x-gzip"), None) => Ok(Some(Self(MultiGzDecoder::new(Vec::new())))),
            _ => Err(GzipError),
        }
    }

    /// Decodes all of the next bytes. One byte can decode to about a thousand.
    pub fn decode(&mut self, zipped: &[u8]) -> Result<Vec<u8>, GzipError> {
        self.0.write_all(zipped).and_then(|()| self.0.flush()).map_err(|_| GzipError)?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn flushed_bytes_are_decoded_immediately() {
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, "gzip".parse().unwrap())]);
        let mut decoder = GzipDecoder::for_headers(&headers).unwrap().unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        for word in ["data: one\n\n", "data: two\n\n"] {
            encoder.write_all(word.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let zipped = std::mem::take(encoder.get_mut());
            let plain: Vec<u8> = zipped.chunks(1).flat_map(|byte| decoder.decode(byte).unwrap()).collect();
            assert_eq!(plain, word.as_bytes());
        }
        let end = encoder.finish().unwrap();
        assert_eq!(decoder.decode(&end).unwrap(), b"");
        assert!(decoder.decode(b"what is no gzip, at some length").is_err());
    }

    #[test]
    fn other_encodings_are_refused() {
        let encoded = |names: &[&str]| {
            GzipDecoder::for_headers(
                &names.iter().map(|name| (header::CONTENT_ENCODING, name.parse().unwrap())).collect(),
            )
        };
        assert!(encoded(&[]).unwrap().is_none());
        assert!(encoded(&["identity"]).unwrap().is_none());
        assert!(encoded(&["Identity"]).unwrap().is_none());
        assert!(encoded(&["GZip"]).unwrap().is_some());
        assert!(encoded(&["br"]).is_err());
        assert!(encoded(&["gzip", "gzip"]).is_err());
    }
}
