//! Statistics: what visitors did at real edges, compared number by number with what the API says of it.

mod agents;
mod audience;
mod bandwidth;
mod cli;
mod counting;
mod countries;
mod days;
mod divided;
mod errors;
mod export;
mod figures;
mod flood;
mod held;
mod months;
mod outage;
mod pipeline;
mod privacy;
mod public;
mod ranges;
mod reports;
mod rows;
mod scan;
mod visitors;

use std::time::Duration;

use serde_json::Value;

use crate::world::{Actor, Builder, Site, World, eventually, holds_within};

/// The time within which a visit must be visible.
const SEEN_WITHIN: Duration = Duration::from_secs(5);

/// A world in which ada has published a site.
struct Visited {
    world: World,
    ada: Actor,
    url: String,
}

impl Visited {
    async fn start(site: &Site) -> Self {
        Self::start_with(site, |builder| builder).await
    }

    async fn start_with(site: &Site, configure: impl FnOnce(Builder) -> Builder) -> Self {
        let world = configure(World::builder()).start().await;
        let ada = world.user("ada").await;
        let url = ada.publish("engine", site).await.url;
        Self { world, ada, url }
    }

    /// The live statistics.
    async fn live(&self) -> Value {
        self.ada.get("/projects/engine/stats").await.ok()
    }

    /// The live statistics once they know of so many requests, and of no more.
    async fn live_with(&self, requests: usize) -> Value {
        self.live_with_within(requests, SEEN_WITHIN).await
    }

    async fn live_with_within(&self, requests: usize, within: Duration) -> Value {
        let mut live = Value::Null;
        let is_there = holds_within(within, async || {
            live = self.live().await;
            live["totals"]["requests"].as_u64().is_some_and(|seen| seen >= requests as u64)
        })
        .await;
        assert!(is_there, "{requests} requests are not seen within {within:?}: {live:#}");
        assert_eq!(live["totals"]["requests"], requests, "{live:#}");
        live
    }

    /// Visits a path of the site at the first edge so often.
    async fn visit(&self, path: &str, times: usize) {
        for _ in 0..times {
            self.world.edge().get(&format!("{}{path}", self.url)).await;
        }
    }
}

/// Adds what the edges have appended to the hours, as a job does.
async fn fold(world: &World) {
    while world.sql_number("SELECT fold_traffic(10000)").await > 0 {}
}
