//! `[site]`: domains and public addresses.

use domain::addresses::{Addresses, PlatformHosts};
use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[site]`: domains and public addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Site {
    /// Projects are its subdomains.
    pub site_domain: String,
    /// Shares are its subdomains.
    pub share_domain: String,
    /// The control plane's address. Its port is the port of every public URL.
    pub base_url: Url,
    /// The AI gateway's address, without `/v1`.
    pub ai_url: Url,
    /// The console's address.
    pub console_url: Url,
    /// The name that the CNAME of a custom domain points at.
    pub dns_target: String,
}

impl Default for Site {
    fn default() -> Self {
        Self {
            site_domain: "svc.localhost".into(),
            share_domain: "share.localhost".into(),
            base_url: url("https://api.svc.localhost:8443"),
            ai_url: url("https://ai.svc.localhost:8443"),
            console_url: url("https://app.svc.localhost:8443"),
            dns_target: "edge.svc.localhost".into(),
        }
    }
}

impl Site {
    /// The platform's addresses. Public URLs carry the port of `base_url`.
    pub fn addresses(&self) -> Addresses {
        let host = |url: &Url| url.host_str().unwrap_or_default().to_owned();
        Addresses::new(PlatformHosts {
            site_domain: self.site_domain.clone(),
            share_domain: self.share_domain.clone(),
            api: host(&self.base_url),
            console: host(&self.console_url),
            gateway: host(&self.ai_url),
            dns_target: self.dns_target.clone(),
            port: self.base_url.port(),
        })
    }
}
