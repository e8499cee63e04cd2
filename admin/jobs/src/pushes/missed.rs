//! Finds pushes whose webhook was lost. The code host sends a webhook only once, even if it fails, so this job polls
//! the head of each linked branch. A commit without a webhook is queued like one with a webhook.

use std::time::Duration;

use app::App;
use code_host::{AppToken, CodeHostError, Repositories, grants::AccessError};
use db::code_host::{
    repo_deploys::{self, DeployTarget},
    repo_heads::{self, DueCheck},
};
use domain::repo::{CommitSha, UNNAMED_PUSHER};
use futures_util::{StreamExt as _, stream};

use super::fetch::verified_app_token;
use crate::{BatchOutcome, Job};

/// The interval between two checks of a linked branch's head.
pub const CHECK_EVERY: Duration = Duration::from_mins(5);
const LINKS: i64 = 50;
/// The links checked concurrently. The code host wants few concurrent calls.
const AT_A_TIME: usize = 4;

/// Checks the heads of linked branches that are due, and queues commits whose webhook was lost.
pub struct FindMissedPushes;

impl Job for FindMissedPushes {
    const NAME: &'static str = "find missed pushes";
    const EVERY: Duration = Duration::from_secs(3);

    async fn run(&self, app: &App) -> anyhow::Result<BatchOutcome> {
        let Some(host) = app.code_host.repositories() else { return Ok(BatchOutcome::new(0, LINKS)) };
        let now = app.clock.now();
        let due = repo_heads::take_due(&app.db, now, now + CHECK_EVERY, LINKS).await?;
        let taken = due.len();
        let checks = stream::iter(due).map(async |link| check(app, host, &link).await).buffer_unordered(AT_A_TIME);
        let found = checks.filter(|is_found| std::future::ready(*is_found)).count().await;
        Ok(BatchOutcome { full: BatchOutcome::new(taken, LINKS).full, ..BatchOutcome::new(found, LINKS) })
    }
}

async fn check(app: &App, host: &dyn Repositories, link: &DueCheck) -> bool {
    let project = &link.project;
    match try_check(app, host, link).await {
        Ok(is_found) => is_found,
        Err(AccessError::Host(CodeHostError::RateLimited { after })) => {
            tracing::warn!(%project, ?after, "the code host limits how often it is asked for missed pushes");
            if let Err(error) = repo_heads::postpone(&app.db, project, app.clock.now() + after).await {
                tracing::warn!(%error, "the pause that the code host wants could not be recorded");
            }
            false
        }
        // A broken link shows at the next push; it is polled meanwhile.
        Err(error) => {
            tracing::debug!(%error, %project, "the code host does not say what a linked branch points at");
            false
        }
    }
}

async fn try_check(app: &App, host: &dyn Repositories, link: &DueCheck) -> Result<bool, AccessError> {
    let mut conn = app.db.acquire().await?;
    let target = repo_deploys::find_target(&mut conn, &link.project).await?;
    // Do not hold the connection while waiting for the code host.
    drop(conn);
    let Some(target) = target else { return Ok(false) };
    // A deleted branch deploys nothing, and its known head is kept.
    let Some(head) = head(app, host, &target).await? else { return Ok(false) };
    let Some(known) = &link.known else {
        repo_heads::record_first(&app.db, &link.project, &head).await?;
        return Ok(false);
    };
    if *known == head {
        return Ok(false);
    }
    let mut conn = app.db.acquire().await?;
    let is_queued = repo_heads::queue_missed(&mut conn, link, &head, UNNAMED_PUSHER, app.clock.now()).await?;
    if is_queued {
        tracing::info!(project = %link.project, sha = %head, "a push was missed");
    }
    Ok(is_queued)
}

/// Returns the commit that the branch points at: read as our app if it has a key, else in the name of the first person
/// who can.
async fn head(app: &App, host: &dyn Repositories, target: &DeployTarget) -> Result<Option<CommitSha>, AccessError> {
    if let Some(AppToken { token, repo }) = verified_app_token(host, target).await? {
        return Ok(host.head(&token, &repo, &target.branch).await?);
    }
    let mut refused = AccessError::SignInAgain;
    for reader in &target.readers {
        let reading = async {
            let token = app.grants.token(&reader.user).await?;
            // Another repository may have the name by now.
            let repository = host.find(&token, &target.repo).await?;
            if repository.id != target.repo_id {
                return Err(CodeHostError::Unreached.into());
            }
            Ok(host.head(&token, &repository.name, &target.branch).await?)
        };
        match reading.await {
            Err(error @ (AccessError::SignInAgain | AccessError::Host(CodeHostError::Unauthorized { .. }))) => {
                refused = error;
            }
            settled => return settled,
        }
    }
    Err(refused)
}
