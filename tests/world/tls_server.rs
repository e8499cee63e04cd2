//! A TLS server of a third party, with a certificate that a test chooses and no content.

use std::{
    net::Ipv4Addr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use rustls::{ServerConfig, crypto::aws_lc_rs, version::TLS13};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// A running server, which ends with the test's runtime. Addresses of this machine represent other machines.
pub struct TlsServer(Arc<AtomicUsize>);

impl TlsServer {
    /// Starts a server at `address` that presents `chain`.
    pub async fn start(
        address: Ipv4Addr,
        port: u16,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Self {
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .unwrap();
        Self::accepting(address, port, Some(TlsAcceptor::from(Arc::new(config)))).await
    }

    /// Starts a server at `address` that accepts connections and sends nothing.
    pub async fn silent(address: Ipv4Addr, port: u16) -> Self {
        Self::accepting(address, port, None).await
    }

    async fn accepting(address: Ipv4Addr, port: u16, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((address, port)).await.unwrap();
        let accepted = Arc::<AtomicUsize>::default();
        let counted = accepted.clone();
        tokio::spawn(async move {
            let mut held = Vec::new();
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                match acceptor.clone() {
                    Some(acceptor) => drop(tokio::spawn(async move { acceptor.accept(stream).await.map(drop) })),
                    None => held.push(stream),
                }
            }
        });
        Self(accepted)
    }

    pub fn connections(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}
