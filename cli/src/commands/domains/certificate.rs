//! `svc domains certificate`.

use api::domains::CertificateStatus;
use domain::{Hostname, ProjectName, Timestamp};

use super::with_domain_hint;
use crate::{
    client::Client,
    failure::{AlreadyReported, FailureClass},
    output::Output,
};

pub(super) async fn run(name: &ProjectName, domain: &Hostname, client: &Client, output: Output) -> anyhow::Result<()> {
    let spinner = output.spinner(format!("Connecting to {domain}"));
    let answer = client.get::<CertificateStatus>(&format!("/projects/{name}/domains/{domain}/certificate")).await;
    spinner.finish_and_clear();
    let status = answer.map_err(|failure| with_domain_hint(name, domain, failure))?.body;
    output.result(&status, || report(&status))?;
    if status.reachable && status.valid { Ok(()) } else { Err(AlreadyReported(FailureClass::Refused).into()) }
}

fn report(status: &CertificateStatus) -> String {
    let CertificateStatus { domain, issuer, subject, valid_from, valid_to, days_remaining, error, .. } = status;
    let error = error.as_deref().unwrap_or("no reason is known");
    if !status.reachable {
        return format!("{domain} cannot be reached over HTTPS: {error}");
    }
    let verdict = if status.valid { "is valid.".to_owned() } else { format!("is not valid: {error}") };
    let time = |at: &Option<Timestamp>| at.map(|at| at.to_string());
    let lines = [
        ("issuer", issuer.clone()),
        ("subject", subject.clone()),
        ("valid from", time(valid_from)),
        ("valid to", time(valid_to)),
        ("days remaining", days_remaining.map(|days| days.to_string())),
    ];
    let known = lines.into_iter().filter_map(|(what, text)| Some(format!("\n  {what:<15} {}", text?)));
    format!("The certificate of {domain} {verdict}{}", known.collect::<String>())
}
