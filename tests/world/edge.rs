//! An edge process, and the clients that visit sites there.

use reqwest::{Certificate, Client, Method};
use url::Url;

use super::{
    process::Process,
    request::{Request, client},
};

/// An edge. A site's URL has the first edge's port; a visit goes to this edge's.
pub struct Edge {
    pub process: Process,
    pub http_port: u16,
    pub https_port: u16,
    pub browser: Client,
    pub old_browser: Client,
    pub(super) ca: Certificate,
}

impl Edge {
    /// Returns `url` with the port of this edge.
    pub fn address(&self, url: &str) -> Url {
        let mut url: Url = url.parse().unwrap_or_else(|e| panic!("{url}: {e}"));
        let port = if url.scheme() == "https" { self.https_port } else { self.http_port };
        url.set_port(Some(port)).unwrap();
        url
    }

    /// Builds a request over HTTP/2, or over HTTP/1.1 without TLS.
    pub fn request(&self, method: Method, url: &str) -> Request {
        Request::new(&self.browser, method, self.address(url).as_str())
    }

    pub fn get(&self, url: &str) -> Request {
        self.request(Method::GET, url)
    }

    pub fn head(&self, url: &str) -> Request {
        self.request(Method::HEAD, url)
    }

    pub fn post(&self, url: &str) -> Request {
        self.request(Method::POST, url)
    }

    /// Returns a new client whose connections are not shared and close when it is dropped.
    pub fn another_browser(&self, http2: bool) -> Client {
        let builder = client().tls_certs_only([self.ca.clone()]);
        let builder = if http2 { builder } else { builder.http1_only() };
        builder.build().unwrap()
    }

    /// Returns a new client that keeps no connections.
    pub fn fresh_browser(&self) -> Client {
        client().tls_certs_only([self.ca.clone()]).pool_max_idle_per_host(0).build().unwrap()
    }

    pub fn get_http1(&self, url: &str) -> Request {
        Request::new(&self.old_browser, Method::GET, self.address(url).as_str())
    }

    /// Returns a new client that keeps cookies.
    pub fn person(&self) -> Client {
        client().tls_certs_only([self.ca.clone()]).cookie_store(true).build().unwrap()
    }

    /// Builds a GET with the `Accept` header of a browser's navigation.
    pub fn navigate(&self, url: &str) -> Request {
        self.get(url).header("accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
    }
}
