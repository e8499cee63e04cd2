//! Sites to publish: a few files, and the tarball that is uploaded.

use std::io::Write as _;

use flate2::{Compression, write::GzEncoder};

/// The files of a site, by path.
#[derive(Debug, Clone, Default)]
pub struct Site(Vec<(String, Vec<u8>)>);

impl Site {
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a site with one page that contains `text`.
    pub fn page(text: &str) -> Self {
        Self::new().file("index.html", text)
    }

    pub fn file(mut self, path: &str, body: impl AsRef<[u8]>) -> Self {
        self.0.push((path.to_owned(), body.as_ref().to_vec()));
        self
    }

    pub fn tarball(&self) -> Vec<u8> {
        self.tarball_at(Compression::fast())
    }

    /// Returns the site as a gzipped but uncompressed tarball, which is as large as its files.
    pub fn stored_tarball(&self) -> Vec<u8> {
        self.tarball_at(Compression::none())
    }

    fn tarball_at(&self, level: Compression) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (path, body) in &self.0 {
            let mut header = tar::Header::new_gnu();
            header.set_size(body.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, path, body.as_slice()).unwrap();
        }
        gzip_at(&tar.into_inner().unwrap(), level)
    }
}

/// Compresses `bytes` with a fast level.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    gzip_at(bytes, Compression::fast())
}

fn gzip_at(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rand::RngExt::fill(&mut rand::rng(), bytes.as_mut_slice());
    bytes
}
