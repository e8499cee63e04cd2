//! `acme-tls/1` (RFC 8737): the handshake in which a certificate authority validates that a name is ours.
//!
//! It presents a certificate made only for this, and the connection ends with it: nothing is served.

use std::{io, sync::Arc};

use fairness::{Client, TurnBounds, TurnQueue};
use memory::ChallengeReader;
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::{
    ServerConfig,
    crypto::CryptoProvider,
    pki_types::PrivatePkcs8KeyDer,
    server::{ClientHello, NoServerSessionStorage},
    sign::CertifiedKey,
    version::{TLS12, TLS13},
};
use sha2::{Digest as _, Sha256};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt as _},
    time::timeout,
};
use tokio_rustls::server::StartHandshake;

use super::SingleCertificate;

const PROTOCOL: &[u8] = b"acme-tls/1";

pub(super) struct AcmeValidations {
    challenges: Arc<ChallengeReader>,
    provider: Arc<CryptoProvider>,
    handshakes: TurnQueue<Client>,
}

#[derive(Debug, thiserror::Error)]
enum ValidationError {
    #[error("the certificate was not made: {0}")]
    Made(#[from] rcgen::Error),
    #[error("the certificate cannot be used: {0}")]
    Tls(#[from] rustls::Error),
}

/// Returns whether a client offers this protocol and no other, as authorities do.
pub(super) fn is_validation(hello: &ClientHello<'_>) -> bool {
    hello.alpn().is_some_and(|mut protocols| protocols.next() == Some(PROTOCOL) && protocols.next().is_none())
}

impl AcmeValidations {
    pub(super) fn new(challenges: Arc<ChallengeReader>, provider: Arc<CryptoProvider>) -> Self {
        let handshakes = TurnQueue::new(TurnBounds {
            total: limits::VALIDATIONS,
            share: limits::VALIDATIONS_PER_CLIENT,
            waiting: limits::FLIGHTS,
            waiting_share: limits::ASKERS_PER_CLIENT,
        });
        Self { challenges, provider, handshakes }
    }

    /// Performs a handshake for `name` (lower case), and ends the connection. If there is no challenge for it, or none
    /// can be read, it ends with the alert of `refusal`.
    pub(super) async fn answer<S>(
        &self,
        start: StartHandshake<S>,
        name: Option<&str>,
        asker: Client,
        refusal: Arc<ServerConfig>,
    ) -> io::Result<()>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let key_authorization = match name {
            Some(name) => self.challenges.over_tls(name, asker).await.unwrap_or_else(|error| {
                tracing::warn!(name, %error, "the answer to a challenge could not be read");
                None
            }),
            None => None,
        };
        let (Some(name), Some(key_authorization)) = (name, key_authorization) else {
            return start.into_stream(refusal).await.map(drop);
        };
        let turn = self.handshakes.take(&asker, limits::HANDSHAKE).await.map_err(io::Error::other)?;
        let config = self.config(name, &key_authorization).map_err(|error| {
            tracing::error!(name, %error, "an authority could not be answered");
            io::Error::other(error)
        })?;
        let mut stream = start.into_stream(Arc::new(config)).await?;
        tracing::info!(name, "an authority was shown the answer to its challenge");
        let _ = timeout(limits::VALIDATION_END, stream.shutdown()).await;
        drop(turn);
        Ok(())
    }

    /// Returns a configuration with an untrusted certificate for `name` that has the key authorization's hash.
    fn config(&self, name: &str, key_authorization: &str) -> Result<ServerConfig, ValidationError> {
        let mut params = CertificateParams::new([name.to_owned()])?;
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(&Sha256::digest(key_authorization))];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let key = PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        let key = self.provider.key_provider.load_private_key(key)?;
        // Skips the check of `from_der`, which rejects unknown critical extensions.
        let certified = CertifiedKey::new(vec![certificate.der().clone()], key);
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertificate(Arc::new(certified))));
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        // These sessions are never resumed.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }
}
