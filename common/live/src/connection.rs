//! One multiplexed, self-reconnecting connection per process, to a single Redis or a cluster; clones share it.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, ErrorKind, FromRedisValue, IntoConnectionInfo as _, Pipeline,
    RedisError, RedisFuture, ServerErrorKind, TlsCertificates, Value,
    aio::{ConnectionLike, MultiplexedConnection, PubSub},
    cluster_async::ClusterConnection,
};
use telemetry::{OutageLine, OutageLog, metrics::redis_failed};
use tokio::sync::OnceCell;

use super::{
    budgets::RedisMemory,
    cluster::{self, ClusterNodes},
    silence::{ReplaceableConnection, tcp_settings},
};

/// The timeout of a response. A slower Redis is treated as unavailable.
pub(super) const RESPONSE_TIMEOUT: Duration = Duration::from_millis(500);
pub(super) const CONNECTION_TIMEOUT: Duration = Duration::from_secs(1);
/// The pause between connection attempts. In between, commands fail with the error of the last attempt.
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// A handle to Redis. Cheap to clone.
#[derive(Clone)]
pub struct Redis {
    /// The addresses for subscriptions; only one, except in a cluster.
    clients: Arc<[Client]>,
    next: Arc<AtomicUsize>,
    shared: RedisTarget,
    /// Whether this Redis belongs to another database; see [`Redis::set_refused`].
    pub(super) is_refused: Arc<AtomicBool>,
    pub(super) memory: RedisMemory,
}

/// A connection for blocking commands, whose responses may take longer than the shared connection allows.
pub(super) enum BlockingConnection {
    Single(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl BlockingConnection {
    pub(super) async fn run<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, RedisError> {
        match self {
            Self::Single(connection) => command.query_async(connection).await,
            Self::Cluster(connection) => command.query_async(connection).await,
        }
    }
}

/// The shared connection. Cheap to clone.
#[derive(Clone)]
pub struct CommandConnection {
    target: RedisTarget,
    /// `None` for checking which database owns the Redis.
    is_refused: Option<Arc<AtomicBool>>,
}

impl CommandConnection {
    /// Returns the same connection, usable even if Redis belongs to another database.
    pub(super) fn unrefused(self) -> Self {
        Self { is_refused: None, ..self }
    }

    fn ensure_own_database(&self) -> Result<(), RedisError> {
        self.is_refused.as_deref().map_or(Ok(()), check_owner)
    }
}

fn check_owner(is_refused: &AtomicBool) -> Result<(), RedisError> {
    if is_refused.load(Ordering::Relaxed) {
        return Err((ErrorKind::InvalidClientConfig, "this Redis belongs to another database").into());
    }
    Ok(())
}

#[derive(Clone)]
enum RedisTarget {
    Single(Arc<SingleNode>),
    /// The nodes of a cluster; each command goes to the one that has its keys.
    Cluster(Arc<ClusterNodes>),
}

/// The connection to a single Redis. The `ConnectionManager` of the crate reconnects only after network errors. A login
/// refused once (Redis restarted without its users, a password being changed) would fail every command from then on.
pub struct SingleNode {
    client: Client,
    connection: ReplaceableConnection<OnceCell<ConnectionAttempt>>,
}

/// The outcome of a connection attempt, shared by all that wait for it.
type ConnectionAttempt = Result<MultiplexedConnection, FailedAttempt>;

struct FailedAttempt {
    error: RedisError,
    at: Instant,
}

impl SingleNode {
    fn new(client: Client) -> Self {
        Self { client, connection: ReplaceableConnection::new(OnceCell::new()) }
    }

    /// Runs `command` over the current connection, and replaces that if it was lost, stalled or never established.
    async fn run<T: RedisReply>(
        &self,
        command: impl AsyncFnOnce(MultiplexedConnection) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let mut used = self.connection.current();
        if let Some(Err(failed)) = used.connection.get()
            && failed.at.elapsed() >= RECONNECT_PAUSE
        {
            self.connection.replace(&used, OnceCell::new());
            used = self.connection.current();
        }
        if !used.connection.initialized() {
            // In a separate task: callers that time out would otherwise restart the attempt each time.
            let (client, attempt) = (self.client.clone(), used.clone());
            let attempting = async move { _ = attempt.connection.get_or_init(|| connect(&client)).await };
            let _ = tokio::spawn(attempting).await;
        }
        let connection = match used.connection.get() {
            Some(Ok(connection)) => connection.clone(),
            Some(Err(failed)) => return Err(failed.error.clone()),
            // Only when the runtime shuts down.
            None => return Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into()),
        };
        let answer = command(connection).await;
        match reply_error(&answer).as_ref() {
            Some(error) if error.is_timeout() => self.connection.record_late(&used, || Ok(OnceCell::new())),
            Some(error) if is_lost(error) => self.connection.replace(&used, OnceCell::new()),
            _ => used.record_answer(),
        }
        answer
    }
}

/// A response of Redis. A refusal is a regular response until it is converted.
trait RedisReply {
    /// Returns the error with which Redis refused the command, if it did.
    fn refusal(&self) -> Option<RedisError>;
}

impl RedisReply for Value {
    fn refusal(&self) -> Option<RedisError> {
        matches!(self, Self::ServerError(_)).then(|| self.clone().extract_error().err()).flatten()
    }
}

impl RedisReply for Vec<Value> {
    fn refusal(&self) -> Option<RedisError> {
        self.iter().find_map(RedisReply::refusal)
    }
}

/// Returns the error of a failed command, or the refusal in its response.
fn reply_error<T: RedisReply>(answer: &Result<T, RedisError>) -> Option<RedisError> {
    answer.as_ref().map_or_else(|error| Some(error.clone()), RedisReply::refusal)
}

/// Connects and logs in. Retries once after a network error, because Redis may be restarting.
async fn connect(client: &Client) -> ConnectionAttempt {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(CONNECTION_TIMEOUT))
        .set_response_timeout(Some(RESPONSE_TIMEOUT));
    let mut made = client.get_multiplexed_async_connection_with_config(&config).await;
    if made.as_ref().is_err_and(|error| error.is_io_error() && !error.is_timeout()) {
        tokio::time::sleep(RECONNECT_PAUSE).await;
        made = client.get_multiplexed_async_connection_with_config(&config).await;
    }
    log_login(made.as_ref().err());
    made.map_err(|error| FailedAttempt { error, at: Instant::now() })
}

/// Returns whether the connection that returned this error is unusable: broken, or not logged in.
pub(super) fn is_lost(error: &RedisError) -> bool {
    error.is_unrecoverable_error() || error.code() == Some("NOAUTH")
}

/// Logs while Redis refuses the login of `redis.url`.
fn log_login(error: Option<&RedisError>) {
    static REFUSED: OutageLog = OutageLog::new();
    match error {
        Some(error) if is_refusal(error) => {
            if let Some(OutageLine { left_out, .. }) = REFUSED.record_failure() {
                tracing::warn!(
                    %error,
                    left_out,
                    "Redis refuses the login of redis.url, which is tried again; an empty Redis has lost its users \
                     (`admin redis-acl` prints the rules of an edge's)"
                );
            }
        }
        // The error says nothing about the login.
        Some(_) => {}
        None => {
            if let Some(lasted) = REFUSED.record_success() {
                tracing::info!(seconds = lasted.as_secs(), "Redis accepts the login of redis.url again");
            }
        }
    }
}

fn is_refusal(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed || matches!(error.code(), Some("WRONGPASS" | "NOAUTH"))
}

/// A node that has keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyNode {
    Only,
    /// The node of a cluster that has this slot.
    OfSlot(u16),
}

impl Redis {
    /// Prepares the connection, which is established on first use and again whenever it breaks.
    pub fn connect(url: &str) -> Result<Self, RedisError> {
        Self::connect_trusting(url, None)
    }

    /// Prepares the connection like [`Self::connect`]. With `ca_file`, only the authorities in it are trusted.
    pub fn connect_trusting(url: &str, ca_file: Option<&Path>) -> Result<Self, RedisError> {
        let read = |path: &Path| {
            std::fs::read(path).map_err(|error| {
                let detail = format!("{}: {error}", path.display());
                RedisError::from((ErrorKind::InvalidClientConfig, "redis.ca_file cannot be read", detail))
            })
        };
        let authority = ca_file.map(read).transpose()?;
        let (clients, shared) = if let Some(urls) = cluster::urls(url) {
            let clients = urls.iter().map(|url| open(url, authority.as_deref())).collect::<Result<_, _>>()?;
            (clients, RedisTarget::Cluster(Arc::new(ClusterNodes::new(&urls, authority)?)))
        } else {
            let client = open(url, authority.as_deref())?;
            let shared = RedisTarget::Single(Arc::new(SingleNode::new(client.clone())));
            (vec![client], shared)
        };
        let (next, is_refused) = Default::default();
        Ok(Self { clients: clients.into(), next, shared, is_refused, memory: RedisMemory::default() })
    }

    /// Returns the shared connection, for commands.
    pub fn commands(&self) -> CommandConnection {
        CommandConnection { target: self.shared.clone(), is_refused: Some(self.is_refused.clone()) }
    }

    /// Opens a connection for subscriptions. It ends when Redis goes away, and the caller has to subscribe again. In a
    /// cluster, every node forwards messages published at any node, and the next call tries the next node.
    pub async fn subscriber(&self) -> Result<PubSub, RedisError> {
        check_owner(&self.is_refused)?;
        let mut failed = RedisError::from((ErrorKind::InvalidClientConfig, "no address of Redis is known"));
        for _ in 0..self.clients.len() {
            let client = &self.clients[self.next.fetch_add(1, Ordering::Relaxed) % self.clients.len()];
            match tokio::time::timeout(CONNECTION_TIMEOUT, client.get_async_pubsub()).await {
                Ok(Ok(subscriber)) => return Ok(subscriber),
                Ok(Err(error)) => {
                    log_login(Some(&error));
                    failed = error;
                }
                Err(_) => failed = std::io::Error::from(std::io::ErrorKind::TimedOut).into(),
            }
        }
        Err(failed)
    }

    /// Opens a separate connection for blocking commands, whose responses may take `patience`.
    pub(super) async fn blocking_connection(&self, patience: Duration) -> Result<BlockingConnection, RedisError> {
        check_owner(&self.is_refused)?;
        match &self.shared {
            RedisTarget::Single(single) => {
                let config = AsyncConnectionConfig::new()
                    .set_connection_timeout(Some(CONNECTION_TIMEOUT))
                    .set_response_timeout(Some(patience));
                let made = single.client.get_multiplexed_async_connection_with_config(&config).await?;
                Ok(BlockingConnection::Single(made))
            }
            RedisTarget::Cluster(cluster) => Ok(BlockingConnection::Cluster(cluster.patient(patience).await?)),
        }
    }

    /// Publishes `message` to the current subscribers of `channel`.
    pub async fn publish(&self, channel: &str, message: &str) -> Result<(), RedisError> {
        redis::cmd("PUBLISH").arg(channel).arg(message).query_async::<i64>(&mut self.commands()).await.map(drop)
    }

    /// Fails unless Redis responds. Each node of a cluster looks up a key: an isolated one answers other commands.
    pub async fn ping(&self) -> Result<(), RedisError> {
        for node in self.nodes().await? {
            let question = match node {
                KeyNode::Only => redis::cmd("PING"),
                KeyNode::OfSlot(_) => Cmd::exists(node.key("svc:ping")),
            };
            question.query_async::<Value>(&mut self.commands()).await?;
        }
        Ok(())
    }

    pub(super) async fn nodes(&self) -> Result<Vec<KeyNode>, RedisError> {
        match &self.shared {
            RedisTarget::Single(_) => Ok(vec![KeyNode::Only]),
            RedisTarget::Cluster(cluster) => Ok(cluster.slots().await?.into_iter().map(KeyNode::OfSlot).collect()),
        }
    }

    pub(super) async fn query_node<T: FromRedisValue>(&self, node: KeyNode, question: Cmd) -> Result<T, RedisError> {
        check_owner(&self.is_refused)?;
        match (&self.shared, node) {
            (RedisTarget::Cluster(cluster), KeyNode::OfSlot(slot)) => cluster.query_slot(slot, question).await,
            _ => question.query_async(&mut self.commands()).await,
        }
    }
}

impl KeyNode {
    /// Returns the variant of the key `name` that this node stores.
    pub(super) fn key(self, name: &str) -> String {
        match self {
            Self::Only => name.to_owned(),
            Self::OfSlot(slot) => format!("{name}:{{{}}}", cluster::hash_tag(slot)),
        }
    }
}

fn open(url: &str, authority: Option<&[u8]>) -> Result<Client, RedisError> {
    let info = url.into_connection_info()?.set_tcp_settings(tcp_settings());
    match authority {
        Some(authority) if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) => {
            Client::build_with_tls(info, trusting(authority.to_vec()))
        }
        _ => Client::open(info),
    }
}

/// Returns TLS settings that trust only this authority.
pub(super) fn trusting(authority: Vec<u8>) -> TlsCertificates {
    TlsCertificates { client_tls: None, root_cert: Some(authority) }
}

/// Counts failures. A missing script is no failure: it is sent and retried.
async fn count_failures<T: RedisReply>(answer: impl Future<Output = Result<T, RedisError>>) -> Result<T, RedisError> {
    let answer = answer.await;
    if let Some(error) = reply_error(&answer)
        && error.kind() != ErrorKind::Server(ServerErrorKind::NoScript)
    {
        redis_failed();
        warn_when_denied(&error);
    }
    answer
}

/// Warns if the user of `redis.url` lacks a permission: retrying does not help, and not every caller logs the error.
fn warn_when_denied(error: &RedisError) {
    static DENIED: OutageLog = OutageLog::new();
    // For commands in scripts, Redis reports it only in the message.
    let is_denied = error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || error.detail().is_some_and(|detail| detail.contains("ACL failure in script"));
    if is_denied && let Some(OutageLine { left_out, .. }) = DENIED.record_failure() {
        tracing::warn!(
            %error,
            left_out,
            "the user of redis.url lacks a right in Redis; for an edge, `admin redis-acl` prints the rules that its user needs"
        );
    }
}

impl ConnectionLike for CommandConnection {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        if let Err(error) = self.ensure_own_database() {
            return Box::pin(count_failures(std::future::ready(Err(error))));
        }
        match &self.target {
            RedisTarget::Single(single) => Box::pin(count_failures(
                single.run(async |mut connection| connection.req_packed_command(command).await),
            )),
            RedisTarget::Cluster(cluster) => Box::pin(count_failures(
                cluster.run(async |mut connection| connection.req_packed_command(command).await),
            )),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        if let Err(error) = self.ensure_own_database() {
            return Box::pin(count_failures(std::future::ready(Err(error))));
        }
        match &self.target {
            RedisTarget::Single(single) => Box::pin(count_failures(
                single.run(async move |mut connection| connection.req_packed_commands(pipeline, offset, count).await),
            )),
            RedisTarget::Cluster(cluster) => Box::pin(count_failures(
                cluster.run(async move |mut connection| connection.req_packed_commands(pipeline, offset, count).await),
            )),
        }
    }

    fn get_db(&self) -> i64 {
        match &self.target {
            RedisTarget::Single(single) => single.client.get_connection_info().redis_settings().db(),
            RedisTarget::Cluster(_) => 0,
        }
    }
}
