//! Postgres and Redis whose certificates are of an authority of the operator's own.

use std::{fs, net::Ipv4Addr, path::PathBuf, sync::Arc};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::aws_lc_rs};
use rustls_pki_types::PrivateKeyDer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::assert_refuses;
use crate::{
    BACKGROUND,
    world::{World, eventually},
};

/// What asks a Postgres for TLS: its length and its code.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];

/// An authority, and a certificate of it for 127.0.0.1.
struct Authority {
    file: PathBuf,
    acceptor: TlsAcceptor,
}

impl Authority {
    fn new(file: PathBuf) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        fs::write(&file, issuer.pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![leaf.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
            .unwrap();
        Self { file, acceptor: TlsAcceptor::from(Arc::new(config)) }
    }

    /// Stands before the server at `port`, and speaks TLS with whoever connects; for Postgres after it is asked to. Returns its port.
    async fn guard(&self, port: u16, is_postgres: bool) -> u16 {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let (own, acceptor) = (listener.local_addr().unwrap().port(), self.acceptor.clone());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    if is_postgres {
                        let mut asked = [0; 8];
                        client.read_exact(&mut asked).await?;
                        assert_eq!(asked, SSL_REQUEST, "the password would go over an unencrypted connection");
                        client.write_all(b"S").await?;
                    }
                    let mut client = acceptor.accept(client).await?;
                    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
                    copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        own
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_for_its_connection_alone() {
    let mut world = World::start().await;
    let (of_postgres, of_redis) =
        (Authority::new(world.folder().join("postgres.pem")), Authority::new(world.folder().join("redis.pem")));
    let postgres = of_postgres.guard(world.database.port().unwrap_or(5432), true).await;
    let redis = of_redis.guard(world.redis_port, false).await;
    let mut url = world.database.clone();
    url.set_host(Some("127.0.0.1")).unwrap();
    url.set_port(Some(postgres)).unwrap();
    url.set_query(None);
    world.set("POSTGRES__URL", &url);
    world.set("REDIS__URL", format!("rediss://127.0.0.1:{redis}"));

    world.set("POSTGRES__CA_FILE", of_redis.file.display());
    world.set("REDIS__CA_FILE", of_redis.file.display());
    let (_, mut admin) = world.start_admin_at_a_port();
    assert_refuses(&mut admin, &["certificate"]).await;

    world.set("POSTGRES__CA_FILE", of_postgres.file.display());
    world.set("REDIS__CA_FILE", of_postgres.file.display());
    let healthy = async |port: u16| {
        let answer = reqwest::get(format!("http://127.0.0.1:{port}/health")).await;
        answer.map_or(0, |answer| answer.status().as_u16())
    };
    let (port, mut admin) = world.start_admin_at_a_port();
    eventually(BACKGROUND, "it answers, without Redis", async || healthy(port).await == 503).await;
    admin.kill();

    world.set("REDIS__CA_FILE", of_redis.file.display());
    let (port, _admin) = world.start_admin_at_a_port();
    eventually(BACKGROUND, "it answers", async || healthy(port).await == 200).await;
    world.restart_edge(0).await;
}
