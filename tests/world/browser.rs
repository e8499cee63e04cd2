//! Headless Chromium, driven through chromedriver, for behavior that only a browser has: it applies its own cookie
//! rules, enforces a page's policy for forms and redirects, and reports where a request comes from.
//!
//! It trusts only the keys of the certificates that the edge presents, and resolves no name outside this machine.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use fantoccini::{Client, ClientBuilder, Locator, wd::Capabilities, wd::WebDriverCompatibleCommand};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use url::Url;

use super::{World, eventually, ports, process::Process, socket, wait::holds_within};

/// The maximum wait for a page to show what a test expects. It bounds a hang and asserts no speed.
const PATIENCE: Duration = Duration::from_mins(1);

/// A browser with a new profile.
pub struct Browser {
    client: Client,
    /// The driver is killed with the test. The browser then ends too, because the pipe between them closes.
    _driver: Process,
}

/// A cookie as the browser keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cookie {
    pub name: String,
    pub value: String,
    /// The host, with a leading dot if its subdomains receive the cookie too.
    pub domain: String,
    pub path: String,
    pub secure: bool,
    pub http_only: bool,
    pub same_site: String,
}

impl World {
    /// Starts a browser that trusts this world's certificates.
    pub async fn browser(&self) -> Browser {
        let port = ports::free();
        let profile = self.folder().join(format!("browser-{port}"));
        let mut command = Command::new("chromedriver");
        command.arg(format!("--port={port}")).env("HOME", self.folder());
        let driver = Process::start(&format!("chromedriver-{port}"), self.folder(), &command);
        let address = format!("http://127.0.0.1:{port}");
        eventually(PATIENCE, "chromedriver is ready", async || {
            reqwest::get(format!("{address}/status")).await.is_ok_and(|answer| answer.status().is_success())
        })
        .await;
        let capabilities = capabilities(&profile, &presented_keys(self).await);
        let client = ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(&address).await;
        Browser { client: client.expect("chromium does not start"), _driver: driver }
    }
}

fn capabilities(profile: &Path, trusted_keys: &str) -> Capabilities {
    let arguments = [
        "--headless=new".to_owned(),
        // Root has no sandbox, and containers little shared memory.
        "--no-sandbox".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--no-first-run".to_owned(),
        "--window-size=1000,800".to_owned(),
        "--host-resolver-rules=MAP * 127.0.0.1".to_owned(),
        format!("--ignore-certificate-errors-spki-list={trusted_keys}"),
        format!("--user-data-dir={}", profile.display()),
        "--remote-debugging-pipe".to_owned(),
    ];
    let capabilities = json!({ "browserName": "chrome", "goog:chromeOptions": { "args": arguments } });
    capabilities.as_object().unwrap().clone()
}

/// Returns the keys of the certificates that the edge presents, in Chromium's notation.
pub async fn presented_keys(world: &World) -> String {
    let config = socket::tls(world.ca(), rustls::ALL_VERSIONS, &[]);
    let stream = socket::connect_tls(world.public_port(), "app.svc.localhost", config.into()).await.unwrap();
    let certificates = stream.get_ref().1.peer_certificates().unwrap();
    let keys = certificates.iter().map(|certificate| STANDARD.encode(Sha256::digest(public_key(certificate))));
    keys.collect::<Vec<_>>().join(",")
}

/// Returns the `SubjectPublicKeyInfo` of a certificate (RFC 5280).
fn public_key(certificate: &[u8]) -> &[u8] {
    let (certificate, _) = der(certificate);
    let (mut fields, _) = der(inside(certificate));
    fields = inside(fields);
    // Version, serial number, signature algorithm, issuer, validity, subject.
    for _ in 0..6 {
        fields = der(fields).1;
    }
    der(fields).0
}

/// Returns the first DER element of `bytes`, and the rest.
fn der(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (header, length) = header(bytes);
    bytes.split_at(header + length)
}

/// Returns the content of an element.
fn inside(element: &[u8]) -> &[u8] {
    &element[header(element).0..]
}

/// Returns the lengths of an element's header and content.
fn header(bytes: &[u8]) -> (usize, usize) {
    match bytes[1] {
        short @ ..0x80 => (2, usize::from(short)),
        long => {
            let count = usize::from(long & 0x7f);
            let length = bytes[2..2 + count].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            (2 + count, length)
        }
    }
}

impl Browser {
    pub async fn open(&self, url: &str) {
        self.client.goto(url).await.unwrap_or_else(|e| panic!("{url}: {e}"));
    }

    pub async fn url(&self) -> Url {
        self.client.current_url().await.unwrap()
    }

    pub async fn text(&self) -> String {
        let text = self.client.execute("return document.body ? document.body.innerText : ''", Vec::new()).await;
        text.ok().and_then(|text| text.as_str().map(str::to_owned)).unwrap_or_default()
    }

    /// Waits until the page shows `text`.
    pub async fn sees(&self, text: &str) {
        let mut seen = String::new();
        let says = holds_within(PATIENCE, async || {
            seen = self.text().await;
            seen.contains(text)
        });
        assert!(says.await, "{} does not say {text:?}: {seen}", self.url().await);
    }

    /// Waits until the browser is at `url` and the page shows `text`.
    pub async fn arrives(&self, url: &str, text: &str) {
        self.sees(text).await;
        assert_eq!(self.url().await.as_str(), url);
    }

    /// Types into the field named `name`.
    pub async fn fill(&self, name: &str, text: &str) {
        let field = self.client.find(Locator::Css(&format!("input[name=\"{name}\"]"))).await.unwrap();
        field.clear().await.unwrap();
        field.send_keys(text).await.unwrap();
    }

    /// Clicks the button or link labeled `label`.
    pub async fn press(&self, label: &str) {
        let path = format!("//button[normalize-space()='{label}'] | //a[normalize-space()='{label}']");
        let found = self.client.find(Locator::XPath(&path)).await;
        found.unwrap_or_else(|e| panic!("nothing says {label}: {e}")).click().await.unwrap();
    }

    /// Runs the body of an async function in the page, and returns its result.
    pub async fn run(&self, script: &str) -> Value {
        let script = format!(
            "const done = arguments[arguments.length - 1]; (async () => {{ {script} }})().then(done, e => done(String(e)))"
        );
        self.client.execute_async(&script, Vec::new()).await.unwrap()
    }

    pub async fn cookies(&self) -> Vec<Cookie> {
        let answer = self.command("Network.getAllCookies", json!({})).await;
        let cookies = answer["cookies"].as_array().unwrap_or_else(|| panic!("no cookies: {answer}"));
        let text = |cookie: &Value, key: &str| cookie[key].as_str().unwrap_or_default().to_owned();
        cookies
            .iter()
            .map(|cookie| Cookie {
                name: text(cookie, "name"),
                value: text(cookie, "value"),
                domain: text(cookie, "domain"),
                path: text(cookie, "path"),
                secure: cookie["secure"] == true,
                http_only: cookie["httpOnly"] == true,
                same_site: text(cookie, "sameSite"),
            })
            .collect()
    }

    /// Deletes the cookie `name` of the page's host.
    pub async fn forget(&self, name: &str) {
        self.client.delete_cookie(name).await.unwrap();
    }

    /// Saves a screenshot in the folder that `SVC_TEST_PICTURES` names, if it is set.
    pub async fn picture(&self, name: &str) {
        if let Some(folder) = std::env::var_os("SVC_TEST_PICTURES") {
            let picture = self.client.screenshot().await.unwrap();
            std::fs::write(PathBuf::from(folder).join(format!("{name}.png")), picture).unwrap();
        }
    }

    /// Makes the browser identify itself as an ordinary Chromium with a window on `platform`.
    pub async fn pretend(&self, platform: &str) {
        let own = self.client.execute("return navigator.userAgent", Vec::new()).await.unwrap();
        let own = own.as_str().unwrap().replace("HeadlessChrome", "Chrome").replace("X11; Linux x86_64", platform);
        let version = own.split("Chrome/").nth(1).unwrap().split('.').next().unwrap();
        let brand = |brand: &str, version: &str| json!({ "brand": brand, "version": version });
        let metadata = json!({
            "brands": [brand("Chromium", version), brand("Not_A Brand", "99")],
            "platform": "", "platformVersion": "", "architecture": "", "model": "", "mobile": false,
        });
        let parameters = json!({ "userAgent": own, "acceptLanguage": "en", "userAgentMetadata": metadata });
        self.command("Emulation.setUserAgentOverride", parameters).await;
    }

    /// Blocks further requests to URLs that match one of `patterns`.
    pub async fn block(&self, patterns: &[&str]) {
        self.command("Network.enable", json!({})).await;
        self.command("Network.setBlockedURLs", json!({ "urls": patterns })).await;
    }

    async fn command(&self, name: &'static str, parameters: Value) -> Value {
        self.client.issue_cmd(DevTools(name, parameters)).await.unwrap()
    }

    /// Ends the session. A browser that is dropped is killed.
    pub async fn close(self) {
        self.client.close().await.unwrap();
    }
}

/// A command of Chromium's own protocol, and its parameters.
#[derive(Debug)]
struct DevTools(&'static str, Value);

impl WebDriverCompatibleCommand for DevTools {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/goog/cdp/execute", session.unwrap_or_default()))
    }

    fn method_and_body(&self, _: &Url) -> (reqwest::Method, Option<String>) {
        (reqwest::Method::POST, Some(json!({ "cmd": self.0, "params": self.1 }).to_string()))
    }
}
