//! Compressed variants of bodies: which bodies get them, and how they are made.
//!
//! The compression levels are fast ones, chosen so that a documentation site of 60 MB is compressed three times over in
//! about a second on two cores.

use std::{
    fs::File,
    io::{self, Read},
    os::unix::fs::FileExt as _,
};

use brotli::enc::BrotliEncoderParams;
use flate2::{Compression, write::GzEncoder};

use super::{Encoding, Span, appender::DraftAppender};

/// The encodings of every compressible body.
pub(super) const ENCODINGS: [Encoding; 3] = [Encoding::Zstd, Encoding::Br, Encoding::Gzip];

/// Smaller bodies fit in the packet with the headers, so compressing them saves nothing.
const SMALLEST: u64 = 256;
/// Maximum size of a variant, in percent of the body, for it to be worth storing.
const MOST_PERCENT: u64 = 90;
const CHUNK_BYTES: usize = 128 * 1024;

const ZSTD_LEVEL: i32 = 3;
const BROTLI_QUALITY: i32 = 3;
/// A window of 2^20 bytes: a larger one costs memory and finds little more in a page or a script.
const BROTLI_WINDOW: i32 = 20;
const GZIP_LEVEL: u32 = 5;

/// Returns whether a body of this type and size gets variants.
pub(super) fn is_worth_it(content_type: &str, len: u64) -> bool {
    len >= SMALLEST && is_compressible(content_type)
}

/// Returns whether a variant is small enough, compared to its body, to be kept.
pub(super) fn is_small_enough(variant: u64, body: u64) -> bool {
    variant * 100 <= body * MOST_PERCENT
}

fn is_compressible(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default();
    essence.starts_with("text/")
        || essence.ends_with("+xml")
        || essence.ends_with("+json")
        || matches!(
            essence,
            "application/javascript"
                | "application/json"
                | "application/json5"
                | "application/ld+json"
                | "application/rtf"
                | "application/vnd.ms-fontobject"
                | "application/wasm"
                | "application/x-javascript"
                | "application/sql"
                | "application/toml"
                | "application/vnd.apple.mpegurl"
                | "application/x-sh"
                | "application/x-subrip"
                | "application/x-tex"
                | "application/xml"
                | "application/xml-dtd"
                | "application/yaml"
                | "font/otf"
                | "font/ttf"
                | "image/bmp"
                | "image/vnd.microsoft.icon"
                | "model/obj"
                | "model/stl"
        )
}

pub(super) struct BodyCompressor {
    chunk: Vec<u8>,
}

impl BodyCompressor {
    pub(super) fn new() -> Self {
        Self { chunk: vec![0; CHUNK_BYTES] }
    }

    /// Compresses the body at `span` of `data` and appends it to `out`.
    pub(super) fn compress(
        &mut self,
        encoding: Encoding,
        data: &File,
        span: Span,
        out: &mut DraftAppender<'_>,
    ) -> io::Result<()> {
        let mut body = BodyReader { data, span };
        match encoding {
            Encoding::Zstd => {
                let mut encoder = zstd::Encoder::new(out, ZSTD_LEVEL)?;
                encoder.set_pledged_src_size(Some(span.len))?;
                self.feed(&mut body, &mut encoder)?;
                encoder.finish()?;
            }
            Encoding::Gzip => {
                let mut encoder = GzEncoder::new(out, Compression::new(GZIP_LEVEL));
                self.feed(&mut body, &mut encoder)?;
                encoder.finish()?;
            }
            Encoding::Br => {
                let params = BrotliEncoderParams {
                    quality: BROTLI_QUALITY,
                    lgwin: BROTLI_WINDOW,
                    size_hint: usize::try_from(span.len).unwrap_or(0),
                    ..BrotliEncoderParams::default()
                };
                brotli::BrotliCompress(&mut body, out, &params)?;
            }
        }
        Ok(())
    }

    fn feed(&mut self, body: &mut BodyReader<'_>, encoder: &mut impl io::Write) -> io::Result<()> {
        loop {
            let read = body.read(&mut self.chunk)?;
            if read == 0 {
                return Ok(());
            }
            encoder.write_all(&self.chunk[..read])?;
        }
    }
}

struct BodyReader<'d> {
    data: &'d File,
    span: Span,
}

impl Read for BodyReader<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.span.len).unwrap_or(usize::MAX).min(buf.len());
        let read = self.data.read_at(&mut buf[..most], self.span.offset)?;
        if read == 0 && most > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.span.offset += read as u64;
        self.span.len -= read as u64;
        Ok(read)
    }
}
