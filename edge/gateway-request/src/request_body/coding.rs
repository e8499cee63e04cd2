//! The content codings of request bodies, gzip and Zstandard, decoded in bounded steps.

use std::io::{self, Write};

use flate2::write::MultiGzDecoder;
use http::{HeaderMap, header};
use zstd::{
    stream::raw::{self, InBuffer, Operation as _, OutBuffer},
    zstd_safe::DParameter,
};

use super::super::error::ApiError;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ContentCoding {
    Identity,
    Gzip,
    Zstd,
}

pub(super) enum BodyDecoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    Zstd { decoder: raw::Decoder<'static>, out: Vec<u8>, is_between: bool },
}

/// The body does not match its coding, or was cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DecodeError;

impl ContentCoding {
    /// Parses the coding from the headers. At most one coding is accepted.
    pub(super) fn from_headers(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut codings = headers
            .get_all(header::CONTENT_ENCODING)
            .iter()
            .flat_map(|line| line.as_bytes().split(|byte| *byte == b','))
            .map(|coding| coding.trim_ascii().to_ascii_lowercase())
            .filter(|coding| !coding.is_empty());
        match (codings.next().as_deref(), codings.next()) {
            (None | Some(b"identity"), None) => Ok(Self::Identity),
            (Some(b"gzip" | b"x-gzip"), None) => Ok(Self::Gzip),
            (Some(b"zstd"), None) => Ok(Self::Zstd),
            _ => Err(ApiError::unsupported_coding()),
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// Creates a decoder, or returns `None` for an unencoded body.
    pub(super) fn decoder(self) -> Result<Option<BodyDecoder>, DecodeError> {
        match self {
            Self::Identity => Ok(None),
            Self::Gzip => Ok(Some(BodyDecoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))))),
            Self::Zstd => {
                let mut decoder = raw::Decoder::new().map_err(damaged)?;
                decoder.set_parameter(DParameter::WindowLogMax(limits::ZSTD_WINDOW_LOG)).map_err(damaged)?;
                let out = vec![0; limits::UNZIPPED_PIECE_BYTES];
                Ok(Some(BodyDecoder::Zstd { decoder, out, is_between: false }))
            }
        }
    }
}

impl BodyDecoder {
    /// Decodes a part of `encoded` and advances past it. Returns the output, at most 2 MB.
    pub(super) fn step(&mut self, encoded: &mut &[u8]) -> Result<&[u8], DecodeError> {
        match self {
            Self::Gzip(decoder) => {
                decoder.get_mut().clear();
                let (piece, rest) = encoded.split_at(encoded.len().min(limits::ZIPPED_PIECE_BYTES));
                decoder.write_all(piece).and_then(|()| decoder.flush()).map_err(damaged)?;
                *encoded = rest;
                Ok(decoder.get_ref())
            }
            Self::Zstd { decoder, out, is_between } => {
                let (mut from, mut to) = (InBuffer::around(encoded), OutBuffer::around(&mut out[..]));
                let left = decoder.run(&mut from, &mut to).map_err(damaged)?;
                let (taken, made) = (from.pos(), to.pos());
                // Without progress, what remains is the header of a frame that need not follow.
                if taken > 0 || made > 0 {
                    *is_between = left == 0;
                }
                *encoded = &encoded[taken..];
                Ok(&out[..made])
            }
        }
    }

    /// Returns whether consumed input may still be buffered, so that another step is worthwhile even without new input.
    pub(super) fn may_hold_more(&self, made: usize) -> bool {
        match self {
            Self::Gzip(_) => false,
            Self::Zstd { out, .. } => made == out.len(),
        }
    }

    /// Checks that the body is complete.
    pub(super) fn finish(self) -> Result<Vec<u8>, DecodeError> {
        match self {
            Self::Gzip(mut decoder) => {
                decoder.get_mut().clear();
                decoder.finish().map_err(damaged)
            }
            Self::Zstd { is_between: true, .. } => Ok(Vec::new()),
            Self::Zstd { .. } => Err(DecodeError),
        }
    }
}

fn damaged(_: io::Error) -> DecodeError {
    DecodeError
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Maximum bytes that one step of decoding any body produces: [`ZIPPED_PIECE_BYTES`] of gzip can expand a thousandfold.
    const UNZIPPED_STEP_BYTES: usize = 2 * 1024 * 1024;

    fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(plain).unwrap();
        encoder.finish().unwrap()
    }

    fn decode(coding: ContentCoding, encoded: &[u8], piece: usize) -> Result<Vec<u8>, DecodeError> {
        let mut decoder = coding.decoder()?.unwrap();
        let mut plain = Vec::new();
        for mut piece in encoded.chunks(piece) {
            loop {
                let made = decoder.step(&mut piece)?;
                assert!(made.len() <= UNZIPPED_STEP_BYTES, "{}", made.len());
                let count = made.len();
                plain.extend_from_slice(made);
                if piece.is_empty() && !decoder.may_hold_more(count) {
                    break;
                }
            }
        }
        plain.extend(decoder.finish()?);
        Ok(plain)
    }

    #[test]
    fn what_is_decoded_is_what_was_encoded_in_bounded_steps() {
        let words: Vec<u8> = (0..300_000_u32).flat_map(u32::to_le_bytes).collect();
        for plain in [&b""[..], b"{}", &vec![b' '; 5_000_000], &words] {
            for piece in [1, 7, 1_000, 100_000_000] {
                if piece == 1 && plain.len() > 1_000_000 && plain[0] != b' ' {
                    continue;
                }
                assert!(decode(ContentCoding::Gzip, &gzip(plain), piece).as_deref() == Ok(plain), "{}", plain.len());
                let zipped = zstd::encode_all(plain, 3).unwrap();
                assert!(decode(ContentCoding::Zstd, &zipped, piece).as_deref() == Ok(plain), "{}", plain.len());
            }
        }
        // Two members, and two frames.
        assert_eq!(decode(ContentCoding::Gzip, &[gzip(b"a"), gzip(b"b")].concat(), 3).unwrap(), b"ab");
        let frames = [zstd::encode_all(&b"a"[..], 3).unwrap(), zstd::encode_all(&b"b"[..], 3).unwrap()].concat();
        assert_eq!(decode(ContentCoding::Zstd, &frames, 3).unwrap(), b"ab");
    }

    #[test]
    fn what_is_damaged_or_cut_off_is_no_body() {
        let plain = vec![b'x'; 100_000];
        for (coding, whole) in
            [(ContentCoding::Gzip, gzip(&plain)), (ContentCoding::Zstd, zstd::encode_all(&plain[..], 3).unwrap())]
        {
            for end in [0, 1, 5, whole.len() - 1] {
                assert_eq!(decode(coding, &whole[..end], 1_000), Err(DecodeError), "{coding:?} {end}");
            }
            assert_eq!(decode(coding, b"{\"model\":\"x\"}", 1_000), Err(DecodeError));
            assert_eq!(decode(coding, &[&whole[..], b"more"].concat(), 1_000), Err(DecodeError));
        }
        // A frame that requires a window of more than 8 MB.
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(27).unwrap();
        encoder.write_all(&vec![b'x'; 20 << 20]).unwrap();
        assert_eq!(decode(ContentCoding::Zstd, &encoder.finish().unwrap(), 1_000), Err(DecodeError));
    }

    #[test]
    fn one_coding_is_taken() {
        let of = |lines: &[&str]| {
            let headers = lines.iter().map(|line| (header::CONTENT_ENCODING, line.parse().unwrap())).collect();
            ContentCoding::from_headers(&headers).map_err(|error| error.status().as_u16())
        };
        for (lines, coding) in [
            (&[][..], ContentCoding::Identity),
            (&["identity"], ContentCoding::Identity),
            (&[""], ContentCoding::Identity),
            (&["GZip"], ContentCoding::Gzip),
            (&[" x-gzip "], ContentCoding::Gzip),
            (&["zstd"], ContentCoding::Zstd),
        ] {
            assert_eq!(of(lines), Ok(coding), "{lines:?}");
        }
        for lines in [&["br"][..], &["deflate"], &["gzip, zstd"], &["identity, gzip"], &["gzip", "gzip"], &["\u{e9}"]] {
            assert_eq!(of(lines), Err(415), "{lines:?}");
        }
    }
}
