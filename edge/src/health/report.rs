//! Reports this edge to admin and the operator every few seconds: its machine, version, position and load.

use std::sync::Arc;

use domain::Clock;
use gateway::Gateway;
use live::{
    Redis,
    reports::{ProgramKind, ProgramReport, REPORT_EVERY},
};
use memory::ChangeMarks;
use telemetry::{BuildInfo, health::Health, process};
use tokio::time::{MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

/// The contents of an edge's report.
pub struct PresenceReporter {
    /// The ID of the edge process.
    pub id: String,
    /// The name of its machine.
    pub name: String,
    /// The build of the program.
    pub build: BuildInfo,
    /// Shows how far changes have been followed.
    pub marks: Arc<ChangeMarks>,
    /// The maximum of connections.
    pub most_connections: usize,
    /// Whether it is ready.
    pub health: Health,
    /// The clock.
    pub clock: Clock,
    /// The gateway, whose unreachable models are reported.
    pub gateway: Arc<Gateway>,
}

impl PresenceReporter {
    /// Reports to Redis until `stop`, then withdraws the report. `connections` counts open ones.
    pub async fn report(self, redis: Redis, connections: impl Fn() -> usize, stop: CancellationToken) {
        let started = self.clock.now();
        let mut every = interval(REPORT_EVERY);
        every.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = every.tick() => {}
            }
            let report = ProgramReport {
                id: self.id.clone(),
                name: self.name.clone(),
                version: self.build.version.to_owned(),
                commit: self.build.commit.to_owned(),
                started: started.unix_seconds(),
                seq: self.marks.applied(),
                connections: connections() as u64,
                most_connections: self.most_connections as u64,
                memory_bytes: process::ProcessStats::read().resident_bytes,
                load: process::load(),
                is_ready: self.health.is_ready(),
                unreachable_models: Some(self.gateway.unreachable_models()),
            };
            // While Redis is unreachable nobody reads the report either; the follower of changes logs the outage.
            let _ = redis.record_report(ProgramKind::Edge, &report).await;
        }
        let _ = redis.withdraw_report(ProgramKind::Edge, &self.id).await;
    }
}
