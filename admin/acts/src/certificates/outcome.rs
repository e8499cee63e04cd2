//! Why an attempt ended without a certificate, what people see of it, and when it is retried.

use std::time::Duration;

use app::metrics;
use certs::acme::{AcmeError, AcmeProblem, ProblemKind};
use db::certificates::orders::{NextAttempt, OrderClaim};
use domain::{Timestamp, certificates::DomainState};
use hostnames::authorities::AccountError;

use super::{allowance, schedule};

/// The pause before an order pending at the authority is polled again.
const UNDER_WAY_PAUSE: Duration = Duration::from_secs(10);
/// The pause after a fault of our own, such as an unavailable database.
const FAULT_PAUSE: Duration = Duration::from_secs(30);
/// The pause before a new order of a name without obstacles, whose order or account the authority has forgotten.
const ANEW_PAUSE: Duration = Duration::from_secs(1);

/// How long a renewal that needs its owner's help is retried before the owner is notified: most DNS faults recover by
/// themselves.
const OWNERS_HINDRANCE: Duration = Duration::from_hours(1);
/// How long a renewal that needs others' help is retried before its owner is notified.
const OTHERS_HINDRANCE: Duration = Duration::from_hours(24);

#[derive(Debug)]
pub(super) enum AttemptError {
    /// The DNS of the name does not lead here yet.
    Waiting(String),
    /// The owner or the operator must change something; it is polled like DNS.
    Obstacle(String),
    Refused(AcmeProblem),
    /// The authority is unreachable, or its response cannot be parsed.
    Away(String),
    /// A record for a challenge was not written.
    NoRecord(String),
    /// The account may not order before this time, for this reason.
    NotBefore(Timestamp, String),
    /// The order is pending at the authority.
    UnderWay,
    /// The attempt timed out, because another system does not respond.
    TimedOut,
    /// The authority does not know the order or the account any more: a new one is created.
    Anew(&'static str),
    /// A fault of our own.
    Fault(anyhow::Error),
    /// Another admin has the lease, or the name was removed.
    Overtaken,
    Stopped,
}

impl AttemptError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Waiting(_) => "waiting_for_dns",
            Self::Obstacle(_) => "obstacle",
            Self::Refused(problem) => problem.kind.as_str(),
            Self::Away(_) => "authority_away",
            Self::NoRecord(_) => "record_not_written",
            Self::NotBefore(..) => "budget",
            Self::UnderWay => "under_way",
            Self::TimedOut => "timed_out",
            Self::Anew(reason) => reason,
            Self::Fault(_) => "fault",
            Self::Overtaken | Self::Stopped => "stopped",
        }
    }

    const fn is_failure(&self) -> bool {
        matches!(self, Self::Refused(_) | Self::Away(_) | Self::NoRecord(_) | Self::TimedOut | Self::Anew(_))
    }

    /// Returns whether the owner of the domain is notified by mail: it was live, and its renewal has not succeeded for
    /// long.
    pub(super) fn is_trouble(&self, claim: &OrderClaim, now: Timestamp) -> bool {
        let patience = match self {
            Self::Waiting(_) | Self::Obstacle(_) => OWNERS_HINDRANCE,
            Self::Refused(problem) if !is_temporary(problem.kind) => OWNERS_HINDRANCE,
            Self::Refused(_) | Self::Away(_) | Self::NoRecord(_) | Self::TimedOut | Self::Anew(_) => OTHERS_HINDRANCE,
            Self::NotBefore(..) | Self::UnderWay | Self::Fault(_) | Self::Overtaken | Self::Stopped => return false,
        };
        is_renewal(claim) && claim.state == DomainState::Renewing && now.since(claim.since) >= patience
    }

    pub(super) fn report(&self, claim: &OrderClaim) {
        let (name, reason) = (&claim.name, self.reason());
        match self {
            Self::Waiting(sentence) | Self::Obstacle(sentence) => {
                tracing::debug!(name, reason, sentence, "a certificate cannot be ordered yet");
                return;
            }
            Self::UnderWay | Self::Overtaken | Self::Stopped => return,
            Self::Refused(problem) => tracing::warn!(name, reason, %problem, "a certificate authority refused"),
            Self::Away(error) | Self::NoRecord(error) => {
                tracing::warn!(name, reason, error, "a certificate was not issued; it is tried again");
            }
            Self::NotBefore(at, sentence) => tracing::info!(name, reason, %at, sentence, "an order waits for its turn"),
            Self::TimedOut => {
                tracing::warn!(name, reason, "an attempt at a certificate took too long; it is made again");
            }
            Self::Anew(_) => tracing::warn!(name, reason, "a certificate is ordered anew"),
            Self::Fault(error) => {
                tracing::warn!(name, reason, error = format!("{error:#}"), "an attempt at a certificate failed");
            }
        }
        metrics::certificate_failed(reason);
    }

    pub(super) fn put_off(&self, claim: &OrderClaim, now: Timestamp) -> NextAttempt {
        // A renewal starts by itself, long after the last request of a person.
        let began = if is_renewal(claim) { claim.watched_at.max(claim.since) } else { claim.watched_at };
        let waited = now.since(began);
        let failures = if self.is_failure() { claim.failures.saturating_add(1) } else { claim.failures };
        let back_off = now + schedule::back_off(failures, waited, is_renewal(claim));
        let look_again = now + schedule::dns_check_pause(waited);
        let (state, message, at) = match self {
            Self::Waiting(sentence) => (DomainState::WaitingForDns, Some(sentence.clone()), look_again),
            Self::Obstacle(sentence) => (DomainState::Blocked, Some(sentence.clone()), look_again),
            Self::Refused(problem) => {
                let at = problem.retry_after.map_or(back_off, |after| back_off.max(now + after));
                let state = if is_temporary(problem.kind) { DomainState::Ordering } else { DomainState::Blocked };
                (state, Some(format!("The certificate authority refuses: {problem}")), at)
            }
            Self::Away(_) => {
                let sentence = "The certificate authority cannot be reached; it is asked again.";
                (DomainState::Ordering, Some(sentence.to_owned()), back_off)
            }
            Self::NoRecord(_) => {
                let sentence =
                    "The record that proves the name could not be written; the operator finds why in the log.";
                (DomainState::Ordering, Some(sentence.to_owned()), back_off)
            }
            Self::NotBefore(at, sentence) => (DomainState::Ordering, Some(sentence.clone()), *at),
            Self::UnderWay => {
                let sentence = "The certificate authority is still at work on it.";
                (DomainState::Ordering, Some(sentence.to_owned()), now + UNDER_WAY_PAUSE)
            }
            Self::TimedOut => {
                let sentence = "The last attempt did not come to an end in time; it is made again.";
                (DomainState::Ordering, Some(sentence.to_owned()), back_off)
            }
            Self::Anew(_) if failures < 2 => (DomainState::Ordering, None, now + ANEW_PAUSE),
            Self::Anew(_) => (DomainState::Ordering, None, back_off),
            Self::Fault(_) | Self::Overtaken | Self::Stopped => (claim.state, None, now + FAULT_PAUSE),
        };
        let state = if is_renewal(claim) { DomainState::Renewing } else { state };
        NextAttempt { state, message, at: Some(at), failures }
    }
}

/// Returns the outcome of a successful attempt. While visitors do not reach the name, it is checked again.
pub(super) fn live_state(claim: &OrderClaim, obstacle: Option<String>, now: Timestamp) -> NextAttempt {
    let at = obstacle.as_ref().map(|_| now + schedule::dns_check_pause(now.since(claim.watched_at)));
    NextAttempt { state: DomainState::Live, message: obstacle, at, failures: 0 }
}

/// Returns whether the name has a certificate, which serves until the next one is live.
pub(super) const fn is_renewal(claim: &OrderClaim) -> bool {
    claim.certificate_id.is_some()
}

/// Returns whether a refusal is temporary, so that nobody needs to change anything.
const fn is_temporary(kind: ProblemKind) -> bool {
    matches!(
        kind,
        ProblemKind::RateLimited | ProblemKind::ServerInternal | ProblemKind::BadNonce | ProblemKind::OrderGone
    )
}

impl From<sqlx::Error> for AttemptError {
    fn from(error: sqlx::Error) -> Self {
        Self::Fault(error.into())
    }
}

impl From<AcmeError> for AttemptError {
    fn from(error: AcmeError) -> Self {
        match error {
            AcmeError::Refused(problem) => Self::Refused(problem),
            AcmeError::Away(said) => Self::Away(said),
        }
    }
}

impl From<AccountError> for AttemptError {
    fn from(error: AccountError) -> Self {
        match error {
            AccountError::Authority(error) => error.into(),
            other => Self::Fault(other.into()),
        }
    }
}

pub(super) fn rate_limited(at: Timestamp, bucket: &str) -> AttemptError {
    AttemptError::NotBefore(at, allowance::explain_bucket(bucket, at))
}
