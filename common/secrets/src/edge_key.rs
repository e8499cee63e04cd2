//! An edge's keys, derived from the master key for the tasks of edges. They do not reveal the keys for other tasks.
//!
//! An edge opens private keys of certificates, authenticates gate cookies, encrypts session tickets, and proves to
//! admin that a request comes from it. It also opens the value that shows whether its keys are the database's. It
//! cannot open environment variables, grants of the code host, or accounts at authorities. `certs edge-key` writes its
//! file.

use std::{path::Path, sync::Arc};

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    KeyPurpose, MasterKey,
    master_key::{FORM, KEY_ID_LEN, KeyError, KeyFile, MasterKeyBytes, OpenError, TAG_LEN, derive, open, seal},
    ring::{KeyFileFormat, KeyRing},
};

/// The first word of a line of an edge's key file.
const LINE: &str = "edge";
const NAMES: [&str; 5] = ["certificates", "check", "gates", "tickets", "requests"];
const FORM_OF_FILE: KeyFileFormat<DerivedEdgeKeys> = KeyFileFormat { parse: parse_any, wrong: KeyError::EdgeForm };

/// An edge's keys, from their own file or derived from the master key's; cheap to clone. They are reloaded on change.
#[derive(Clone)]
pub struct EdgeKey(Arc<KeyRing<DerivedEdgeKeys>>);

/// An edge's keys derived from one master key.
#[derive(Clone)]
struct DerivedEdgeKeys {
    /// The first bytes of values sealed with the master key.
    tag: [u8; TAG_LEN],
    certificates: [u8; 32],
    check: [u8; 32],
    gates: [u8; 32],
    tickets: [u8; 32],
    requests: [u8; 32],
    /// The fixed proof of the previous version. Only the master key can derive it.
    fixed_proof: Option<[u8; 32]>,
}

impl DerivedEdgeKeys {
    fn from_master_key(key: &MasterKeyBytes) -> Self {
        let derived = |purpose| key.derive(purpose, b"");
        Self {
            tag: key.tag(),
            certificates: derived(KeyPurpose::CertificateKeys),
            check: derived(KeyPurpose::MasterKeyCheck),
            gates: derived(KeyPurpose::GateCookies),
            tickets: derived(KeyPurpose::TlsTickets),
            requests: derived(KeyPurpose::EdgeRequests),
            fixed_proof: Some(derived(KeyPurpose::EdgeProof)),
        }
    }

    /// Returns the key of messages between edges, derived from an existing key of edges so that key files stay valid.
    fn between_edges(&self) -> [u8; 32] {
        derive(&self.tickets, "between edges", b"")
    }

    fn to_line(&self) -> String {
        let keys = [self.certificates, self.check, self.gates, self.tickets, self.requests];
        let keys = NAMES.iter().zip(keys).map(|(name, key)| format!(" {name}={}", STANDARD.encode(key)));
        format!("{LINE} {}{}\n", hex::encode(&self.tag[1..]), keys.collect::<String>())
    }

    /// Parses a line. Keys with unknown names are ignored, so that a later version may add some.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        if words.next() != Some(LINE) {
            return None;
        }
        let mut id = [0; KEY_ID_LEN];
        hex::decode_to_slice(words.next()?, &mut id).ok()?;
        let [a, b, c, d] = id;
        let mut keys = [None; NAMES.len()];
        for word in words {
            let (name, key) = word.split_once('=')?;
            if let Some(at) = NAMES.iter().position(|known| *known == name) {
                keys[at] = Some(<[u8; 32]>::try_from(STANDARD.decode(key).ok()?).ok()?);
            }
        }
        let [certificates, check, gates, tickets, requests] = keys;
        Some(Self {
            tag: [FORM, a, b, c, d],
            certificates: certificates?,
            check: check?,
            gates: gates?,
            tickets: tickets?,
            requests: requests?,
            fixed_proof: None,
        })
    }
}

fn parse_any(text: &str) -> Option<Vec<DerivedEdgeKeys>> {
    if let Some(file) = KeyFile::parse(text) {
        return Some(file.into_keys().iter().map(DerivedEdgeKeys::from_master_key).collect());
    }
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(DerivedEdgeKeys::parse).collect::<Option<Vec<_>>>()?;
    (!keys.is_empty()).then_some(keys)
}

impl KeyFile {
    /// Returns the text of the corresponding key file for edges: the same keys in the same order, the prepared one
    /// last, each reduced to what edges need.
    pub fn to_edge_text(&self) -> String {
        let lines = self.keys.iter().chain(&self.next).map(|key| DerivedEdgeKeys::from_master_key(key).to_line());
        let explained = "# The keys of svc's edges. Made by `certs edge-key`, from the master key that the ids name.\n";
        std::iter::once(explained.to_owned()).chain(lines).collect()
    }
}

impl EdgeKey {
    /// Loads the keys from their file, or derives them from the master key's.
    pub fn load(path: &Path) -> Result<Self, KeyError> {
        Ok(Self(Arc::new(KeyRing::load(path, FORM_OF_FILE)?)))
    }

    /// Derives the keys from the current keys of `master`.
    pub fn from_master_key(master: &MasterKey) -> Self {
        Self(Arc::new(KeyRing::without_file(
            master.keys().iter().map(DerivedEdgeKeys::from_master_key).collect(),
            FORM_OF_FILE,
        )))
    }

    /// Derives the keys from a new random master key, without a file.
    pub fn generate() -> Self {
        Self::from_master_key(&MasterKey::generate())
    }

    /// Returns whether the file is the master key's own, which an edge does not need.
    pub fn holds_master_key(&self) -> bool {
        self.0.keys()[0].fixed_proof.is_some()
    }

    /// Returns the ids of the master keys that these are derived from, the one in use first.
    pub fn ids(&self) -> Vec<String> {
        self.0.keys().iter().map(|key| hex::encode(&key.tag[1..])).collect()
    }

    /// Returns the key that authenticates gate cookies.
    pub fn gate_cookies(&self) -> [u8; 32] {
        self.0.keys()[0].gates
    }

    /// Returns the key of session tickets issued in an hour.
    pub fn tickets(&self, hour: u64) -> [u8; 32] {
        derive(&self.0.keys()[0].tickets, "hour", &hour.to_be_bytes())
    }

    /// Seals a message from one edge to another. `identity` names the recipient and is needed to open it.
    pub fn seal_for_edge(&self, identity: &[u8], plain: &[u8]) -> Vec<u8> {
        seal(&self.0.keys()[0].between_edges(), identity, plain)
    }

    /// Opens a message that another edge has sealed.
    pub fn open_from_edge(&self, identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        self.0
            .open(|keys| keys.iter().find_map(|key| open(&key.between_edges(), identity, sealed).ok()).ok_or(OpenError))
    }

    /// Opens a certificate's private key, which the master key sealed for the row named by `identity`.
    pub fn open_certificate_key(&self, identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        self.open(|keys| &keys.certificates, identity, sealed)
    }

    /// Opens the value that shows whether a program has the database's key.
    pub fn open_check(&self, identity: &[u8], sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        self.open(|keys| &keys.check, identity, sealed)
    }

    fn open(
        &self,
        purpose: impl Fn(&DerivedEdgeKeys) -> &[u8; 32],
        identity: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, OpenError> {
        self.0.open(|keys| {
            if let Some((tag, rest)) = sealed.split_first_chunk::<TAG_LEN>()
                && let Some(key) = keys.iter().find(|key| key.tag == *tag)
                && let Ok(plain) = open(purpose(key), identity, rest)
            {
                return Ok(plain);
            }
            // Values from before key tags existed.
            keys.iter().find_map(|key| open(purpose(key), identity, sealed).ok()).ok_or(OpenError)
        })
    }

    /// Returns the keys that authenticate an edge's requests to admin, the one in use first.
    pub(crate) fn requests(&self) -> Vec<[u8; 32]> {
        self.0.keys().iter().map(|key| key.requests).collect()
    }

    pub(crate) fn fixed_proof(&self) -> Option<[u8; 32]> {
        self.0.keys()[0].fixed_proof
    }
}

impl std::fmt::Debug for EdgeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "EdgeKey({})", self.ids().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(keys: Vec<MasterKeyBytes>, next: Option<MasterKeyBytes>) -> (tempfile::TempDir, MasterKey, EdgeKey) {
        let folder = tempfile::tempdir().unwrap();
        let (master, edge) = (folder.path().join("master.key"), folder.path().join("edge.key"));
        let file = KeyFile { keys, next };
        std::fs::write(&master, file.to_text()).unwrap();
        std::fs::write(&edge, file.to_edge_text()).unwrap();
        (folder, MasterKey::load(&master).unwrap(), EdgeKey::load(&edge).unwrap())
    }

    #[test]
    fn an_edges_file_opens_certificates_and_holds_no_master_key() {
        let key = MasterKeyBytes::generate();
        let (folder, master, edge) = files(vec![key.clone()], None);
        let sealed = master.seal(KeyPurpose::CertificateKeys, b"row", b"private");
        assert_eq!(edge.open_certificate_key(b"row", &sealed), Ok(b"private".to_vec()));
        assert_eq!(edge.open_certificate_key(b"other", &sealed), Err(OpenError));
        for purpose in [KeyPurpose::EnvValues, KeyPurpose::CodeHost, KeyPurpose::AcmeAccounts, KeyPurpose::SignIns] {
            let sealed = master.seal(purpose, b"row", b"secret");
            assert_eq!(edge.open_certificate_key(b"row", &sealed), Err(OpenError), "{purpose:?}");
            assert_eq!(edge.open_check(b"row", &sealed), Err(OpenError), "{purpose:?}");
        }
        let check = master.seal(KeyPurpose::MasterKeyCheck, b"check", b"svc");
        assert_eq!(edge.open_check(b"check", &check), Ok(b"svc".to_vec()));
        assert_eq!(EdgeKey::generate().open_check(b"check", &check), Err(OpenError));
        assert!(!edge.holds_master_key() && edge.fixed_proof().is_none());
        assert_eq!(edge.ids(), [key.id()]);
        let text = std::fs::read_to_string(folder.path().join("edge.key")).unwrap();
        assert!(!text.contains(&key.to_base64()));
        for purpose in [KeyPurpose::EnvValues, KeyPurpose::CodeHost, KeyPurpose::EdgeProof, KeyPurpose::DocumentLinks] {
            assert!(!text.contains(&STANDARD.encode(key.derive(purpose, b""))), "{purpose:?}");
        }
        let refused = MasterKey::load(&folder.path().join("edge.key")).unwrap_err().to_string();
        assert!(refused.contains("for edges alone"), "{refused}");
    }

    #[test]
    fn edges_agree_whichever_file_they_have() {
        let (folder, _, edge) = files(vec![MasterKeyBytes::generate()], None);
        let whole = EdgeKey::load(&folder.path().join("master.key")).unwrap();
        assert!(whole.holds_master_key() && whole.fixed_proof().is_some());
        assert_eq!(whole.gate_cookies(), edge.gate_cookies());
        assert_eq!(whole.tickets(7), edge.tickets(7));
        assert_ne!(whole.tickets(7), edge.tickets(8));
        assert_eq!(whole.requests(), edge.requests());
        let sealed = whole.seal_for_edge(b"one", b"words");
        assert_eq!(edge.open_from_edge(b"one", &sealed), Ok(b"words".to_vec()));
        assert_eq!(edge.open_from_edge(b"another", &sealed), Err(OpenError));
        assert_eq!(EdgeKey::generate().open_from_edge(b"one", &sealed), Err(OpenError));
    }

    #[test]
    fn a_prepared_key_opens_at_edges_too() {
        let (old, next) = (MasterKeyBytes::generate(), MasterKeyBytes::generate());
        let (folder, _, edge) = files(vec![old.clone()], Some(next.clone()));
        assert_eq!(edge.ids(), [old.id(), next.id()]);
        let path = folder.path().join("next.key");
        std::fs::write(&path, format!("{}\n", next.to_base64())).unwrap();
        let sealed = MasterKey::load(&path).unwrap().seal(KeyPurpose::CertificateKeys, b"row", b"private");
        assert_eq!(edge.open_certificate_key(b"row", &sealed), Ok(b"private".to_vec()));
    }

    #[test]
    fn a_file_of_a_later_version_is_read_and_others_are_refused() {
        let line = DerivedEdgeKeys::from_master_key(&MasterKeyBytes::generate()).to_line();
        let later = format!("# comment\n{} badges=AAAA\n", line.trim_end());
        assert_eq!(parse_any(&later).unwrap()[0].to_line(), line);
        for wrong in ["", "edge", "edge 00000000", &line[..line.len() - 9], &line.replace("gates=", "doors=")] {
            assert!(parse_any(wrong).is_none(), "{wrong}");
        }
    }
}
