//! `tls-alpn-01`: a handshake for the protocol `acme-tls/1` and nothing after it.

use std::{
    net::Ipv4Addr,
    path::Path,
    sync::{Arc, Mutex},
};

use rustls::{
    AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme,
    SupportedProtocolVersion,
    client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    crypto::{WebPkiSupportedAlgorithms, aws_lc_rs},
    version::{TLS12, TLS13},
};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpStream;

use super::{ANSWER, TOKEN, forget, put};
use crate::{
    custom_domains::{DOMAIN, published_on},
    world::{
        Site, World,
        socket::{connect_tls, converse, statuses, tls},
    },
};

const PROTOCOL: &str = "acme-tls/1";
/// `id-pe-acmeIdentifier` as DER, and that it is critical; then the hash as an octet string within one.
const ACME_IDENTIFIER: &[u8] =
    &[0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x01, 0x1f, 0x01, 0x01, 0xff, 0x04, 0x22, 0x04, 0x20];

/// Takes any certificate, as an authority does, and keeps what it was shown. rustls checks no signature by a
/// certificate that has a critical extension which it does not know, so none is checked.
#[derive(Debug)]
struct Shown {
    leaf: Mutex<Option<CertificateDer<'static>>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Shown {
    fn verify_server_cert(
        &self,
        leaf: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        assert!(intermediates.is_empty());
        *self.leaf.lock().unwrap() = Some(leaf.clone().into_owned());
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The outcome of an authority's look at a name.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// This certificate, and then the end of the connection.
    Certificate(CertificateDer<'static>),
    /// The end of the handshake, and whether a certificate was shown before it.
    Refused { is_shown: bool },
}

/// Looks at `name` on `port` as an authority does, with these protocols.
async fn look(port: u16, name: &str, alpn: &[&str], version: &'static SupportedProtocolVersion) -> Outcome {
    let provider = aws_lc_rs::default_provider();
    let shown = Arc::new(Shown { leaf: Mutex::default(), algorithms: provider.signature_verification_algorithms });
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(shown.clone())
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let leaf = || shown.leaf.lock().unwrap().clone();
    match connect_tls(port, name, Arc::new(config)).await {
        Ok(mut stream) => {
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(PROTOCOL.as_bytes()));
            let request = format!("GET / HTTP/1.1\r\nhost: {name}\r\n\r\n");
            assert_eq!(converse(&mut stream, request.as_bytes()).await, b"", "nothing is served on it");
            Outcome::Certificate(leaf().unwrap())
        }
        Err(_) => Outcome::Refused { is_shown: leaf().is_some() },
    }
}

/// The alert with which the first message of an authority that looks at `name` is answered.
async fn alert(port: u16, name: &str, ca: &Path) -> AlertDescription {
    let config = Arc::new(tls(ca, &[&TLS12, &TLS13], &[PROTOCOL]));
    let mut connection = ClientConnection::new(config, ServerName::try_from(name.to_owned()).unwrap()).unwrap();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).unwrap();
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let answer = converse(&mut stream, &hello).await;
    connection.read_tls(&mut answer.as_slice()).unwrap();
    match connection.process_new_packets().unwrap_err() {
        Error::AlertReceived(alert) => alert,
        other => panic!("{name}: {other}"),
    }
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Whether the certificate is what RFC 8737 asks for: self-signed, for this name alone, with the hash of the answer.
fn assert_proves(outcome: &Outcome, name: &str, answer: &str) {
    let Outcome::Certificate(leaf) = outcome else { panic!("{name}: {outcome:?}") };
    let proof = [ACME_IDENTIFIER, Sha256::digest(answer).as_slice()].concat();
    assert!(contains(leaf, &proof), "the extension, critical, with the hash");
    // The sequence of names, as DER, with one name in it.
    let length = u8::try_from(name.len()).unwrap();
    let names = [&[0x30, length + 2, 0x82, length], name.as_bytes()].concat();
    assert!(contains(leaf, &names), "{name} and no other");
}

const REFUSED: Outcome = Outcome::Refused { is_shown: false };

#[tokio::test]
async fn every_edge_proves_a_name_as_soon_as_its_challenge_is_committed() {
    let mut world = World::builder().edges(3).start().await;
    let ports: Vec<u16> = world.edges.iter().map(|edge| edge.https_port).collect();
    let name = "www.example.com";
    world.redis.kill();
    for version in [&TLS12, &TLS13] {
        for port in &ports {
            assert_eq!(look(*port, name, &[PROTOCOL], version).await, REFUSED, "that is not remembered");
        }
        put(&world, "tls-alpn-01", name, TOKEN, ANSWER, 60).await;
        for port in &ports {
            assert_proves(&look(*port, name, &[PROTOCOL], version).await, name, ANSWER);
        }
        assert_proves(&look(ports[0], "WWW.Example.COM", &[PROTOCOL], version).await, name, ANSWER);
        // The next challenge of the name takes the place of the last.
        put(&world, "tls-alpn-01", name, "next", "next.answer", 90).await;
        for port in &ports {
            assert_proves(&look(*port, name, &[PROTOCOL], version).await, name, "next.answer");
        }
        forget(&world).await;
        for port in &ports {
            assert_eq!(look(*port, name, &[PROTOCOL], version).await, REFUSED);
        }
    }
}

#[tokio::test]
async fn no_usual_certificate_is_shown_to_it_and_its_own_to_nobody_else() {
    let (world, _ada, url) = published_on(World::start().await, &Site::page("home")).await;
    let port = world.public_port();
    put(&world, "tls-alpn-01", "over.example", TOKEN, ANSWER, -1).await;
    put(&world, "http-01", "other-kind.example", TOKEN, ANSWER, 60).await;
    for name in [DOMAIN, "engine.svc.localhost", "unknown.example", "over.example", "other-kind.example", "127.0.0.1"] {
        assert_eq!(look(port, name, &[PROTOCOL], &TLS13).await, REFUSED, "{name}");
        assert_eq!(look(port, name, &[PROTOCOL], &TLS12).await, REFUSED, "{name}");
        assert_eq!(alert(port, name, world.ca()).await, AlertDescription::AccessDenied, "{name}");
    }

    // While the challenge stands, visitors see what they always see, also those who name the protocol among others.
    put(&world, "tls-alpn-01", DOMAIN, TOKEN, ANSWER, 60).await;
    assert_proves(&look(port, DOMAIN, &[PROTOCOL], &TLS13).await, DOMAIN, ANSWER);
    world.edge().get(&url).await.assert_body(200, "home");
    for alpn in [&["http/1.1"][..], &[PROTOCOL, "http/1.1"], &["http/1.1", PROTOCOL], &[]] {
        let config = Arc::new(tls(world.ca(), &[&TLS12, &TLS13], alpn));
        let mut stream = connect_tls(port, DOMAIN, config).await.unwrap();
        let request = format!("GET / HTTP/1.1\r\nhost: {DOMAIN}\r\nconnection: close\r\n\r\n");
        assert_eq!(statuses(&converse(&mut stream, request.as_bytes()).await), [200], "{alpn:?}");
    }
    // A client that trusts the public authorities does not take the one for the other.
    let config = Arc::new(tls(world.ca(), &[&TLS13], &[PROTOCOL]));
    assert!(connect_tls(port, DOMAIN, config).await.is_err());

    // Names that are made up keep nobody waiting, and take no memory.
    let before = world.edge().process.memory("VmRSS");
    for number in 0..500 {
        assert_eq!(look(port, &format!("{number}.made-up.example"), &[PROTOCOL], &TLS13).await, REFUSED);
    }
    let grown = world.edge().process.memory("VmRSS").saturating_sub(before);
    assert!(grown < 8 * 1024 * 1024, "{grown} bytes for 500 names");
    world.edge().get(&url).await.assert_body(200, "home");
}
