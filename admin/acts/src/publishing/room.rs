//! Checks the room for an upload: on the disks, and in the plan of the account that it counts against. This happens
//! before the body is read; the plan is checked again in the transaction that uses it. A repeated request with an
//! `Idempotency-Key` has its plan checked only there.

use std::time::Duration;

use admin_http::error::{ApiError, Code};
use app::{App, middleware::idempotency::AttemptKind};
use db::{
    billing::plan,
    permits::{Deploy, ProjectPermit},
    quotas::{self, QuotaError},
};
use domain::Account;
use packs::{DiskSpace, StoreError};

/// The `Retry-After` while a disk is nearly full: somebody must make room first.
pub const FULL_RETRY: Duration = Duration::from_mins(1);

/// Checks that there is room for another deployment of `project`. For a repeated upload the plan is not checked,
/// because the first attempt may have used it up.
pub async fn check_deployment(
    app: &App,
    project: &ProjectPermit<Deploy>,
    attempt: AttemptKind,
) -> Result<(), ApiError> {
    check_disks(app).await?;
    if attempt == AttemptKind::Repeated {
        return Ok(());
    }
    Ok(db::in_time(check_plan(app, project)).await?)
}

pub(crate) async fn check_plan(app: &App, project: &ProjectPermit<Deploy>) -> Result<(), QuotaError> {
    let allowance = app.allowance(&project.owner).await?;
    let mut db = app.db.acquire().await?;
    quotas::stored_bytes(&mut *db, &project.owner, 1, &allowance).await?;
    quotas::deleted_bytes(&mut db, &project.owner, &allowance, app.clock.now()).await?;
    let kept = plan::kept_deployments(&mut db, app.plans(), &project.owner).await?;
    quotas::deployments(&mut *db, &project.id, kept, &allowance).await
}

/// Checks that there is room for another share of `account`, with the same exception for a repeated upload.
pub async fn check_share(app: &App, account: &Account, attempt: AttemptKind) -> Result<(), ApiError> {
    check_disks(app).await?;
    if attempt == AttemptKind::Repeated {
        return Ok(());
    }
    db::in_time(async {
        let allowance = app.allowance(account).await?;
        if let Some(user) = account.as_user() {
            quotas::shares(&app.db, user, &allowance, app.clock.now()).await?;
        }
        quotas::stored_bytes(&app.db, account, 1, &allowance).await?;
        let mut db = app.db.acquire().await?;
        Ok(quotas::deleted_bytes(&mut db, account, &allowance, app.clock.now()).await?)
    })
    .await
}

/// Checks that the disks of the spool and of the store are not nearly full: a full disk stops all users, and a database
/// that shares it.
async fn check_disks(app: &App) -> Result<(), ApiError> {
    spool_space(app).await.map_err(super::receive::spool_error)?;
    if has_disk(app).await.map_err(super::receive::store_error)? {
        return Ok(());
    }
    let message = "The server's disk is nearly full, so uploads are refused for now; please try again later.";
    Err(ApiError::new(Code::Busy, message).retry_after(FULL_RETRY).retry_elsewhere())
}

/// Returns the space on the spool's disk. An error names the folder, to tell it from the store.
async fn spool_space(app: &App) -> std::io::Result<DiskSpace> {
    let folder = app.spool_folder();
    tokio::task::spawn_blocking(move || {
        DiskSpace::for_folder(&folder).map_err(|error| {
            let said = format!("the folder of uploads {} (admin.spool): {error}", folder.display());
            std::io::Error::new(error.kind(), said)
        })
    })
    .await
    .map_err(std::io::Error::other)?
}

/// Returns whether the disks of the spool and of the store have enough free space for any publication.
pub async fn has_disk(app: &App) -> Result<bool, StoreError> {
    let spaces = [spool_space(app).await?, app.store.space().await?];
    let least = app.config.admin.free_disk_percent;
    let is_full = spaces.iter().any(|space| space.is_below(least));
    if is_full {
        app.bounds.fullness.disk_is_full(&spaces, least);
    } else {
        app.bounds.fullness.disk_has_room();
    }
    Ok(!is_full)
}
