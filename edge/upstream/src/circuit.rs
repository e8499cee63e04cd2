//! The circuit breaker of a provider: after several failures in a row, a provider gets no requests for a while, so that
//! completions go to another provider or fail quickly instead of each waiting for it.
//!
//! While the circuit is closed, all requests pass. After [`limits::CIRCUIT_FAILURES`] failures without an answer in
//! between it opens, and no requests pass. After a pause it is half-open: one request per pause tries the provider. Any
//! answer closes the circuit; another failure doubles the pause, up to [`limits::CIRCUIT_LONGEST_PAUSE`].
//!
//! Only the provider's own failures count: it cannot be reached, is silent, breaks off, or reports that it is
//! overloaded or unavailable. Refusals of a request count as answers. A status of 500 counts as neither, because one
//! client's request may provoke it repeatedly.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use edge_metrics::{self as metrics, CircuitState};
use http::StatusCode;

/// Decides whether a provider gets requests, by the outcomes of earlier ones.
pub struct CircuitBreaker {
    provider: Arc<str>,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    Closed {
        /// The failures since the last answer.
        failures: u32,
    },
    /// One request passes per `pause`.
    Open {
        /// When the next request may pass.
        next_trial: Instant,
        pause: Duration,
        /// Whether a trial with unknown outcome has passed.
        is_tried: bool,
    },
}

/// The provider's health, as shown by an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderHealth {
    /// The provider answers, even if it refuses the request.
    Answers,
    /// The provider cannot be reached, is silent, breaks off, or reports that it is overloaded or unavailable.
    Fails,
    /// Inconclusive.
    Unknown,
}

impl ProviderHealth {
    /// Returns the health that an answer's status shows: 502, 503, 504 and 529 are failures, while 408 and any other
    /// status from 500 on are inconclusive.
    pub fn from_status(status: StatusCode) -> Self {
        match status.as_u16() {
            502 | 503 | 504 | 529 => Self::Fails,
            500.. | 408 => Self::Unknown,
            _ => Self::Answers,
        }
    }
}

/// A permit for one request to a provider. If it is a trial and dropped without an outcome, the next request is one.
pub struct CircuitPermit {
    trial: Option<Arc<CircuitBreaker>>,
}

impl CircuitBreaker {
    pub(super) fn new(provider: Arc<str>) -> Self {
        Self { provider, state: Mutex::new(BreakerState::Closed { failures: 0 }) }
    }

    /// Adds the circuit to the metrics before its first change.
    pub fn show(&self) {
        metrics::circuit(&self.provider, CircuitState::Closed);
    }

    /// Permits a request, or returns for how long none is permitted.
    pub fn admit(self: &Arc<Self>) -> Result<CircuitPermit, Duration> {
        let is_trial = self.admit_at(Instant::now())?;
        Ok(CircuitPermit { trial: is_trial.then(|| self.clone()) })
    }

    /// Returns whether the request is a trial.
    fn admit_at(&self, now: Instant) -> Result<bool, Duration> {
        let mut state = self.state();
        let BreakerState::Open { next_trial, pause, .. } = *state else { return Ok(false) };
        if now < next_trial {
            return Err(next_trial - now);
        }
        *state = BreakerState::Open { next_trial: now + pause, pause, is_tried: true };
        drop(state);
        metrics::circuit(&self.provider, CircuitState::HalfOpen);
        Ok(true)
    }

    /// Records the outcome of a permitted request, which may open or close the circuit.
    pub fn record_outcome(&self, permit: CircuitPermit, health: ProviderHealth) {
        let is_trial = permit.is_trial();
        permit.mark_decided();
        self.learn_at(is_trial, health, Instant::now());
    }

    fn learn_at(&self, is_trial: bool, health: ProviderHealth, now: Instant) {
        let mut state = self.state();
        let before = *state;
        let first_pause = limits::CIRCUIT_PAUSE;
        *state = match (before, health) {
            (BreakerState::Closed { failures: 0 }, ProviderHealth::Answers) => return,
            (_, ProviderHealth::Answers) => BreakerState::Closed { failures: 0 },
            // The provider can at least be reached.
            (BreakerState::Open { .. }, ProviderHealth::Unknown) if is_trial => BreakerState::Closed { failures: 0 },
            (BreakerState::Closed { failures }, ProviderHealth::Fails) if failures + 1 < limits::CIRCUIT_FAILURES => {
                BreakerState::Closed { failures: failures + 1 }
            }
            (BreakerState::Closed { .. }, ProviderHealth::Fails) => {
                BreakerState::Open { next_trial: now + first_pause, pause: first_pause, is_tried: false }
            }
            (BreakerState::Open { pause, .. }, ProviderHealth::Fails) if is_trial => {
                let pause = (pause * 2).min(limits::CIRCUIT_LONGEST_PAUSE);
                BreakerState::Open { next_trial: now + pause, pause, is_tried: false }
            }
            // From a request that began earlier.
            _ => return,
        };
        let after = *state;
        drop(state);
        match (before, after) {
            (BreakerState::Closed { .. }, BreakerState::Open { .. }) => {
                tracing::warn!(
                    provider = &*self.provider,
                    "a provider fails again and again, and is not asked for a while"
                );
                metrics::circuit(&self.provider, CircuitState::Open);
            }
            (BreakerState::Open { .. }, BreakerState::Open { .. }) => {
                metrics::circuit(&self.provider, CircuitState::Open);
            }
            (BreakerState::Open { .. }, BreakerState::Closed { .. }) => {
                tracing::info!(provider = &*self.provider, "a provider answers again");
                metrics::circuit(&self.provider, CircuitState::Closed);
            }
            (BreakerState::Closed { .. }, BreakerState::Closed { .. }) => {}
        }
    }

    /// Makes the next request a trial, since the outcome of the current one is unknown.
    fn abandon_trial(&self, now: Instant) {
        let mut state = self.state();
        if let BreakerState::Open { next_trial, is_tried, .. } = &mut *state
            && *is_tried
        {
            (*next_trial, *is_tried) = (now, false);
        }
    }

    fn state(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CircuitPermit {
    fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    fn mark_decided(mut self) {
        self.trial = None;
    }
}

impl Drop for CircuitPermit {
    fn drop(&mut self) {
        if let Some(circuit) = self.trial.take() {
            circuit.abandon_trial(Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn circuit() -> (Arc<CircuitBreaker>, Instant) {
        (Arc::new(CircuitBreaker::new("p".into())), Instant::now())
    }

    /// Returns a circuit that has just opened.
    fn opened() -> (Arc<CircuitBreaker>, Instant) {
        let (circuit, now) = circuit();
        for _ in 0..limits::CIRCUIT_FAILURES {
            assert_eq!(circuit.admit_at(now), Ok(false));
            circuit.learn_at(false, ProviderHealth::Fails, now);
        }
        (circuit, now)
    }

    #[test]
    fn failures_in_a_row_open_it_and_answers_between_them_do_not() {
        let (circuit, now) = circuit();
        for _ in 0..10 {
            for _ in 1..limits::CIRCUIT_FAILURES {
                circuit.learn_at(false, ProviderHealth::Fails, now);
                circuit.learn_at(false, ProviderHealth::Unknown, now);
            }
            assert_eq!(circuit.admit_at(now), Ok(false));
            circuit.learn_at(false, ProviderHealth::Answers, now);
        }
        let (circuit, now) = opened();
        assert_eq!(circuit.admit_at(now), Err(limits::CIRCUIT_PAUSE));
        // Outcomes of earlier requests change nothing, except for answers.
        circuit.learn_at(false, ProviderHealth::Fails, now + SECOND);
        circuit.learn_at(false, ProviderHealth::Unknown, now + SECOND);
        assert_eq!(circuit.admit_at(now + SECOND), Err(limits::CIRCUIT_PAUSE.saturating_sub(SECOND)));
        circuit.learn_at(false, ProviderHealth::Answers, now + SECOND);
        assert_eq!(circuit.admit_at(now + SECOND), Ok(false));
    }

    #[test]
    fn half_open_one_request_tries_it_and_each_failure_doubles_the_pause() {
        let (circuit, mut now) = opened();
        let mut pause = limits::CIRCUIT_PAUSE;
        for _ in 0..10 {
            now += pause;
            assert_eq!(circuit.admit_at(now), Ok(true));
            assert_eq!(circuit.admit_at(now), Err(pause), "one in each pause");
            circuit.learn_at(true, ProviderHealth::Fails, now);
            pause = (pause * 2).min(limits::CIRCUIT_LONGEST_PAUSE);
            assert_eq!(circuit.admit_at(now), Err(pause));
        }
        // A slow trial does not delay the next.
        now += pause;
        assert_eq!(circuit.admit_at(now), Ok(true));
        assert_eq!(circuit.admit_at(now + pause), Ok(true));
        circuit.learn_at(true, ProviderHealth::Unknown, now + pause);
        assert_eq!(circuit.admit_at(now + pause), Ok(false));
    }

    #[test]
    fn an_abandoned_trial_is_made_by_the_next_request() {
        let (circuit, now) = opened();
        let later = now + limits::CIRCUIT_PAUSE;
        assert_eq!(circuit.admit_at(later), Ok(true));
        drop(CircuitPermit { trial: Some(circuit.clone()) });
        assert_eq!(circuit.admit_at(Instant::now()), Ok(true));
        assert!(circuit.admit_at(Instant::now()).is_err());
    }

    #[test]
    fn refusals_are_answers() {
        for (status, health) in [
            (200, ProviderHealth::Answers),
            (400, ProviderHealth::Answers),
            (401, ProviderHealth::Answers),
            (429, ProviderHealth::Answers),
            (408, ProviderHealth::Unknown),
            (500, ProviderHealth::Unknown),
            (502, ProviderHealth::Fails),
            (503, ProviderHealth::Fails),
            (529, ProviderHealth::Fails),
        ] {
            assert_eq!(ProviderHealth::from_status(StatusCode::from_u16(status).unwrap()), health, "{status}");
        }
    }
}
