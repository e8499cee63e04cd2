//! Publishes a share: the pack is written, then one change creates the project, its deployment and its address. Rows
//! exist only after that, so a failure leaves none; the removal of the pack is queued first, and the change cancels it.

use std::fs::File;

use admin_http::error::ApiError;
use app::{
    App,
    auth::{
        Caller, CliUser,
        second_look::{self, AccessSubject},
    },
    edges::Propagation,
    middleware::idempotency::AttemptKind,
};
use db::{
    audit::NewAuditEntry,
    projects::{
        deployments::{UploadContent, UploadOrigin},
        shares::{self, CreateShareError, NewShare},
    },
    upkeep::pack_removals,
};
use domain::{DeploymentId, ShareName, Timestamp, access::SitePassword, audit::Action};
use packs::UploadFormat;

use super::room;

/// The attempts to find a free name. There are many millions of combinations of three words: repeated collisions mean
/// that something else is wrong.
const NAME_ATTEMPTS: usize = 10;
/// The time after which the pack of an unfinished share is removed: longer than any publication takes.
const ABANDONED_AFTER: std::time::Duration = std::time::Duration::from_hours(1);

/// A request to publish a share. The archive is passed to [`publish`] separately.
pub struct ShareOrder {
    /// The user who publishes it, and whose account pays for it.
    pub caller: CliUser,
    /// The client, the commit and the uploader, as recorded with the deployment.
    pub origin: UploadOrigin,
    /// The number of days after which the share expires, counted from when its pack has been written.
    pub days: u32,
    /// The archive's format.
    pub format: UploadFormat,
    /// The password that visitors are asked for, if the share is to be protected.
    pub password: Option<SitePassword>,
}

/// A share that has been created.
pub struct PublishedShare {
    /// The random name of three words, which determines its address.
    pub name: ShareName,
    /// The id of the share's only deployment.
    pub deployment: DeploymentId,
    /// The time at which the share expires.
    pub expires_at: Timestamp,
    /// Which parts of the upload were left out, and why.
    pub warnings: Vec<String>,
    /// How many edges have applied it.
    pub propagation: Propagation,
}

/// Publishes the archive `file` as a new share under a random name. Fails if the plan has no room, the user is
/// suspended or may no longer publish, the archive is faulty, the server is busy, or the store or database fails.
pub async fn publish(app: &App, mut order: ShareOrder, file: File) -> Result<PublishedShare, ApiError> {
    let payer = order.caller.paying_account();
    let password_hash = match order.password.take() {
        Some(password) => Some(app.bounds.hash(&payer, password).await?),
        None => None,
    };
    let turn = app.bounds.publish(&payer, file.metadata().map_or(u64::MAX, |file| file.len())).await?;
    // Others may have used up the plan while this was received and waited: do not write a pack in vain.
    room::check_share(app, payer.account(), AttemptKind::First).await?;
    let deployment = DeploymentId::new(app.clock.now());
    // If the program dies from here on, the database knows of the pack.
    let now = app.clock.now();
    let queued = async {
        let mut conn = app.db.acquire().await?;
        pack_removals::queue_uncreated(&mut conn, &deployment, &order.caller.user.id, now, now + ABANDONED_AFTER).await
    };
    db::in_time(queued).await?;
    let written = app.store.write(&deployment, file, order.format, app.clock.now()).await;
    let pack = written.map_err(super::receive::write_error)?;
    drop(turn);
    let content = UploadContent { files: pack.files, bytes: pack.bytes, stored_bytes: pack.stored_bytes };
    db::in_time(pack_removals::record_bytes(&app.db, &deployment, content)).await?;
    let expires_at = app.clock.now() + std::time::Duration::from_hours(24) * order.days;
    // If this fails, the pack stays, because the commit may have succeeded. If it has not, the removal of the pack is
    // queued.
    for _ in 0..NAME_ATTEMPTS {
        let name = ShareName::random();
        let new = NewShare {
            user: &order.caller.user.id,
            name: &name,
            deployment: &deployment,
            origin: &order.origin,
            content,
            password_hash: password_hash.as_deref(),
            expires_at,
        };
        let mut change = db::in_time(app.change(order.caller.actor())).await?;
        let now = change.now();
        let created = match db::in_time(shares::create(&mut change, new, app.plans(), now)).await {
            Ok(created) => created,
            Err(CreateShareError::NameTaken) => continue,
            Err(CreateShareError::Quota(reached)) => {
                drop(change);
                discard(app, &deployment).await;
                return Err(reached.into());
            }
            Err(CreateShareError::Suspended(suspended)) => {
                drop(change);
                discard(app, &deployment).await;
                return Err(suspended.into());
            }
            Err(CreateShareError::Db(error)) => return Err(error.into()),
        };
        let uploader = Caller::User(order.caller.clone());
        if let Err(refusal) = db::in_time(second_look::recheck(&mut change, &uploader, AccessSubject::Own, now)).await {
            drop(change);
            discard(app, &deployment).await;
            return Err(refusal);
        }
        if !db::in_time(pack_removals::cancel(&mut change, &deployment)).await? {
            return Err(ApiError::internal(anyhow::anyhow!(
                "the pack of {deployment} was removed before it was published"
            )));
        }
        let entry = NewAuditEntry::for_personal_project(
            Action::ShareCreate,
            order.caller.user.id.clone(),
            &created.id,
            &created.project,
        );
        change.audit(entry.with("deployment", deployment.as_str()));
        change.touch(created.touched);
        let propagation = db::in_time(change.commit()).await?;
        return Ok(PublishedShare { name, deployment, expires_at, warnings: pack.warnings, propagation });
    }
    Err(ApiError::internal(anyhow::anyhow!("no free name for a share in {NAME_ATTEMPTS} attempts")))
}

async fn discard(app: &App, deployment: &DeploymentId) {
    let discarded = async {
        app.store.remove(deployment).await?;
        pack_removals::mark_removed(&app.db, deployment, None).await?;
        anyhow::Ok(())
    };
    if let Err(error) = discarded.await {
        tracing::warn!(error = format!("{error:#}"), %deployment, "the pack is left to the queue of removals");
    }
}
