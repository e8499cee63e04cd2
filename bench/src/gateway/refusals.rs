//! The cost of an account that is at its limit and continues to send requests.

use std::time::Instant;

use anyhow::{Context as _, ensure};

use super::{ask::ClientArguments, peers::RunningGateway, round};
use crate::{BenchEffort, cpu, world::BenchWorld};

/// Seconds until the edge has learned that the account is at its limit.
const WARM: u32 = 1;
/// The minimum share of refusals among the responses: a minute admits one completion.
const REFUSED: f64 = 0.99;

#[derive(Default)]
pub(super) struct RefusalFigures {
    /// Refusals per second of the gateway's CPU time.
    pub(super) per_cpu: Vec<f64>,
    /// The share of a core that Redis used.
    pub(super) redis: Vec<f64>,
}

impl RefusalFigures {
    /// Measures one round at `gateway`, whose account may complete one request a minute.
    pub(super) fn measure(
        &mut self,
        gateway: &RunningGateway,
        world: &BenchWorld,
        effort: BenchEffort,
    ) -> anyhow::Result<()> {
        let asking = ClientArguments { at_limit: true, clients: round::CLIENTS, ..gateway.asking.clone() };
        round::ask(&ClientArguments { seconds: WARM, ..asking.clone() }).context("the first refusals")?;
        let spent = || (cpu::spent(gateway.program.id()), world.spent_by("redis-server"));
        let (began, (own, redis)) = (Instant::now(), spent());
        let asked = round::ask(&ClientArguments { seconds: effort.seconds, ..asking }).context("refusals")?;
        let (own_after, redis_after) = spent();
        ensure!(asked.refused >= REFUSED * asked.answers, "{} of {} were refused", asked.refused, asked.answers);
        self.per_cpu.push(asked.refused / own_after.saturating_sub(own).as_secs_f64().max(0.01));
        self.redis.push(redis_after.saturating_sub(redis).as_secs_f64() / began.elapsed().as_secs_f64());
        Ok(())
    }
}
