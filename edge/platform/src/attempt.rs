//! One attempt at an admin: the state shared by pingora-proxy and the task that waits for the response.

use std::{
    future::pending,
    sync::{Arc, OnceLock},
};

use pingora::prelude::{Error, ErrorType};
use tokio_util::sync::CancellationToken;

use super::admins::AdminEndpoint;

tokio::task_local! {
    /// The current task's attempt. A task-local, because pingora-proxy offers no other way to pass it.
    pub(super) static ATTEMPT: Arc<AdminAttempt>;
}

/// An attempt, shared by pingora-proxy's task and the one that waits for the response.
pub(super) struct AdminAttempt {
    pub(super) admin: Arc<AdminEndpoint>,
    /// Cancelled before the admin is contacted; cached responses never contact it.
    pub(super) asked: CancellationToken,
    /// Cancelled once the admin wants the body, or has responded without it.
    pub(super) wants_body: CancellationToken,
    /// Cancelled when no task waits for the response any more.
    pub(super) given_up: CancellationToken,
    failure: OnceLock<AttemptFailure>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptFailure {
    /// The admin could not be reached, and received nothing of the request.
    Unreached,
    /// The connection ended before a response started.
    Ended,
    Late,
    /// The admin has not answered a health check, and another one can answer the request.
    Silent,
    /// The admin counts as hung.
    Hung,
}

impl AttemptFailure {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Unreached => "unreached",
            Self::Ended => "ended",
            Self::Late => "late",
            Self::Silent => "silent",
            Self::Hung => "hung",
        }
    }
}

impl AdminAttempt {
    pub(super) fn new(admin: Arc<AdminEndpoint>) -> Arc<Self> {
        Arc::new(Self {
            admin,
            asked: CancellationToken::new(),
            wants_body: CancellationToken::new(),
            given_up: CancellationToken::new(),
            failure: OnceLock::new(),
        })
    }

    /// Waits until the attempt is given up, or its contacted admin hangs: then it cannot succeed any more.
    pub(super) async fn finished(&self) {
        let hung = async {
            self.asked.cancelled().await;
            self.admin.hung().await;
            self.fail(AttemptFailure::Hung);
        };
        tokio::select! {
            () = hung => {}
            () = self.given_up.cancelled() => {}
        }
    }

    /// Waits until the contacted admin has not answered a health check. Never returns if `is_waited_for` is false.
    pub(super) async fn silent(&self, is_waited_for: bool) {
        if !is_waited_for {
            pending::<()>().await;
        }
        self.asked.cancelled().await;
        self.admin.silent().await;
    }

    pub(super) fn fail(&self, failure: AttemptFailure) {
        let _ = self.failure.set(failure);
    }

    pub(super) fn fail_with(&self, error: &Error) {
        let is_late = matches!(error.etype(), ErrorType::ReadTimedout | ErrorType::WriteTimedout);
        self.fail(if is_late { AttemptFailure::Late } else { AttemptFailure::Ended });
    }

    pub(super) fn failure(&self) -> AttemptFailure {
        self.failure.get().copied().unwrap_or(AttemptFailure::Ended)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::{
        super::admins::{AdminPool, AdminState, AdminUpstreams},
        *,
    };

    #[tokio::test]
    async fn an_attempt_is_over_when_the_admin_that_was_asked_hangs() {
        let admins = AdminPool::new(AdminUpstreams::parse(&["10.0.0.1:1".to_owned()]).unwrap());
        let admin = admins.choose(&[]).unwrap();
        let attempt = AdminAttempt::new(admin.clone());
        admin.set_state(AdminState::Silent);
        attempt.asked.cancel();
        assert!(attempt.silent(true).now_or_never().is_some() && attempt.finished().now_or_never().is_none());
        assert_eq!(AttemptFailure::Silent.label(), "silent", "one unanswered check is not a hung admin");
        let attempt = AdminAttempt::new(admin.clone());
        admin.set_state(AdminState::Hung);
        // A cached response needs no admin.
        assert!(attempt.finished().now_or_never().is_none());
        attempt.asked.cancel();
        assert!(attempt.finished().now_or_never().is_some());
        assert_eq!(attempt.failure(), AttemptFailure::Hung);
        assert!(attempt.silent(true).now_or_never().is_some() && attempt.silent(false).now_or_never().is_none());
    }
}
