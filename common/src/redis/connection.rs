//! One multiplexed connection a process, which reconnects by itself; clones share it.

use std::time::Duration;

use redis::{
    Client, RedisError,
    aio::{ConnectionManager, ConnectionManagerConfig, PubSub},
};

/// Longest wait for an answer. A Redis that is slower is treated as absent.
const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Longest wait for a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);

/// A handle on Redis. Cheap to clone.
#[derive(Clone)]
pub struct Redis {
    client: Client,
    shared: ConnectionManager,
}

impl Redis {
    /// Prepares the connection; it is made when first needed, and again whenever it breaks.
    pub fn connect(url: &str) -> Result<Self, RedisError> {
        let client = Client::open(url)?;
        let config = ConnectionManagerConfig::new()
            .set_response_timeout(Some(RESPONSE_TIMEOUT))
            .set_connection_timeout(Some(CONNECTION_TIMEOUT))
            .set_number_of_retries(1);
        let shared = ConnectionManager::new_lazy_with_config(client.clone(), config)?;
        Ok(Self { client, shared })
    }

    /// The shared connection, for commands.
    pub fn commands(&self) -> ConnectionManager {
        self.shared.clone()
    }

    /// A connection of its own for subscriptions. It ends when Redis goes; the caller subscribes again.
    pub async fn subscriber(&self) -> Result<PubSub, RedisError> {
        self.client.get_async_pubsub().await
    }

    /// Hands `message` to whoever listens on `channel` now.
    pub async fn publish(&self, channel: &str, message: &str) -> Result<(), RedisError> {
        redis::cmd("PUBLISH").arg(channel).arg(message).query_async::<i64>(&mut self.commands()).await.map(drop)
    }

    /// Whether Redis answers.
    pub async fn ping(&self) -> Result<(), RedisError> {
        redis::cmd("PING").query_async::<String>(&mut self.commands()).await.map(drop)
    }
}
