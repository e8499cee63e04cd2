//! IDs of failures that visitors are shown, each of which is in the log.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use http::HeaderValue;
use limits::{INCIDENT_LIFE, INCIDENTS};
use tokio::time::Instant;

use super::RequestIds;

/// Assigns IDs to failures. Failures of one subject within [`INCIDENT_LIFE`] share one ID and one log line.
#[derive(Default)]
pub struct IncidentLog {
    ids: RequestIds,
    recent: Mutex<HashMap<Box<str>, (Instant, HeaderValue)>>,
}

impl IncidentLog {
    /// Returns the ID of a failure of `what`, which `log` writes unless it was just logged.
    pub fn id(&self, what: &str, log: impl FnOnce(&str)) -> HeaderValue {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.len() >= INCIDENTS {
            recent.retain(|_, (since, _)| since.elapsed() < INCIDENT_LIFE);
        }
        // Further concurrent failures share one ID.
        let what = if recent.len() >= INCIDENTS && !recent.contains_key(what) { "" } else { what };
        if let Some((since, id)) = recent.get(what)
            && since.elapsed() < INCIDENT_LIFE
        {
            return id.clone();
        }
        let text = self.ids.generate();
        let id = HeaderValue::try_from(&text).unwrap_or(HeaderValue::from_static("req_unknown"));
        recent.insert(what.into(), (Instant::now(), id.clone()));
        drop(recent);
        log(&text);
        id
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_id_that_is_shown_is_in_the_log() {
        let (incidents, logged) = (IncidentLog::default(), Mutex::new(Vec::new()));
        let fail = |what: &str| {
            let id = incidents.id(what, |id| logged.lock().unwrap().push(id.to_owned()));
            assert!(logged.lock().unwrap().iter().any(|known| *known == id), "{id:?}");
            id
        };
        let first = fail("a");
        assert_eq!(fail("a"), first);
        assert_ne!(fail("b"), first);
        tokio::time::advance(INCIDENT_LIFE).await;
        assert_ne!(fail("a"), first);
        for n in 0..2 * INCIDENTS {
            fail(&n.to_string());
        }
        assert!(
            logged.lock().unwrap().len() <= INCIDENTS + 4 && incidents.recent.lock().unwrap().len() <= INCIDENTS + 1
        );
    }
}
