//! The circuit breaker of a provider: one that failed several times in a row is left alone for a while, so that completions go to
//! another provider, or fail quickly, rather than wait for it one by one.
//!
//! Closed, every request passes. After [`limits::CIRCUIT_FAILURES`] failures without an answer in between it is open, and none does.
//! When its pause is over it is half-open: one request in each pause tries the provider. Any answer closes the circuit; another failure
//! doubles the pause, up to [`limits::CIRCUIT_LONGEST_PAUSE`].
//!
//! A failure is the provider's own: it cannot be reached, is silent, breaks off, or says that it is overloaded or away. Refusals of
//! a request are answers, and a status of 500 says nothing: one client's request may provoke it again and again.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use http::StatusCode;

use crate::{
    limits,
    metrics::{self, CircuitState},
};

/// The circuit breaker of a provider.
pub(in crate::gateway) struct Circuit {
    provider: Arc<str>,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Requests pass.
    Closed {
        /// The failures since the last answer.
        failures: u32,
    },
    /// One request passes in each `pause`.
    Open {
        /// When the next one may pass.
        next_trial: Instant,
        pause: Duration,
        /// Whether one has passed whose outcome is not known.
        is_tried: bool,
    },
}

/// What the attempt to ask a provider says about the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::gateway) enum Health {
    /// It answers, if only to refuse the request.
    Answers,
    /// It fails.
    Fails,
    /// Either may be the case.
    Unknown,
}

impl Health {
    /// What a status says.
    pub(in crate::gateway) fn of(status: StatusCode) -> Self {
        match status.as_u16() {
            502 | 503 | 504 | 529 => Self::Fails,
            500.. | 408 => Self::Unknown,
            _ => Self::Answers,
        }
    }
}

/// The permission to ask a provider once. If the request is a trial and is given up before its outcome is known, the next one tries.
pub(in crate::gateway) struct Permit {
    trial: Option<Arc<Circuit>>,
}

impl Circuit {
    /// A closed circuit.
    pub(super) fn new(provider: Arc<str>) -> Self {
        Self { provider, state: Mutex::new(State::Closed { failures: 0 }) }
    }

    /// Shows the circuit in the metrics, where it has not changed yet.
    pub(in crate::gateway) fn show(&self) {
        metrics::circuit(&self.provider, CircuitState::Closed);
    }

    /// Permits a request, or says for how long none is.
    pub(in crate::gateway) fn admit(self: &Arc<Self>) -> Result<Permit, Duration> {
        let is_trial = self.admit_at(Instant::now())?;
        Ok(Permit { trial: is_trial.then(|| self.clone()) })
    }

    /// Returns whether the request is a trial.
    fn admit_at(&self, now: Instant) -> Result<bool, Duration> {
        let mut state = self.state();
        let State::Open { next_trial, pause, .. } = *state else { return Ok(false) };
        if now < next_trial {
            return Err(next_trial - now);
        }
        *state = State::Open { next_trial: now + pause, pause, is_tried: true };
        drop(state);
        metrics::circuit(&self.provider, CircuitState::HalfOpen);
        Ok(true)
    }

    /// Learns what an attempt has said.
    pub(in crate::gateway) fn learn(&self, permit: Permit, health: Health) {
        let is_trial = permit.is_trial();
        permit.decided();
        self.learn_at(is_trial, health, Instant::now());
    }

    fn learn_at(&self, is_trial: bool, health: Health, now: Instant) {
        let mut state = self.state();
        let before = *state;
        let first_pause = limits::CIRCUIT_PAUSE;
        *state = match (before, health) {
            (State::Closed { failures: 0 }, Health::Answers) => return,
            (_, Health::Answers) => State::Closed { failures: 0 },
            // It is there, at least.
            (State::Open { .. }, Health::Unknown) if is_trial => State::Closed { failures: 0 },
            (State::Closed { failures }, Health::Fails) if failures + 1 < limits::CIRCUIT_FAILURES => {
                State::Closed { failures: failures + 1 }
            }
            (State::Closed { .. }, Health::Fails) => {
                State::Open { next_trial: now + first_pause, pause: first_pause, is_tried: false }
            }
            (State::Open { pause, .. }, Health::Fails) if is_trial => {
                let pause = (pause * 2).min(limits::CIRCUIT_LONGEST_PAUSE);
                State::Open { next_trial: now + pause, pause, is_tried: false }
            }
            // Of a request that was under way before.
            _ => return,
        };
        let after = *state;
        drop(state);
        match (before, after) {
            (State::Closed { .. }, State::Open { .. }) => {
                tracing::warn!(
                    provider = &*self.provider,
                    "a provider fails again and again, and is not asked for a while"
                );
                metrics::circuit(&self.provider, CircuitState::Open);
            }
            (State::Open { .. }, State::Open { .. }) => metrics::circuit(&self.provider, CircuitState::Open),
            (State::Open { .. }, State::Closed { .. }) => {
                tracing::info!(provider = &*self.provider, "a provider answers again");
                metrics::circuit(&self.provider, CircuitState::Closed);
            }
            (State::Closed { .. }, State::Closed { .. }) => {}
        }
    }

    /// Nothing was learned of a trial: the next request is one.
    fn abandon_trial(&self, now: Instant) {
        let mut state = self.state();
        if let State::Open { next_trial, is_tried, .. } = &mut *state
            && *is_tried
        {
            (*next_trial, *is_tried) = (now, false);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Permit {
    fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    fn decided(mut self) {
        self.trial = None;
    }
}

impl Drop for Permit {
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

    fn circuit() -> (Arc<Circuit>, Instant) {
        (Arc::new(Circuit::new("p".into())), Instant::now())
    }

    /// A circuit that has just opened.
    fn opened() -> (Arc<Circuit>, Instant) {
        let (circuit, now) = circuit();
        for _ in 0..limits::CIRCUIT_FAILURES {
            assert_eq!(circuit.admit_at(now), Ok(false));
            circuit.learn_at(false, Health::Fails, now);
        }
        (circuit, now)
    }

    #[test]
    fn failures_in_a_row_open_it_and_answers_between_them_do_not() {
        let (circuit, now) = circuit();
        for _ in 0..10 {
            for _ in 1..limits::CIRCUIT_FAILURES {
                circuit.learn_at(false, Health::Fails, now);
                circuit.learn_at(false, Health::Unknown, now);
            }
            assert_eq!(circuit.admit_at(now), Ok(false));
            circuit.learn_at(false, Health::Answers, now);
        }
        let (circuit, now) = opened();
        assert_eq!(circuit.admit_at(now), Err(limits::CIRCUIT_PAUSE));
        // What comes of earlier requests changes nothing, unless it is an answer.
        circuit.learn_at(false, Health::Fails, now + SECOND);
        circuit.learn_at(false, Health::Unknown, now + SECOND);
        assert_eq!(circuit.admit_at(now + SECOND), Err(limits::CIRCUIT_PAUSE.saturating_sub(SECOND)));
        circuit.learn_at(false, Health::Answers, now + SECOND);
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
            circuit.learn_at(true, Health::Fails, now);
            pause = (pause * 2).min(limits::CIRCUIT_LONGEST_PAUSE);
            assert_eq!(circuit.admit_at(now), Err(pause));
        }
        // A trial that takes long keeps nobody from the next.
        now += pause;
        assert_eq!(circuit.admit_at(now), Ok(true));
        assert_eq!(circuit.admit_at(now + pause), Ok(true));
        circuit.learn_at(true, Health::Unknown, now + pause);
        assert_eq!(circuit.admit_at(now + pause), Ok(false));
    }

    #[test]
    fn an_abandoned_trial_is_made_by_the_next_request() {
        let (circuit, now) = opened();
        let later = now + limits::CIRCUIT_PAUSE;
        assert_eq!(circuit.admit_at(later), Ok(true));
        drop(Permit { trial: Some(circuit.clone()) });
        assert_eq!(circuit.admit_at(Instant::now()), Ok(true));
        assert!(circuit.admit_at(Instant::now()).is_err());
    }

    #[test]
    fn refusals_are_answers() {
        for (status, health) in [
            (200, Health::Answers),
            (400, Health::Answers),
            (401, Health::Answers),
            (429, Health::Answers),
            (408, Health::Unknown),
            (500, Health::Unknown),
            (502, Health::Fails),
            (503, Health::Fails),
            (529, Health::Fails),
        ] {
            assert_eq!(Health::of(StatusCode::from_u16(status).unwrap()), health, "{status}");
        }
    }
}
