//! What became of a configuration that was read again.

use crate::one_line;

/// The metric, by the outcome.
pub(crate) const RELOADS: &str = "svc_config_reloads_total";

/// Notes a configuration that was taken over: which keys have other values now, and which wait for the program's next start.
pub fn taken_over(changed: &[&str], waiting: &[&str]) {
    metrics::counter!(RELOADS, "outcome" => "taken_over").increment(1);
    for key in waiting {
        tracing::warn!("`{key}` takes effect at the next start");
    }
    match changed {
        [] => tracing::info!("the configuration was read again; nothing of it has changed that takes effect now"),
        changed => tracing::info!(changed = changed.join(", "), "the configuration was read again"),
    }
}

/// Notes a configuration that was refused, for the reason that would end the program at its start: it goes on as it was.
pub fn refused(error: &anyhow::Error) {
    metrics::counter!(RELOADS, "outcome" => "refused").increment(1);
    tracing::error!("the configuration was read again and refused, so that nothing has changed: {}", one_line(error));
}
