//! Fetches the commit of a push: the one that its branch points at now.

use std::time::Duration;

use app::App;
use code_host::{AppToken, CodeHostError, HostAccount, Repositories, SpoolTarget, SpooledTarball, grants::AccessError};
use db::code_host::repo_deploys::{DeployTarget, PushClaim, RepoReader};
use domain::{
    limits::REPO_TARBALL_BYTES,
    repo::{CommitSha, RepoName},
    size,
};
use secrecy::SecretString;

use super::deploy::PushOutcome;

/// The attempts before the code host's response about a branch is accepted although it differs from the push: it may be
/// stale, or the next push's webhook may be on its way.
const SETTLING_TRIES: i32 = 3;
const SETTLING_PAUSE: Duration = Duration::from_secs(1);

/// The attempts in which our app's token may be refused before people's tokens are tried.
const REFUSALS: i32 = 3;

const NO_SPOOL: &str = "Too much is being received at once; the push is deployed once there is room.";
/// The pause before a push tries the full spool again. Others release their room within minutes.
const SPOOL_PAUSE: Duration = Duration::from_secs(10);

/// Fetches the commit to deploy: as our app if it has a key, else in the name of the first person who can.
pub(super) async fn fetch(
    app: &App,
    claim: &PushClaim,
    target: &DeployTarget,
) -> Result<(CommitSha, SpooledTarball), PushOutcome> {
    let Some(host) = app.code_host.repositories() else { return Err(PushOutcome::Nothing) };
    if let Some(fetched) = fetch_as_app(app, host, claim, target).await? {
        return Ok(fetched);
    }
    let mut refused = None;
    for reader in &target.readers {
        match fetch_as(app, host, reader, claim, target).await {
            Err(PushOutcome::Failed(reason)) => drop(refused.get_or_insert(reason)),
            settled => return settled,
        }
    }
    Err(PushOutcome::Failed(refused.unwrap_or_else(|| sign_in_again(target))))
}

/// Fetches with our app's token. Returns `None` if the app has no key, or cannot verify that a person of the link may
/// still read the repository: an installation reaches more than each of its users does.
async fn fetch_as_app(
    app: &App,
    host: &dyn Repositories,
    claim: &PushClaim,
    target: &DeployTarget,
) -> Result<Option<(CommitSha, SpooledTarball)>, PushOutcome> {
    let reading = async {
        let Some(AppToken { token, repo }) = verified_app_token(host, target).await? else { return Ok(None) };
        if !can_any_read(host, &token, &repo, target).await? {
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
            // Some servers may not know a new token yet. If it stays refused, a person's token may work.
            if claim.attempts < REFUSALS { Err(PushOutcome::retry(error)) } else { Ok(None) }
        }
        Err(FetchError::Host(error)) => Err(push_outcome(error, target)),
    }
}

/// Returns our app's token with the repository's present name. The name cached with a token may belong to another
/// repository by now, even a public one, so the id is compared every time.
pub(super) async fn verified_app_token(
    host: &dyn Repositories,
    target: &DeployTarget,
) -> Result<Option<AppToken>, CodeHostError> {
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

async fn can_any_read(
    host: &dyn Repositories,
    token: &SecretString,
    repo: &RepoName,
    target: &DeployTarget,
) -> Result<bool, CodeHostError> {
    for RepoReader { vcs_id, login, .. } in &target.readers {
        let account = HostAccount { vcs_id: vcs_id.clone(), login: login.clone() };
        if host.may_read(token, repo, &account).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

enum FetchError {
    Host(CodeHostError),
    Outcome(PushOutcome),
}

impl From<CodeHostError> for FetchError {
    fn from(error: CodeHostError) -> Self {
        Self::Host(error)
    }
}

async fn fetch_as(
    app: &App,
    host: &dyn Repositories,
    reader: &RepoReader,
    claim: &PushClaim,
    target: &DeployTarget,
) -> Result<(CommitSha, SpooledTarball), PushOutcome> {
    let judge = |error| push_outcome(error, target);
    let token = match app.grants.token(&reader.user).await {
        Ok(token) => token,
        Err(AccessError::SignInAgain) => return Err(PushOutcome::Failed(sign_in_again(target))),
        Err(AccessError::Host(error)) => return Err(judge(error)),
        Err(error) => return Err(PushOutcome::retry(error)),
    };
    // Another repository may have the name by now.
    let repository = host.find(&token, &target.repo).await.map_err(judge)?;
    if repository.id != target.repo_id {
        return Err(PushOutcome::Failed(unreachable(target)));
    }
    let sha = head(host, &token, &target.repo, claim, target).await.map_err(|stop| match stop {
        FetchError::Host(error) => judge(error),
        FetchError::Outcome(outcome) => outcome,
    })?;
    let files = host.tarball(&token, &repository.name, &sha, spool(app, target)).await.map_err(judge)?;
    Ok((sha, files))
}

/// Returns the spool for a commit's files, which count like an upload of the project's owner.
fn spool(app: &App, target: &DeployTarget) -> SpoolTarget {
    SpoolTarget { folder: app.spool_folder(), held: app.bounds.spool(&target.permit.payer()) }
}

async fn head(
    host: &dyn Repositories,
    token: &SecretString,
    repo: &RepoName,
    claim: &PushClaim,
    target: &DeployTarget,
) -> Result<CommitSha, FetchError> {
    match host.head(token, repo, &target.branch).await? {
        Some(head) if head == claim.sha || claim.attempts >= SETTLING_TRIES => {
            if target.last_sha.as_ref() == Some(&head) {
                Err(FetchError::Outcome(PushOutcome::Nothing))
            } else {
                Ok(head)
            }
        }
        None if claim.attempts >= SETTLING_TRIES => Err(FetchError::Outcome(PushOutcome::Nothing)),
        _ => Err(FetchError::Outcome(PushOutcome::Settling(SETTLING_PAUSE))),
    }
}

fn push_outcome(error: CodeHostError, target: &DeployTarget) -> PushOutcome {
    match error {
        CodeHostError::NoRoom => PushOutcome::Waiting { reason: NO_SPOOL, after: SPOOL_PAUSE },
        CodeHostError::RateLimited { after } => PushOutcome::Retry { error: error.to_string(), after: Some(after) },
        error if error.is_transient() => PushOutcome::retry(error),
        CodeHostError::Unauthorized { .. } => PushOutcome::Failed(sign_in_again(target)),
        CodeHostError::TooLarge { .. } => {
            let most = size(REPO_TARBALL_BYTES);
            PushOutcome::Failed(format!("The repository {} is larger than {most} at this commit.", target.repo))
        }
        CodeHostError::Suspended => PushOutcome::Failed(format!(
            "The installation through which {} is read is suspended; lift the suspension at the code host and push again.",
            target.repo
        )),
        CodeHostError::Unreached => PushOutcome::Failed(format!(
            "The installation does not reach {}, or may not read its contents; grant it both at the code host and push again.",
            target.repo
        )),
        _ => PushOutcome::Failed(unreachable(target)),
    }
}

fn unreachable(target: &DeployTarget) -> String {
    format!(
        "The repository {} is not there, or the installation does not reach it any more; link it anew.",
        target.repo
    )
}

fn sign_in_again(target: &DeployTarget) -> String {
    format!("The code host does not let us read {} any more: who linked it has to sign in again.", target.repo)
}
