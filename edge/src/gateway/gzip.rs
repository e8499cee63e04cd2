//! An answer that came compressed although we asked for none.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};

/// Unfolds an answer piece by piece.
pub(super) struct Unzipping(MultiGzDecoder<Vec<u8>>);

/// It is compressed in a way that is not gzip, or broken.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the answer is compressed in a way that cannot be read")]
pub(super) struct BadGzip;

impl Unzipping {
    /// What an answer with these fields needs.
    pub(super) fn of(headers: &HeaderMap) -> Result<Option<Self>, BadGzip> {
        let mut encodings = headers.get_all(header::CONTENT_ENCODING).iter().map(http::HeaderValue::as_bytes);
        match (encodings.next(), encodings.next()) {
            (None | Some(b"identity" | b""), None) => Ok(None),
            (Some(b"gzip" | b"x-gzip"), None) => Ok(Some(Self(MultiGzDecoder::new(Vec::new())))),
            _ => Err(BadGzip),
        }
    }

    /// What the next bytes unfold to. Deflate makes at most about a thousand bytes of one.
    pub(super) fn take(&mut self, zipped: &[u8]) -> Result<Vec<u8>, BadGzip> {
        self.0.write_all(zipped).and_then(|()| self.0.flush()).map_err(|_| BadGzip)?;
        Ok(std::mem::take(self.0.get_mut()))
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    #[test]
    fn what_is_flushed_is_seen_at_once() {
        let headers = HeaderMap::from_iter([(header::CONTENT_ENCODING, "gzip".parse().unwrap())]);
        let mut unzipping = Unzipping::of(&headers).unwrap().unwrap();
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        for word in ["data: one\n\n", "data: two\n\n"] {
            encoder.write_all(word.as_bytes()).unwrap();
            encoder.flush().unwrap();
            let zipped = std::mem::take(encoder.get_mut());
            let plain: Vec<u8> = zipped.chunks(1).flat_map(|byte| unzipping.take(byte).unwrap()).collect();
            assert_eq!(plain, word.as_bytes());
        }
        let end = encoder.finish().unwrap();
        assert_eq!(unzipping.take(&end).unwrap(), b"");
        assert!(unzipping.take(b"what is no gzip, at some length").is_err());
    }

    #[test]
    fn other_encodings_are_refused() {
        let encoded = |names: &[&str]| {
            Unzipping::of(&names.iter().map(|name| (header::CONTENT_ENCODING, name.parse().unwrap())).collect())
        };
        assert!(encoded(&[]).unwrap().is_none());
        assert!(encoded(&["identity"]).unwrap().is_none());
        assert!(encoded(&["br"]).is_err());
        assert!(encoded(&["gzip", "gzip"]).is_err());
    }
}
