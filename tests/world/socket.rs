//! Raw connections, for bytes that no HTTP client would send.

use std::{net::Ipv4Addr, sync::Arc, time::Duration};

use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion, crypto::aws_lc_rs};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

/// The time after which a test fails if the server keeps the connection open: longer than the server's own timeouts.
const PATIENCE: Duration = Duration::from_secs(90);

/// Returns the world's CA as the only trusted root.
pub fn roots(ca: &std::path::Path) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca).unwrap() {
        roots.add(certificate.unwrap()).unwrap();
    }
    roots
}

/// Returns the configuration of a TLS client that trusts only the world's CA.
pub fn tls(ca: &std::path::Path, versions: &[&'static SupportedProtocolVersion], alpn: &[&str]) -> ClientConfig {
    let mut config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots(ca))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    config
}

/// Connects to a port of this machine from `source`, one of its addresses.
pub async fn connect_from(source: Ipv4Addr, port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.bind((source, 0).into())?;
    socket.connect((Ipv4Addr::LOCALHOST, port).into()).await
}

/// Opens a TLS connection to a port of this machine, with `host` as the server name.
pub async fn connect_tls(port: u16, host: &str, config: Arc<ClientConfig>) -> std::io::Result<TlsStream<TcpStream>> {
    connect_tls_from(Ipv4Addr::LOCALHOST, port, host, config).await
}

/// Opens a TLS connection like [`connect_tls`], from `source`.
pub async fn connect_tls_from(
    source: Ipv4Addr,
    port: u16,
    host: &str,
    config: Arc<ClientConfig>,
) -> std::io::Result<TlsStream<TcpStream>> {
    let tcp = connect_from(source, port).await?;
    TlsConnector::from(config).connect(ServerName::try_from(host.to_owned()).unwrap(), tcp).await
}

/// Sends `bytes` and reads until the server closes the connection. A reset counts as closing.
pub async fn converse<S>(stream: &mut S, bytes: &[u8]) -> Vec<u8>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    // The server may refuse before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.flush().await;
    let mut answer = Vec::new();
    let mut chunk = vec![0; 16 * 1024];
    loop {
        match timeout(PATIENCE, stream.read(&mut chunk)).await.expect("the server never closed the connection") {
            Ok(0) | Err(_) => return answer,
            Ok(read) => answer.extend_from_slice(&chunk[..read]),
        }
    }
}

/// Returns the status of every HTTP/1.1 response in `bytes`; the requested bodies must not contain a status line.
pub fn statuses(bytes: &[u8]) -> Vec<u16> {
    let text = String::from_utf8_lossy(bytes);
    text.match_indices("HTTP/1.").filter_map(|(at, _)| text.get(at + 9..at + 12)?.parse().ok()).collect()
}
