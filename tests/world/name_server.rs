//! The internet's DNS, simulated by `pebble-challtestsrv`, whose records a test writes.

use std::{path::Path, process::Command};

use serde_json::{Value, json};

use super::{READY_WITHIN, eventually, ports, process::Process};

/// A running name server. A name without records exists but is empty, unless there is a default address.
pub struct NameServer {
    /// Its DNS port, over UDP and TCP, on 127.0.0.1.
    pub port: u16,
    /// The port of its management interface.
    management: u16,
    client: reqwest::Client,
    pub process: Process,
}

impl NameServer {
    /// Starts a server with `default` as the IPv4 address of every name without an A record; `""` for none.
    pub async fn start(folder: &Path, default: &str) -> Self {
        let (port, management) = (ports::free(), ports::free());
        let here = |port: u16| format!("127.0.0.1:{port}");
        let mut command = Command::new("pebble-challtestsrv");
        command.args(["-dns01", &here(port), "-management", &here(management), "-defaultIPv4", default]);
        command.args(["-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", ""]);
        let process = Process::start(&format!("name-server-{port}"), folder, &command);
        eventually(READY_WITHIN, "the name server is ready", async || {
            let listens = async |port: u16| tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok();
            listens(port).await && listens(management).await
        })
        .await;
        Self { port, management, client: super::request::client().build().unwrap(), process }
    }

    /// Returns the value of `SVC__ACME__RESOLVERS` for this server.
    pub fn resolvers(&self) -> String {
        self.address()
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Replaces the IPv4 addresses of a name.
    pub async fn a(&self, name: &str, addresses: &[&str]) {
        self.replace("a", name, json!({ "host": name, "addresses": addresses })).await;
    }

    /// Replaces the IPv6 addresses of a name.
    pub async fn aaaa(&self, name: &str, addresses: &[&str]) {
        self.replace("aaaa", name, json!({ "host": name, "addresses": addresses })).await;
    }

    pub async fn cname(&self, name: &str, target: &str) {
        self.write("set-cname", json!({ "host": name, "target": target })).await;
    }

    /// Ends [`Self::cname`].
    pub async fn no_cname(&self, name: &str) {
        self.write("clear-cname", json!({ "host": name })).await;
    }

    pub async fn txt(&self, name: &str, value: &str) {
        self.write("set-txt", json!({ "host": format!("{name}."), "value": value })).await;
    }

    /// Replaces the CAA records of a name, given as pairs of tag and value.
    pub async fn caa(&self, name: &str, records: &[(&str, &str)]) {
        let policies: Vec<_> = records.iter().map(|(tag, value)| json!({ "tag": tag, "value": value })).collect();
        self.replace("caa", name, json!({ "host": name, "policies": policies })).await;
    }

    /// Makes every query for a name fail, as a resolver does for invalid signatures.
    pub async fn servfail(&self, name: &str) {
        self.write("set-servfail", json!({ "host": name })).await;
    }

    /// Ends [`Self::servfail`].
    pub async fn no_servfail(&self, name: &str) {
        self.write("clear-servfail", json!({ "host": name })).await;
    }

    async fn replace(&self, kind: &str, name: &str, records: Value) {
        self.write(&format!("clear-{kind}"), json!({ "host": name })).await;
        if records.as_object().unwrap().values().all(|value| value.as_array().is_none_or(|list| !list.is_empty())) {
            self.write(&format!("add-{kind}"), records).await;
        }
    }

    async fn write(&self, path: &str, body: Value) {
        let url = format!("http://127.0.0.1:{}/{path}", self.management);
        let answer = self.client.post(url).body(body.to_string()).send().await.unwrap();
        assert_eq!(answer.status(), 200, "{path} {body}: {}", answer.text().await.unwrap());
    }
}
