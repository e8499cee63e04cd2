//! Addresses: from names to URLs, and from a request's host back to what it names.

use crate::{
    config::Site as SiteConfig,
    domain::{DeploymentId, ProjectName, ShareName, ids},
};

/// A host under one of our domains, reduced to what it names. The edge's memory and the database are keyed by it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostKey {
    /// `<name>.{site_domain}`.
    Project(ProjectName),
    /// `<dep>--<name>.{site_domain}`.
    Deployment(DeploymentId, ProjectName),
    /// `<three-words>.{share_domain}`.
    Share(ShareName),
}

impl HostKey {
    /// The form in which `route_changes.hosts` lists it: unique over all kinds.
    pub fn label(&self) -> String {
        match self {
            Self::Project(name) => name.to_string(),
            Self::Deployment(id, name) => format!("{}--{name}", id.body()),
            Self::Share(name) => format!("share/{name}"),
        }
    }
}

/// What a request's host names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKind {
    /// A stored site.
    Site(HostKey),
    /// The control plane's API.
    Api,
    /// The console.
    Console,
    /// The AI gateway.
    Gateway,
    /// Under one of our domains, but nothing can ever be there; or a foreign host.
    Unknown,
}

/// The platform's own addresses, computed once from the configuration.
#[derive(Debug, Clone)]
pub struct Addresses {
    site_domain: String,
    share_domain: String,
    api_host: String,
    console_host: String,
    ai_host: String,
    /// `:8443`, or nothing when the platform is on the scheme's own port.
    port_suffix: String,
}

impl Addresses {
    /// From the `[site]` section. Public URLs carry the port of `base_url`.
    pub fn new(site: &SiteConfig) -> Self {
        let host = |url: &url::Url| url.host_str().unwrap_or_default().to_ascii_lowercase();
        Self {
            site_domain: site.site_domain.clone(),
            share_domain: site.share_domain.clone(),
            api_host: host(&site.base_url),
            console_host: host(&site.console_url),
            ai_host: host(&site.ai_url),
            port_suffix: site.base_url.port().map(|port| format!(":{port}")).unwrap_or_default(),
        }
    }

    /// A project's address.
    pub fn project_url(&self, name: &ProjectName) -> String {
        format!("https://{name}.{}{}", self.site_domain, self.port_suffix)
    }

    /// A deployment's permanent address.
    pub fn deployment_url(&self, id: &DeploymentId, name: &ProjectName) -> String {
        format!("https://{}--{name}.{}{}", id.body(), self.site_domain, self.port_suffix)
    }

    /// A share's address.
    pub fn share_url(&self, name: &ShareName) -> String {
        format!("https://{name}.{}{}", self.share_domain, self.port_suffix)
    }

    /// What `host` names: no port, lower case, no trailing dot (see edge's host parsing).
    pub fn classify(&self, host: &str) -> HostKind {
        if host == self.api_host {
            return HostKind::Api;
        }
        if host == self.console_host {
            return HostKind::Console;
        }
        if host == self.ai_host {
            return HostKind::Gateway;
        }
        if let Some(label) = subdomain_label(host, &self.share_domain) {
            return label.parse().map_or(HostKind::Unknown, |name| HostKind::Site(HostKey::Share(name)));
        }
        let Some(label) = subdomain_label(host, &self.site_domain) else {
            return HostKind::Unknown;
        };
        let key = match label.split_once("--") {
            Some((body, name)) if ids::is_body(body) => DeploymentId::from_body(body)
                .ok()
                .zip(name.parse().ok())
                .map(|(id, name)| HostKey::Deployment(id, name)),
            _ => label.parse().ok().map(HostKey::Project),
        };
        key.map_or(HostKind::Unknown, HostKind::Site)
    }
}

fn subdomain_label<'h>(host: &'h str, domain: &str) -> Option<&'h str> {
    host.strip_suffix(domain)?.strip_suffix('.').filter(|label| !label.is_empty() && !label.contains('.'))
}
