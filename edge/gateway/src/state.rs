//! The state that a gateway's requests share.

use std::sync::Arc;

use arc_swap::ArcSwap;
use domain::{Clock, PayingAccount};
use fairness::{AmountLimit, SizedRoom, TurnQueue};
use memory::keys::GatewayKeyCache;
use meter::UsageMeter;

use super::{drains::DrainTasks, settings::GatewaySettings, under_way::PendingCompletions};

pub(super) struct GatewayState {
    pub(super) settings: ArcSwap<GatewaySettings>,
    pub(super) keys: Arc<GatewayKeyCache>,
    pub(super) meter: UsageMeter,
    pub(super) clock: Clock,
    /// Bounds concurrent completions, in total and per account; each holds a turn until its answer has ended.
    pub(super) completions: TurnQueue<PayingAccount>,
    /// Bounds the bytes of answers that are read whole before they are sent, in total and per account.
    pub(super) answers: AmountLimit<PayingAccount>,
    /// Bounds the bytes of large request bodies, in total and per account.
    pub(super) requests: SizedRoom<PayingAccount>,
    pub(super) drains: DrainTasks,
    pub(super) under_way: PendingCompletions,
}
