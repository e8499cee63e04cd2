//! A certificate authority of a third party.

use std::{path::Path, time::Duration};

use domain::Timestamp;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

/// An authority whose root is in a file.
pub struct Authority {
    params: CertificateParams,
    key: KeyPair,
}

impl Authority {
    /// Creates an authority and writes its root certificate to `root`.
    pub fn new(root: &Path) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Somebody's CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        std::fs::write(root, params.self_signed(&key).unwrap().pem()).unwrap();
        Self { params, key }
    }

    /// Issues a leaf certificate for `names`, valid for some days, as `<stem>.pem` and `<stem>.key`.
    pub fn issue(&self, stem: &Path, names: &[&str], days: u64) -> CertificateDer<'static> {
        let now = domain::Clock::system().now();
        let (from, to) = (now - Duration::from_hours(1), now + Duration::from_hours(24 * days + 1));
        let (pem, der, key) = self.sign(names, from, to);
        std::fs::write(stem.with_extension("pem"), pem).unwrap();
        std::fs::write(stem.with_extension("key"), key.serialize_pem()).unwrap();
        der
    }

    /// Issues a leaf certificate for `names` with an empty subject and the given validity. Returns it with its key.
    pub fn issue_for(
        &self,
        names: &[&str],
        from: Timestamp,
        to: Timestamp,
    ) -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
        let (_, der, key) = self.sign(names, from, to);
        (der, PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    fn sign(&self, names: &[&str], from: Timestamp, to: Timestamp) -> (String, CertificateDer<'static>, KeyPair) {
        let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.not_before = from.as_datetime();
        params.not_after = to.as_datetime();
        let key = KeyPair::generate().unwrap();
        let leaf = params.signed_by(&key, &Issuer::from_params(&self.params, &self.key)).unwrap();
        (leaf.pem(), leaf.der().clone(), key)
    }
}
