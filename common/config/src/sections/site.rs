//! `[site]`: domains and public addresses.

use std::net::IpAddr;

use domain::{
    addresses::{PlatformAddresses, PlatformHosts},
    hostname::is_within,
};
use serde::{Deserialize, Serialize};
use url::Url;

use super::url;

/// `[site]`: domains and public addresses.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
pub struct Site {
    /// The domain whose subdomains are projects.
    pub site_domain: String,
    /// The domain whose subdomains are shares.
    pub share_domain: String,
    /// The control plane's URL. All public URLs use its port.
    pub base_url: Url,
    /// The AI gateway's URL, without `/v1`.
    pub ai_url: Url,
    /// The console's URL.
    pub console_url: Url,
    /// The name that the CNAME record of a custom domain points to.
    pub dns_target: String,
    /// The addresses of the edges, for the A and AAAA records of a custom domain that cannot have a CNAME because it is
    /// the apex of its zone. They must not change, because people write them into their zones.
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
    /// Returns a warning for the operator about each domain of sites or shares that has the same registrable domain as
    /// the console or the API: one sentence that says what that allows. Names under `localhost` are skipped, because
    /// they belong to this machine.
    pub fn shared_domain_warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (key, domain) in [("site.site_domain", &self.site_domain), ("site.share_domain", &self.share_domain)] {
            // The registrable domain of a site, as browsers see it: the public suffix list may contain ours.
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

    /// Returns the platform's addresses. Public URLs use the port of `base_url`.
    pub fn addresses(&self) -> PlatformAddresses {
        let host = |url: &Url| url.host_str().unwrap_or_default().to_owned();
        PlatformAddresses::new(PlatformHosts {
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
        let warnings =
            |site_domain, share_domain, console| site(site_domain, share_domain, console).shared_domain_warnings();
        assert_eq!(warnings("sites.example", "shares.example", "app.platform.example"), [""; 0]);
        let told = warnings("sites.platform.example", "shares.example", "app.platform.example");
        assert_eq!(told.len(), 1);
        assert!(
            told[0].starts_with("site.site_domain shares the domain platform.example with the console"),
            "{told:?}"
        );
        assert_eq!(warnings("platform.example", "s.platform.example", "app.other.example").len(), 2, "the API's");
        // Suffixes of several labels, and one that is listed for its owner's customers.
        assert_eq!(warnings("sites.co.uk", "shares.co.uk", "app.platform.co.uk"), [""; 0]);
        assert_eq!(warnings("github.io", "shares.example", "app.github.io"), [""; 0]);
        assert_eq!(Site::default().shared_domain_warnings(), [""; 0], "localhost");
    }
}
