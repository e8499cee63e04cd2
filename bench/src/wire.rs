//! A small HTTP/1.1 client over TLS: blocking, one connection, no resumption; every name resolves to this machine.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{Ipv4Addr, TcpStream},
    path::Path,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, ensure};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, client::Resumption};
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};

const PATIENCE: Duration = Duration::from_secs(30);

/// The certificate authorities to trust. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TrustedRoots(pub(crate) Arc<ClientConfig>);

impl TrustedRoots {
    /// Trusts only the authority in `ca_file`.
    pub(crate) fn in_file(ca_file: &Path) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        let pem = fs::read(ca_file).with_context(|| format!("{}", ca_file.display()))?;
        for certificate in CertificateDer::pem_slice_iter(&pem) {
            roots.add(certificate?)?;
        }
        let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }
}

pub(crate) struct HttpsConnection {
    stream: BufReader<StreamOwned<ClientConnection, TcpStream>>,
}

pub(crate) struct HttpResponse {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl HttpResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> anyhow::Result<serde_json::Value> {
        serde_json::from_slice(&self.body).with_context(|| String::from_utf8_lossy(&self.body).into_owned())
    }
}

impl HttpsConnection {
    /// Connects to `port` on this machine and completes the handshake for `host`.
    pub(crate) fn open(trust: &TrustedRoots, host: &str, port: u16) -> anyhow::Result<Self> {
        let mut socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut session = ClientConnection::new(Arc::clone(&trust.0), ServerName::try_from(host.to_owned())?)?;
        while session.is_handshaking() {
            session.complete_io(&mut socket)?;
        }
        Ok(Self { stream: BufReader::new(StreamOwned::new(session, socket)) })
    }

    /// Sends a request without a body. `headers` are whole lines, each with its `\r\n`.
    pub(crate) fn request(
        &mut self,
        method: &str,
        host: &str,
        path: &str,
        headers: &str,
    ) -> anyhow::Result<HttpResponse> {
        let length = if method == "GET" { "" } else { "content-length: 0\r\n" };
        let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\n{length}{headers}\r\n");
        let stream = self.stream.get_mut();
        stream.write_all(head.as_bytes())?;
        stream.flush()?;
        let status_line = self.line()?;
        let status = status_line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let mut answer = HttpResponse { status: status.context(status_line)?, headers: Vec::new(), body: Vec::new() };
        loop {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            answer.headers.push((name.to_owned(), value.trim().to_owned()));
        }
        if let Some(length) = answer.header("content-length") {
            answer.body = vec![0; length.parse()?];
            self.stream.read_exact(&mut answer.body)?;
        } else if answer.header("transfer-encoding").is_some() {
            self.read_chunks(&mut answer.body)?;
        }
        Ok(answer)
    }

    /// Sends a GET and fails unless the response is 200.
    pub(crate) fn get(&mut self, host: &str, path: &str) -> anyhow::Result<Vec<u8>> {
        let answer = self.request("GET", host, path, "")?;
        ensure!(answer.status == 200, "GET https://{host}{path} answered {}", answer.status);
        Ok(answer.body)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        ensure!(self.stream.read_line(&mut line)? > 0, "the server closed the connection");
        Ok(line.trim_end().to_owned())
    }

    fn read_chunks(&mut self, body: &mut Vec<u8>) -> anyhow::Result<()> {
        loop {
            let size = u64::from_str_radix(&self.line()?, 16)?;
            self.stream.by_ref().take(size).read_to_end(body)?;
            self.line()?;
            if size == 0 {
                return Ok(());
            }
        }
    }
}
