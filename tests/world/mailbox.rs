//! A real SMTP server that keeps what it is sent, and reads it as a mail program would.

use std::{
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::Value;
use tokio::process::Child;

use super::{eventually, ports, tools};

/// Parses letters with Python's own mail parser: headers, and the bodies by their types.
const READ: &str = "
import email, email.policy, json, sys
letters = []
for path in sys.argv[1:]:
    letter = email.message_from_binary_file(open(path, 'rb'), policy=email.policy.default)
    parts = {part.get_content_type(): part.get_content() for part in letter.walk() if not part.is_multipart()}
    letters.append({'headers': [[name, str(value)] for name, value in letter.items()], 'parts': parts})
print(json.dumps(letters))
";

/// The server.
pub struct Mailbox {
    pub port: u16,
    folder: PathBuf,
    _server: Child,
}

impl Mailbox {
    /// A server on a port of its own, ready.
    pub async fn start(folder: &Path) -> Self {
        let (folder, port) = (folder.join("mail"), ports::free());
        let mut server = tools::python("aiosmtpd");
        server.args(["-n", "-c", "aiosmtpd.handlers.Mailbox"]).arg(&folder).args(["-l", &format!("127.0.0.1:{port}")]);
        let server = server.spawn().unwrap();
        eventually(Duration::from_secs(30), "the mail server is ready", async || {
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        })
        .await;
        Self { port, folder, _server: server }
    }

    /// `mail.url`.
    pub fn url(&self) -> String {
        format!("smtp://127.0.0.1:{}", self.port)
    }

    /// Everything that was sent.
    pub async fn letters(&self) -> Vec<Value> {
        let files = std::fs::read_dir(self.folder.join("new")).into_iter().flatten();
        let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        let output = tools::program("python3").args(["-c", READ]).args(files).output().await.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

/// The values of a letter's header.
pub fn header<'l>(letter: &'l Value, name: &str) -> Vec<&'l str> {
    let headers = letter["headers"].as_array().unwrap().iter();
    let named = headers.filter(|pair| pair[0].as_str().unwrap().eq_ignore_ascii_case(name));
    named.map(|pair| pair[1].as_str().unwrap()).collect()
}
