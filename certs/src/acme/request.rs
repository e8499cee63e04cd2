//! The key of a certificate, and the certificate request signed with it.

use rcgen::{CertificateParams, DistinguishedName, KeyPair, PKCS_ECDSA_P256_SHA256};

/// A key or a request could not be created, because a name is not a DNS name.
#[derive(Debug, thiserror::Error)]
#[error("no certificate can be requested for {names}: {source}")]
pub struct RequestError {
    names: String,
    source: rcgen::Error,
}

/// Generates a key (P-256) and the request for a certificate of these names: the key as PEM, the request as DER.
pub fn key_and_request(names: &[String]) -> Result<(String, Vec<u8>), RequestError> {
    let failed = |source| RequestError { names: names.join(", "), source };
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
    let mut params = CertificateParams::new(names.to_vec()).map_err(failed)?;
    // The names are in the extension only.
    params.distinguished_name = DistinguishedName::new();
    let request = params.serialize_request(&key).map_err(failed)?;
    Ok((key.serialize_pem(), request.der().to_vec()))
}

#[cfg(test)]
mod tests {
    use x509_parser::{
        certification_request::X509CertificationRequest,
        prelude::{FromDer as _, GeneralName, ParsedExtension},
    };

    use super::*;

    #[test]
    fn a_request_names_what_was_asked_for() {
        let names = ["example.com".to_owned(), "*.example.com".to_owned()];
        let (key, der) = key_and_request(&names).unwrap();
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----"));
        let (_, request) = X509CertificationRequest::from_der(&der).unwrap();
        let extensions: Vec<_> = request.requested_extensions().unwrap().collect();
        let [ParsedExtension::SubjectAlternativeName(found)] = extensions.as_slice() else {
            panic!("{extensions:?}");
        };
        let found: Vec<_> = found.general_names.iter().collect();
        assert_eq!(found, [&GeneralName::DNSName("example.com"), &GeneralName::DNSName("*.example.com")]);
        assert_eq!(request.certification_request_info.subject.iter().count(), 0);
        assert_ne!(key_and_request(&names).unwrap().0, key, "a new key each time");
    }
}
