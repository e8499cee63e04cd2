//! The record of a deployment that is being uploaded. However the work on it ends, the record does not stay `uploading`.

use std::mem;

use db::projects::deployments;
use domain::DeploymentId;
use tokio::sync::oneshot;

use crate::{app::App, error::ApiError};

/// Guards a deployment's record: dropped before the record has its outcome, it writes one.
pub(crate) struct UploadRecord {
    app: App,
    id: DeploymentId,
    /// The outcome that is written when this is dropped.
    on_drop: Ending,
    /// Held until the record is what its request will be answered with, or is gone.
    unsettled: Option<oneshot::Sender<()>>,
}

/// The outcome of a record whose guard is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// The upload failed, for this reason.
    Fail(&'static str),
    /// The upload is deleted: the request repeated an earlier one, whose answer it got.
    Discard,
    /// The upload has its outcome already.
    Ended,
}

impl UploadRecord {
    /// Guards a record that was just written.
    pub(crate) fn new(app: &App, id: DeploymentId, on_drop: Ending) -> Self {
        Self { app: app.clone(), id, on_drop, unsettled: None }
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    pub(crate) fn id(&self) -> &DeploymentId {
        &self.id
    }

    /// Marks the body as received. Dropped from here on, the record is deleted: the request may be a repetition, and is not
    /// answered before the future that comes with it has ended, so that nobody sees what is about to go.
    pub(crate) fn received(mut self) -> (Self, impl Future<Output = ()>) {
        let (unsettled, settled) = oneshot::channel();
        self.on_drop = Ending::Discard;
        self.unsettled = Some(unsettled);
        let settled = async {
            // Nothing is ever sent.
            let _ = settled.await;
        };
        (self, settled)
    }

    /// Marks the work on it as begun. Dropped from here on, the record fails.
    pub(crate) fn started(mut self) -> Self {
        self.on_drop = Ending::Fail("The upload was cut off on our side; please try again.");
        self.unsettled = None;
        self
    }

    /// Ends the guard: the record has its outcome. Returns `outcome`, whatever it is.
    pub(crate) fn ended<T>(mut self, outcome: T) -> T {
        self.on_drop = Ending::Ended;
        outcome
    }

    /// Records the failure, and returns the error to be answered.
    pub(crate) async fn fail(mut self, error: ApiError) -> ApiError {
        if let Err(unrecorded) =
            db::in_time(deployments::fail(&self.app.db, &self.id, error.message(), self.app.clock.now())).await
        {
            tracing::warn!(error = %unrecorded, deployment = %self.id, "a failed upload is left to the job");
        }
        self.on_drop = Ending::Ended;
        error
    }
}

impl Drop for UploadRecord {
    fn drop(&mut self) {
        let (db, id, now) = (self.app.db.clone(), self.id.clone(), self.app.clock.now());
        let unsettled = self.unsettled.take();
        let ending = mem::replace(&mut self.on_drop, Ending::Ended);
        let end = async move {
            let ended = match ending {
                Ending::Fail(reason) => db::in_time(deployments::fail(&db, &id, reason, now)).await,
                Ending::Discard => db::in_time(deployments::discard(&db, &id)).await,
                Ending::Ended => Ok(()),
            };
            if let Err(error) = ended {
                tracing::warn!(%error, deployment = %id, "an upload that ended early is left to the job");
            }
            drop(unsettled);
        };
        if !matches!(ending, Ending::Ended) {
            self.app.tasks.spawn(end);
        }
    }
}
