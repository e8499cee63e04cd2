//! Fetches the commit of a push: the one that its branch points at now.

use std::time::Duration;

use db::code_host::repo_deploys::{Claim, Reader, Target};
use domain::{
    limits::REPO_TARBALL_BYTES,
    repo::{CommitSha, RepoName},
    size,
};
use secrecy::SecretString;

use super::deploy::Outcome;
use crate::{
    app::App,
    codehost::{Account, AppToken, CodeHostError, Repositories, Spool, Spooled, grants::AccessError},
};

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
pub(super) async fn fetch(app: &App, claim: &Claim, target: &Target) -> Result<(CommitSha, Spooled), Outcome> {
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

/// Fetches with our app's token. Returns `None` if the app has no key, or cannot verify that a person of the link may
/// still read the repository: an installation reaches more than each of its users does.
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
            // Some servers may not know a new token yet. If it stays refused, a person's token may work.
            if claim.attempts < REFUSALS { Err(Outcome::retry(error)) } else { Ok(None) }
        }
        Err(FetchError::Host(error)) => Err(judge(error, target)),
    }
}

/// Returns our app's token with the repository's present name. The name cached with a token may belong to another
/// repository by now, even a public one, so the id is compared every time.
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

/// Returns the spool for a commit's files, which count like an upload of the project's owner.
fn spool(app: &App, target: &Target) -> Spool {
    Spool { folder: app.spool_folder(), held: app.bounds.spool(&target.permit.payer()) }
}

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
