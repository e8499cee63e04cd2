//! Custom domains: attached as by their owners, with certificates stored as by an operator.

use std::process::Output;

use serde_json::json;

use super::{Actor, World, answer::Answer, process::program};

impl Actor {
    pub async fn attach(&self, project: &str, domain: &str) -> Answer {
        self.post(&format!("/projects/{project}/domains")).json(&json!({ "domain": domain })).await.assert_status(201)
    }

    pub async fn detach(&self, project: &str, domain: &str) -> Answer {
        self.delete(&format!("/projects/{project}/domains/{domain}")).await.assert_status(200)
    }
}

impl World {
    /// Stores a certificate of the local authority for each of `domains`, which are under `localhost`.
    pub async fn certify(&self, domains: &[&str]) {
        let folder = self.ca().parent().unwrap().display().to_string();
        let names = domains.iter().flat_map(|domain| ["--name", domain]);
        let arguments: Vec<&str> = ["local-ca", "--dir", &folder].into_iter().chain(names).collect();
        let output = self.certs(&arguments).await;
        assert!(output.status.success(), "certs {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// Runs `certs` with these arguments and this world's configuration.
    pub async fn certs(&self, arguments: &[&str]) -> Output {
        let mut command = tokio::process::Command::new(program("certs"));
        command.args(arguments).envs(self.env.iter().cloned()).output().await.unwrap()
    }

    /// Returns the URL of a custom domain's home page, without a path.
    pub fn domain_url(&self, domain: &str) -> String {
        format!("https://{domain}:{}", self.public_port())
    }
}
