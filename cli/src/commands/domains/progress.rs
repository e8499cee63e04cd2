//! Waits briefly for a domain's certificate, and reports what happens next.

use std::time::Duration;

use api::domains::Domain;
use domain::{ProjectName, certificates::DomainState};

use super::{super::projects, is_live, records};
use crate::{
    client::{Client, EventStream, StreamEvent},
    failure::{Failure, FailureClass},
    output::{self, Output},
};

/// The maximum wait for a certificate; issuing continues without the client.
const PATIENCE: Duration = Duration::from_secs(5);
/// The polling interval of a long wait without events.
const LONG_POLL_INTERVAL: Duration = Duration::from_secs(2);
/// The polling interval of a long wait with events, because an event may be lost.
const EVENT_POLL_INTERVAL: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(250);

pub(super) struct DomainProgress {
    pub(super) domain: Domain,
    url: String,
}

/// Waits until `domain` is live or blocked, for a few seconds at most.
pub(super) async fn wait(name: &ProjectName, domain: Domain, client: &Client, output: Output) -> DomainProgress {
    let spinner = output.spinner(format!("Looking at {}", domain.domain));
    let hostname = domain.domain.clone();
    let mut waited = DomainProgress { url: format!("https://{hostname}"), domain };
    // A state from before the requested check still has that check as its next attempt. Without a next attempt,
    // certificates are not ordered here.
    let asked_for = waited.domain.status.next_attempt_at;
    let is_over = |domain: &Domain| match domain.status.state {
        DomainState::Live | DomainState::Blocked => asked_for.is_none() || domain.status.next_attempt_at != asked_for,
        _ => domain.status.next_attempt_at.is_none(),
    };
    let watch = async {
        loop {
            // The request itself was accepted, so a failed poll is retried.
            if let Ok(detail) = projects::detail(name, client).await {
                waited.url = format!("https://{hostname}{}", port(&detail.project.url));
                if let Some(domain) = detail.domains.into_iter().find(|domain| domain.domain == hostname) {
                    waited.domain = domain;
                }
                if is_over(&waited.domain) {
                    return;
                }
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    // Issuing continues without the client.
    let _ = tokio::time::timeout(PATIENCE, watch).await;
    spinner.finish_and_clear();
    waited
}

/// Waits until `domain` is live or blocked, at most for `patience`, following `events` or else polling.
pub(super) async fn wait_until_settled(
    name: &ProjectName,
    domain: Domain,
    patience: Duration,
    mut events: Option<EventStream>,
    client: &Client,
    output: Output,
) -> DomainProgress {
    let spinner = output.spinner(domain.status.message.clone());
    let hostname = domain.domain.clone();
    let mut waited = DomainProgress { url: format!("https://{hostname}"), domain };
    let asked_for = waited.domain.status.next_attempt_at;
    let watch = async {
        loop {
            if let Ok(detail) = projects::detail(name, client).await {
                waited.url = format!("https://{hostname}{}", port(&detail.project.url));
                if let Some(domain) = detail.domains.into_iter().find(|domain| domain.domain == hostname) {
                    waited.domain = domain;
                }
                let status = &waited.domain.status;
                // A state from before the requested check still has that check as its next attempt.
                let is_of_before = asked_for.is_some() && status.next_attempt_at == asked_for;
                let is_over = status.state == DomainState::Blocked || status.next_attempt_at.is_none();
                if is_live(&waited.domain) || is_over && !is_of_before {
                    return;
                }
                spinner.set_message(status.message.clone());
            }
            let pause = if events.is_some() { EVENT_POLL_INTERVAL } else { LONG_POLL_INTERVAL };
            match tokio::time::timeout(pause, wait_for_event(name, hostname.as_str(), &mut events)).await {
                Ok(true) | Err(_) => {}
                Ok(false) => events = None,
            }
        }
    };
    // On a timeout, the failure reports the latest state.
    let _ = tokio::time::timeout(patience, watch).await;
    spinner.finish_and_clear();
    waited
}

/// Waits until an event concerns the domain, or events may have been lost. Returns false when the stream has ended.
async fn wait_for_event(project: &ProjectName, hostname: &str, events: &mut Option<EventStream>) -> bool {
    let Some(events) = events else { return std::future::pending().await };
    loop {
        match events.next().await {
            Some(StreamEvent::Reset) => return true,
            Some(StreamEvent::Change(event)) => {
                if event.project.as_ref() == Some(project) && event.subject.as_deref() == Some(hostname) {
                    return true;
                }
            }
            None => return false,
        }
    }
}

impl DomainProgress {
    pub(super) fn failure(&self) -> Failure {
        let Domain { domain, status, .. } = &self.domain;
        let hint = format!("`svc domains doctor {domain}` says what stands in DNS; its record is {}.", self.record());
        match status.state {
            DomainState::Blocked => Failure::new(FailureClass::Refused, "domain_blocked", status.message.clone()),
            _ => Failure::new(FailureClass::Refused, "domain_not_live", format!("Not live yet. {}", status.message)),
        }
        .with_hint(hint)
    }

    fn record(&self) -> String {
        records(&self.domain.records, " and ")
    }

    /// Reports the state of the domain, and whether anything remains to be done.
    pub(super) fn report(&self, output: Output) {
        let Domain { domain, status, .. } = &self.domain;
        match status.state {
            _ if is_live(&self.domain) => output.success(&format!("{} is live.", self.url)),
            DomainState::Live | DomainState::Renewing if status.has_obstacle => {
                if !output.is_json() {
                    output::warning(&status.message);
                }
                output.note(&format!(
                    "Create this where the domain's DNS is kept, unless it is there: {}",
                    self.record()
                ));
            }
            DomainState::Live | DomainState::Renewing => {
                output.note(&status.message);
                output.note(&format!("Once its DNS leads here, {} answers.", self.url));
            }
            DomainState::Blocked if output.is_json() => {}
            DomainState::Blocked => {
                output::warning(&status.message);
                output.note(&format!("`svc domains doctor {domain}` says what stands in DNS."));
            }
            DomainState::WaitingForDns | DomainState::Checking | DomainState::Ordering => {
                output.note(&status.message);
                output.note(&format!(
                    "Once the record is there, the certificate comes by itself, and {} answers; nothing more needs to be \
                     done. `svc domains` shows how far it is, `svc domains refresh {domain}` has it looked at now.",
                    self.url
                ));
            }
        }
    }
}

/// Returns the port in the platform's addresses, such as `:8443`; empty for the default port.
fn port(url: &str) -> &str {
    let port = url.rfind(':').map(|at| &url[at..]);
    port.filter(|port| port.len() > 1 && port[1..].bytes().all(|b| b.is_ascii_digit())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_is_served_at_the_platforms_port() {
        assert_eq!(port("https://hello.svc.localhost:8443"), ":8443");
        assert_eq!(port("https://hello.svc.example"), "");
    }
}
