//! Debian's BIND as the name server of one zone, which accepts dynamic updates (RFC 2136) signed with one key.
//!
//! ```ignore
//! let bind = Bind::start(world.folder(), "acme.example").await;
//! let world = World::builder().set("ACME__DNS", bind.setting()).start().await;
//! assert!(bind.texts("_acme-challenge.acme.example").is_empty());
//! ```

use std::{
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use super::{
    READY_WITHIN, eventually, ports,
    process::{Process, run},
};

/// The name of the key that may update the zone.
pub const KEY_NAME: &str = "updater";
/// The key, in base64.
pub const KEY_SECRET: &str = "dXBkYXRlcyBvZiB0aGUgem9uZSBhcmUgc2lnbmVkIGhlcmU=";

/// A running name server, which ends when this value is dropped.
pub struct Bind {
    pub process: Process,
    pub port: u16,
    pub zone: String,
    folder: PathBuf,
}

impl Bind {
    /// Starts a server for `zone`, which contains only its own name server, in `<folder>/bind`.
    pub async fn start(folder: &Path, zone: &str) -> Self {
        let folder = folder.join("bind");
        std::fs::create_dir_all(&folder).unwrap();
        // named may drop root privileges, and writes its journal here.
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let port = ports::free();
        let (here, file) = (folder.display(), folder.join("zone.db"));
        let records = format!(
            "$TTL 1\n@ IN SOA ns.{zone}. hostmaster.{zone}. 1 60 60 60 1\n@ IN NS ns.{zone}.\nns IN A 127.0.0.1\n"
        );
        std::fs::write(&file, records).unwrap();
        let config = format!(
            "key \"{KEY_NAME}\" {{ algorithm hmac-sha256; secret \"{KEY_SECRET}\"; }};\n\
             options {{\n\
               directory \"{here}\"; managed-keys-directory \"{here}\"; session-keyfile \"{here}/session.key\";\n\
               pid-file none; listen-on port {port} {{ 127.0.0.1; }}; listen-on-v6 {{ none; }};\n\
               recursion no; dnssec-validation no; notify no; allow-transfer {{ none; }};\n\
             }};\n\
             controls {{ }};\n\
             zone \"{zone}\" {{ type primary; file \"{}\"; allow-update {{ key \"{KEY_NAME}\"; }}; }};\n",
            file.display()
        );
        std::fs::write(folder.join("named.conf"), config).unwrap();
        let process = start_named(&folder);
        let bind = Self { process, port, zone: zone.to_owned(), folder };
        bind.wait_until_ready().await;
        bind
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the value of `acme.dns.rfc2136` for writing records to this server.
    pub fn rfc2136(&self) -> Value {
        json!({ "server": self.address(), "zone": self.zone, "key_name": KEY_NAME, "key_secret": KEY_SECRET })
    }

    /// Returns the value of `acme.dns` for writing records to this server, with delegation by custom domains.
    pub fn setting(&self) -> Value {
        json!({ "zone": self.zone, "rfc2136": self.rfc2136() })
    }

    /// Returns the values of the TXT records at `name`, sorted.
    pub fn texts(&self, name: &str) -> Vec<String> {
        let port = self.port.to_string();
        let answer = run(Command::new("dig").args(["@127.0.0.1", "-p", &port, "+short", "+tries=1", "TXT", name]));
        let mut texts: Vec<String> = answer.lines().map(|line| line.replace("\" \"", "").replace('"', "")).collect();
        texts.sort();
        texts
    }

    /// Restarts the server after `process.kill()` with its former records.
    pub async fn restart(&mut self) {
        self.process.kill();
        self.process = start_named(&self.folder);
        self.wait_until_ready().await;
    }

    async fn wait_until_ready(&self) {
        let port = self.port.to_string();
        let asked = ["@127.0.0.1", "-p", &port, "+short", "+tries=1", "+time=1", "SOA", &self.zone];
        eventually(READY_WITHIN, "BIND answers for its zone", async || {
            let output = Command::new("dig").args(asked).output().unwrap();
            output.status.success() && output.stdout.starts_with(b"ns.")
        })
        .await;
    }
}

/// In the foreground, logging to standard error.
fn start_named(folder: &Path) -> Process {
    let mut command = Command::new("named");
    command.args(["-g", "-n", "1", "-c"]).arg(folder.join("named.conf"));
    Process::start("bind", folder, &command)
}
