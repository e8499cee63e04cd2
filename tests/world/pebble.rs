//! Debian's pebble: Let's Encrypt's small test authority, which implements ACME and really validates.
//!
//! Its URL and root must be configured before a world starts, and its validations must reach the edges of that world.
//! So it is created in two steps:
//!
//! ```ignore
//! let folder = TempDir::new().unwrap();
//! let pebble = Pebble::prepare(folder.path(), Faults::default());
//! let world = pebble.settings().into_iter().fold(World::builder(), |world, (key, value)| world.set(key, value));
//! let world = world.start().await;
//! let pebble = pebble.start(world.edge().http_port, world.edge().https_port, &dns.address()).await;
//! ```

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::json;

use super::{READY_WITHIN, eventually, ports, process::Process, request};

/// The faults and requirements of a pebble.
#[derive(Debug, Clone, Default)]
pub struct Faults {
    /// The percentage of valid nonces that are refused.
    pub bad_nonces: u8,
    /// The key id and base64url key of the only external account. If set, registration requires it.
    pub external_account: Option<(String, String)>,
    /// The percentage of valid authorizations reused for later orders; 0 by default, to validate every order.
    pub reused_authorizations: u8,
}

/// A pebble that is not running yet, whose address is known.
pub struct Prepared {
    port: u16,
    management_port: u16,
    folder: PathBuf,
    faults: Faults,
}

/// A running pebble, which ends when this value is dropped and forgets everything.
pub struct Pebble {
    pub process: Process,
    prepared: Prepared,
    command: Command,
}

impl Pebble {
    /// Chooses the ports of a pebble and creates the certificate of its API, in `<folder>/pebble`.
    pub fn prepare(folder: &Path, faults: Faults) -> Prepared {
        let folder = folder.join("pebble");
        std::fs::create_dir_all(&folder).unwrap();
        // The leaf must not be an authority itself, so it is signed by a root, which is trusted instead.
        let mut root = CertificateParams::default();
        root.distinguished_name.push(DnType::CommonName, "the root of pebble's own TLS");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let root_key = KeyPair::generate().unwrap();
        std::fs::write(folder.join("ca.pem"), root.self_signed(&root_key).unwrap().pem()).unwrap();
        let key = KeyPair::generate().unwrap();
        let leaf = CertificateParams::new(["127.0.0.1".to_owned(), "localhost".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &Issuer::from_params(&root, &root_key)).unwrap();
        std::fs::write(folder.join("tls.pem"), leaf.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), key.serialize_pem()).unwrap();
        Prepared { port: ports::free(), management_port: ports::free(), folder, faults }
    }

    pub fn directory_url(&self) -> String {
        self.prepared.directory_url()
    }

    /// Returns the file of the root of its own TLS.
    pub fn ca_file(&self) -> PathBuf {
        self.prepared.ca_file()
    }

    /// Returns the files of its own TLS: the certificate for 127.0.0.1, and its key.
    pub fn tls_files(&self) -> (PathBuf, PathBuf) {
        (self.prepared.folder.join("tls.pem"), self.prepared.folder.join("tls.key"))
    }

    /// Returns the root of the certificates that it issues, as PEM. It changes with each start.
    pub async fn root_pem(&self) -> String {
        self.management("roots/0").await
    }

    async fn management(&self, path: &str) -> String {
        let ca = reqwest::Certificate::from_pem(&std::fs::read(self.ca_file()).unwrap()).unwrap();
        let client = request::client().tls_certs_only([ca]).build().unwrap();
        let url = format!("https://127.0.0.1:{}/{path}", self.prepared.management_port);
        client.get(url).send().await.unwrap().text().await.unwrap()
    }

    /// Restarts it at the same address, without its accounts and orders and with a new root.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = Process::start("pebble", &self.prepared.folder, &self.command);
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&self) {
        for port in [self.prepared.port, self.prepared.management_port] {
            eventually(READY_WITHIN, "pebble listens", async || {
                tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok()
            })
            .await;
        }
    }
}

impl Prepared {
    pub fn directory_url(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Returns the settings of a world that orders certificates from it.
    pub fn settings(&self) -> Vec<(&'static str, String)> {
        let mut settings = vec![
            ("ACME__ISSUER", "acme".to_owned()),
            ("ACME__DIRECTORY_URL", self.directory_url()),
            ("ACME__CA_FILE", self.ca_file().display().to_string()),
        ];
        if let Some((key_id, hmac_key)) = &self.faults.external_account {
            let account = json!({ "key_id": key_id, "hmac_key": hmac_key });
            settings.push(("ACME__EXTERNAL_ACCOUNT", account.to_string()));
        }
        settings
    }

    /// Starts it. It validates `http-01` and `tls-alpn-01` at these ports for any name, and queries the DNS server at
    /// `dns` (`127.0.0.1:8053`) for all addresses and records.
    pub async fn start(self, http_port: u16, tls_port: u16, dns: &str) -> Pebble {
        let mut config = json!({
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "managementListenAddress": format!("127.0.0.1:{}", self.management_port),
            "certificate": self.folder.join("tls.pem"),
            "privateKey": self.folder.join("tls.key"),
            "httpPort": http_port,
            "tlsPort": tls_port,
            "ocspResponderURL": "",
            "externalAccountBindingRequired": self.faults.external_account.is_some(),
        });
        if let Some((key_id, hmac_key)) = &self.faults.external_account {
            config["externalAccountMACKeys"] = json!({ key_id: hmac_key });
        }
        let file = self.folder.join("config.json");
        std::fs::write(&file, json!({ "pebble": config }).to_string()).unwrap();
        let mut command = Command::new("pebble");
        command.arg("-config").arg(file).args(["-dnsserver", dns]);
        command.env("PEBBLE_VA_NOSLEEP", "1");
        command.env("PEBBLE_WFE_NONCEREJECT", self.faults.bad_nonces.to_string());
        command.env("PEBBLE_AUTHZREUSE", self.faults.reused_authorizations.to_string());
        let process = Process::start("pebble", &self.folder, &command);
        let pebble = Pebble { process, prepared: self, command };
        pebble.wait_until_ready().await;
        pebble
    }
}
