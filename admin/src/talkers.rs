//! The clients that use the most of each edge (`admin edges top`), queried live from the edges and not stored.

use std::time::Duration;

use futures_util::StreamExt as _;
use live::{
    Redis,
    bus::{TOP_CHANNEL, TopClientsQuery, TopClientsReply},
};
use tokio::time::{Instant, timeout_at};

/// Maximum wait for the edges.
const ANSWER_WAIT: Duration = Duration::from_secs(2);
/// The maximum number of edges whose answers are read.
const EDGES: usize = 1_000;

/// Returns the `count` clients that used the most of each answering edge in the last minute, by edge name.
pub async fn fetch_top_clients(redis: &Redis, count: usize) -> anyhow::Result<Vec<TopClientsReply>> {
    let question = TopClientsQuery::new(hex::encode(rand::random::<[u8; 12]>()), count);
    let mut subscription = redis.subscriber().await?;
    subscription.subscribe(question.reply_channel()).await?;
    let deadline = Instant::now() + ANSWER_WAIT;
    redis.publish(TOP_CHANNEL, &serde_json::to_string(&question)?).await?;
    let mut answers = subscription.into_on_message();
    let mut edges = Vec::new();
    while edges.len() < EDGES
        && let Ok(Some(message)) = timeout_at(deadline, answers.next()).await
    {
        if let Ok(edge) = serde_json::from_slice::<TopClientsReply>(message.get_payload_bytes()) {
            edges.push(edge);
        }
    }
    edges.sort_by(|one, other| (&one.name, &one.edge).cmp(&(&other.name, &other.edge)));
    Ok(edges)
}

/// Formats the answers as a table for people.
pub fn table(edges: &[TopClientsReply]) -> String {
    if edges.is_empty() {
        return "No edge answers.\n".to_owned();
    }
    let mut lines = Vec::new();
    for edge in edges {
        let name = if edge.name.is_empty() { "" } else { " on " };
        lines.push(format!("edge {}{name}{}, the last minute", edge.edge, edge.name));
        lines.push(format!(
            "  {:<40} {:>8} {:>9} {:>10} {:>9} {:>14}",
            "client", "open", "connects", "requests", "refused", "bytes"
        ));
        lines.extend(edge.clients.iter().map(|of| {
            format!(
                "  {:<40} {:>8} {:>9} {:>10} {:>9} {:>14}",
                of.client, of.open, of.connections, of.requests, of.refusals, of.bytes
            )
        }));
    }
    lines.push(String::new());
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use live::bus::ClientCounts;

    use super::*;

    #[test]
    fn a_client_is_a_line() {
        let client = ClientCounts {
            client: "2001:db8::/64".to_owned(),
            open: 3,
            connections: 4,
            requests: 500,
            bytes: 6_000,
            refusals: 7,
        };
        let text =
            table(&[TopClientsReply { edge: "e1".to_owned(), name: "node-7".to_owned(), clients: vec![client] }]);
        assert!(text.starts_with("edge e1 on node-7, the last minute\n"), "{text}");
        let line = text.lines().last().unwrap();
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), ["2001:db8::/64", "3", "4", "500", "7", "6000"]);
        assert_eq!(table(&[]), "No edge answers.\n");
    }
}
