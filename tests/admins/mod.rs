//! Several admins behind an edge: one that hangs, one that stops, one that has no room.

mod hung;
mod restarts;
mod room;

use reqwest::Method;

use crate::world::{Actor, Builder, Edge, World, eventually, process::Process, request::Request};

/// A world whose edge has two admins: the world's own, and another.
struct Pair {
    world: World,
    other: Process,
    other_port: u16,
    ada: Actor,
}

impl Pair {
    async fn start() -> Self {
        Self::of(World::builder().plan(&serde_json::json!({})), &[]).await
    }

    /// A pair of which the other admin has settings of its own.
    async fn of(builder: Builder, of_other: &[(&str, &str)]) -> Self {
        let mut world = builder.start().await;
        let settings = world.settings();
        for (variable, value) in of_other {
            world.set(variable, value);
        }
        let (other_port, other) = world.start_admin_at_a_port();
        world.replace_settings(settings);
        let upstreams = format!("127.0.0.1:{},127.0.0.1:{other_port}", world.admin_port);
        world.set("EDGE__ADMIN_UPSTREAMS", upstreams);
        world.restart_edge(0).await;
        let ada = world.user("ada").await;
        let pair = Self { world, other, other_port, ada };
        pair.wait_until_both_answer().await;
        pair
    }

    /// Waits until the edge hands requests to both admins.
    async fn wait_until_both_answer(&self) {
        let other = self.ada.at_admin(self.other_port);
        eventually(crate::BACKGROUND, "the other admin answers", async || {
            other.get("/health").attempt().await.is_ok_and(|answer| answer.status == 200)
        })
        .await;
        // Each answers within a second of each other to the edge's look; what it says of itself is what it was asked last.
        eventually(crate::BACKGROUND, "the edge hands requests to the other admin", async || {
            let log = self.other.log();
            self.call(Method::GET, "/me").await.ok();
            self.other.log().len() > log.len()
        })
        .await;
    }

    /// A request of ada's through the edge.
    fn call(&self, method: Method, path: &str) -> Request {
        call(self.world.edge(), &self.ada, method, path)
    }
}

/// A request of `actor` to the API through `edge`.
fn call(edge: &Edge, actor: &Actor, method: Method, path: &str) -> Request {
    edge.request(method, &format!("https://api.svc.localhost{path}")).bearer(actor.token.as_deref().unwrap())
}
