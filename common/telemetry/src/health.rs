//! Health checks for load balancers: `/livez` (the program responds) and `/readyz` (it should receive requests).
//!
//! A program is ready once all of its requirements have been met. A dependency that it can do without may be
//! `degraded`: the response names it and stays 200, because a load balancer that removes machines along with Redis
//! would take down sites that work without it. Responses come from memory, so that they are immediate whatever hangs;
//! tasks of the program do the checks.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use http::StatusCode;

/// Whether a program is ready for requests. Cheap to clone.
#[derive(Clone, Default)]
pub struct Health(Arc<Mutex<HealthState>>);

#[derive(Default)]
struct HealthState {
    name: String,
    version: &'static str,
    missing: BTreeSet<&'static str>,
    degraded: BTreeSet<&'static str>,
    is_draining: bool,
}

impl Health {
    /// Creates the health of the program `name`, which is not ready until each of `requirements` is met.
    pub fn new(name: String, version: &'static str, requirements: &[&'static str]) -> Self {
        let missing = requirements.iter().copied().collect();
        Self(Arc::new(Mutex::new(HealthState { name, version, missing, ..HealthState::default() })))
    }

    /// Sets whether a requirement is met.
    pub fn set_met(&self, requirement: &'static str, is_met: bool) {
        let mut state = self.state();
        if is_met {
            state.missing.remove(requirement);
        } else {
            state.missing.insert(requirement);
        }
    }

    /// Sets whether a dependency that the program can do without is unavailable.
    pub fn set_degraded(&self, part: &'static str, is_degraded: bool) {
        let mut state = self.state();
        if is_degraded {
            state.degraded.insert(part);
        } else {
            state.degraded.remove(part);
        }
    }

    /// Marks the program as stopping, so that it receives no new requests. Cannot be undone.
    pub fn drain(&self) {
        self.state().is_draining = true;
    }

    /// Returns whether the program should receive requests.
    pub fn is_ready(&self) -> bool {
        let state = self.state();
        state.missing.is_empty() && !state.is_draining
    }

    /// Returns whether a requirement is not met yet.
    pub fn is_missing(&self, requirement: &str) -> bool {
        self.state().missing.contains(requirement)
    }

    /// Returns the response of `/readyz`: a status, and JSON with the reasons.
    pub(crate) fn answer(&self) -> (StatusCode, String) {
        let state = self.state();
        let (status, word) = match (state.is_draining, state.missing.is_empty()) {
            (true, _) => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
            (false, false) => (StatusCode::SERVICE_UNAVAILABLE, "not_ready"),
            (false, true) => (StatusCode::OK, "ready"),
        };
        let body = serde_json::json!({
            "status": word, "missing": state.missing, "degraded": state.degraded, "name": state.name, "version": state.version,
        });
        (status, body.to_string())
    }

    fn state(&self) -> MutexGuard<'_, HealthState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Health").field(&self.answer().1).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(health: &Health) -> (u16, serde_json::Value) {
        let (status, body) = health.answer();
        (status.as_u16(), serde_json::from_str(&body).unwrap())
    }

    #[test]
    fn what_is_degraded_is_named_and_stays_ready() {
        let health = Health::new("edge-1".to_owned(), "0.1.0 (abc)", &["store", "changes"]);
        health.set_met("store", true);
        let (status, body) = answer(&health);
        assert_eq!((status, &body["status"]), (503, &"not_ready".into()));
        assert_eq!(body["missing"], serde_json::json!(["changes"]));
        health.set_met("changes", true);
        health.set_degraded("redis", true);
        let (status, body) = answer(&health);
        assert_eq!((status, &body["status"]), (200, &"ready".into()));
        assert_eq!((&body["degraded"], &body["name"]), (&serde_json::json!(["redis"]), &"edge-1".into()));
        health.set_degraded("redis", false);
        assert_eq!(answer(&health).1["degraded"], serde_json::json!([]));
        health.drain();
        let (status, body) = answer(&health);
        assert_eq!((status, &body["status"]), (503, &"draining".into()));
    }
}
