//! Renewal information (RFC 9773): when an authority wants a certificate renewed.

use std::time::Duration;

use domain::Timestamp;
use instant_acme::{CertificateIdentifier, RenewalInfo};

use super::{
    account::{AuthorityAccount, leaf_certificate},
    http::retry_after,
    problem::AcmeError,
};

/// The polling interval if the authority requests none.
const ASK_AGAIN: Duration = Duration::from_hours(6);
/// The shortest and the longest polling interval, whatever the authority requests (RFC 9773, 4.3.3).
const ASK_AGAIN_WITHIN: [Duration; 2] = [Duration::from_mins(1), Duration::from_hours(24)];

/// The time in which an authority wants a certificate renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewalWindow {
    /// The start of the window.
    pub start: Timestamp,
    /// The end of the window.
    pub end: Timestamp,
    /// The URL of a page that explains the window.
    pub explanation: Option<String>,
    /// How long to wait before asking again.
    pub ask_again: Duration,
}

impl AuthorityAccount {
    /// Fetches the renewal window of a chain's leaf; `None` if the authority has no renewal information.
    pub async fn renewal_info(&self, chain_pem: &str) -> Result<Option<RenewalWindow>, AcmeError> {
        let Some(base) = &self.directory.renewal_info else { return Ok(None) };
        let leaf = leaf_certificate(chain_pem)?;
        // A certificate that does not identify its issuer's key cannot be looked up.
        let Ok(certificate) = CertificateIdentifier::try_from(&leaf) else { return Ok(None) };
        let answer = self.http.get(&format!("{}/{certificate}", base.trim_end_matches('/'))).await?;
        window(answer.body(), retry_after(answer.headers())).map(Some)
    }
}

fn window(body: &[u8], wait: Option<Duration>) -> Result<RenewalWindow, AcmeError> {
    let info: RenewalInfo = serde_json::from_slice(body).map_err(|error| AcmeError::unreachable(&error))?;
    let (start, end) = (info.suggested_window.start.into(), info.suggested_window.end.into());
    if end <= start {
        return Err(AcmeError::Away(format!("its renewal window ends at {end}, before it begins")));
    }
    let [shortest, longest] = ASK_AGAIN_WITHIN;
    let ask_again = wait.unwrap_or(ASK_AGAIN).clamp(shortest, longest);
    Ok(RenewalWindow { start, end, explanation: info.explanation_url, ask_again })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_read_and_the_pause_bounded() {
        let text = |start: &str, end: &str| {
            format!(
                r#"{{"suggestedWindow":{{"start":"{start}","end":"{end}"}},"explanationURL":"https://ca.test/why"}}"#
            )
        };
        let good = text("2026-01-02T04:00:00Z", "2026-01-03T05:00:00+01:00");
        let read = |wait| window(good.as_bytes(), wait).unwrap();
        assert_eq!(read(None).ask_again, ASK_AGAIN);
        assert_eq!(read(Some(Duration::ZERO)).ask_again, Duration::from_mins(1));
        assert_eq!(read(Some(Duration::from_hours(2))).ask_again, Duration::from_hours(2));
        assert_eq!(read(Some(Duration::from_hours(99))).ask_again, Duration::from_hours(24));
        assert_eq!(read(None).end.since(read(None).start), Duration::from_hours(24));
        assert_eq!(read(None).end.to_string(), "2026-01-03T04:00:00Z");
        let bad = text("2026-01-03T04:00:00Z", "2026-01-02T04:00:00Z");
        assert!(window(bad.as_bytes(), None).is_err());
        assert!(window(b"<html>", None).is_err());
    }
}
