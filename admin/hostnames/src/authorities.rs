//! The configured certificate authorities with our accounts there, the writer of their DNS records, and the
//! notification that wakes the ordering of certificates.
//!
//! The module `certificates` decides about orders; the crate `certs` implements the protocol.

use std::{
    collections::HashMap,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use anyhow::Context as _;
use certs::{
    acme::{AcmeAuthority, AcmeError, AuthorityAccount},
    dns01::{self, RecordWriter},
};
use config::{
    Config,
    acme::{Acme, CertificateIssuer, ChallengeType},
};
use db::certificates::accounts::{self, AcmeAccount};
use domain::{AcmeAccountId, Hostname, ProjectId, Timestamp};
use secrets::MasterKey;
use sqlx::{PgExecutor, PgPool};
use tokio::{
    sync::{Notify, OnceCell},
    time::Instant,
};

use crate as hostnames;

/// Consecutive failures at one authority after which the other is tried.
const FAILURES_BEFORE_FALLBACK: u32 = 3;
/// Lifetime of an opened account, after which its authority's directory is fetched again.
const ACCOUNT_KEPT: Duration = Duration::from_hours(1);
/// Timeout of asking an authority for its CAA identities: a person waits for them, and it may be down.
const IDENTITIES_WAIT: Duration = Duration::from_secs(2);
/// Bounds on how long a refusal is applied to other requests, which would be refused alike.
const REFUSAL_KEPT: std::ops::RangeInclusive<Duration> = Duration::from_secs(30)..=Duration::from_mins(15);
const ACCOUNTS: usize = 16;

/// The certificate authorities. Clones share them.
#[derive(Clone)]
pub struct CertificateAuthorities {
    shared: Arc<SharedAuthorities>,
}

struct SharedAuthorities {
    config: Acme,
    primary: Option<KnownAuthority>,
    fallback: Option<KnownAuthority>,
    writer: Option<RecordWriter>,
    bell: Arc<Notify>,
    open: Mutex<HashMap<AcmeAccountId, OpenAccount>>,
}

/// An authority, and its CAA identities once they are known.
struct KnownAuthority {
    authority: AcmeAuthority,
    caa_identities: OnceCell<Vec<String>>,
    asking: SharedRequest,
    registering: SharedRequest,
}

/// A request shared by many callers: one makes it, and those that wait meanwhile share its failure. Otherwise each
/// would in turn discover that the authority does not answer.
#[derive(Default)]
struct SharedRequest(tokio::sync::Mutex<Option<RecentFailure>>);

struct RecentFailure {
    at: Instant,
    /// The request is not repeated before then.
    until: Instant,
    error: AcmeError,
}

impl SharedRequest {
    /// Makes the request, unless it failed during the wait or was refused recently.
    async fn run<T>(&self, question: impl Future<Output = Result<T, AccountError>>) -> Result<T, AccountError> {
        let asked_at = Instant::now();
        let mut failed = self.0.lock().await;
        if let Some(failed) = failed.as_ref().filter(|failed| failed.at >= asked_at || failed.until > Instant::now()) {
            return Err(failed.error.clone().into());
        }
        let outcome = question.await;
        *failed = match &outcome {
            Err(AccountError::Authority(error)) => Some(RecentFailure::now(error)),
            _ => None,
        };
        outcome
    }
}

impl RecentFailure {
    fn now(error: &AcmeError) -> Self {
        let at = Instant::now();
        let kept = match error {
            AcmeError::Refused(problem) => {
                problem.retry_after.unwrap_or_default().clamp(*REFUSAL_KEPT.start(), *REFUSAL_KEPT.end())
            }
            AcmeError::Away(_) => Duration::ZERO,
        };
        Self { at, until: at + kept, error: error.clone() }
    }
}

impl KnownAuthority {
    /// Returns the identities from the authority's directory, or otherwise those known for it.
    async fn caa_identities(&self) -> Vec<String> {
        let _ = tokio::time::timeout(IDENTITIES_WAIT, self.fetch_identities()).await;
        match self.caa_identities.get() {
            Some(said) if !said.is_empty() => said.clone(),
            _ => hostnames::known_identities(self.authority.directory_url()),
        }
    }

    /// Fetches the authority's identities, unless they are known.
    async fn fetch_identities(&self) -> Result<(), AccountError> {
        if self.caa_identities.initialized() {
            return Ok(());
        }
        let question = async {
            if !self.caa_identities.initialized() {
                // Another task may have set the same value meanwhile.
                let _ = self.caa_identities.set(self.authority.caa_identities().await?);
            }
            Ok(())
        };
        self.asking.run(question).await
    }
}

struct OpenAccount {
    account: AuthorityAccount,
    /// The sealed credentials that it was opened with; if the stored ones differ, the account's key was changed.
    sealed: Vec<u8>,
    until: Timestamp,
}

/// The reason why there is no account to order with.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// The authority refused the request or does not answer.
    #[error(transparent)]
    Authority(#[from] AcmeError),
    /// The authority is no longer in the configuration.
    #[error("the authority {0} is not in the configuration")]
    Unknown(String),
    /// The stored credentials cannot be opened.
    #[error("the credentials of the account {0} cannot be opened")]
    Sealed(AcmeAccountId),
    /// The database failed.
    #[error(transparent)]
    Db(#[from] sqlx::Error),
}

impl CertificateAuthorities {
    /// Creates the configured authorities without contacting them. Waiters of `before` are woken by this one as well.
    pub fn new(config: &Config, before: Option<&Self>) -> anyhow::Result<Self> {
        let acme = config.acme.clone();
        let is_acme = acme.issuer == CertificateIssuer::Acme;
        let known = |directory: &config::acme::AcmeDirectory| {
            let authority = AcmeAuthority::new(directory, &acme.profile)?;
            let (asking, registering) = (SharedRequest::default(), SharedRequest::default());
            Ok::<_, AcmeError>(KnownAuthority { authority, caa_identities: OnceCell::new(), asking, registering })
        };
        let primary = is_acme.then(|| known(&acme.primary())).transpose().context("acme")?;
        let fallback = acme.fallback.as_ref().filter(|_| is_acme).map(known).transpose().context("acme.fallback")?;
        if acme.issuer == CertificateIssuer::Local {
            anyhow::ensure!(acme.local_dir.is_some(), "acme.local_dir is needed when acme.issuer is \"local\"");
        }
        let writer = RecordWriter::from_config(&acme.dns).context("acme.dns")?;
        Ok(Self {
            shared: Arc::new(SharedAuthorities {
                primary,
                fallback,
                writer,
                bell: before.map(|before| before.shared.bell.clone()).unwrap_or_default(),
                open: Mutex::default(),
                config: acme,
            }),
        })
    }

    /// Returns the issuer of certificates.
    pub fn issuer(&self) -> CertificateIssuer {
        self.shared.config.issuer
    }

    /// Returns the configuration.
    pub fn config(&self) -> &Acme {
        &self.shared.config
    }

    /// Returns the writer of DNS records.
    pub fn writer(&self) -> Option<&RecordWriter> {
        self.shared.writer.as_ref()
    }

    /// Returns the name to which `_acme-challenge.<hostname>` must be a CNAME for us to prove the hostname for a
    /// project that has it; `None` if delegation is not enabled.
    pub fn delegation(&self, project: &ProjectId, hostname: &Hostname) -> Option<String> {
        let acme = &self.shared.config;
        let is_possible = acme.issuer == CertificateIssuer::Acme
            && acme.challenges.contains(&ChallengeType::Dns01)
            && self.writer().is_some();
        dns01::delegation(&acme.dns, project, hostname).filter(|_| is_possible)
    }

    /// Returns the folder of the local authority.
    pub fn local_dir(&self) -> Option<&Path> {
        self.shared.config.local_dir.as_deref()
    }

    /// Starts to maintain a certificate for a custom domain once the transaction commits, if certificates are issued at
    /// all. Call [`wake`](Self::wake) afterwards to order it without delay.
    pub async fn start_ordering(
        &self,
        db: impl PgExecutor<'_>,
        domain: &Hostname,
        now: Timestamp,
    ) -> Result<(), sqlx::Error> {
        if self.issuer() == CertificateIssuer::None {
            return Ok(());
        }
        db::certificates::orders::watch(db, domain, now).await
    }

    /// Wakes the ordering of certificates, because something may be due.
    pub fn wake(&self) {
        self.shared.bell.notify_one();
    }

    /// Waits for [`wake`](Self::wake).
    pub async fn wait_until_woken(&self) {
        self.shared.bell.notified().await;
    }

    /// Returns the authority to use after `failures` in a row: the first or, after several, alternately the other.
    pub fn choose(&self, failures: i32) -> Option<&AcmeAuthority> {
        Some(&self.known(failures)?.authority)
    }

    fn known(&self, failures: i32) -> Option<&KnownAuthority> {
        let turn = u32::try_from(failures).unwrap_or_default() / FAILURES_BEFORE_FALLBACK;
        let fallback = self.shared.fallback.as_ref().filter(|_| turn % 2 == 1);
        fallback.or(self.shared.primary.as_ref())
    }

    /// Returns the CAA identities, as far as known, of the authority used after `failures`.
    pub async fn caa_identities(&self, failures: i32) -> Option<Vec<String>> {
        Some(self.known(failures)?.caa_identities().await)
    }

    /// Returns the CAA identities, as far as known, of the second authority; `None` if there is no second one.
    pub async fn fallback_caa_identities(&self) -> Option<Vec<String>> {
        Some(self.shared.fallback.as_ref()?.caa_identities().await)
    }

    /// Forgets an open account whose authority no longer accepts its requests: its directory is fetched again.
    pub fn forget_account(&self, id: &AcmeAccountId) {
        self.open_accounts().remove(id);
    }

    /// Returns the URL of our account at the authority used after `failures`, if registered.
    pub async fn account_url(&self, db: &PgPool, failures: i32) -> Result<Option<String>, sqlx::Error> {
        let Some(known) = self.known(failures) else { return Ok(None) };
        Ok(accounts::find_live(db, known.authority.directory_url()).await?.map(|account| account.url))
    }

    /// Returns the account at an authority, and registers one if there is none.
    pub async fn account(
        &self,
        db: &PgPool,
        master_key: &MasterKey,
        authority: &AcmeAuthority,
        now: Timestamp,
    ) -> Result<(AcmeAccount, AuthorityAccount), AccountError> {
        let directory = authority.directory_url();
        if let Some(stored) = accounts::find_live(db, directory).await? {
            return self.open_account(master_key, authority, stored, now).await;
        }
        let mut known = [&self.shared.primary, &self.shared.fallback].into_iter().flatten();
        let known = known.find(|known| known.authority.directory_url() == directory);
        let known = known.ok_or_else(|| AccountError::Unknown(directory.to_owned()))?;
        // One registration at a time: the other callers find its account.
        let registration = async {
            if accounts::find_live(db, directory).await?.is_none() {
                let registered = authority.register().await?;
                let url = &registered.url;
                if accounts::store(db, master_key, directory, url, &registered.credentials, now).await? {
                    tracing::info!(directory, account = url, "an account was registered at a certificate authority");
                }
            }
            Ok::<(), AccountError>(())
        };
        known.registering.run(registration).await?;
        let stored = accounts::find_live(db, directory).await?;
        let stored = stored.ok_or_else(|| AccountError::Unknown(directory.to_owned()))?;
        self.open_account(master_key, authority, stored, now).await
    }

    /// Returns a previously registered account, live or retired.
    pub async fn account_by_id(
        &self,
        db: &PgPool,
        master_key: &MasterKey,
        id: &AcmeAccountId,
        now: Timestamp,
    ) -> Result<(AcmeAccount, AuthorityAccount), AccountError> {
        let unknown = || AccountError::Unknown(id.to_string());
        let stored = accounts::by_id(db, id).await?.ok_or_else(unknown)?;
        let known = [&self.shared.primary, &self.shared.fallback].into_iter().flatten();
        let mut authorities = known.map(|known| &known.authority);
        let authority = authorities.find(|authority| authority.directory_url() == stored.directory_url);
        let authority = authority.ok_or_else(|| AccountError::Unknown(stored.directory_url.clone()))?;
        self.open_account(master_key, authority, stored, now).await
    }

    async fn open_account(
        &self,
        master_key: &MasterKey,
        authority: &AcmeAuthority,
        stored: AcmeAccount,
        now: Timestamp,
    ) -> Result<(AcmeAccount, AuthorityAccount), AccountError> {
        if let Some(open) = self.open_accounts().get(&stored.id)
            && open.sealed == stored.sealed_credentials
            && open.until > now
        {
            let account = open.account.clone();
            return Ok((stored, account));
        }
        let credentials = stored.open_credentials(master_key).ok().and_then(|bytes| String::from_utf8(bytes).ok());
        let credentials = credentials.ok_or_else(|| AccountError::Sealed(stored.id.clone()))?;
        let account = authority.account(&credentials).await?;
        let mut opened = self.open_accounts();
        if opened.len() >= ACCOUNTS {
            opened.clear();
        }
        let sealed = stored.sealed_credentials.clone();
        opened.insert(stored.id.clone(), OpenAccount { account: account.clone(), sealed, until: now + ACCOUNT_KEPT });
        drop(opened);
        Ok((stored, account))
    }

    fn open_accounts(&self) -> std::sync::MutexGuard<'_, HashMap<AcmeAccountId, OpenAccount>> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
