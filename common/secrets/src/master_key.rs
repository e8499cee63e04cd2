//! The operator's master key, and the keys derived from it. `certs rotate-key` rotates it.
//!
//! The master key itself encrypts nothing: each purpose has its own key (HKDF-SHA-256), so that a cookie key in memory
//! opens no row. Sealed rows are XChaCha20-Poly1305, with the row's identity as associated data.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use chacha20poly1305::{
    XChaCha20Poly1305, XNonce,
    aead::{Aead as _, KeyInit as _, Payload},
};
use hkdf::Hkdf;
use rand::RngExt as _;
use sha2::Sha256;

pub use crate::ring::RELOAD_EVERY;
use crate::ring::{KeyFileFormat, KeyRing};

/// The purpose of a derived key. Its label is part of the derivation and must not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPurpose {
    /// Sealing the keys of accounts at certificate authorities.
    AcmeAccounts,
    /// Sealing the dumps of backups, and signing their lists of contents.
    Backups,
    /// Sealing private keys of certificates.
    CertificateKeys,
    /// Sealing the code host's device codes and tokens.
    CodeHost,
    /// Pseudonyms in Redis for the subjects of counters, so that no address can be read there.
    CountedSubjects,
    /// Signing links to documents.
    DocumentLinks,
    /// Deriving the codes that claim domains.
    DomainClaims,
    /// Proving that a request comes from an edge with the same bytes each time, as edges of the previous version do.
    EdgeProof,
    /// Authenticating the requests that edges forward to admin.
    EdgeRequests,
    /// Sealing the values of environment variables.
    EnvValues,
    /// Authenticating gate cookies.
    GateCookies,
    /// Authenticating unsubscribe links in letters.
    LetterLinks,
    /// Sealing the value that shows whether a program has the right master key.
    MasterKeyCheck,
    /// Sealing the state of a web sign-in in progress.
    SignIns,
    /// Encrypting TLS session tickets; an [edge's key](crate::EdgeKey) is derived per hour.
    TlsTickets,
}

impl KeyPurpose {
    const fn label(self) -> &'static str {
        match self {
            Self::AcmeAccounts => "acme accounts",
            Self::Backups => "backups",
            Self::CertificateKeys => "certificate keys",
            Self::CodeHost => "code host",
            Self::CountedSubjects => "counted subjects",
            Self::DocumentLinks => "document links",
            Self::DomainClaims => "domain claims",
            Self::EdgeProof => "edge proof",
            Self::EdgeRequests => "edge requests",
            Self::EnvValues => "environment values",
            Self::GateCookies => "gate cookies",
            Self::LetterLinks => "letter links",
            Self::MasterKeyCheck => "master key check",
            Self::SignIns => "sign-ins",
            Self::TlsTickets => "tls tickets",
        }
    }
}

/// The length of the prefix of every sealed value: the format, then the id of the key that sealed it.
pub const TAG_LEN: usize = 1 + KEY_ID_LEN;
pub(crate) const KEY_ID_LEN: usize = 4;
/// The format of sealed values. Values from before key ids existed have no tag at all.
pub const FORM: u8 = 1;

/// The operator's keys from their file; cheap to clone.
///
/// The file holds one key per line. The first one seals, and all of them open. The file is read again when it has
/// changed, so that keys can be rotated while programs run. If that fails, the error is reported and the known keys are
/// kept.
#[derive(Clone)]
pub struct MasterKey(Arc<KeyRing<MasterKeyBytes>>);

const FORM_OF_FILE: KeyFileFormat<MasterKeyBytes> =
    KeyFileFormat { parse: |text| KeyFile::parse(text).map(KeyFile::into_keys), wrong: KeyError::Form };

/// A master key of 32 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct MasterKeyBytes([u8; 32]);

/// Errors of loading the master key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read.
    #[error("{}", unreadable(path, cause))]
    Read {
        /// The configured file.
        path: String,
        /// The cause.
        cause: std::io::Error,
    },
    /// Others can write the file and could replace the keys.
    #[error("{0}")]
    Writable(String),
    /// The file does not contain keys.
    #[error(
        "the master key file {0} must hold 32 bytes in base64 a line, as `certs master-key` writes them (what `certs edge-key` \
         writes is for edges alone)"
    )]
    Form(String),
    /// The file contains neither an edge's keys nor a master key.
    #[error("the key file {0} must be an edge's, as `certs edge-key` writes it, or that of the master key")]
    EdgeForm(String),
}

fn unreadable(path: &str, source: &std::io::Error) -> String {
    if source.kind() == std::io::ErrorKind::NotFound {
        return format!(
            "there is no key file {path} (secrets.master_key_file, or secrets.edge_key_file of an edge): bring back your copy, or, for \
             a new installation, make the key by `certs master-key {path}`, and that of an edge by `certs edge-key {path}`"
        );
    }
    format!("cannot read the key file {path} (secrets.master_key_file, or secrets.edge_key_file of an edge): {source}")
}

/// The error for sealed bytes that were changed, belong to another row, or were sealed with another key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("sealed data does not open: wrong key, wrong row, or damaged")]
pub struct OpenError;

impl MasterKeyBytes {
    /// Creates a new random key.
    pub fn generate() -> Self {
        let mut bytes = [0; 32];
        rand::rng().fill(&mut bytes);
        Self(bytes)
    }

    /// Parses a line of the key file.
    pub fn from_base64(text: &str) -> Option<Self> {
        STANDARD.decode(text.trim()).ok().and_then(|bytes| bytes.try_into().ok()).map(Self)
    }

    /// Returns the key's line in the key file.
    pub fn to_base64(&self) -> String {
        STANDARD.encode(self.0)
    }

    /// Returns the prefix of values sealed with this key. It tells keys apart and reveals nothing about them.
    pub fn tag(&self) -> [u8; TAG_LEN] {
        let [a, b, c, d, ..] = derive(&self.0, "key id", b"");
        [FORM, a, b, c, d]
    }

    /// Returns the id by which people tell keys apart.
    pub fn id(&self) -> String {
        hex::encode(&self.tag()[1..])
    }

    pub(crate) fn derive(&self, purpose: KeyPurpose, context: &[u8]) -> [u8; 32] {
        derive(&self.0, purpose.label(), context)
    }
}

impl std::fmt::Debug for MasterKeyBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Key({})", self.id())
    }
}

/// The content of a key file: one key per line, apart from blank lines and `#` comments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFile {
    /// The keys, at least one. The first one seals, and all of them open.
    pub keys: Vec<MasterKeyBytes>,
    /// The key that will seal after the next `certs rotate-key`, from a line that begins with `next`. It already opens.
    pub next: Option<MasterKeyBytes>,
}

impl KeyFile {
    /// Parses a key file; returns `None` if the text is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut file = Self { keys: Vec::new(), next: None };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            match line.strip_prefix("next ") {
                None => file.keys.push(MasterKeyBytes::from_base64(line)?),
                Some(_) if file.next.is_some() => return None,
                Some(key) => file.next = Some(MasterKeyBytes::from_base64(key)?),
            }
        }
        (!file.keys.is_empty()).then_some(file)
    }

    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        let keys = self.keys.iter().map(|key| format!("{}\n", key.to_base64()));
        keys.chain(self.next.iter().map(|key| format!("next {}\n", key.to_base64()))).collect()
    }

    pub(crate) fn into_keys(self) -> Vec<MasterKeyBytes> {
        self.keys.into_iter().chain(self.next).collect()
    }
}

impl MasterKey {
    /// Creates a new random key without a file.
    pub fn generate() -> Self {
        Self::from_keys(vec![MasterKeyBytes::generate()])
    }

    /// Loads the keys from their file.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        Ok(Self(Arc::new(KeyRing::load(path, FORM_OF_FILE)?)))
    }

    fn from_keys(keys: Vec<MasterKeyBytes>) -> Self {
        Self(Arc::new(KeyRing::without_file(keys, FORM_OF_FILE)))
    }

    /// Derives the key for a purpose. `context` separates keys within it, for example by hour.
    pub fn derive(&self, purpose: KeyPurpose, context: &[u8]) -> [u8; 32] {
        self.keys()[0].derive(purpose, context)
    }

    /// Seals `plain` for the row named by `identity`: tag, nonce, then ciphertext with its own tag.
    pub fn seal(&self, purpose: KeyPurpose, identity: &[u8], plain: &[u8]) -> Vec<u8> {
        let keys = self.keys();
        [keys[0].tag().as_slice(), &seal(&keys[0].derive(purpose, b""), identity, plain)].concat()
    }

    /// Opens bytes that [`Self::seal`] returned, whichever key sealed them.
    pub fn open(&self, purpose: KeyPurpose, identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        self.0.open(|keys| open_with(keys, purpose, identity, sealed))
    }

    /// Returns the prefix of values that are sealed from now on.
    pub fn tag(&self) -> [u8; TAG_LEN] {
        self.keys()[0].tag()
    }

    /// Returns the keys, the sealing one first. Reads the file again if the last read is older than [`RELOAD_EVERY`].
    pub fn keys(&self) -> Arc<[MasterKeyBytes]> {
        self.0.keys()
    }
}

/// Opens with the key that the tag names, or with any key if there is no tag of ours.
fn open_with(
    keys: &[MasterKeyBytes],
    purpose: KeyPurpose,
    identity: &[u8],
    sealed: &[u8],
) -> Result<Vec<u8>, OpenError> {
    if let Some((tag, rest)) = sealed.split_first_chunk::<TAG_LEN>()
        && let Some(key) = keys.iter().find(|key| key.tag() == *tag)
        && let Ok(plain) = open(&key.derive(purpose, b""), identity, rest)
    {
        return Ok(plain);
    }
    keys.iter().find_map(|key| open(&key.derive(purpose, b""), identity, sealed).ok()).ok_or(OpenError)
}

impl std::fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MasterKey(…)")
    }
}

/// Derives a key from any secret with HKDF-SHA-256.
pub fn derive(secret: &[u8], label: &str, context: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    // 32 bytes is far below HKDF's limit of 255 blocks, so expand cannot fail.
    let _ = Hkdf::<Sha256>::new(None, secret).expand_multi_info(&[label.as_bytes(), b"\0", context], &mut key);
    key
}

const NONCE_LEN: usize = 24;

/// Seals with the given key; see [`MasterKey::seal`].
pub fn seal(key: &[u8; 32], identity: &[u8], plain: &[u8]) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    rand::rng().fill(&mut nonce);
    let payload = Payload { msg: plain, aad: identity };
    // Encryption fails only for more than 256 GiB of plain text.
    let sealed = XChaCha20Poly1305::new(key.into()).encrypt(&XNonce::from(nonce), payload).unwrap_or_default();
    [nonce.as_slice(), &sealed].concat()
}

/// Opens with the given key; see [`MasterKey::open`].
pub fn open(key: &[u8; 32], identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let (nonce, msg) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(OpenError)?;
    XChaCha20Poly1305::new(key.into())
        .decrypt(&XNonce::from(*nonce), Payload { msg, aad: identity })
        .map_err(|_| OpenError)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_rows_open_only_for_their_own_row_purpose_and_key() {
        let key = MasterKey::generate();
        let sealed = key.seal(KeyPurpose::CodeHost, b"row 1", b"secret");
        assert_eq!(key.open(KeyPurpose::CodeHost, b"row 1", &sealed), Ok(b"secret".to_vec()));
        assert_eq!(key.open(KeyPurpose::CodeHost, b"row 2", &sealed), Err(OpenError));
        assert_eq!(key.open(KeyPurpose::CertificateKeys, b"row 1", &sealed), Err(OpenError));
        assert_eq!(MasterKey::generate().open(KeyPurpose::CodeHost, b"row 1", &sealed), Err(OpenError));
        assert_eq!(key.open(KeyPurpose::CodeHost, b"row 1", b"short"), Err(OpenError));
    }
    #[test]
    fn the_first_key_of_the_file_seals_and_all_of_them_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let (old, new) = (MasterKeyBytes::generate(), MasterKeyBytes::generate());
        std::fs::write(&path, format!("{}\n", old.to_base64())).unwrap();
        let running = MasterKey::load(&path).unwrap();
        let by_old = running.seal(KeyPurpose::EnvValues, b"row", b"secret");
        assert_eq!(by_old[..TAG_LEN], old.tag());

        // Another program has read the new key first.
        std::fs::write(&path, format!("# exchanged\n{}\n{}\n", new.to_base64(), old.to_base64())).unwrap();
        let by_new = MasterKey::load(&path).unwrap().seal(KeyPurpose::EnvValues, b"row", b"secret");
        assert_eq!(by_new[..TAG_LEN], new.tag());
        assert_eq!(running.open(KeyPurpose::EnvValues, b"row", &by_new), Ok(b"secret".to_vec()));
        assert_eq!(running.open(KeyPurpose::EnvValues, b"row", &by_old), Ok(b"secret".to_vec()));
        assert_eq!(running.tag(), new.tag(), "it seals with the new key from then on");

        // Invalid content changes nothing.
        std::fs::write(&path, "nonsense").unwrap();
        assert!(KeyFile::parse("").is_none() && KeyFile::parse(&format!("next {}", new.to_base64())).is_none());
        assert_eq!(MasterKey::load(&path).err().map(|e| e.to_string().contains("32 bytes")), Some(true));
        assert_eq!(running.open(KeyPurpose::EnvValues, b"other row", &by_new), Err(OpenError));
        assert_eq!(running.open(KeyPurpose::EnvValues, b"row", &by_new), Ok(b"secret".to_vec()));
    }

    #[test]
    fn a_prepared_key_opens_and_does_not_seal() {
        let (old, next) = (MasterKeyBytes::generate(), MasterKeyBytes::generate());
        let file = KeyFile { keys: vec![old.clone()], next: Some(next.clone()) };
        assert_eq!(KeyFile::parse(&file.to_text()), Some(file.clone()));
        let master = MasterKey::from_keys(file.into_keys());
        assert_eq!(master.tag(), old.tag());
        let elsewhere = MasterKey::from_keys(vec![next]).seal(KeyPurpose::EnvValues, b"row", b"secret");
        assert_eq!(master.open(KeyPurpose::EnvValues, b"row", &elsewhere), Ok(b"secret".to_vec()));
    }

    #[test]
    fn values_from_before_there_were_key_ids_open() {
        let key = MasterKey::generate();
        let untagged = seal(&key.derive(KeyPurpose::EnvValues, b""), b"row", b"secret");
        assert_eq!(key.open(KeyPurpose::EnvValues, b"row", &untagged), Ok(b"secret".to_vec()));
    }
}
