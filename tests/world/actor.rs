//! A caller of the API.

use domain::Clock;
use reqwest::{Client, Method};
use secrets::{
    EdgeKey,
    edge_proof::{self, ForwardedRequest},
};
use serde_json::{Value, json};
use url::{Position, Url};

use super::{
    answer::{Answer, parse_id},
    request::Request,
    site::Site,
};

/// A caller of the API: a person, a program, or an anonymous client.
#[derive(Clone)]
pub struct Actor {
    pub(super) client: Client,
    pub(super) base: String,
    /// The key that proves to admin that a request comes from an edge.
    pub(super) edge_key: EdgeKey,
    /// The client address that an edge reports to admin.
    pub(super) address: Option<String>,
    pub token: Option<String>,
}

/// The response to a successful upload.
#[derive(Debug, Clone)]
pub struct Uploaded {
    pub id: String,
    pub url: String,
    pub propagation: String,
    pub body: Value,
}

impl Actor {
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// Returns this caller with requests that bypass the edges and go to the admin at `port`.
    pub fn at_admin(&self, port: u16) -> Self {
        Self { base: format!("http://api.svc.localhost:{port}"), ..self.clone() }
    }

    /// Returns this caller with the headers with which an edge reports the client's address to admin.
    pub fn at_address(&self, address: &str) -> Self {
        Self { address: Some(address.to_owned()), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> Request {
        let url = format!("{}{path}", self.base);
        let mut request = Request::new(&self.client, method.clone(), &url);
        if let Some(address) = &self.address {
            let asked = Url::parse(&url).unwrap();
            let host = format!("{}:{}", asked.host_str().unwrap(), asked.port().unwrap());
            let handed = ForwardedRequest {
                method: method.as_str(),
                path: &asked[Position::BeforePath..Position::AfterQuery],
                host: host.as_bytes(),
                client: address.as_bytes(),
                scheme: b"",
            };
            let proof = self.edge_key.proofs(&handed, Clock::system().now()).pop().unwrap();
            request = request.header(edge_proof::HEADER, proof).header("x-forwarded-for", address);
        }
        let request = request.of_api(method, path);
        match &self.token {
            Some(token) => request.bearer(token),
            None => request,
        }
    }

    pub fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    pub fn post(&self, path: &str) -> Request {
        self.request(Method::POST, path)
    }

    pub fn put(&self, path: &str) -> Request {
        self.request(Method::PUT, path)
    }

    pub fn delete(&self, path: &str) -> Request {
        self.request(Method::DELETE, path)
    }

    pub async fn create_project(&self, name: &str) -> Value {
        self.post("/projects").json(&json!({ "name": name })).await.created()
    }

    pub fn upload(&self, project: &str, site: &Site) -> Request {
        self.post(&format!("/projects/{project}/deployments")).upload(site.tarball())
    }

    /// Uploads `site` to a project, and asserts success.
    pub async fn deploy(&self, project: &str, site: &Site) -> Uploaded {
        Uploaded::from(self.upload(project, site).await)
    }

    /// Creates a project that serves `site`.
    pub async fn publish(&self, project: &str, site: &Site) -> Uploaded {
        self.create_project(project).await;
        self.deploy(project, site).await
    }

    pub async fn share(&self, site: &Site, ttl_days: u32) -> Uploaded {
        Uploaded::from(self.post(&format!("/shares?ttl={ttl_days}")).upload(site.tarball()).await)
    }

    /// Makes a deployment of the project the live one.
    pub fn activate(&self, project: &str, deployment: &str) -> Request {
        self.post(&format!("/projects/{project}/deployments/{deployment}/activate"))
    }

    pub async fn project(&self, name: &str) -> Value {
        self.get(&format!("/projects/{name}")).await.ok()
    }
}

impl From<Answer> for Uploaded {
    #[track_caller]
    fn from(answer: Answer) -> Self {
        let propagation = answer.find_header("x-svc-propagation").unwrap_or_default().to_owned();
        let body = answer.created();
        let url = body["url"].as_str().unwrap().to_owned();
        Self { id: parse_id(&body["deployment_id"], "dep_"), url, propagation, body }
    }
}

impl Uploaded {
    pub fn permanent_url(&self) -> String {
        self.url.replacen("https://", &format!("https://{}--", self.id.trim_start_matches("dep_")), 1)
    }

    /// Returns the three words of a share's address.
    pub fn share_name(&self) -> String {
        self.url.trim_start_matches("https://").split('.').next().unwrap().to_owned()
    }
}
