//! The state that a gateway's requests share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::{Clock, PayingAccount};
use fairness::{Amounts, Room, Turns};

use super::{drains::Drains, meter::Meter, settings::Settings, under_way::UnderWay};
use crate::memory::keys::Keys;

pub(super) struct State {
    pub(super) settings: ArcSwap<Settings>,
    pub(super) keys: Arc<Keys>,
    pub(super) meter: Meter,
    pub(super) clock: Clock,
    /// Bounds concurrent completions, in total and per account; each holds a turn until its answer has ended.
    pub(super) completions: Turns<PayingAccount>,
    /// Bounds the bytes of answers that are read whole before they are sent, in total and per account.
    pub(super) answers: Amounts<PayingAccount>,
    /// Bounds the bytes of large request bodies, in total and per account.
    pub(super) requests: Room<PayingAccount>,
    pub(super) drains: Drains,
    pub(super) under_way: UnderWay,
}
