//! The record of a deployment that is being uploaded. It never stays `uploading`, however the upload ends.

use std::mem;

use admin_http::error::ApiError;
use app::App;
use db::projects::deployments;
use domain::DeploymentId;
use tokio::sync::oneshot;

/// Guards a deployment's record: if it is dropped before the record has an outcome, it writes one.
pub struct UploadGuard {
    app: App,
    id: DeploymentId,
    on_drop: DropAction,
    /// A sender that is dropped once the record is settled or deleted; [`mark_received`](Self::mark_received) returns the
    /// receiving end.
    unsettled: Option<oneshot::Sender<()>>,
}

/// What dropping an [`UploadGuard`] does to its record.
#[derive(Debug, Clone, Copy)]
pub enum DropAction {
    /// The upload failed, for this reason.
    Fail(&'static str),
    /// The record is deleted: the request repeated an earlier one, and got its response.
    Discard,
    /// Nothing is done: the record already has its outcome.
    Ended,
}

impl UploadGuard {
    /// Creates a guard for the existing record of deployment `id`. A drop performs `on_drop`, until it is marked.
    pub fn new(app: &App, id: DeploymentId, on_drop: DropAction) -> Self {
        Self { app: app.clone(), id, on_drop, unsettled: None }
    }

    /// Returns the application whose database holds the record.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// Returns the id of the record's deployment.
    pub fn id(&self) -> &DeploymentId {
        &self.id
    }

    /// Marks the body as received. If the guard is dropped from here on, the record is deleted, because the request may
    /// be a repetition. Its response must wait for the returned future: clients never see a record that is about to be
    /// deleted.
    pub fn mark_received(mut self) -> (Self, impl Future<Output = ()>) {
        let (unsettled, settled) = oneshot::channel();
        self.on_drop = DropAction::Discard;
        self.unsettled = Some(unsettled);
        let settled = async {
            // The channel carries no message: this waits for the sender to be dropped.
            let _ = settled.await;
        };
        (self, settled)
    }

    /// Marks the processing as started. If the guard is dropped from here on, the record fails.
    #[must_use]
    pub fn mark_started(mut self) -> Self {
        self.on_drop = DropAction::Fail("The upload was cut off on our side; please try again.");
        self.unsettled = None;
        self
    }

    /// Ends the guard, because the record has its outcome. Returns `outcome`.
    pub fn finish<T>(mut self, outcome: T) -> T {
        self.on_drop = DropAction::Ended;
        outcome
    }

    /// Ends the guard and records the message of `error` as the reason for the failure. Returns `error`, also if that
    /// could not be recorded.
    pub async fn fail(mut self, error: ApiError) -> ApiError {
        if let Err(unrecorded) =
            db::in_time(deployments::fail(&self.app.db, &self.id, error.message(), self.app.clock.now())).await
        {
            tracing::warn!(error = %unrecorded, deployment = %self.id, "a failed upload is left to the job");
        }
        self.on_drop = DropAction::Ended;
        error
    }
}

impl Drop for UploadGuard {
    fn drop(&mut self) {
        let (db, id, now) = (self.app.db.clone(), self.id.clone(), self.app.clock.now());
        let unsettled = self.unsettled.take();
        let ending = mem::replace(&mut self.on_drop, DropAction::Ended);
        let end = async move {
            let ended = match ending {
                DropAction::Fail(reason) => db::in_time(deployments::fail(&db, &id, reason, now)).await,
                DropAction::Discard => db::in_time(deployments::discard(&db, &id)).await,
                DropAction::Ended => Ok(()),
            };
            if let Err(error) = ended {
                tracing::warn!(%error, deployment = %id, "an upload that ended early is left to the job");
            }
            drop(unsettled);
        };
        if !matches!(ending, DropAction::Ended) {
            self.app.tasks.spawn(end);
        }
    }
}
