//! Deploys a push. The commit that the branch points at *now* is deployed, so that neither an order of arrival nor a
//! replay can bring an older commit over a newer one.

use std::time::Duration;

use db::{
    audit::Actor,
    code_host::repo_deploys::{self, Claim, Reader, Target},
    projects::deployments::{self, Origin, UploadError},
};
use domain::{
    DeploymentId, Timestamp,
    limits::REPO_TARBALL_BYTES,
    repo::{CommitSha, RepoName},
    size,
};
use packs::{Root, WriteError};
use secrecy::SecretString;

use crate::{
    app::App,
    change::Change,
    codehost::{Account, AppToken, CodeHostError, Repositories, Spool, Spooled, grants::AccessError},
    events::{self, KIND_PUSH},
    publishing::{
        go_live::{GoLiveError, Publication, go_live},
        record::{Ending, UploadRecord},
        room,
    },
    quotas,
};

/// Attempts before the code host's answer about a branch is believed when it differs from the push: the answer may be
/// old, or the next push's webhook on its way.
const SETTLING_TRIES: i32 = 3;
const SETTLING_PAUSE: Duration = Duration::from_secs(1);

/// Attempts in which our app's token may be refused before people's tokens are tried.
const REFUSALS: i32 = 3;

/// What a push waits for while a disk is nearly full.
const NO_DISK: &str = "The server's disk is nearly full; the push is deployed once there is room.";
/// What a push waits for while others take the room for what is received.
const NO_SPOOL: &str = "Too much is being received at once; the push is deployed once there is room.";
/// Pause before a push looks again for room in the spool, which others give back within minutes.
const SPOOL_PAUSE: Duration = Duration::from_secs(10);

/// The outcome of working on a push.
pub(super) enum Outcome {
    /// The deployment is live or failed, and recorded already.
    Done,
    /// There is nothing to deploy: the branch is gone, or was deployed as it is.
    Nothing,
    /// A newer push has come.
    Overtaken,
    /// The program is stopping.
    Stopped,
    /// The code host does not show the pushed commit yet.
    Settling(Duration),
    /// The push cannot be deployed, for this reason.
    Failed(String),
    /// The push is deployed once there is room for it.
    Waiting { reason: &'static str, after: Duration },
    /// The push may be deployed later.
    Retry { error: String, after: Option<Duration> },
}

impl Outcome {
    fn retry(error: impl std::fmt::Display) -> Self {
        Self::Retry { error: error.to_string(), after: None }
    }
}

/// Works on a leased push.
pub(super) async fn deploy(app: &App, claim: &Claim) -> Outcome {
    let target = match app.db.acquire().await {
        Ok(mut db) => repo_deploys::target(&mut db, &claim.project).await,
        Err(error) => Err(error),
    };
    let target = match target {
        Ok(Some(target)) => target,
        Ok(None) => return Outcome::Nothing,
        Err(error) => return Outcome::retry(error),
    };
    match room::has_disk(app).await {
        Ok(true) => {}
        Ok(false) => return Outcome::Waiting { reason: NO_DISK, after: room::FULL_RETRY },
        Err(error) => return Outcome::retry(error),
    }
    let (sha, files) = match fetch(app, claim, &target).await {
        Ok(fetched) => fetched,
        Err(outcome) => return outcome,
    };
    publish(app, claim, &target, &sha, files).await
}

/// Finds the commit to deploy, and fetches it: as our app where it has a key, else in the name of the first person who
/// can.
async fn fetch(app: &App, claim: &Claim, target: &Target) -> Result<(CommitSha, Spooled), Outcome> {
    let Some(host) = app.code_host.repositories() else { return Err(Outcome::Nothing) };
    if let Some(fetched) = fetch_as_app(app, host, claim, target).await? {
        return Ok(fetched);
    }
    let mut refused = None;
    for reader in &target.readers {
        match fetch_as(app, host, reader, claim, target).await {
            Err(Outcome::Failed(reason)) => drop(refused.get_or_insert(reason)),
            settled => return settled,
        }
    }
    Err(Outcome::Failed(refused.unwrap_or_else(|| sign_in_again(target))))
}

/// Fetches with our app's token. None when the app has no key, or cannot see that a person of the link may still read
/// the repository: an installation reaches more than each of those who may use it.
async fn fetch_as_app(
    app: &App,
    host: &dyn Repositories,
    claim: &Claim,
    target: &Target,
) -> Result<Option<(CommitSha, Spooled)>, Outcome> {
    let reading = async {
        let Some(AppToken { token, repo }) = reach_as_app(host, target).await? else { return Ok(None) };
        if !may_any_read(host, &token, &repo, target).await? {
            return Ok(None);
        }
        let sha = head(host, &token, &repo, claim, target).await?;
        let files = host.tarball(&token, &repo, &sha, spool(app, target)).await?;
        Ok(Some((sha, files)))
    };
    match reading.await {
        Ok(fetched) => Ok(fetched),
        Err(FetchError::Outcome(outcome)) => Err(outcome),
        Err(FetchError::Host(error)) if error.is_refusal() => {
            host.refuse_app_token(target.installation, target.repo_id).await;
            // Some servers may not know a new token yet. When it stays refused, a person's token may work.
            if claim.attempts < REFUSALS { Err(Outcome::retry(error)) } else { Ok(None) }
        }
        Err(FetchError::Host(error)) => Err(judge(error, target)),
    }
}

/// Gets our app's token with the repository's present name. The name that came with a cached token may be another
/// repository's by now, even a public one's, so the id is compared every time.
pub(super) async fn reach_as_app(host: &dyn Repositories, target: &Target) -> Result<Option<AppToken>, CodeHostError> {
    let (installation, repo_id) = (target.installation, target.repo_id);
    for is_kept in [true, false] {
        let Some(AppToken { token, repo }) = host.app_token(installation, repo_id).await? else { return Ok(None) };
        match host.find(&token, &repo).await {
            Ok(found) if found.id == repo_id => return Ok(Some(AppToken { token, repo: found.name })),
            Ok(_) | Err(CodeHostError::NotFound { .. }) if is_kept => {
                host.forget_app_token(installation, repo_id).await;
            }
            Ok(_) => break,
            Err(error) => return Err(error),
        }
    }
    Err(CodeHostError::Unreached)
}

async fn may_any_read(
    host: &dyn Repositories,
    token: &SecretString,
    repo: &RepoName,
    target: &Target,
) -> Result<bool, CodeHostError> {
    for Reader { vcs_id, login, .. } in &target.readers {
        let account = Account { vcs_id: vcs_id.clone(), login: login.clone() };
        if host.may_read(token, repo, &account).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A reason for which fetching ended early.
enum FetchError {
    Host(CodeHostError),
    Outcome(Outcome),
}

impl From<CodeHostError> for FetchError {
    fn from(error: CodeHostError) -> Self {
        Self::Host(error)
    }
}

async fn fetch_as(
    app: &App,
    host: &dyn Repositories,
    reader: &Reader,
    claim: &Claim,
    target: &Target,
) -> Result<(CommitSha, Spooled), Outcome> {
    let judge = |error| judge(error, target);
    let token = match app.grants.token(&reader.user).await {
        Ok(token) => token,
        Err(AccessError::SignInAgain) => return Err(Outcome::Failed(sign_in_again(target))),
        Err(AccessError::Host(error)) => return Err(judge(error)),
        Err(error) => return Err(Outcome::retry(error)),
    };
    // Another repository may have the name by now.
    let repository = host.find(&token, &target.repo).await.map_err(judge)?;
    if repository.id != target.repo_id {
        return Err(Outcome::Failed(unreachable(target)));
    }
    let sha = head(host, &token, &target.repo, claim, target).await.map_err(|stop| match stop {
        FetchError::Host(error) => judge(error),
        FetchError::Outcome(outcome) => outcome,
    })?;
    let files = host.tarball(&token, &repository.name, &sha, spool(app, target)).await.map_err(judge)?;
    Ok((sha, files))
}

/// The room for a commit's files: they count like an upload of the project's owner.
fn spool(app: &App, target: &Target) -> Spool {
    Spool { folder: app.spool_folder(), held: app.bounds.spool(&target.permit.owner) }
}

/// Finds the commit that the branch points at now.
async fn head(
    host: &dyn Repositories,
    token: &SecretString,
    repo: &RepoName,
    claim: &Claim,
    target: &Target,
) -> Result<CommitSha, FetchError> {
    match host.head(token, repo, &target.branch).await? {
        Some(head) if head == claim.sha || claim.attempts >= SETTLING_TRIES => {
            if target.last_sha.as_ref() == Some(&head) { Err(FetchError::Outcome(Outcome::Nothing)) } else { Ok(head) }
        }
        None if claim.attempts >= SETTLING_TRIES => Err(FetchError::Outcome(Outcome::Nothing)),
        _ => Err(FetchError::Outcome(Outcome::Settling(SETTLING_PAUSE))),
    }
}

async fn publish(app: &App, claim: &Claim, target: &Target, sha: &CommitSha, files: Spooled) -> Outcome {
    // What is held of the spool is given back at the end of this function: by then the file is gone.
    let Spooled { file, held: _held } = files;
    let upload = match begin(app, claim, target, sha).await {
        Ok(upload) => upload,
        Err(UploadError::Gone) => return Outcome::Nothing,
        Err(error) => return Outcome::retry(error),
    };
    let publication = Publication {
        actor: actor(claim),
        project: &target.permit,
        file,
        root: Root::Repository(target.directory.clone()),
        push: Some((claim, sha)),
    };
    let id = upload.id().clone();
    match go_live(app, &id, publication).await {
        Ok(live) => {
            upload.ended(());
            let propagation = live.propagation;
            tracing::info!(project = %claim.project, %sha, deployment = %id, ?propagation, "a push is live");
            Outcome::Done
        }
        // Dropping the record's guard deletes the record.
        Err(GoLiveError::Pack(WriteError::Archive(error))) => {
            fail(app, claim, target, sha, upload, &error.to_string()).await
        }
        Err(GoLiveError::Quota(reached)) => fail(app, claim, target, sha, upload, &quotas::sentence(&reached)).await,
        Err(GoLiveError::Pack(WriteError::Store(error))) => Outcome::retry(error),
        Err(GoLiveError::Busy(error)) => Outcome::retry(error.message()),
        Err(GoLiveError::Db(error)) => Outcome::retry(error),
        Err(GoLiveError::Gone | GoLiveError::Overtaken) => Outcome::Overtaken,
    }
}

async fn begin(app: &App, claim: &Claim, target: &Target, sha: &CommitSha) -> Result<UploadRecord, UploadError> {
    let id = DeploymentId::new(app.clock.now());
    let mut db = app.db.acquire().await?;
    deployments::begin(&mut db, &target.permit, &id, &origin(claim, sha), app.clock.now()).await?;
    Ok(UploadRecord::new(app, id, Ending::Discard))
}

/// Records a deployment whose archive is at fault as failed, with the reason.
async fn fail(
    app: &App,
    claim: &Claim,
    target: &Target,
    sha: &CommitSha,
    upload: UploadRecord,
    reason: &str,
) -> Outcome {
    let noted = async {
        let mut change = app.change(actor(claim)).await?;
        if !repo_deploys::finish(&mut change, claim, sha).await? {
            return Ok(false);
        }
        deployments::fail(&mut *change, upload.id(), reason).await?;
        tell_failed(&mut change, claim, target, sha, upload.id(), reason);
        change.commit().await?;
        Ok::<_, sqlx::Error>(true)
    };
    match noted.await {
        Ok(true) => upload.ended(Outcome::Done),
        Ok(false) => Outcome::Overtaken,
        Err(error) => Outcome::retry(error),
    }
}

/// Records a push that could not be deployed as a failed deployment, with the reason.
pub(super) async fn record_failure(app: &App, claim: &Claim, sha: &CommitSha, reason: &str) -> Result<(), sqlx::Error> {
    let mut change = app.change(actor(claim)).await?;
    let Some(target) = repo_deploys::target(&mut change, &claim.project).await? else {
        repo_deploys::drop_claim(&mut change, claim).await?;
        return change.commit().await.map(drop);
    };
    if !repo_deploys::give_up(&mut change, claim).await? {
        drop(change);
        return repo_deploys::give_back(&app.db, claim).await;
    }
    let now = change.now();
    let id = DeploymentId::new(now);
    match deployments::begin(&mut change, &target.permit, &id, &origin(claim, sha), now).await {
        Ok(()) => {
            deployments::fail(&mut *change, &id, reason).await?;
            tell_failed(&mut change, claim, &target, sha, &id, reason);
        }
        // Nothing is promoted here, so no plan is asked.
        Err(UploadError::Gone | UploadError::Quota(_)) => {}
        Err(UploadError::Db(error)) => return Err(error),
    }
    change.commit().await.map(drop)
}

/// Records that a push waits for room until `at`. The project's people are told when it begins to.
pub(super) async fn record_wait(app: &App, claim: &Claim, at: Timestamp, reason: &str) -> Result<(), sqlx::Error> {
    let mut change = app.change(actor(claim)).await?;
    let begins = repo_deploys::wait(&mut *change, claim, at, reason).await? && !claim.has_waited;
    if begins && let Some(target) = repo_deploys::target(&mut change, &claim.project).await? {
        tell(&mut change, claim, &target, &claim.sha, &[("state", "waiting"), ("message", reason)]);
    }
    change.commit().await.map(drop)
}

/// Tells the project's people that a push could not be deployed.
fn tell_failed(
    change: &mut Change<'_>,
    claim: &Claim,
    target: &Target,
    sha: &CommitSha,
    deployment: &DeploymentId,
    reason: &str,
) {
    tell(change, claim, target, sha, &[("state", "failed"), ("deployment", deployment.as_str()), ("message", reason)]);
}

/// Tells the project's people of a push.
fn tell(change: &mut Change<'_>, claim: &Claim, target: &Target, sha: &CommitSha, detail: &[(&str, &str)]) {
    let (by, now) = (Some(claim.pusher.as_str()), change.now());
    let mut event = events::of_project(KIND_PUSH, &target.permit, Some(sha.as_str()), by, now);
    for (key, value) in detail {
        event.detail.insert((*key).to_owned(), (*value).into());
    }
    change.tell(event);
}

fn actor(claim: &Claim) -> Actor<'_> {
    Actor::CodeHost(Some(&claim.pusher))
}

fn origin(claim: &Claim, sha: &CommitSha) -> Origin {
    Origin { cli_version: None, git_sha: Some(sha.to_string()), created_by: Some(claim.pusher.clone()) }
}

/// Maps an error of the code host to the push's outcome.
fn judge(error: CodeHostError, target: &Target) -> Outcome {
    match error {
        CodeHostError::NoRoom => Outcome::Waiting { reason: NO_SPOOL, after: SPOOL_PAUSE },
        CodeHostError::RateLimited { after } => Outcome::Retry { error: error.to_string(), after: Some(after) },
        error if error.is_transient() => Outcome::retry(error),
        CodeHostError::Unauthorized { .. } => Outcome::Failed(sign_in_again(target)),
        CodeHostError::TooLarge { .. } => {
            let most = size(REPO_TARBALL_BYTES);
            Outcome::Failed(format!("The repository {} is larger than {most} at this commit.", target.repo))
        }
        CodeHostError::Suspended => Outcome::Failed(format!(
            "The installation through which {} is read is suspended; lift the suspension at the code host and push again.",
            target.repo
        )),
        CodeHostError::Unreached => Outcome::Failed(format!(
            "The installation does not reach {}, or may not read its contents; grant it both at the code host and push again.",
            target.repo
        )),
        _ => Outcome::Failed(unreachable(target)),
    }
}

fn unreachable(target: &Target) -> String {
    format!(
        "The repository {} is not there, or the installation does not reach it any more; link it anew.",
        target.repo
    )
}

fn sign_in_again(target: &Target) -> String {
    format!("The code host does not let us read {} any more: who linked it has to sign in again.", target.repo)
}
