//! What the requests of a gateway share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::{Clock, PayingAccount};
use fairness::{Amounts, Room, Turns};

use super::{drains::Drains, meter::Meter, settings::Settings, under_way::UnderWay};
use crate::memory::keys::Keys;

/// The state that the requests of a gateway share.
pub(super) struct State {
    pub(super) settings: ArcSwap<Settings>,
    pub(super) keys: Arc<Keys>,
    pub(super) meter: Meter,
    pub(super) clock: Clock,
    /// Bounds the concurrent completions, in all and per account; each holds a turn until its answer has ended.
    pub(super) completions: Turns<PayingAccount>,
    /// Bounds the bytes of the answers that are read whole before they are sent, in all and per account.
    pub(super) answers: Amounts<PayingAccount>,
    /// Bounds the bytes of large bodies of requests, in all and per account.
    pub(super) requests: Room<PayingAccount>,
    pub(super) drains: Drains,
    pub(super) under_way: UnderWay,
}
