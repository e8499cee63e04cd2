//! `svc domains doctor`.

use std::{fmt::Write as _, net::IpAddr};

use api::domains::{Diagnosis, DnsFinding, DnsRecord, DnsVerdict, Fix, FixAction, ResolverView};
use domain::{Hostname, ProjectName};

use super::{state_words, with_domain_hint};
use crate::{
    client::Client,
    failure::{AlreadyReported, FailureClass},
    output::{self, Output},
};

pub(super) async fn run(name: &ProjectName, domain: &Hostname, client: &Client, output: Output) -> anyhow::Result<()> {
    let spinner = output.spinner(format!("Asking about {domain}"));
    let answer = client.get::<Diagnosis>(&format!("/projects/{name}/domains/{domain}/diagnosis")).await;
    spinner.finish_and_clear();
    let diagnosis = answer.map_err(|failure| with_domain_hint(name, domain, failure))?.body;
    output.result(&diagnosis, || report(&diagnosis, output))?;
    if is_sound(&diagnosis) { Ok(()) } else { Err(AlreadyReported(FailureClass::Refused).into()) }
}

/// Returns whether there is no problem with the DNS records and, once the domain is attached, its certificate.
fn is_sound(diagnosis: &Diagnosis) -> bool {
    let has_obstacle = diagnosis.status.as_ref().is_some_and(|status| status.has_obstacle);
    diagnosis.verdict == DnsVerdict::Leads && !has_obstacle && !diagnosis.taken
}

fn report(diagnosis: &Diagnosis, output: Output) -> String {
    let mut text = format!("{}\n", diagnosis.message);
    if !diagnosis.resolvers.is_empty() {
        text.push('\n');
        let headings = ["RESOLVER", "LEADS", "A", "AAAA", "CNAME", "CAA"];
        text.push_str(&output::lines(&diagnosis.resolvers, &headings, "", columns));
        text.push('\n');
    }
    if !diagnosis.records.is_empty() {
        let records: Vec<String> = diagnosis.records.iter().map(DnsRecord::line).collect();
        let _ = write!(text, "\nThe record: {}\n", records.join(" and "));
    }
    if let Some(delegation) = &diagnosis.delegation {
        let line = delegation.record.line();
        let _ = if delegation.stands {
            writeln!(text, "The certificate can come before the domain is moved: {line} stands.")
        } else {
            writeln!(text, "To have the certificate before the domain is moved, set this too: {line}")
        };
    }
    if let Some(http) = &diagnosis.http {
        let _ = writeln!(text, "Plain HTTP: {}", http.message);
    }
    match &diagnosis.status {
        Some(status) => {
            let next = status.next_attempt_at.map(|at| format!("; next attempt {}", output.relative(at)));
            let _ =
                writeln!(text, "State: {}{}. {}", state_words(status.state), next.unwrap_or_default(), status.message);
        }
        None if diagnosis.taken => {
            let _ = writeln!(
                text,
                "State: attached to another project; if the domain is yours, `svc domains add {}` says how to claim it.",
                diagnosis.domain
            );
        }
        None => {
            let _ = writeln!(
                text,
                "State: not attached to this project; `svc domains add {}` attaches it.",
                diagnosis.domain
            );
        }
    }
    if !diagnosis.fixes.is_empty() {
        text.push_str("\nTo change:\n");
        for fix in &diagnosis.fixes {
            let _ = writeln!(text, "  {}", line(fix));
        }
    }
    text
}

fn line(Fix { action, record, why }: &Fix) -> String {
    let action = match action {
        FixAction::Set => "set",
        FixAction::Remove => "remove",
    };
    format!("{action:<7} {}   ({})", record.line(), why.trim_end_matches('.'))
}

fn columns(seen: &ResolverView) -> Vec<String> {
    let addresses = |list: &[IpAddr]| list.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let caa = seen.caa.iter().map(|record| record.value.clone()).collect::<Vec<_>>().join(", ");
    let leads = match seen.finding {
        DnsFinding::Leads => "here",
        DnsFinding::Nothing => "nowhere",
        DnsFinding::Elsewhere => "elsewhere",
        DnsFinding::Partly => "here and elsewhere",
        DnsFinding::StaleIpv6 => "elsewhere over IPv6",
        DnsFinding::Proxied => "to a proxy",
        DnsFinding::Servfail => "nowhere: SERVFAIL",
        DnsFinding::NoTarget => "to us, without an address",
        DnsFinding::Unasked => "could not be asked",
    };
    vec![seen.resolver.clone(), leads.to_owned(), addresses(&seen.a), addresses(&seen.aaaa), seen.cname.join(" "), caa]
}
