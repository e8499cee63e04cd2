//! `svc domains`.

mod certificate;
mod doctor;
mod holder;
mod progress;

use std::time::Duration;

use api::{
    Done,
    domains::{AttachDomain, DnsRecord, Domain, Refreshed},
};
use clap::Subcommand;
use domain::{Hostname, ProjectName, certificates::DomainState};
use serde_json::json;

use super::projects;
use crate::{
    client::Client,
    failure::{Failure, FailureClass},
    options::ProjectOption,
    output::Output,
};

/// Serve a project at your own hostnames.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::options::LIST_IS_DEFAULT)]
pub(crate) struct DomainsArgs {
    #[command(subcommand)]
    action: Option<DomainsCommand>,
    #[command(flatten)]
    project: ProjectOption,
}

#[derive(Debug, Subcommand)]
enum DomainsCommand {
    /// List the custom domains, with their state and the DNS record that each needs
    #[command(alias = "ls")]
    List,
    /// Attach a hostname and print the DNS record to create; its certificate is then issued automatically
    #[command(alias = "attach")]
    Add {
        /// The hostname, such as www.example.com
        #[arg(value_parser = parse)]
        domain: Hostname,
        /// Wait until it is live, and fail if a problem prevents that
        #[arg(long)]
        wait: bool,
        /// The maximum wait, in seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "wait")]
        timeout: u64,
    },
    /// Check a hostname now, instead of at the next regular time
    #[command(alias = "retry")]
    Refresh {
        /// The hostname
        #[arg(value_parser = parse)]
        domain: Hostname,
    },
    /// Diagnose a hostname: show its DNS records, those it needs, and any problem. Works before it is attached, too.
    /// Exits with 1 if there is a problem
    #[command(alias = "diagnose")]
    Doctor {
        /// The hostname
        #[arg(value_parser = parse)]
        domain: Hostname,
    },
    /// Show the certificate that visitors of a hostname receive, from a new handshake. Exits with 1 if it is not valid
    Certificate {
        /// The hostname
        #[arg(value_parser = parse)]
        domain: Hostname,
    },
    /// Detach a hostname: the site is no longer served there
    #[command(alias = "rm", alias = "delete", alias = "detach")]
    Remove {
        /// The hostname
        #[arg(value_parser = parse)]
        domain: Hostname,
    },
}

pub(crate) async fn run(domains: DomainsArgs, client: &Client, output: Output) -> anyhow::Result<()> {
    let name = domains.project.choose(client, output).await?;
    match domains.action.unwrap_or(DomainsCommand::List) {
        DomainsCommand::List => list(&name, client, output).await,
        DomainsCommand::Add { domain, wait, timeout } => {
            let patience = wait.then(|| Duration::from_secs(timeout));
            add(&name, domain, patience, client, output).await
        }
        DomainsCommand::Refresh { domain } => refresh(&name, &domain, client, output).await,
        DomainsCommand::Doctor { domain } => doctor::run(&name, &domain, client, output).await,
        DomainsCommand::Certificate { domain } => certificate::run(&name, &domain, client, output).await,
        DomainsCommand::Remove { domain } => remove(&name, &domain, client, output).await,
    }
}

async fn list(name: &ProjectName, client: &Client, output: Output) -> anyhow::Result<()> {
    let domains = projects::detail(name, client).await?.domains;
    output.list(
        "domains",
        &domains,
        &["DOMAIN", "STATE", "NEXT LOOK", "RECORD"],
        "No domains yet. Attach one: svc domains add www.example.com",
        |domain| {
            let next = domain.status.next_attempt_at.map(|at| output.relative(at)).unwrap_or_default();
            vec![domain.domain.to_string(), state_words(domain.status.state), next, records(&domain.records, " and ")]
        },
    )?;
    let is_settled = |domain: &&Domain| domain.status.state == DomainState::Live && !domain.status.has_obstacle;
    for domain in domains.iter().filter(|domain| !is_settled(domain)) {
        output.note(&domain.status.message);
    }
    Ok(())
}

/// Attaches a domain. With `patience`, waits that long for it to become live, and fails if it does not.
async fn add(
    name: &ProjectName,
    domain: Hostname,
    patience: Option<Duration>,
    client: &Client,
    output: Output,
) -> anyhow::Result<()> {
    // Subscribe before attaching the domain, so that no event is missed.
    let events = if patience.is_some() { client.events().await } else { None };
    let body = AttachDomain { domain };
    let answer = match client.post::<Domain>(&format!("/projects/{name}/domains"), &body).await {
        Ok(answer) => answer,
        Err(failure) if failure.code == "domain_taken" => {
            return Err(holder::explain(name, &body.domain, failure, client).await.into());
        }
        Err(failure) => return Err(projects::unknown(name, failure).into()),
    };
    let attached = answer.body;
    output.success(&format!("Attached {} to {name}.", attached.domain));
    super::propagation::report(output, "Known", answer.propagation);
    // With `--json`, one document at the end includes the outcome.
    if !output.is_json() {
        explain_records(&attached, output);
        if !attached.records.is_empty() {
            output.result(&attached.records, || records(&attached.records, "\n"))?;
        }
    }
    let waited = match patience {
        Some(patience) => progress::wait_until_settled(name, attached, patience, events, client, output).await,
        None => progress::wait(name, attached, client, output).await,
    };
    if patience.is_some() && !is_live(&waited.domain) {
        return Err(waited.failure().into());
    }
    if output.is_json() {
        output.result(&json!({"domain": waited.domain, "propagation": answer.propagation}), String::new)?;
    }
    waited.report(output);
    Ok(())
}

/// Explains the records printed below it.
fn explain_records(domain: &Domain, output: Output) {
    if domain.records.is_empty() {
        output.note("It leads to this machine already, and needs no DNS record.");
        return;
    }
    if is_live(domain) {
        output.note("Its DNS record, for reference:");
        return;
    }
    output.note("Create this where the domain's DNS is kept, unless it is there:");
    if domain.records.iter().any(|record| record.kind == "ALIAS") {
        output.note(&format!(
            "{} is the top of its zone, where DNS allows no CNAME: the record is called ALIAS, ANAME or a flattened \
             CNAME, and not every provider has it. www.{0} needs none of that.",
            domain.domain
        ));
    }
}

async fn refresh(name: &ProjectName, domain: &Hostname, client: &Client, output: Output) -> anyhow::Result<()> {
    let path = format!("/projects/{name}/domains/{domain}/certificate/refresh");
    let answer = client.post::<Refreshed>(&path, &json!({})).await;
    answer.map_err(|failure| with_domain_hint(name, domain, failure))?;
    let detail = projects::detail(name, client).await?;
    let found = detail.domains.into_iter().find(|it| it.domain == *domain);
    let found = found.ok_or_else(|| unknown(name, domain))?;
    let waited = progress::wait(name, found, client, output).await;
    if output.is_json() {
        output.result(&json!({ "domain": waited.domain }), String::new)?;
    }
    waited.report(output);
    Ok(())
}

async fn remove(name: &ProjectName, domain: &Hostname, client: &Client, output: Output) -> anyhow::Result<()> {
    let answer = client.delete::<Done>(&format!("/projects/{name}/domains/{domain}")).await;
    let answer = answer.map_err(|failure| with_domain_hint(name, domain, failure))?;
    output.success(&format!("Detached {domain} from {name}."));
    super::propagation::report(output, "Gone", answer.propagation);
    output.note("Remove its DNS record too, or whoever attaches the name next is served there.");
    output.result(&answer.body, String::new)
}

/// Explains the failure of a request about a domain: names the domain or project that does not exist.
fn with_domain_hint(name: &ProjectName, domain: &Hostname, failure: Failure) -> Failure {
    match failure.kind {
        FailureClass::NotFound if failure.message.contains("domain") => unknown(name, domain),
        _ => projects::unknown(name, failure),
    }
}

fn unknown(name: &ProjectName, domain: &Hostname) -> Failure {
    Failure::new(FailureClass::NotFound, "not_found", format!("{name} has no domain {domain}."))
        .with_hint(format!("`svc domains --project {name}` lists what there is."))
}

/// Returns whether the domain was seen to lead here and has a certificate.
fn is_live(domain: &Domain) -> bool {
    let status = &domain.status;
    let has_certificate = domain.tls_ready && matches!(status.state, DomainState::Live | DomainState::Renewing);
    // Without certificate management, DNS was not checked either.
    has_certificate && !status.has_obstacle && status.since.is_some()
}

fn records(records: &[DnsRecord], between: &str) -> String {
    records.iter().map(DnsRecord::line).collect::<Vec<_>>().join(between)
}

fn state_words(state: DomainState) -> String {
    state.as_str().replace('_', " ").replace("dns", "DNS")
}

/// Parses a hostname, or a URL with that host.
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

    #[test]
    fn states_are_words() {
        assert_eq!(state_words(DomainState::WaitingForDns), "waiting for DNS");
        assert_eq!(state_words(DomainState::Live), "live");
    }
}
