//! One order at an authority, from its URL to the certificate.
//!
//! What a later step needs is in the row before the step begins: the order's URL before anything else is done with it, the
//! answers before the authority is told of them, the private key before the authority has the request.

use std::{collections::HashSet, time::Duration};

use certs::{
    acme::{Account, AcmeError, Authorization, Problem, ProblemKind, Progress, key_and_request},
    chain::Chain,
};
use db::certificates::{
    NewCertificate,
    accounts::{self, AcmeAccount},
    budgets::{self, Taken},
    orders::{self, OrderClaim},
    renewals,
};
use domain::{
    Timestamp,
    certificates::{CertificateSource, DomainState},
};
use tokio::time::Instant;

use super::{
    allowance, look,
    outcome::{Stop, used_up},
    proofs::{self, Proof},
};
use crate::app::App;

/// Time for which an authority is watched at its work, before others are worked on instead.
const PATIENCE: Duration = Duration::from_mins(1);
/// The pauses between two looks at an order, doubled each time.
const POLL: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3);
/// Longest wait of all orders of an account when one of them was one too many; the one waits as long as it was told.
const LONGEST_HOLD: Duration = Duration::from_mins(15);

/// An order under way.
struct Order<'a> {
    app: &'a App,
    claim: &'a OrderClaim,
    stored: AcmeAccount,
    account: Account,
    url: String,
}

/// Has an authority issue the certificate of a row, and puts it live.
pub(super) async fn run(app: &App, claim: &OrderClaim) -> Result<(), Stop> {
    let (order, proofs) = if let Some(order) = taken_up(app, claim).await? {
        (order, None)
    } else {
        let proofs = look::find_proofs(app, claim).await?;
        (begin(app, claim).await?, Some(proofs))
    };
    super::note(app, claim, DomainState::Ordering).await?;
    let chain = match order.complete(proofs).await {
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
    super::go_live(app, claim, &certificate, Some(app.clock.now())).await?;
    // The certificate stands: what is left over is for the job.
    let _ = proofs::take_down(app, claim).await;
    Ok(())
}

/// The order that the row has under way.
async fn taken_up<'a>(app: &'a App, claim: &'a OrderClaim) -> Result<Option<Order<'a>>, Stop> {
    let (Some(url), Some(id)) = (&claim.order_url, &claim.account_id) else { return Ok(None) };
    let now = app.clock.now();
    let (stored, account) = app.certificates.account_by_id(&app.db, &app.master_key, id, now).await?;
    Ok(Some(Order { app, claim, stored, account, url: url.clone() }))
}

/// Places an order, when the account may.
async fn begin<'a>(app: &'a App, claim: &'a OrderClaim) -> Result<Order<'a>, Stop> {
    let authority = app.certificates.choose(claim.failures);
    let authority = authority.ok_or_else(|| Stop::Fault(anyhow::anyhow!("no authority is configured")))?;
    let now = app.clock.now();
    let (stored, account) = app.certificates.account(&app.db, &app.master_key, authority, now).await?;
    if let Some(until) = stored.held_until.filter(|until| *until > now) {
        return Err(used_up(until, "account"));
    }
    let before = match &claim.certificate_id {
        Some(id) if !claim.forgo_replaces => renewals::replaced(&app.db, id).await?,
        _ => None,
    };
    // Only the account that a certificate was issued to may say what replaces it.
    let replaces = before.filter(|before| before.account_id == stored.id).map(|before| before.chain_pem);
    let names = super::names(claim);
    let begun = match &replaces {
        Some(chain) => match account.begin(&names, Some(chain)).await {
            Err(AcmeError::Refused(problem)) if is_about_replacing(&problem) => {
                tracing::info!(name = claim.name, %problem, "a renewal is ordered without what it replaces");
                orders::drop_order(&app.db, claim, true).await?;
                None
            }
            begun => Some(begun),
        },
        None => None,
    };
    let begun = if let Some(begun) = begun {
        begun
    } else {
        take_allowance(app, claim, &stored, authority.directory_url(), now).await?;
        account.begin(&names, None).await
    };
    let url = match begun {
        Ok(url) => url,
        Err(error) => return Err(refused(app, &stored, error).await),
    };
    if !orders::note_order(&app.db, claim, &stored.id, &url).await? {
        return Err(Stop::Overtaken);
    }
    Ok(Order { app, claim, stored, account, url })
}

async fn take_allowance(
    app: &App,
    claim: &OrderClaim,
    stored: &AcmeAccount,
    directory: &str,
    now: Timestamp,
) -> Result<(), Stop> {
    let mut tx = app.db.begin().await?;
    match budgets::take(&mut tx, &stored.id, &allowance::of_order(directory, &claim.name), now).await? {
        Taken::All => Ok(tx.commit().await?),
        Taken::NotBefore { at, bucket } => Err(used_up(at, &bucket)),
    }
}

/// Whether an order may be refused for the certificate that it replaces (RFC 9773, 5). Authorities differ in the words.
const fn is_about_replacing(problem: &Problem) -> bool {
    matches!(problem.kind, ProblemKind::AlreadyReplaced | ProblemKind::Unauthorized | ProblemKind::Other)
}

/// Keeps to what a refusal asks of the account.
async fn refused(app: &App, stored: &AcmeAccount, error: AcmeError) -> Stop {
    let now = app.clock.now();
    let AcmeError::Refused(problem) = &error else { return error.into() };
    let kept = match problem.kind {
        ProblemKind::RateLimited | ProblemKind::ServerInternal => match problem.retry_after {
            Some(after) => accounts::hold(&app.db, &stored.id, now + after.min(LONGEST_HOLD)).await,
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
    /// Takes every step that is left. `proofs` is how the names can be proved, when that is known already.
    async fn complete(&self, mut proofs: Option<Vec<Proof>>) -> Result<Chain, Stop> {
        let deadline = Instant::now() + PATIENCE;
        let mut pause = *POLL.start();
        let mut answered = HashSet::new();
        let mut key = None;
        loop {
            match self.account.order(&self.url).await? {
                Progress::Pending(authorizations) => {
                    for authorization in authorizations.iter().filter(|authorization| !authorization.done) {
                        self.prove(authorization, &mut proofs, &mut answered).await?;
                    }
                }
                Progress::Ready if key.is_none() => key = Some(self.finalize().await?),
                Progress::Ready | Progress::Processing => {}
                Progress::Valid => return self.fetch(key).await,
                Progress::Invalid(problem) => return Err(Stop::Refused(problem)),
            }
            if Instant::now() > deadline {
                return Err(Stop::UnderWay);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(*POLL.end());
        }
    }

    /// Has the authority look at the proof of a name, once.
    async fn prove(
        &self,
        authorization: &Authorization,
        proofs: &mut Option<Vec<Proof>>,
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
        let proofs = proofs.as_deref().unwrap_or_default();
        let Some((proof, offered)) = proofs::choose(authorization, proofs) else {
            let sentence = "The certificate authority offers no challenge by which this name can be proved.";
            return Err(Stop::Obstacle(sentence.to_owned()));
        };
        proofs::put_up(self.app, authorization, proof, offered).await?;
        self.account.answer(&self.url, &authorization.name, offered.kind).await?;
        answered.insert(authorization.name.clone());
        Ok(())
    }

    /// Hands in the request for the certificate with a new key, which is in the row by then.
    async fn finalize(&self) -> Result<String, Stop> {
        let made = key_and_request(&super::names(self.claim));
        let (key, request) = made.map_err(|error| Stop::Fault(error.into()))?;
        if !orders::note_key(&self.app.db, self.claim, &self.app.master_key, &key).await? {
            return Err(Stop::Overtaken);
        }
        self.account.finalize(&self.url, &request).await?;
        Ok(key)
    }

    /// Fetches the certificate, and judges it like one that an operator brings along.
    async fn fetch(&self, key: Option<String>) -> Result<Chain, Stop> {
        let key = match key {
            Some(key) => key.into_bytes(),
            // From before a kill.
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

    /// Forgets the order, and takes its answers down.
    async fn drop(&self) -> Result<(), Stop> {
        orders::drop_order(&self.app.db, self.claim, self.claim.forgo_replaces).await?;
        proofs::take_down(self.app, self.claim).await
    }

    /// Decides what a failed step means for the order: one that was refused is over, one that could not go on stays.
    async fn give_up_after(&self, stop: Stop) -> Stop {
        let Stop::Refused(problem) = stop else { return stop };
        let over = match problem.kind {
            ProblemKind::RateLimited | ProblemKind::ServerInternal | ProblemKind::BadNonce => Ok(()),
            _ => self.drop().await,
        };
        let charged = if allowance::is_failed_authorization(problem.kind) {
            let bucket = allowance::of_failure(&self.claim.name);
            budgets::charge(&self.app.db, &self.stored.id, &bucket, self.app.clock.now()).await
        } else {
            Ok(())
        };
        match (over, charged) {
            (Err(stop), _) => stop,
            (_, Err(error)) => error.into(),
            _ if problem.kind == ProblemKind::OrderGone => Stop::Anew("order_gone"),
            _ => refused(self.app, &self.stored, AcmeError::Refused(problem)).await,
        }
    }
}
