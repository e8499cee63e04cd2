//! One order at an authority, from its URL to the certificate.
//!
//! The input of each step is in the row before the step begins: the order's URL before the order is used, the challenge
//! responses before the authority is notified of them, the private key before the authority has the request for the
//! certificate.

use std::{collections::HashSet, time::Duration};

use certs::{
    acme::{Account, AcmeError, Authority, Authorization, Problem, ProblemKind, Progress, key_and_request},
    chain::Chain,
};
use db::certificates::{
    NewCertificate,
    accounts::{self, AcmeAccount},
    budgets,
    orders::{self, OrderClaim},
    renewals,
};
use domain::certificates::{CertificateSource, DomainState};
use tokio::time::Instant;

use super::{
    allowance,
    look::{self, Proofs},
    outcome::Stop,
    proofs, turn,
};
use crate::{app::App, authorities::AccountError};

/// How long a pending order is polled before other rows are processed instead.
const PATIENCE: Duration = Duration::from_mins(1);
const POLL: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3);
/// The number of failures up to which an order stays with an authority that has the request for the certificate,
/// although it is another authority's turn: the certificate may already be issued.
const FAILURES_WITH_REQUEST: i32 = 4;

struct Order<'a> {
    app: &'a App,
    claim: &'a OrderClaim,
    stored: AcmeAccount,
    account: Account,
    url: String,
    /// Whether it was counted against the account's allowance.
    is_counted: bool,
    /// Whether the authority reports that it has failed permanently.
    is_over: bool,
}

pub(super) async fn run(app: &App, claim: &OrderClaim) -> Result<(), Stop> {
    let (mut order, mut proofs) = if let Some(order) = taken_up(app, claim).await? {
        (order, None)
    } else {
        turn::expect_turn(app, claim).await?;
        let proofs = look::find_proofs(app, claim).await?;
        (begin(app, claim).await?, Some(proofs))
    };
    super::note(app, claim, DomainState::Ordering).await?;
    let chain = match order.complete(&mut proofs).await {
        Ok(chain) => chain,
        Err(stop) => return Err(order.give_up_after(stop).await),
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
        (None, Some(domain)) => look::obstacle(app, domain).await?,
        (None, None) => None,
    };
    super::go_live(app, claim, &certificate, Some(app.clock.now()), obstacle).await?;
    // The certificate is live; the job removes what is left over.
    let _ = proofs::take_down(app, claim).await;
    Ok(())
}

/// Returns the order that the row has under way. One that cannot be resumed, or whose authority has failed too often,
/// is dropped.
async fn taken_up<'a>(app: &'a App, claim: &'a OrderClaim) -> Result<Option<Order<'a>>, Stop> {
    let (Some(url), Some(id)) = (&claim.order_url, &claim.account_id) else { return Ok(None) };
    let stored = accounts::by_id(&app.db, id).await?;
    let chosen = app.certificates.choose(claim.failures).map(Authority::directory_url);
    let is_chosen = stored.as_ref().map(|stored| stored.directory_url.as_str()) == chosen;
    let is_near = claim.sealed_key.is_some() && claim.failures <= FAILURES_WITH_REQUEST;
    if is_chosen || is_near {
        match app.certificates.account_by_id(&app.db, &app.master_key, id, app.clock.now()).await {
            Ok((stored, account)) => {
                let (url, is_counted) = (url.clone(), claim.is_counted);
                return Ok(Some(Order { app, claim, stored, account, url, is_counted, is_over: false }));
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
        turn::refund(app, claim, &stored).await?;
    }
    orders::drop_order(&app.db, claim, false).await?;
    Ok(None)
}

async fn begin<'a>(app: &'a App, claim: &'a OrderClaim) -> Result<Order<'a>, Stop> {
    let authority = app.certificates.choose(claim.failures);
    let authority = authority.ok_or_else(|| Stop::Fault(anyhow::anyhow!("no authority is configured")))?;
    let now = app.clock.now();
    let (stored, account) = app.certificates.account(&app.db, &app.master_key, authority, now).await?;
    turn::expect_no_hold(&stored, now)?;
    let before = match &claim.certificate_id {
        Some(id) if !claim.forgo_replaces => renewals::replaced(&app.db, id).await?,
        _ => None,
    };
    // Only the account to which a certificate was issued may name its replacement.
    let replaces = before.filter(|before| before.account_id == stored.id).map(|before| before.chain_pem);
    let replaces = replaces.filter(|chain| account.can_replace(chain));
    let names = super::names(claim);
    let buckets = allowance::of_order(app.certificates.config(), authority.directory_url(), claim.into());
    let mut is_counted = replaces.is_none() || !turn::is_wanted(claim, now);
    if is_counted {
        turn::take_allowance(app, &stored, &buckets, now).await?;
    } else {
        turn::take_allowance(app, &stored, &allowance::of_replacement(&claim.name), now).await?;
    }
    let mut begun = account.begin(&names, replaces.as_deref()).await;
    if let (Err(AcmeError::Refused(problem)), Some(_)) = (&begun, &replaces)
        && is_about_replacing(problem)
    {
        tracing::info!(name = claim.name, %problem, "a renewal is ordered without what it replaces");
        orders::drop_order(&app.db, claim, true).await?;
        if !is_counted {
            turn::take_allowance(app, &stored, &buckets, now).await?;
            is_counted = true;
        }
        begun = account.begin(&names, None).await;
    }
    let url = match begun {
        Ok(url) => url,
        Err(error) => {
            if is_counted {
                turn::give_back(app, &stored, &buckets).await?;
            }
            return Err(refused(app, claim, &stored, error).await);
        }
    };
    if !orders::note_order(&app.db, claim, &stored.id, &url, is_counted).await? {
        return Err(Stop::Overtaken);
    }
    Ok(Order { app, claim, stored, account, url, is_counted, is_over: false })
}

/// Returns whether an order may have been refused because of the certificate that it replaces (RFC 9773, 5).
/// Authorities use different errors for this.
const fn is_about_replacing(problem: &Problem) -> bool {
    matches!(
        problem.kind,
        ProblemKind::AlreadyReplaced | ProblemKind::Unauthorized | ProblemKind::OrderGone | ProblemKind::Other
    )
}

/// Applies the pause that a refusal demands, or forgets an account that is gone.
async fn refused(app: &App, claim: &OrderClaim, stored: &AcmeAccount, error: AcmeError) -> Stop {
    let now = app.clock.now();
    let AcmeError::Refused(problem) = &error else { return error.into() };
    if matches!(problem.kind, ProblemKind::OrderGone | ProblemKind::AccountGone | ProblemKind::Unauthorized) {
        // Its URLs or its key may have changed.
        app.certificates.forget(&stored.id);
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
            Ok(()) => return Stop::Anew("account_gone"),
            Err(error) => Err(error),
        },
        _ => Ok(()),
    };
    kept.map_or_else(Stop::from, |()| error.into())
}

impl Order<'_> {
    /// Takes every remaining step. `proofs` are the ways to prove the names, if they are known already.
    async fn complete(&mut self, proofs: &mut Option<Proofs>) -> Result<Chain, Stop> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = *POLL.start();
        let mut answered = HashSet::new();
        let mut key = None;
        loop {
            match self.account.order(&self.url).await? {
                Progress::Pending(authorizations) => {
                    for authorization in authorizations.iter().filter(|authorization| !authorization.done) {
                        self.prove(authorization, proofs, &mut answered).await?;
                    }
                }
                Progress::Ready if key.is_none() => key = Some(self.finalize().await?),
                Progress::Ready | Progress::Processing => {}
                Progress::Valid => return self.fetch(key).await,
                Progress::Invalid(problem) => {
                    self.is_over = true;
                    return Err(Stop::Refused(problem));
                }
            }
            if Instant::now() > deadline {
                return Err(Stop::UnderWay);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(*POLL.end());
        }
    }

    /// Publishes the proof of a name, and asks the authority to validate it, once.
    async fn prove(
        &self,
        authorization: &Authorization,
        proofs: &mut Option<Proofs>,
        answered: &mut HashSet<String>,
    ) -> Result<(), Stop> {
        if let Some(problem) = authorization.challenges.iter().find_map(|offered| offered.failed.clone()) {
            return Err(Stop::Refused(problem));
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
            return Err(Stop::Obstacle(sentence.to_owned()));
        };
        proofs::put_up(self.app, authorization, proof, offered).await?;
        self.account.answer(&self.url, &authorization.name, offered.kind).await?;
        answered.insert(authorization.name.clone());
        Ok(())
    }

    /// Submits the request for the certificate with a new key, which is stored in the row first.
    async fn finalize(&self) -> Result<String, Stop> {
        let made = key_and_request(&super::names(self.claim));
        let (key, request) = made.map_err(|error| Stop::Fault(error.into()))?;
        if !orders::note_key(&self.app.db, self.claim, &self.app.master_key, &key).await? {
            return Err(Stop::Overtaken);
        }
        self.account.finalize(&self.url, &request).await?;
        Ok(key)
    }

    /// Downloads the certificate, and judges it like an imported one.
    async fn fetch(&self, key: Option<String>) -> Result<Chain, Stop> {
        let key = match key {
            Some(key) => key.into_bytes(),
            // Created before a kill.
            None => match self.claim.open_key(&self.app.master_key) {
                Some(Ok(key)) => key,
                Some(Err(_)) | None => return Err(self.unusable("its private key is not there").await?),
            },
        };
        let chain = self.account.certificate(&self.url).await?;
        match Chain::judge(chain.as_bytes(), &key, self.app.clock.now()) {
            Ok(chain) if super::names(self.claim).iter().all(|name| chain.names.contains(name)) => Ok(chain),
            Ok(_) => Err(self.unusable("it does not cover the names that were ordered").await?),
            Err(error) => Err(self.unusable(&error.to_string()).await?),
        }
    }

    async fn unusable(&self, why: &str) -> Result<Stop, Stop> {
        tracing::warn!(name = self.claim.name, why, "a certificate that was issued cannot be used");
        self.drop().await?;
        Ok(Stop::Anew("unusable"))
    }

    async fn drop(&self) -> Result<(), Stop> {
        orders::drop_order(&self.app.db, self.claim, false).await?;
        proofs::take_down(self.app, self.claim).await
    }

    /// Decides what a failed step means for the order: a refused order is dropped, an interrupted one stays.
    async fn give_up_after(&self, stop: Stop) -> Stop {
        let Stop::Refused(problem) = stop else { return stop };
        let passes =
            matches!(problem.kind, ProblemKind::RateLimited | ProblemKind::ServerInternal | ProblemKind::BadNonce);
        if self.is_over || !passes {
            // Count first: removing challenge responses may have to wait.
            if let Err(error) = self.settle(&problem).await {
                return error.into();
            }
            if let Err(stop) = self.drop().await {
                return stop;
            }
        }
        if problem.kind == ProblemKind::OrderGone {
            return Stop::Anew("order_gone");
        }
        refused(self.app, self.claim, &self.stored, AcmeError::Refused(problem)).await
    }

    /// Counts a failed order: charges the failure, and refunds the certificate that was not issued.
    async fn settle(&self, problem: &Problem) -> Result<(), sqlx::Error> {
        if allowance::is_failed_authorization(problem.kind) {
            let bucket = allowance::of_failure(&self.claim.name);
            let (acme, directory) = (self.app.certificates.config(), &self.stored.directory_url);
            let of_payer = allowance::of_failed_order(acme, directory, self.claim.into());
            for bucket in of_payer.iter().chain([&bucket]) {
                budgets::charge(&self.app.db, &self.stored.id, bucket, self.app.clock.now()).await?;
            }
        }
        // An order that the authority has forgotten may have been issued.
        if self.is_counted && problem.kind != ProblemKind::OrderGone {
            turn::refund(self.app, self.claim, &self.stored).await?;
        }
        Ok(())
    }
}
