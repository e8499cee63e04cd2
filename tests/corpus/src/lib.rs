//! The corpus of uploads: hostile and unusual archives, each with the answer it must get.
//!
//! They are made, not stored: reading how a case is made says what it is about. The table-driven test of the reader
//! (`common/packs/tests/store`) and the black-box tests, which upload each to a running service, go through the same
//! [`cases`]. Start with [`tarball::Tarball`]; a case is added to the file of what it plays with.

mod frames;
mod framing;
mod kinds;
mod names;
mod sizes;
pub mod tarball;
pub mod zip;
mod zips;

pub use tarball::Tarball;

/// One upload.
#[derive(Debug, Clone)]
pub struct Case {
    /// The unique name of the case, in `snake_case`.
    pub name: String,
    /// The form that the upload is said to have.
    pub form: Form,
    /// The upload's body.
    pub bytes: Vec<u8>,
    /// The answer that the upload must get.
    pub expect: Expect,
}

/// The form of an archive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A tar archive in gzip.
    TarGzip,
    /// A tar archive in Zstandard.
    TarZstd,
    /// A zip archive.
    Zip,
}

impl Form {
    /// The media type of an upload.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::TarGzip => "application/gzip",
            Self::TarZstd => "application/zstd",
            Self::Zip => "application/zip",
        }
    }
}

/// What must come of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// It is published, with these files and no others: path and length, in any order.
    Files(Vec<(String, u64)>),
    /// 400 `invalid_archive`.
    Invalid,
    /// 413 `payload_too_large`.
    TooLarge,
}

impl Expect {
    /// The status that an upload of it gets.
    pub fn status(&self) -> u16 {
        match self {
            Self::Files(_) => 201,
            Self::Invalid => 400,
            Self::TooLarge => 413,
        }
    }

    /// The error code that an upload of it gets; none when it is published.
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Files(_) => None,
            Self::Invalid => Some("invalid_archive"),
            Self::TooLarge => Some("payload_too_large"),
        }
    }
}

/// All cases.
pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    names::add(&mut cases);
    kinds::add(&mut cases);
    sizes::add(&mut cases);
    framing::add(&mut cases);
    frames::add(&mut cases);
    zips::add(&mut cases);
    cases
}

fn invalid(cases: &mut Vec<Case>, name: impl Into<String>, bytes: Vec<u8>) {
    cases.push(Case { name: name.into(), form: Form::TarGzip, bytes, expect: Expect::Invalid });
}

fn too_large(cases: &mut Vec<Case>, name: impl Into<String>, bytes: Vec<u8>) {
    cases.push(Case { name: name.into(), form: Form::TarGzip, bytes, expect: Expect::TooLarge });
}

fn good(cases: &mut Vec<Case>, name: impl Into<String>, bytes: Vec<u8>, files: &[(&str, u64)]) {
    let files = files.iter().map(|&(path, len)| (path.to_owned(), len)).collect();
    cases.push(Case { name: name.into(), form: Form::TarGzip, bytes, expect: Expect::Files(files) });
}
