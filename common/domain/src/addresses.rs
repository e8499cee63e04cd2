//! Conversion between names and URLs, and classification of a request's host.

use super::{DeploymentId, Hostname, ProjectName, ShareName, hostname, ids};

/// A host that may lead to a site, under a platform domain or custom. Keys the edge's memory and the database.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostKey {
    /// `<name>.{site_domain}`.
    Project(ProjectName),
    /// `<dep>--<name>.{site_domain}`.
    Deployment(DeploymentId, ProjectName),
    /// `<three-words>.{share_domain}`.
    Share(ShareName),
    /// A custom hostname, whether or not it is attached to a project.
    Domain(Hostname),
}

impl HostKey {
    /// Returns the label of this key in `route_changes.hosts`. Labels are unique.
    pub fn label(&self) -> String {
        match self {
            Self::Project(name) => name.to_string(),
            Self::Deployment(id, name) => format!("{}--{name}", id.body()),
            Self::Share(name) => format!("share/{name}"),
            Self::Domain(name) => format!("domain/{name}"),
        }
    }
}

/// The part of the platform that a request's host names.
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
    /// A host that can be neither a platform site nor a custom domain.
    Unknown,
}

/// The platform's own addresses, computed once from the configuration.
#[derive(Debug, Clone)]
pub struct PlatformAddresses {
    site_domain: String,
    share_domain: String,
    api_host: String,
    console_host: String,
    ai_host: String,
    dns_target: String,
    /// `:8443`, or empty for the scheme's default port.
    port_suffix: String,
}

/// The platform's domains and hosts, from which [`PlatformAddresses`] is built.
#[derive(Debug, Clone, Default)]
pub struct PlatformHosts {
    /// Parent domain of projects and deployments.
    pub site_domain: String,
    /// Parent domain of shares.
    pub share_domain: String,
    /// Host of the control plane's API.
    pub api: String,
    /// Host of the console.
    pub console: String,
    /// Host of the AI gateway.
    pub gateway: String,
    /// Host that the CNAME record of a custom domain must point at.
    pub dns_target: String,
    /// Port of every public URL, unless it is the scheme's default.
    pub port: Option<u16>,
}

impl PlatformAddresses {
    /// Creates the addresses of a platform with these hosts.
    pub fn new(hosts: PlatformHosts) -> Self {
        Self {
            site_domain: hosts.site_domain,
            share_domain: hosts.share_domain,
            api_host: hosts.api.to_ascii_lowercase(),
            console_host: hosts.console.to_ascii_lowercase(),
            ai_host: hosts.gateway.to_ascii_lowercase(),
            dns_target: hosts.dns_target.trim_end_matches('.').to_ascii_lowercase(),
            port_suffix: hosts.port.map(|port| format!(":{port}")).unwrap_or_default(),
        }
    }

    /// Returns the URL of a project.
    pub fn project_url(&self, name: &ProjectName) -> String {
        format!("https://{name}.{}{}", self.site_domain, self.port_suffix)
    }

    /// Returns the permanent URL of a deployment.
    pub fn deployment_url(&self, id: &DeploymentId, name: &ProjectName) -> String {
        format!("https://{}--{name}.{}{}", id.body(), self.site_domain, self.port_suffix)
    }

    /// Returns the URL of a share.
    pub fn share_url(&self, name: &ShareName) -> String {
        format!("https://{name}.{}{}", self.share_domain, self.port_suffix)
    }

    /// Returns the host that the CNAME record of a custom domain must point at.
    pub fn dns_target(&self) -> &str {
        &self.dns_target
    }

    /// Returns whether `name` is a platform host or domain, or lies under one. Such names cannot be attached.
    pub fn is_own(&self, name: &Hostname) -> bool {
        self.is_own_host(name.as_str())
    }

    /// Returns whether `host` (lower case, no port) is a platform host or domain, or lies under one.
    pub fn is_own_host(&self, host: &str) -> bool {
        [&self.site_domain, &self.share_domain, &self.api_host, &self.console_host, &self.ai_host, &self.dns_target]
            .into_iter()
            .any(|own| hostname::is_within(host, own))
    }

    /// Returns whether a site of this name would have the address of a platform host, or a parent of it.
    ///
    /// Projects named before the host was configured are still served: at their own address unless the API, the console
    /// or the gateway is there, and always at their custom domains.
    pub fn reserves(&self, name: &str) -> bool {
        let host = format!("{name}.{}", self.site_domain);
        [&self.share_domain, &self.api_host, &self.console_host, &self.ai_host, &self.dns_target]
            .into_iter()
            .any(|own| hostname::is_within(own, &host))
    }

    /// Classifies `host`, which must be in lower case, without a port or a trailing dot.
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
            return Hostname::from_canonical(host)
                .filter(|name| !self.is_own(name))
                .map_or(HostKind::Unknown, |name| HostKind::Site(HostKey::Domain(name)));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_platforms_own_hosts_are_reserved() {
        let addresses = PlatformAddresses::new(PlatformHosts {
            site_domain: "svc.example".into(),
            share_domain: "share.svc.example".into(),
            api: "control.svc.example".into(),
            console: "panel.other.example".into(),
            gateway: "models.svc.example".into(),
            dns_target: "one.edges.svc.example".into(),
            port: None,
        });
        for name in ["share", "control", "models", "edges"] {
            assert!(addresses.reserves(name), "{name}");
        }
        for name in ["panel", "one", "blog", "control-2", "svc"] {
            assert!(!addresses.reserves(name), "{name}");
        }
    }

    #[test]
    fn hosts_lead_to_what_they_name() {
        let addresses = PlatformAddresses::new(PlatformHosts {
            site_domain: "svc.localhost".into(),
            share_domain: "share.localhost".into(),
            api: "api.svc.localhost".into(),
            console: "app.svc.localhost".into(),
            gateway: "ai.svc.localhost".into(),
            dns_target: "Edge.Platform.Example.".into(),
            port: Some(8443),
        });
        assert_eq!(addresses.dns_target(), "edge.platform.example");
        let id = DeploymentId::from_body("0123456789abcdefghij").unwrap();
        let domain = |name: &str| HostKey::Domain(name.parse().unwrap());
        for (host, key) in [
            ("blog.svc.localhost", HostKey::Project("blog".parse().unwrap())),
            ("0123456789abcdefghij--blog.svc.localhost", HostKey::Deployment(id, "blog".parse().unwrap())),
            ("amber-quiet-otter.share.localhost", HostKey::Share("amber-quiet-otter".parse().unwrap())),
            ("www.example.com", domain("www.example.com")),
            ("svc.localhost.example.com", domain("svc.localhost.example.com")),
            ("notsvc.localhost", domain("notsvc.localhost")),
        ] {
            assert_eq!(addresses.classify(host), HostKind::Site(key), "{host}");
        }
        for (host, kind) in [
            ("api.svc.localhost", HostKind::Api),
            ("app.svc.localhost", HostKind::Console),
            ("ai.svc.localhost", HostKind::Gateway),
        ] {
            assert_eq!(addresses.classify(host), kind, "{host}");
        }
        for host in [
            "svc.localhost",
            "share.localhost",
            "a.b.svc.localhost",
            "a.share.localhost",
            "x.api.svc.localhost",
            "edge.platform.example",
            "x.edge.platform.example",
            "localhost",
            "127.0.0.1",
            "[::1]",
            "a_b.example.com",
            "",
        ] {
            assert_eq!(addresses.classify(host), HostKind::Unknown, "{host}");
        }
    }

    #[test]
    fn no_two_keys_share_a_label() {
        let name: ProjectName = "a-b-c".parse().unwrap();
        let id = DeploymentId::from_body("0123456789abcdefghij").unwrap();
        let keys = [
            HostKey::Project(name.clone()),
            HostKey::Deployment(id, name),
            HostKey::Share("a-b-c".parse().unwrap()),
            HostKey::Domain("a-b-c.example".parse().unwrap()),
            HostKey::Domain("share.a-b-c".parse().unwrap()),
        ];
        let labels: std::collections::BTreeSet<String> = keys.iter().map(HostKey::label).collect();
        assert_eq!(labels.len(), keys.len());
    }
}
