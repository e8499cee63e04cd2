//! A request that is built by chaining and sent by `.await`.

use std::{future::IntoFuture, net::SocketAddr, pin::Pin, sync::Arc};

use reqwest::{
    Client, ClientBuilder, Method, RequestBuilder,
    dns::{Addrs, Name, Resolve, Resolving},
    redirect::Policy,
};
use serde_json::Value;

use super::{answer::Answer, contract};

/// A request; awaiting it returns the whole response.
#[must_use]
pub struct Request {
    what: String,
    builder: RequestBuilder,
    /// Method and path, if the API responds: the response is then checked against its description.
    of_api: Option<(Method, String)>,
}

impl Request {
    /// Creates the request `method url`, sent by `client`.
    pub fn new(client: &Client, method: Method, url: &str) -> Self {
        let of_api = path_at_api(url).map(|path| (method.clone(), path));
        Self { what: format!("{method} {url}"), builder: client.request(method, url), of_api }
    }

    /// Marks the request as one that the API answers at `path`, whatever its URL.
    pub fn of_api(mut self, method: Method, path: &str) -> Self {
        self.of_api = Some((method, path.to_owned()));
        self
    }

    pub fn header(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.builder = self.builder.header(name, value.as_ref());
        if ["host", "x-forwarded-host"].contains(&name.to_ascii_lowercase().as_str()) {
            // Another host may respond now.
            self.of_api = None;
        }
        self
    }

    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    pub fn json(mut self, body: &Value) -> Self {
        self.builder = self.builder.json(body);
        self
    }

    pub fn form(mut self, fields: &[(&str, &str)]) -> Self {
        self.builder = self.builder.form(fields);
        self
    }

    /// Sets the body unchanged.
    pub fn body(mut self, body: impl Into<reqwest::Body>) -> Self {
        self.builder = self.builder.body(body);
        self
    }

    /// Sets an upload as the body: a gzipped tarball.
    pub fn upload(self, tarball: impl Into<reqwest::Body>) -> Self {
        self.header("content-type", "application/gzip").body(tarball)
    }

    /// Returns the response without its body; an error response includes it.
    pub async fn head(self) -> Answer {
        let (answer, _) = self.open().await;
        answer
    }

    /// Returns the response without its body, and the stream of its body; an error response is returned whole.
    pub async fn open(self) -> (Answer, Option<reqwest::Response>) {
        let response = self.builder.send().await.unwrap_or_else(|e| panic!("{}: no answer: {e:?}", self.what));
        let (answer, response) = if response.status().is_success() {
            let (status, version, headers) = (response.status(), response.version(), response.headers().clone());
            (Answer { what: self.what, status, version, headers, body: bytes::Bytes::new() }, Some(response))
        } else {
            (Answer::read(self.what, response).await, None)
        };
        if let Some((method, path)) = &self.of_api {
            contract::check(method, path, &answer);
        }
        (answer, response)
    }

    /// Returns the response, or why there is none.
    pub async fn attempt(self) -> Result<Answer, reqwest::Error> {
        let response = self.builder.send().await?;
        let answer = Answer::read(self.what, response).await;
        if let Some((method, path)) = &self.of_api {
            contract::check(method, path, &answer);
        }
        Ok(answer)
    }
}

impl IntoFuture for Request {
    type Output = Answer;
    type IntoFuture = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move {
            let what = self.what.clone();
            self.attempt().await.unwrap_or_else(|e| panic!("{what}: no answer: {e:?}"))
        })
    }
}

/// Returns the API path that `url` leads to: at the API's host, or below `/api` of the console's.
fn path_at_api(url: &str) -> Option<String> {
    let url: url::Url = url.parse().ok()?;
    let path = match (url.scheme(), url.host_str()?) {
        ("https", "api.svc.localhost") => url.path(),
        ("https", "app.svc.localhost") => url.path().strip_prefix("/api").filter(|path| path.starts_with('/'))?,
        _ => return None,
    };
    Some(path.to_owned())
}

/// Returns a client that resolves every name to this machine and does not follow redirects.
pub fn client() -> ClientBuilder {
    Client::builder().no_proxy().redirect(Policy::none()).dns_resolver(Arc::new(Loopback))
}

struct Loopback;

impl Resolve for Loopback {
    fn resolve(&self, _name: Name) -> Resolving {
        let here: Addrs = Box::new(std::iter::once(SocketAddr::from(([127, 0, 0, 1], 0))));
        Box::pin(std::future::ready(Ok(here)))
    }
}
