//! The record of a deployment while it comes about: however the work on it ends, the record does not stay `uploading`.

use std::mem;

use db::deployments;
use domain::DeploymentId;

use crate::{app::App, error::ApiError};

/// An upload that is recorded. However its handler ends, its record does not stay `uploading`.
pub(crate) struct Upload {
    app: App,
    id: DeploymentId,
    /// What becomes of the record when this is dropped.
    unless_ended: Ending,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    /// It failed, for this reason.
    Fail(&'static str),
    /// It is forgotten: the request was a repetition, and was answered with the first one's answer.
    Discard,
    /// It has ended already.
    Ended,
}

impl Upload {
    /// Of a record that was just written.
    pub(crate) fn new(app: &App, id: DeploymentId, unless_ended: Ending) -> Self {
        Self { app: app.clone(), id, unless_ended }
    }

    pub(crate) fn app(&self) -> &App {
        &self.app
    }

    pub(crate) fn id(&self) -> &DeploymentId {
        &self.id
    }

    /// All of it is here; what is to be done with it is not decided yet.
    pub(crate) fn received(mut self) -> Self {
        self.unless_ended = Ending::Discard;
        self
    }

    /// It is being published.
    pub(crate) fn started(mut self) -> Self {
        self.unless_ended = Ending::Fail("The upload was cut off on our side; please try again.");
        self
    }

    /// Its record says how it ended.
    pub(crate) fn ended<T>(mut self, outcome: T) -> T {
        self.unless_ended = Ending::Ended;
        outcome
    }

    /// Records the failure, and gives the error back to be answered.
    pub(crate) async fn fail(mut self, error: ApiError) -> ApiError {
        if let Err(unrecorded) = deployments::fail(&self.app.db, &self.id, error.message()).await {
            tracing::warn!(error = %unrecorded, deployment = %self.id, "a failed upload is left to the job");
        }
        self.unless_ended = Ending::Ended;
        error
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        let (db, id) = (self.app.db.clone(), self.id.clone());
        let ending = mem::replace(&mut self.unless_ended, Ending::Ended);
        let end = async move {
            let ended = match ending {
                Ending::Fail(reason) => deployments::fail(&db, &id, reason).await,
                Ending::Discard => deployments::discard(&db, &id).await,
                Ending::Ended => Ok(()),
            };
            if let Err(error) = ended {
                tracing::warn!(%error, deployment = %id, "an upload that ended early is left to the job");
            }
        };
        if !matches!(ending, Ending::Ended) {
            self.app.tasks.spawn(end);
        }
    }
}
