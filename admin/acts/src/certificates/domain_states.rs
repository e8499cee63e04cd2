//! Publishes the states of custom domains' certificates as events.

use app::{
    App,
    events::{self, KIND_DOMAIN_STATE},
};
use db::projects;
use domain::{Hostname, certificates::DomainState};
use live::events::StreamMessage;

/// Publishes the state of a custom domain, even if a check has found no change: a client that requested the check waits
/// for its outcome.
pub(super) async fn publish_state(
    app: &App,
    domain: &Hostname,
    state: DomainState,
    message: Option<&str>,
) -> Result<(), sqlx::Error> {
    let Some(project) = projects::find_by_domain(&app.db, domain).await? else { return Ok(()) };
    let mut event = events::project_event(KIND_DOMAIN_STATE, &project, Some(domain.as_str()), None, app.clock.now());
    event.detail.insert("state".to_owned(), state.as_str().into());
    event.detail.insert("message".to_owned(), message.into());
    app.events.publish(StreamMessage::Event(Box::new(event)));
    Ok(())
}
