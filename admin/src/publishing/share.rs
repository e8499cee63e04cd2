//! Publishing a share: its pack is written, then one change makes the project, its deployment and its address. Before that
//! there is no row of it, so a failure leaves none; the removal of its pack is queued, and the change takes it back.

use std::fs::File;

use db::{
    audit::Entry,
    projects::{
        deployments::{Content, Origin},
        shares::{self, CreateError, NewShare},
    },
    upkeep::pack_removals,
};
use domain::{DeploymentId, PayingAccount, ShareName, Timestamp, access::SitePassword, audit::Action};
use packs::Format;

use super::room;
use crate::{
    app::App,
    auth::{
        Caller, CliUser,
        second_look::{self, Subject},
    },
    edges::Propagation,
    error::ApiError,
    middleware::idempotency::Attempt,
};

/// Names tried in a row. Three words are one of many millions: so many collisions mean that something else is wrong.
const NAME_ATTEMPTS: usize = 10;
/// Time after which a pack whose share was not made is removed: longer than any publication takes.
const ABANDONED_AFTER: std::time::Duration = std::time::Duration::from_hours(1);

/// A share that is to be published.
pub(crate) struct ShareOrder {
    /// The person whose share it is.
    pub(crate) caller: CliUser,
    /// The origin of the upload.
    pub(crate) origin: Origin,
    /// The days for which the share lives.
    pub(crate) days: u32,
    /// The form of the archive.
    pub(crate) format: Format,
    /// The password that visitors are asked for, if any.
    pub(crate) password: Option<SitePassword>,
}

/// A share that was published.
pub(crate) struct PublishedShare {
    /// Its address of three words.
    pub(crate) name: ShareName,
    /// The deployment that it serves.
    pub(crate) deployment: DeploymentId,
    /// The end of its life.
    pub(crate) expires_at: Timestamp,
    /// What of the upload was left out, and why.
    pub(crate) warnings: Vec<String>,
    /// The progress of the edges with it.
    pub(crate) propagation: Propagation,
}

/// Publishes the archive in `file` as a share.
pub(crate) async fn publish(app: &App, mut order: ShareOrder, file: File) -> Result<PublishedShare, ApiError> {
    let payer = PayingAccount::from(order.caller.user.id.clone());
    let password_hash = match order.password.take() {
        Some(password) => Some(app.bounds.hash(&payer, password).await?),
        None => None,
    };
    let turn = app.bounds.publish(&payer, file.metadata().map_or(u64::MAX, |file| file.len())).await?;
    // While it was received and waited, others may have used the plan up: no pack is written for nothing.
    room::for_share(app, payer.account(), Attempt::First).await?;
    let deployment = DeploymentId::new(app.clock.now());
    // A program that dies from here on leaves a pack that the database knows of.
    let now = app.clock.now();
    let queued = async {
        let mut conn = app.db.acquire().await?;
        pack_removals::queue_unmade(&mut conn, &deployment, &order.caller.user.id, now, now + ABANDONED_AFTER).await
    };
    db::in_time(queued).await?;
    let pack = app.store.write(&deployment, file, order.format, app.clock.now()).await?;
    drop(turn);
    let content = Content { files: pack.files, bytes: pack.bytes, stored_bytes: pack.stored_bytes };
    db::in_time(pack_removals::note_bytes(&app.db, &deployment, content)).await?;
    let expires_at = app.clock.now() + std::time::Duration::from_hours(24) * order.days;
    // When this fails the pack stays, because the commit may have succeeded. If it has not, the pack's removal is queued.
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
            Err(CreateError::NameTaken) => continue,
            Err(CreateError::Quota(reached)) => {
                drop(change);
                discard(app, &deployment).await;
                return Err(reached.into());
            }
            Err(CreateError::Suspended(suspended)) => {
                drop(change);
                discard(app, &deployment).await;
                return Err(suspended.into());
            }
            Err(CreateError::Db(error)) => return Err(error.into()),
        };
        let uploader = Caller::User(order.caller.clone());
        if let Err(refusal) = db::in_time(second_look::confirm(&mut change, &uploader, Subject::Own, now)).await {
            drop(change);
            discard(app, &deployment).await;
            return Err(refusal);
        }
        if !db::in_time(pack_removals::cancel(&mut change, &deployment)).await? {
            return Err(ApiError::internal(anyhow::anyhow!(
                "the pack of {deployment} was removed before it was published"
            )));
        }
        let entry =
            Entry::of_personal(Action::ShareCreate, order.caller.user.id.clone(), &created.id, &created.project);
        change.audit(entry.with("deployment", deployment.as_str()));
        change.touch(created.touched);
        let propagation = db::in_time(change.commit()).await?;
        return Ok(PublishedShare { name, deployment, expires_at, warnings: pack.warnings, propagation });
    }
    Err(ApiError::internal(anyhow::anyhow!("no free name for a share in {NAME_ATTEMPTS} attempts")))
}

/// Removes the pack of a share that was refused, and what is queued of it.
async fn discard(app: &App, deployment: &DeploymentId) {
    let discarded = async {
        app.store.remove(deployment).await?;
        pack_removals::done(&app.db, deployment, None).await?;
        anyhow::Ok(())
    };
    if let Err(error) = discarded.await {
        tracing::warn!(error = format!("{error:#}"), %deployment, "the pack is left to the queue of removals");
    }
}
