//! Tells the people of a custom domain how far its certificate is.

use db::projects;
use domain::{Hostname, certificates::DomainState};
use live::events::Message;

use crate::{
    app::App,
    events::{self, KIND_DOMAIN_STATE},
};

/// Publishes the state of a custom domain. A look that finds what the one before it found is told of as well: whoever waits for
/// a look that they have asked for learns of its outcome by it.
pub(super) async fn tell(
    app: &App,
    domain: &Hostname,
    state: DomainState,
    message: Option<&str>,
) -> Result<(), sqlx::Error> {
    let Some(project) = projects::with_domain(&app.db, domain).await? else { return Ok(()) };
    let mut event = events::of_project(KIND_DOMAIN_STATE, &project, Some(domain.as_str()), None, app.clock.now());
    event.detail.insert("state".to_owned(), state.as_str().into());
    event.detail.insert("message".to_owned(), message.into());
    app.events.publish(Message::Event(Box::new(event)));
    Ok(())
}
