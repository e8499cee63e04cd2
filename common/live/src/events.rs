//! The stream of events: changes of accounts, sent to their followers.
//!
//! Every admin appends what it has committed to one Redis stream, and reads the stream over a separate connection. The
//! stream is fast but not the source of truth: [`StreamMessage::Lost`], or an entry that is no longer present, shows that
//! events may be missing. Followers then read the state from Postgres again.

use std::{fmt, str::FromStr, time::Duration};

use domain::{Account, OrgName, ProjectName, Timestamp, UserId, role::Role};
use redis::{ErrorKind, FromRedisValue as _, Pipeline, RedisError, Value};
use serde::{Deserialize, Serialize};
use serde_json::Map;

use super::{
    Redis,
    connection::{BlockingConnection, RESPONSE_TIMEOUT},
};

const STREAM: &str = "svc:events";
/// The field of an entry that has its message, as JSON.
const FIELD: &str = "e";
const KEPT: usize = 16_384;
/// The longest time for which Redis holds a response while there are no entries.
const BLOCK: Duration = Duration::from_secs(2);
const READ_BATCH: usize = 512;

/// The id of a stream entry: Redis's time, and a number within the millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId {
    millis: u64,
    number: u64,
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.millis, self.number)
    }
}

/// The text is not the id of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the id of an event")]
pub struct EventIdError;

impl FromStr for EventId {
    type Err = EventIdError;

    fn from_str(text: &str) -> Result<Self, EventIdError> {
        let (millis, number) = text.split_once('-').ok_or(EventIdError)?;
        let parse = |digits: &str| {
            let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|_| is_plain).ok_or(EventIdError)
        };
        Ok(Self { millis: parse(millis)?, number: parse(number)? })
    }
}

/// A change of an account or of something that it owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccountEvent {
    /// The kind: a word of the audit log, or `receipt`, `domain.state`, `push`, `billing`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The affected account.
    pub owner: Account,
    /// The name of that account, if it is an org.
    pub org: Option<OrgName>,
    /// The affected project.
    pub project: Option<ProjectName>,
    /// The affected object within the project or org: an id, a hostname, a login.
    pub subject: Option<String>,
    /// The name of the author.
    pub by: Option<String>,
    /// The author, if it is a person.
    pub actor: Option<UserId>,
    /// The time of the change.
    pub at: Timestamp,
    /// Details for every recipient.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub detail: Map<String, serde_json::Value>,
    /// Details for the org's admins and owners, and for the owner of a personal project.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub admin_detail: Map<String, serde_json::Value>,
    /// The lowest role in the org that receives the event.
    pub told_from: Role,
    /// Whether it changes who belongs to the org, or in which role.
    #[serde(default)]
    pub changes_members: bool,
}

/// The content of a stream entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum StreamMessage {
    /// A change happened.
    Event(Box<AccountEvent>),
    /// A session or token of the person may have ended: each of their streams has to check its own.
    Credentials {
        /// The person.
        user: UserId,
    },
    /// Events may be missing: everything has to be read again.
    Lost,
    /// The stream begins.
    Began,
    /// A message of a newer program, unknown to this version.
    #[serde(other)]
    Unknown,
}

/// An entry of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamEntry {
    /// The id.
    pub id: EventId,
    /// The message.
    pub message: StreamMessage,
}

impl Redis {
    /// Appends `messages` to the stream in order.
    pub async fn send_events(&self, messages: &[StreamMessage]) -> Result<(), RedisError> {
        let mut pipeline = Pipeline::with_capacity(messages.len());
        for message in messages {
            let text = serde_json::to_string(message)
                .map_err(|_| RedisError::from((ErrorKind::Client, "an event cannot be written as JSON")))?;
            let append = pipeline.cmd("XADD").arg(STREAM).arg("MAXLEN").arg("~").arg(KEPT);
            append.arg("*").arg(FIELD).arg(text).ignore();
        }
        pipeline.query_async(&mut self.commands()).await
    }

    /// Opens a separate connection for reading the stream.
    pub async fn event_reader(&self) -> Result<EventReader, RedisError> {
        Ok(EventReader(self.blocking_connection(BLOCK + RESPONSE_TIMEOUT).await?))
    }
}

/// A connection that reads the stream.
pub struct EventReader(BlockingConnection);

impl EventReader {
    /// Returns the newest entries in order, at most `count`.
    pub async fn latest(&mut self, count: usize) -> Result<Vec<StreamEntry>, RedisError> {
        let mut command = redis::cmd("XREVRANGE");
        command.arg(STREAM).arg("+").arg("-").arg("COUNT").arg(count);
        let mut latest = entries(self.0.run(&command).await?)?;
        latest.reverse();
        Ok(latest)
    }

    /// Returns whether the stream still has the entry. If not, entries after it may be missing too.
    pub async fn contains(&mut self, id: EventId) -> Result<bool, RedisError> {
        let mut command = redis::cmd("XRANGE");
        command.arg(STREAM).arg(id.to_string()).arg(id.to_string()).arg("COUNT").arg(1);
        Ok(!entries(self.0.run(&command).await?)?.is_empty())
    }

    /// Waits for entries after `id` and returns them in order. Returns none if none arrived for some seconds.
    pub async fn next(&mut self, id: EventId) -> Result<Vec<StreamEntry>, RedisError> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(READ_BATCH).arg("BLOCK").arg(u64::try_from(BLOCK.as_millis()).unwrap_or_default());
        command.arg("STREAMS").arg(STREAM).arg(id.to_string());
        let streams: Option<Vec<(Value, Value)>> = self.0.run(&command).await?;
        match streams.into_iter().flatten().next() {
            Some((_, found)) => entries(found),
            None => Ok(Vec::new()),
        }
    }
}

fn entries(answer: Value) -> Result<Vec<StreamEntry>, RedisError> {
    let rows: Vec<(String, Vec<String>)> = Vec::from_redis_value(answer)?;
    rows.into_iter()
        .map(|(id, fields)| {
            let id = id.parse().map_err(|_| RedisError::from((ErrorKind::Client, "an entry's id cannot be read")))?;
            let text = fields.chunks_exact(2).find(|pair| pair[0] == FIELD).map(|pair| pair[1].as_str());
            // A new kind of message from a newer program is unknown; an unreadable message of a known kind is lost.
            let message = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(StreamMessage::Lost);
            Ok(StreamEntry { id, message })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_their_numbers_and_strictly_read() {
        let id = |text: &str| text.parse::<EventId>();
        assert!(id("9-10").unwrap() < id("10-0").unwrap() && id("10-2").unwrap() < id("10-10").unwrap());
        assert_eq!(id("17-3").unwrap().to_string(), "17-3");
        for bad in ["", "-", "1", "1-", "-1", "+1-0", "1-0x", "1-2-3", " 1-2", "99999999999999999999-0"] {
            assert_eq!(id(bad), Err(EventIdError), "{bad}");
        }
    }

    #[test]
    fn what_a_newer_program_says_is_unknown_and_what_cannot_be_read_is_lost() {
        let text = |text: &str| Value::BulkString(text.into());
        let entry =
            |id: &str, message: &str| Value::Array(vec![text(id), Value::Array(vec![text(FIELD), text(message)])]);
        let answer = Value::Array(vec![
            entry("1-0", r#"{"is":"lost"}"#),
            entry("1-1", r#"{"is":"weather","rain":true}"#),
            entry("2-0", r#"{"is":"event","type":"push"}"#),
        ]);
        let messages: Vec<_> = entries(answer).unwrap().into_iter().map(|sent| sent.message).collect();
        assert_eq!(messages, [StreamMessage::Lost, StreamMessage::Unknown, StreamMessage::Lost]);
    }
}
