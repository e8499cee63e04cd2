//! `svc domains`.

use api::{
    Done,
    domains::{AttachDomain, Domain},
};
use clap::Subcommand;
use domain::{Hostname, ProjectName};
use serde_json::json;

use super::projects;
use crate::{
    client::Client,
    failure::{Failure, Kind},
    options::ProjectOption,
    output::Output,
    project,
};

/// Serve a project at hostnames of your own.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct Domains {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List the custom domains
    #[command(alias = "ls")]
    List,
    /// Attach a hostname and print the DNS record to create; run it again to see the state
    #[command(alias = "attach")]
    Add {
        /// The hostname, such as www.example.com
        #[arg(value_parser = parse)]
        domain: Hostname,
    },
    /// Detach a hostname: the site is not served there any more
    #[command(alias = "rm", alias = "delete", alias = "detach")]
    Remove {
        /// The hostname
        #[arg(value_parser = parse)]
        domain: Hostname,
    },
}

pub(crate) async fn run(domains: Domains, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = project::named_or_remembered(domains.project.project, None)?;
    match domains.action.unwrap_or(Action::List) {
        Action::List => list(&name, client, output).await,
        Action::Add { domain } => add(&name, domain, client, output).await,
        Action::Remove { domain } => remove(&name, &domain, client, output).await,
    }
}

async fn list(name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
    let domains = projects::detail(name, client).await?.domains;
    output.list(
        "domains",
        &domains,
        &["DOMAIN", "TLS", "CNAME TO"],
        "No domains yet. Attach one: svc domains add www.example.com",
        |domain| {
            let tls = if domain.tls_ready { "ready" } else { "pending" };
            vec![domain.domain.to_string(), tls.to_owned(), domain.dns_target.clone()]
        },
    )
}

async fn add(name: &ProjectName, domain: Hostname, client: &Client, output: Output) -> anyhow::Result<()> {
    let body = AttachDomain { domain };
    let answer = client.post::<Domain>(&format!("/projects/{name}/domains"), &body).await;
    let answer = answer.map_err(|failure| projects::unknown(name, failure))?;
    let attached = answer.body;
    output.success(&format!("Attached {} to {name}.", attached.domain));
    super::propagation::report(output, "Known", answer.propagation);
    output.note("Create this record where the domain's DNS is kept, unless it is there:");
    output.result(&json!({"domain": attached, "propagation": answer.propagation}), || record(&attached))?;
    if attached.tls_ready {
        output.note("Its certificate is ready.");
    } else {
        output.note("Browsers are refused until the operator has imported a certificate for it; `svc domains` shows when it is ready.");
    }
    Ok(())
}

/// Formats the DNS record to create, in the syntax of zone files.
fn record(domain: &Domain) -> String {
    format!("{}.  CNAME  {}.", domain.domain, domain.dns_target)
}

async fn remove(name: &ProjectName, domain: &Hostname, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/projects/{name}/domains/{domain}")).await;
    let answer = answer.map_err(|failure| match failure.kind {
        Kind::NotFound if failure.message.contains("domain") => {
            Failure::new(Kind::NotFound, "not_found", format!("{name} has no domain {domain}."))
                .with_hint(format!("`svc domains --project {name}` lists what there is."))
        }
        _ => projects::unknown(name, failure),
    })?;
    output.success(&format!("Detached {domain} from {name}."));
    super::propagation::report(output, "Gone", answer.propagation);
    output.note("Remove its DNS record too, or whoever attaches the name next is served there.");
    output.result(&answer.body, String::new)
}

/// Reads a hostname from the command line: the hostname, or a URL of it.
fn parse(text: &str) -> Result<Hostname, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let host = rest.map_or(text, |rest| rest.split(['/', '?', '#']).next().unwrap_or(rest));
    host.parse().map_err(|why: domain::hostname::HostnameError| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn domains_are_named_by_hostname_or_address() {
        for text in
            ["www.example.com", "WWW.example.com.", "https://www.example.com/about?x#y", "http://www.example.com"]
        {
            assert_eq!(parse(text).unwrap().as_str(), "www.example.com", "{text}");
        }
        for bad in ["example", "https://", "https://127.0.0.1/", "example.com/path", "https://example.com:8443/"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
