//! What operators publish of their agents: admin reads it, keeps it, and lets nothing broken take its place.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tokio::net::TcpListener;

use super::*;
use crate::BACKGROUND;

/// The key of RFC 8037, and its thumbprint.
const DIRECTORY: &str =
    r#"{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo","use":"sig"}]}"#;
const THUMBPRINT: &str = "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k";

/// A server with one list and one directory.
#[derive(Clone, Default)]
struct Operator(Arc<Mutex<(u16, String)>>);

impl Operator {
    /// Starts it. Returns its address, too.
    async fn start() -> (Self, String) {
        let operator = Self::default();
        let answer = async |State(operator): State<Self>| {
            let (status, text) = operator.0.lock().unwrap().clone();
            (StatusCode::from_u16(status).unwrap(), text)
        };
        let router = Router::new()
            .route("/list", get(answer))
            .route("/directory", get(DIRECTORY))
            .route("/nobody", get(DIRECTORY))
            .with_state(operator.clone());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await });
        (operator, address)
    }

    fn publish(&self, status: u16, list: &str) {
        *self.0.lock().unwrap() = (status, list.to_owned());
    }
}

/// Lets the next look of the job find every source due, and waits until it has read the list.
async fn read_again(world: &mut World) -> String {
    world.sql("UPDATE agent_sources SET read_again = 'epoch'").await;
    world.restart_admin_later().await;
    let none_due = "SELECT count(*) FROM agent_sources WHERE read_again <= now()";
    eventually(BACKGROUND, "everything is read", async || world.sql_number(none_due).await == 0).await;
    networks(world).await
}

async fn networks(world: &World) -> String {
    world.sql_text("SELECT coalesce(max(array_to_string(networks, ' ')), '') FROM agent_networks").await
}

#[tokio::test]
async fn lists_of_networks_are_read_and_broken_ones_are_not_believed() {
    let (operator, address) = Operator::start().await;
    operator.publish(
        200,
        r#"{"prefixes": [{"ipv4Prefix": "9.1.0.0/24"}, {"ipv4Prefix": "9.1.1.0/24"}, {"ipv6Prefix": "2a00:9::/32"}]}"#,
    );
    let mut world = World::builder()
        .set("STATS__AGENT_NETWORKS", format!(r#"{{"betterstack-of-a-test": "{address}/list"}}"#))
        .set(
            "STATS__AGENT_DIRECTORIES",
            format!(r#"{{"ChatGPT Agent": "{address}/directory", "Nobody": "{address}/nobody"}}"#),
        )
        .start()
        .await;
    let first = "9.1.0.0/23 2a00:9::/32";
    eventually(BACKGROUND, "the list is read", async || networks(&world).await == first).await;
    let keys = "SELECT coalesce(max(agent || ' ' || key_id), '') FROM agent_keys";
    eventually(BACKGROUND, "the directory is read", async || {
        world.sql_text(keys).await == format!("ChatGPT Agent {THUMBPRINT}")
    })
    .await;
    let failing = "SELECT count(*) FROM agent_sources WHERE failures > 0";
    let nobody = async || world.sql_number(failing).await == 1;
    eventually(BACKGROUND, "the directory of no agent is refused", nobody).await;
    for (status, broken) in [
        (503, "9.9.9.9"),
        (200, "<html>Not here</html>"),
        (200, "0.0.0.0/0"),
        (200, "9.9.9.9 10.0.0.0/8"),
        (200, &"9.9.9.9\n".repeat(400_000)),
    ] {
        operator.publish(status, broken);
        assert_eq!(read_again(&mut world).await, first, "{status}: {}", &broken[..7]);
    }
    operator.publish(200, "9.2.0.0/24\n9.3.0.0/24\n");
    assert_eq!(read_again(&mut world).await, "9.2.0.0/24 9.3.0.0/24");
}
