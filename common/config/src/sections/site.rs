//! `[site]`: domains and public addresses.

use std::net::IpAddr;

use domain::{
    addresses::{Addresses, PlatformHosts},
    hostname::is_within,
};
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
    /// The addresses of the edges, for the A and AAAA records of a custom domain that cannot have a CNAME because it is the
    /// apex of its zone. They must stay: people write them into their zones.
    pub apex_addresses: Vec<IpAddr>,
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
            apex_addresses: Vec::new(),
        }
    }
}

impl Site {
    /// Says, for each domain of sites and shares that shares its registrable domain with the console or the API, what that
    /// allows: one sentence each, for the operator. Names under `localhost` are this machine's own, and not looked at.
    pub fn shared_domains(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (key, domain) in [("site.site_domain", &self.site_domain), ("site.share_domain", &self.share_domain)] {
            // What browsers take for the domain of a site: the list of public suffixes may have ours.
            let sites = format!("site.{domain}");
            let Some(registrable) = psl::domain_str(&sites).filter(|it| !is_within(it, "localhost")) else { continue };
            let own = [("console", &self.console_url), ("API", &self.base_url)];
            let Some((name, _)) =
                own.into_iter().find(|(_, url)| url.host_str().and_then(psl::domain_str) == Some(registrable))
            else {
                continue;
            };
            warnings.push(format!(
                "{key} shares the domain {registrable} with the {name}: scripts of sites can set cookies for all of it; \
                 give sites a registrable domain of their own, and have it added to the Public Suffix List"
            ));
        }
        warnings
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    fn site(site_domain: &str, share_domain: &str, console: &str) -> Site {
        Site {
            site_domain: site_domain.into(),
            share_domain: share_domain.into(),
            console_url: url(&format!("https://{console}")),
            base_url: url("https://api.platform.example"),
            ..Site::default()
        }
    }

    #[test]
    fn domains_that_are_shared_with_the_console_are_told() {
        let warnings = |site_domain, share_domain, console| site(site_domain, share_domain, console).shared_domains();
        assert_eq!(warnings("sites.example", "shares.example", "app.platform.example"), [""; 0]);
        let told = warnings("sites.platform.example", "shares.example", "app.platform.example");
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("site.site_domain shares the domain platform.example with the console"),
            "{told:?}"
        );
        assert_eq!(warnings("platform.example", "s.platform.example", "app.other.example").len(), 2, "the API's");
        // Suffixes of several labels, and one that the list has for its owner's customers.
        assert_eq!(warnings("sites.co.uk", "shares.co.uk", "app.platform.co.uk"), [""; 0]);
        assert_eq!(warnings("github.io", "shares.example", "app.github.io"), [""; 0]);
        assert_eq!(Site::default().shared_domains(), [""; 0], "localhost");
    }
}
