//! Renews certificates in time: asks their authorities for renewal windows (RFC 9773), and starts due renewals.
//! Handshakes play no part in this.

use std::{collections::HashMap, time::Duration};

use acts::certificates::{clamp_window, renewal_time};
use app::App;
use certs::acme::AcmeError;
use config::acme::CertificateIssuer;
use db::certificates::renewals::{self, SuggestedWindow, WindowRequest};
use futures_util::{StreamExt as _, stream};

use super::{BatchOutcome, Job};

const WINDOWS: i64 = 200;
const AT_A_TIME: usize = 8;
/// The pause before a retry if an authority did not respond.
const ASK_AGAIN: Duration = Duration::from_hours(6);
/// The shortest and the longest pause that an authority which refuses can impose.
const ASK_AGAIN_WITHIN: [Duration; 2] = [Duration::from_mins(1), Duration::from_hours(24)];
const BEGUN: i64 = 500;

pub(super) struct FetchRenewalWindows;

impl Job for FetchRenewalWindows {
    const NAME: &'static str = "ask for renewal windows";
    const EVERY: Duration = Duration::from_secs(10);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        if app.certificates.issuer() != CertificateIssuer::Acme {
            return Ok(BatchOutcome::new(0, WINDOWS));
        }
        let now = app.clock.now();
        let due = renewals::take_due_windows(&app.db, now, now + ASK_AGAIN, WINDOWS).await?;
        let batch = BatchOutcome::new(due.len(), WINDOWS);
        let failures =
            stream::iter(due).map(async |asked| fetch_window(app, &asked).await.err().map(|error| (asked, error)));
        let failures: Vec<_> = failures.buffer_unordered(AT_A_TIME).filter_map(std::future::ready).collect().await;
        let mut by_account = HashMap::new();
        for (asked, error) in failures {
            by_account.entry(asked.account_id).or_insert((0_usize, error)).0 += 1;
        }
        // One line for each unavailable authority.
        for (account, (count, error)) in by_account {
            let error = format!("{error:#}");
            tracing::warn!(%account, count, error, "an authority does not say when certificates should be renewed");
        }
        Ok(batch)
    }
}

/// Requests and stores the renewal window of one certificate. Without a response, the time that was set at issuance
/// stays.
async fn fetch_window(app: &App, asked: &WindowRequest) -> anyhow::Result<()> {
    let now = app.clock.now();
    let id = &asked.account_id;
    let (_, account) = app.certificates.account_by_id(&app.db, &app.master_key, id, now).await?;
    let window = match account.renewal_info(&asked.chain_pem).await {
        Ok(Some(window)) => window,
        Ok(None) => return Ok(()),
        Err(error) => {
            if let AcmeError::Refused(problem) = &error
                && let Some(after) = problem.retry_after
            {
                let [shortest, longest] = ASK_AGAIN_WITHIN;
                renewals::postpone_request(&app.db, asked, now + after.clamp(shortest, longest)).await?;
            }
            return Err(error.into());
        }
    };
    let (start, end) = clamp_window((window.start, window.end), asked.not_before, asked.not_after);
    let noted = SuggestedWindow {
        starts_at: window.start,
        renew_at: renewal_time(start, end, asked.renew_at, now),
        due_by: end,
        ask_at: now + window.ask_again,
    };
    renewals::record_window(&app.db, asked, &noted).await?;
    if window.end <= now {
        let explanation = window.explanation;
        tracing::info!(name = asked.name, explanation, "an authority wants a certificate replaced now");
    }
    Ok(())
}

pub(super) struct StartRenewals;

impl Job for StartRenewals {
    const NAME: &'static str = "begin renewals";
    const EVERY: Duration = Duration::from_secs(5);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let begun = renewals::begin_due(&app.db, app.clock.now(), BEGUN).await?;
        if begun > 0 {
            app.certificates.wake();
        }
        Ok(BatchOutcome::new(usize::try_from(begun)?, BEGUN))
    }
}
