//! One order at an authority, from its URL to the certificate.
//!
//! The input of each step is in the row before the step begins: the order's URL before the order is used, the challenge
//! responses before the authority is notified of them, the private key before the authority has the request for the
//! certificate.

use std::{collections::HashSet, time::Duration};

use app::App;
use certs::{
    acme::{
        AcmeAuthority, AcmeError, AcmeProblem, AuthorityAccount, Authorization, OrderProgress, ProblemKind,
        key_and_request,
    },
    chain::CertificateChain,
};
use db::certificates::{
    NewCertificate,
    accounts::{self, AcmeAccount},
    budgets,
    orders::{self, OrderClaim},
    renewals,
};
use domain::certificates::{CertificateSource, DomainState};
use hostnames::authorities::AccountError;
use tokio::time::Instant;

use super::{
    allowance,
    look::{self, NameProofs},
    outcome::AttemptError,
    proofs, turn,
};

/// How long a pending order is polled before other rows are processed instead.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3);
/// The number of failures up to which an order stays with an authority that has the request for the certificate,
/// although it is another authority's turn: the certificate may already be issued.
const FAILURES_WITH_REQUEST: i32 = 4;

struct PendingOrder<'a> {
    app: &'a App,
    claim: &'a OrderClaim,
    stored: AcmeAccount,
    account: AuthorityAccount,
    url: String,
    /// Whether it was counted against the account's allowance.
    is_counted: bool,
    /// Whether the authority reports that it has failed permanently.
    is_over: bool,
}

pub(super) async fn obtain_certificate(app: &App, claim: &OrderClaim) -> Result<(), AttemptError> {
    let (mut order, mut proofs) = if let Some(order) = resume(app, claim).await? {
        (order, None)
    } else {
        turn::ensure_orders_left(app, claim).await?;
        let proofs = look::find_proofs(app, claim).await?;
        (place_order(app, claim).await?, Some(proofs))
    };
    super::record_progress(app, claim, DomainState::Ordering).await?;
    let chain = match order.complete(&mut proofs).await {
        Ok(chain) => chain,
        Err(stop) => return Err(order.settle_failure(stop).await),
    };
    let certificate = NewCertificate {
        names: &chain.names,
        chain_pem: &chain.chain_pem,
        key_pem: &chain.key_pem,
        not_before: chain.not_before,
        not_after: chain.not_after,
        source: CertificateSource::Acme,
        account: Some(&order.stored.id),
    };
    let obstacle = match (proofs, &claim.domain) {
        (Some(proofs), _) => proofs.obstacle,
        // A resumed order may have needed no check.
        (None, Some(domain)) => look::find_obstacle(app, domain).await?,
        (None, None) => None,
    };
    super::go_live(app, claim, &certificate, Some(app.clock.now()), obstacle).await?;
    // The certificate is live; the job removes what is left over.
    let _ = proofs::remove_responses(app, claim).await;
    Ok(())
}

/// Returns the order that the row has under way. One that cannot be resumed, or whose authority has failed too often,
/// is dropped.
async fn resume<'a>(app: &'a App, claim: &'a OrderClaim) -> Result<Option<PendingOrder<'a>>, AttemptError> {
    let (Some(url), Some(id)) = (&claim.order_url, &claim.account_id) else { return Ok(None) };
    let stored = accounts::by_id(&app.db, id).await?;
    let chosen = app.certificates.choose(claim.failures).map(AcmeAuthority::directory_url);
    let is_chosen = stored.as_ref().map(|stored| stored.directory_url.as_str()) == chosen;
    let is_near = claim.sealed_key.is_some() && claim.failures <= FAILURES_WITH_REQUEST;
    if is_chosen || is_near {
        match app.certificates.account_by_id(&app.db, &app.master_key, id, app.clock.now()).await {
            Ok((stored, account)) => {
                let (url, is_counted) = (url.clone(), claim.is_counted);
                return Ok(Some(PendingOrder { app, claim, stored, account, url, is_counted, is_over: false }));
            }
            Err(error @ (AccountError::Unknown(_) | AccountError::Sealed(_))) => {
                tracing::warn!(name = claim.name, %error, "an order cannot be gone on with; another is placed");
            }
            Err(error) => return Err(error.into()),
        }
    } else {
        tracing::info!(name = claim.name, order = url, "an order is given up; another authority is asked");
    }
    // Once the authority has the request, it may have issued the certificate.
    if let Some(stored) = stored.filter(|_| claim.is_counted && claim.sealed_key.is_none()) {
        turn::refund_certificate(app, claim, &stored).await?;
    }
    orders::drop_order(&app.db, claim, false).await?;
    Ok(None)
}

async fn place_order<'a>(app: &'a App, claim: &'a OrderClaim) -> Result<PendingOrder<'a>, AttemptError> {
    let authority = app.certificates.choose(claim.failures);
    let authority = authority.ok_or_else(|| AttemptError::Fault(anyhow::anyhow!("no authority is configured")))?;
    let now = app.clock.now();
    let (stored, account) = app.certificates.account(&app.db, &app.master_key, authority, now).await?;
    turn::ensure_not_held(&stored, now)?;
    let before = match &claim.certificate_id {
        Some(id) if !claim.forgo_replaces => renewals::find_replaceable(&app.db, id).await?,
        _ => None,
    };
    // Only the account to which a certificate was issued may name its replacement.
    let replaces = before.filter(|before| before.account_id == stored.id).map(|before| before.chain_pem);
    let replaces = replaces.filter(|chain| account.can_replace(chain));
    let names = super::covered_names(claim);
    let buckets = allowance::order_buckets(app.certificates.config(), authority.directory_url(), claim.into());
    let mut is_counted = replaces.is_none() || !turn::is_replacement_requested(claim, now);
    if is_counted {
        turn::charge_buckets(app, &stored, &buckets, now).await?;
    } else {
        turn::charge_buckets(app, &stored, &allowance::replacement_buckets(&claim.name), now).await?;
    }
    let mut begun = account.begin(&names, replaces.as_deref()).await;
    if let (Err(AcmeError::Refused(problem)), Some(_)) = (&begun, &replaces)
        && is_about_replacing(problem)
    {
        tracing::info!(name = claim.name, %problem, "a renewal is ordered without what it replaces");
        orders::drop_order(&app.db, claim, true).await?;
        if !is_counted {
            turn::charge_buckets(app, &stored, &buckets, now).await?;
            is_counted = true;
        }
        begun = account.begin(&names, None).await;
    }
    let url = match begun {
        Ok(url) => url,
        Err(error) => {
            if is_counted {
                turn::refund_buckets(app, &stored, &buckets).await?;
            }
            return Err(apply_refusal(app, claim, &stored, error).await);
        }
    };
    if !orders::record_order(&app.db, claim, &stored.id, &url, is_counted).await? {
        return Err(AttemptError::Overtaken);
    }
    Ok(PendingOrder { app, claim, stored, account, url, is_counted, is_over: false })
}

/// Returns whether an order may have been refused because of the certificate that it replaces (RFC 9773, 5).
/// Authorities use different errors for this.
const fn is_about_replacing(problem: &AcmeProblem) -> bool {
    matches!(
        problem.kind,
        ProblemKind::AlreadyReplaced | ProblemKind::Unauthorized | ProblemKind::OrderGone | ProblemKind::Other
    )
}

/// Applies the pause that a refusal demands, or forgets an account that is gone.
async fn apply_refusal(app: &App, claim: &OrderClaim, stored: &AcmeAccount, error: AcmeError) -> AttemptError {
    let now = app.clock.now();
    let AcmeError::Refused(problem) = &error else { return error.into() };
    if matches!(problem.kind, ProblemKind::OrderGone | ProblemKind::AccountGone | ProblemKind::Unauthorized) {
        // Its URLs or its key may have changed.
        app.certificates.forget_account(&stored.id);
    }
    let kept = match problem.kind {
        ProblemKind::RateLimited => match problem.retry_after {
            Some(after) => turn::hold(app, claim, stored, &problem.detail, after).await,
            None => Ok(()),
        },
        ProblemKind::ServerInternal => match problem.retry_after {
            Some(after) => accounts::hold(&app.db, &stored.id, now + after.min(turn::LONGEST_HOLD)).await,
            None => Ok(()),
        },
        ProblemKind::AccountGone => match accounts::retire(&app.db, &stored.id, now).await {
            Ok(()) => return AttemptError::Anew("account_gone"),
            Err(error) => Err(error),
        },
        _ => Ok(()),
    };
    kept.map_or_else(AttemptError::from, |()| error.into())
}

impl PendingOrder<'_> {
    /// Takes every remaining step. `proofs` are the ways to prove the names, if they are known already.
    async fn complete(&mut self, proofs: &mut Option<NameProofs>) -> Result<CertificateChain, AttemptError> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = *POLL.start();
        let mut answered = HashSet::new();
        let mut key = None;
        loop {
            match self.account.order(&self.url).await? {
                OrderProgress::Pending(authorizations) => {
                    for authorization in authorizations.iter().filter(|authorization| !authorization.done) {
                        self.prove(authorization, proofs, &mut answered).await?;
                    }
                }
                OrderProgress::Ready if key.is_none() => key = Some(self.finalize().await?),
                OrderProgress::Ready | OrderProgress::Processing => {}
                OrderProgress::Valid => return self.fetch(key).await,
                OrderProgress::Invalid(problem) => {
                    self.is_over = true;
                    return Err(AttemptError::Refused(problem));
                }
            }
            if Instant::now() > deadline {
                return Err(AttemptError::UnderWay);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(*POLL.end());
        }
    }

    /// Publishes the proof of a name, and asks the authority to validate it, once.
    async fn prove(
        &self,
        authorization: &Authorization,
        proofs: &mut Option<NameProofs>,
        answered: &mut HashSet<String>,
    ) -> Result<(), AttemptError> {
        if let Some(problem) = authorization.challenges.iter().find_map(|offered| offered.failed.clone()) {
            return Err(AttemptError::Refused(problem));
        }
        let is_under_way = authorization.challenges.iter().any(|offered| offered.is_under_way);
        if is_under_way || answered.contains(&authorization.name) {
            return Ok(());
        }
        if proofs.is_none() {
            *proofs = Some(look::find_proofs(self.app, self.claim).await?);
        }
        let ways = proofs.as_ref().map(|proofs| proofs.ways.as_slice()).unwrap_or_default();
        let Some((proof, offered)) = proofs::choose(authorization, ways) else {
            let sentence = "The certificate authority offers no challenge by which this name can be proved.";
            return Err(AttemptError::Obstacle(sentence.to_owned()));
        };
        proofs::publish_response(self.app, authorization, proof, offered).await?;
        self.account.answer(&self.url, &authorization.name, offered.kind).await?;
        answered.insert(authorization.name.clone());
        Ok(())
    }

    /// Submits the request for the certificate with a new key, which is stored in the row first.
    async fn finalize(&self) -> Result<String, AttemptError> {
        let made = key_and_request(&super::covered_names(self.claim));
        let (key, request) = made.map_err(|error| AttemptError::Fault(error.into()))?;
        if !orders::record_key(&self.app.db, self.claim, &self.app.master_key, &key).await? {
            return Err(AttemptError::Overtaken);
        }
        self.account.finalize(&self.url, &request).await?;
        Ok(key)
    }

    /// Downloads the certificate, and judges it like an imported one.
    async fn fetch(&self, key: Option<String>) -> Result<CertificateChain, AttemptError> {
        let key = match key {
            Some(key) => key.into_bytes(),
            // Created before a kill.
            None => match self.claim.open_key(&self.app.master_key) {
                Some(Ok(key)) => key,
                Some(Err(_)) | None => return Err(self.drop_unusable("its private key is not there").await?),
            },
        };
        let chain = self.account.certificate(&self.url).await?;
        match CertificateChain::judge(chain.as_bytes(), &key, self.app.clock.now()) {
            Ok(chain) if super::covered_names(self.claim).iter().all(|name| chain.names.contains(name)) => Ok(chain),
            Ok(_) => Err(self.drop_unusable("it does not cover the names that were ordered").await?),
            Err(error) => Err(self.drop_unusable(&error.to_string()).await?),
        }
    }

    async fn drop_unusable(&self, why: &str) -> Result<AttemptError, AttemptError> {
        tracing::warn!(name = self.claim.name, why, "a certificate that was issued cannot be used");
        self.drop_order().await?;
        Ok(AttemptError::Anew("unusable"))
    }

    async fn drop_order(&self) -> Result<(), AttemptError> {
        orders::drop_order(&self.app.db, self.claim, false).await?;
        proofs::remove_responses(self.app, self.claim).await
    }

    /// Decides what a failed step means for the order: a refused order is dropped, an interrupted one stays.
    async fn settle_failure(&self, stop: AttemptError) -> AttemptError {
        let AttemptError::Refused(problem) = stop else { return stop };
        let passes =
            matches!(problem.kind, ProblemKind::RateLimited | ProblemKind::ServerInternal | ProblemKind::BadNonce);
        if self.is_over || !passes {
            // Count first: removing challenge responses may have to wait.
            if let Err(error) = self.settle(&problem).await {
                return error.into();
            }
            if let Err(stop) = self.drop_order().await {
                return stop;
            }
        }
        if problem.kind == ProblemKind::OrderGone {
            return AttemptError::Anew("order_gone");
        }
        apply_refusal(self.app, self.claim, &self.stored, AcmeError::Refused(problem)).await
    }

    /// Counts a failed order: charges the failure, and refunds the certificate that was not issued.
    async fn settle(&self, problem: &AcmeProblem) -> Result<(), sqlx::Error> {
        if allowance::is_failed_authorization(problem.kind) {
            let bucket = allowance::authorization_bucket(&self.claim.name);
            let (acme, directory) = (self.app.certificates.config(), &self.stored.directory_url);
            let of_payer = allowance::failed_order_bucket(acme, directory, self.claim.into());
            for bucket in of_payer.iter().chain([&bucket]) {
                budgets::charge(&self.app.db, &self.stored.id, bucket, self.app.clock.now()).await?;
            }
        }
        // An order that the authority has forgotten may have been issued.
        if self.is_counted && problem.kind != ProblemKind::OrderGone {
            turn::refund_certificate(self.app, self.claim, &self.stored).await?;
        }
        Ok(())
    }
}
