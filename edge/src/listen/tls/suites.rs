//! Which cipher suite a connection gets.
//!
//! The edge chooses, and takes AES with 128 bits before 256: it is a good part cheaper, and as far out of reach of anybody. Who
//! names `ChaCha20` before any AES has no instructions for AES, and gets what it names.

use std::sync::Arc;

use rustls::{
    CipherSuite, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    server::ClientHello,
};

/// The cryptography of the edge, its suites in the order in which it prefers them.
pub(super) fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !is_aes_128(suite.suite()));
    provider
}

/// `config`, or one like it that leaves the choice to the client where it has no AES in hardware.
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
