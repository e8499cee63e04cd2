//! An SMTP server (aiosmtpd) that stores the mail it receives, and Python's mail parser to read it.

use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::process::Child;

use super::{eventually, ports, tools};

/// Parses mail with Python's own parser: headers, bodies by type, attachments.
const READ: &str = "
import email, email.policy, json, sys
letters = []
for path in sys.argv[1:]:
    letter = email.message_from_binary_file(open(path, 'rb'), policy=email.policy.default)
    parts, files = {}, []
    for part in letter.walk():
        if part.get_content_disposition() == 'attachment':
            content = part.get_payload(decode=True).decode('utf-8', 'replace')
            files.append({'name': part.get_filename(), 'type': part.get_content_type(), 'content': content})
        elif not part.is_multipart():
            parts[part.get_content_type()] = part.get_content()
    headers = [[name, str(value)] for name, value in letter.items()]
    letters.append({'headers': headers, 'parts': parts, 'files': files})
print(json.dumps(letters))
";

const SERVER: &str = include_str!("mail_server.py");
/// The name and password that a strict server accepts.
pub const LOGIN: (&str, &str) = ("post@example.com", "päss: w/rd?");

/// The requirements and refusals of a strict server.
#[derive(Debug, Clone, Copy, Default)]
pub struct Strict {
    /// `starttls`, which is then required, or `implicit`; plain text if `None`.
    pub tls: Option<&'static str>,
    /// Whether clients must sign in with [`LOGIN`].
    pub login: bool,
    /// The failing step: `sender`, `recipient`, `recipient, for now`, `letter`, `to answer`, or `to answer, having
    /// taken it`.
    pub refuses: Option<&'static str>,
}

/// A running SMTP server and the mail that it has accepted.
pub struct Mailbox {
    pub port: u16,
    folder: PathBuf,
    /// The file that tells a strict server which step fails.
    refuses: Option<PathBuf>,
    _server: Child,
}

impl Mailbox {
    /// Starts a server that accepts all mail.
    pub async fn start(folder: &Path) -> Self {
        let (folder, port) = (folder.join("mail"), ports::free());
        let mut server = tools::python("aiosmtpd");
        server.args(["-n", "-c", "aiosmtpd.handlers.Mailbox"]).arg(&folder).args(["-l", &format!("127.0.0.1:{port}")]);
        let server = server.spawn().unwrap();
        eventually(Duration::from_secs(30), "the mail server is ready", async || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self { port, folder, refuses: None, _server: server }
    }

    /// Starts a server with the requirements of servers on the internet. Its self-signed certificate is for 127.0.0.1.
    pub async fn strict(folder: &Path, how: Strict) -> Self {
        let (mail, port) = (folder.join("mail"), ports::free());
        let (certificate, key) = (folder.join("mail.pem"), folder.join("mail.key"));
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        let refuses = folder.join("mail.refuses");
        std::fs::write(&refuses, refusal(how.refuses, "")).unwrap();
        let wanted = json!({
            "folder": mail, "port": port, "tls": how.tls, "refuses": refuses, "certificate": certificate, "key": key,
            "login": how.login.then_some(LOGIN),
        });
        let mut server = tools::program("python3");
        server.args(["-u", "-c", SERVER, &wanted.to_string()]);
        let server = server.spawn().unwrap();
        eventually(Duration::from_secs(30), "the mail server is ready", async || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self { port, folder: mail, refuses: Some(refuses), _server: server }
    }

    /// Returns the certificate file of a strict server that was started with `folder`.
    pub fn certificate(folder: &Path) -> PathBuf {
        folder.join("mail.pem")
    }

    /// Returns the `mail.url` of a server without TLS and login.
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// Makes a step of a strict server fail from now on, for everybody or for one address, or no step if `None`.
    pub fn refuse(&self, step: Option<&str>, address: &str) {
        let file = self.refuses.as_ref().unwrap();
        // Atomically, because the server may read it at any moment.
        let new = file.with_extension("new");
        std::fs::write(&new, refusal(step, address)).unwrap();
        std::fs::rename(new, file).unwrap();
    }

    pub async fn letters(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.folder.join("new")).into_iter().flatten();
        let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        let output = tools::program("python3").args(["-c", READ]).args(files).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

fn refusal(step: Option<&str>, address: &str) -> String {
    step.map_or_else(|| json!({}), |step| json!({ step: address })).to_string()
}

pub fn header<'l>(letter: &'l Value, name: &str) -> Vec<&'l str> {
    let headers = letter["headers"].as_array().unwrap().iter();
    let named = headers.filter(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}
