//! Checks the network dependencies: the mail server, the code host, and the DNS of svc's own names.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use config::{CodeHostKind, Site};
use diagnosis::{CheckOutcome, fail, warn};
use domain::hostname::is_within;
use mail::Mailer;
use url::Url;

const LABEL: &str = "svc-doctor";

pub(super) async fn mail(mail: config::Mail, site: Site) -> CheckOutcome {
    let mailer = match Mailer::new(&mail, &site) {
        Ok(mailer) => mailer,
        Err(error) => return fail(format!("{error:#}"), "set [mail] right"),
    };
    match mailer.sign_in().await {
        None => warn("no mail is sent", "set mail.url, such as smtp://user:password@mail.example.com:587"),
        Some(Ok(server)) => {
            Ok(format!("{server} answers and takes the login; `admin mail test ADDRESS` sends a letter"))
        }
        Some(Err(error)) => fail(error.to_string(), "set mail.url right; letters wait until then"),
    }
}

pub(super) async fn code_host(host: config::CodeHost) -> CheckOutcome {
    if host.kind == CodeHostKind::Local {
        return warn(
            "`local`: whoever has the operator's secret signs in as anybody",
            "for production, set [code_host] to GitHub",
        );
    }
    let client = match reqwest::Client::builder().user_agent("svc").build() {
        Ok(client) => client,
        Err(error) => return fail(error.to_string(), "are the system's certificates installed?"),
    };
    match client.get(host.api_url.clone()).send().await {
        // Any response shows that it is reachable; a rate limit on anonymous requests does not affect ours.
        Ok(answer) if !answer.status().is_server_error() => Ok(format!("{} answers", host.api_url)),
        Ok(answer) => {
            fail(format!("{} answers {}", host.api_url, answer.status()), "people cannot sign in until it recovers")
        }
        Err(error) => fail(
            format!("{}: {}", host.api_url, error.without_url()),
            "can this machine reach it (curl), and is code_host.api_url right? People cannot sign in until it can",
        ),
    }
}

pub(super) fn own_names(site: &Site) -> Vec<(&'static str, String)> {
    let host = |url: &Url| url.host_str().unwrap_or_default().to_owned();
    vec![
        ("sites", format!("{LABEL}.{}", site.site_domain)),
        ("shares", format!("{LABEL}.{}", site.share_domain)),
        ("API", host(&site.base_url)),
        ("console", host(&site.console_url)),
        ("AI gateway", host(&site.ai_url)),
    ]
}

/// Compares the addresses of a name with those of `target`, which belong to the edges.
pub(super) async fn compare_addresses(host: String, target: String) -> CheckOutcome {
    let (found, wanted) = tokio::join!(addresses(&host), addresses(&target));
    let list = |addresses: &BTreeSet<IpAddr>| addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if found.is_empty() {
        return fail(
            format!("{host} has no address, as seen from here"),
            format!("add it to the zone (a wildcard for sites and shares), to the addresses of {target}"),
        );
    }
    if wanted.is_empty() {
        return warn(
            format!("{host} leads to {}, and {target} has no address", list(&found)),
            "let site.dns_target lead to the edges",
        );
    }
    if found.is_disjoint(&wanted) {
        return warn(
            format!("{host} leads to {}, and {target} to {}", list(&found), list(&wanted)),
            "let both lead to the edges, unless something stands before them",
        );
    }
    Ok(format!("{host} leads to {}", list(&found)))
}

async fn addresses(host: &str) -> BTreeSet<IpAddr> {
    // Browsers do not resolve these, and few resolvers know them (RFC 6761).
    if is_within(host, "localhost") {
        return BTreeSet::from([IpAddr::from(Ipv4Addr::LOCALHOST)]);
    }
    match tokio::net::lookup_host((host, 443)).await {
        Ok(addresses) => addresses.map(|address| address.ip()).collect(),
        Err(_) => BTreeSet::new(),
    }
}
