//! Publishes a share: the pack is written, then one change creates the project, its deployment and its address. Rows
//! exist only after that, so a failure leaves none; the removal of the pack is queued first, and the change cancels it.

use std::fs::File;

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
use crate::{
    app::App,
    auth::{
        Caller, CliUser,
        second_look::{self, AccessSubject},
    },
    edges::Propagation,
    error::ApiError,
    middleware::idempotency::AttemptKind,
};

/// The attempts to find a free name. There are many millions of combinations of three words: repeated collisions mean
/// that something else is wrong.
const NAME_ATTEMPTS: usize = 10;
/// The time after which the pack of an unfinished share is removed: longer than any publication takes.
const ABANDONED_AFTER: std::time::Duration = std::time::Duration::from_hours(1);

pub(crate) struct ShareOrder {
    pub(crate) caller: CliUser,
    pub(crate) origin: UploadOrigin,
    pub(crate) days: u32,
    pub(crate) format: UploadFormat,
    pub(crate) password: Option<SitePassword>,
}

pub(crate) struct PublishedShare {
    pub(crate) name: ShareName,
    pub(crate) deployment: DeploymentId,
    pub(crate) expires_at: Timestamp,
    pub(crate) warnings: Vec<String>,
    pub(crate) propagation: Propagation,
}

pub(crate) async fn publish(app: &App, mut order: ShareOrder, file: File) -> Result<PublishedShare, ApiError> {
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
    let pack = app.store.write(&deployment, file, order.format, app.clock.now()).await?;
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
