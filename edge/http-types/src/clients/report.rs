//! Answers an operator's query for the clients with the most use (`admin edges top`), over Redis.

use std::sync::Arc;

use futures_util::StreamExt as _;
use live::{
    Redis,
    bus::{TOP_CHANNEL, TopClientsQuery, TopClientsReply},
};
use tokio::time::{sleep, timeout};

use super::TopClients;

/// Answers queries to edge `id`, on the machine called `name`, for as long as it is polled.
pub async fn answer_questions(redis: Redis, id: String, name: String, talkers: Arc<TopClients>) {
    loop {
        // While Redis is unreachable, queries get no answer; the follower of changes logs the outage.
        let _ = listen(&redis, &id, &name, &talkers).await;
        sleep(limits::TOP_RETRY).await;
    }
}

async fn listen(redis: &Redis, id: &str, name: &str, talkers: &TopClients) -> Result<(), live::RedisError> {
    let mut subscription = match timeout(limits::SUBSCRIBE_WAIT, redis.subscriber()).await {
        Ok(subscription) => subscription?,
        Err(_) => return Ok(()),
    };
    subscription.subscribe(TOP_CHANNEL).await?;
    let mut questions = subscription.into_on_message();
    while let Some(message) = questions.next().await {
        let Ok(question) = serde_json::from_slice::<TopClientsQuery>(message.get_payload_bytes()) else { continue };
        let clients = talkers.top(question.count.min(limits::TOP_CLIENTS));
        let answer = TopClientsReply { edge: id.to_owned(), name: name.to_owned(), clients };
        if let Ok(text) = serde_json::to_string(&answer) {
            redis.publish(&question.reply_channel(), &text).await?;
        }
        sleep(limits::TOP_PAUSE).await;
    }
    Ok(())
}
