//! Chooses the cipher suite of a connection.
//!
//! The edge chooses, and prefers AES with 128 bits to 256: it is considerably cheaper, and equally out of reach of
//! attacks. A client that lists `ChaCha20` before any AES has no AES instructions, and its preference is honored.

use std::sync::Arc;

use rustls::{
    CipherSuite, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    server::ClientHello,
};

/// Returns the edge's cryptography, with its suites in order of preference.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !is_aes_128(suite.suite()));
    provider
}

/// Returns `config`, or a copy that leaves the choice to a client without AES in hardware.
pub(super) fn for_client(config: Arc<ServerConfig>, hello: &ClientHello<'_>) -> Arc<ServerConfig> {
    let ours = config.crypto_provider().cipher_suites.as_slice();
    let is_ours = |named: &&CipherSuite| ours.iter().any(|suite| suite.suite() == **named);
    if !hello.cipher_suites().iter().find(is_ours).is_some_and(|first| is_chacha20(*first)) {
        return config;
    }
    let mut theirs = Arc::unwrap_or_clone(config);
    theirs.ignore_client_order = false;
    Arc::new(theirs)
}

const fn is_aes_128(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    )
}

const fn is_chacha20(suite: CipherSuite) -> bool {
    matches!(
        suite,
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
            | CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    )
}
