//! What the requests of a gateway share.

use std::sync::Arc;

use domain::Clock;
use tokio::sync::Semaphore;

use super::{drains::Drains, meter::Meter, models::ServedModels};
use crate::memory::keys::Keys;

/// The state that the requests of a gateway share.
pub(super) struct State {
    pub(super) models: ServedModels,
    pub(super) keys: Arc<Keys>,
    pub(super) meter: Meter,
    pub(super) clock: Clock,
    /// Bounds the concurrent completions; each holds a permit until its answer has ended.
    pub(super) completions: Arc<Semaphore>,
    pub(super) drains: Drains,
}
