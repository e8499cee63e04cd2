//! A Redis cluster: `redis+cluster://[user:password@]host:port,host:port`, or `rediss+cluster://…`. Some nodes suffice.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use redis::{
    Cmd, ErrorKind, FromRedisValue, RedisError,
    cluster::{ClusterClient, ClusterClientBuilder},
    cluster_async::ClusterConnection,
    cluster_routing::{Route, RoutingInfo, SingleNodeRoutingInfo, Slot, SlotAddr},
};
use tokio::{sync::OnceCell, time::timeout};

use super::{
    connection::{CONNECTION_TIMEOUT, RESPONSE_TIMEOUT, trusting},
    silence::{ReplaceableConnection, WatchedConnection, tcp_settings},
};

/// The timeout of a command including redirects to other nodes.
const OVERALL_TIMEOUT: Duration = Duration::from_secs(1);
/// The timeout for establishing the connections, part of which an unresponsive node may use up.
const MAKING_TIMEOUT: Duration = Duration::from_secs(3);
/// The number of times that a command is sent again, to a node that moved or came back, and the pauses in milliseconds.
const RETRIES: u32 = 3;
const RETRY_WAIT: std::ops::Range<u64> = 10..200;

/// A cache of hash tags by slot: the text between braces that places a key in the slot. Usually one per node.
static TAGS: Mutex<BTreeMap<u16, u32>> = Mutex::new(BTreeMap::new());

pub(super) struct ClusterNodes {
    urls: Vec<String>,
    /// PEM: the only trusted authorities; `None` for the system's.
    authority: Option<Vec<u8>>,
    client: ClusterClient,
    made: ReplaceableConnection<OnceCell<ClusterConnection>>,
}

impl ClusterNodes {
    pub(super) fn new(urls: &[String], authority: Option<Vec<u8>>) -> Result<Self, RedisError> {
        let client = builder(urls, authority.as_deref())
            .connection_timeout(CONNECTION_TIMEOUT)
            .response_timeout(RESPONSE_TIMEOUT)
            .overall_response_timeout(Some(OVERALL_TIMEOUT))
            .retries(RETRIES)
            .min_retry_wait(RETRY_WAIT.start)
            .max_retry_wait(RETRY_WAIT.end)
            .tcp_settings(tcp_settings())
            .build()?;
        Ok(Self { urls: urls.to_vec(), authority, client, made: ReplaceableConnection::new(OnceCell::new()) })
    }

    pub(super) async fn patient(&self, patience: Duration) -> Result<ClusterConnection, RedisError> {
        let client = builder(&self.urls, self.authority.as_deref())
            .connection_timeout(CONNECTION_TIMEOUT)
            .response_timeout(patience)
            .overall_response_timeout(Some(patience))
            .retries(0)
            .tcp_settings(tcp_settings())
            .build()?;
        let making = client.get_async_connection();
        timeout(MAKING_TIMEOUT, making)
            .await
            .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
    }

    /// Runs `command` over the current connection, and abandons the connection if it stalls or every node refuses it.
    pub(super) async fn run<T>(
        &self,
        command: impl AsyncFnOnce(ClusterConnection) -> Result<T, RedisError>,
    ) -> Result<T, RedisError> {
        let used = self.made.current();
        let answer = command(self.connection(&used).await?).await;
        // A reply of one node says nothing about another.
        if answer.as_ref().is_err_and(|error| error.is_timeout() || is_unusable(error)) {
            self.made.record_late(&used, || Ok(OnceCell::new()));
        }
        answer
    }

    async fn connection(
        &self,
        used: &WatchedConnection<OnceCell<ClusterConnection>>,
    ) -> Result<ClusterConnection, RedisError> {
        if let Some(made) = used.connection.get() {
            return Ok(made.clone());
        }
        let making = used.connection.get_or_try_init(|| self.client.get_async_connection());
        timeout(MAKING_TIMEOUT, making)
            .await
            .unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
            .cloned()
    }

    pub(super) async fn slots(&self) -> Result<Vec<u16>, RedisError> {
        let mut question = redis::cmd("CLUSTER");
        question.arg("NODES");
        let routing = RoutingInfo::SingleNode(SingleNodeRoutingInfo::Random);
        let answer = self.run(async |mut connection| connection.route_command(question, routing).await).await?;
        let slots = first_slots(&String::from_utf8_lossy(&Vec::<u8>::from_redis_value(answer)?));
        if slots.is_empty() {
            return Err((ErrorKind::ClusterConnectionNotFound, "no node of the cluster has keys").into());
        }
        Ok(slots)
    }

    pub(super) async fn query_slot<T: FromRedisValue>(&self, slot: u16, question: Cmd) -> Result<T, RedisError> {
        let slot = Slot::new(slot).ok_or((ErrorKind::Client, "there is no such slot"))?;
        let node = SingleNodeRoutingInfo::SpecificNode(Route::with_slot(slot, SlotAddr::Master));
        let routing = RoutingInfo::SingleNode(node);
        let answer = self.run(async |mut connection| connection.route_command(question, routing).await).await?;
        Ok(T::from_redis_value(answer)?)
    }
}

/// Returns whether the nodes refuse the login, or none is connected. Such connections may be abandoned.
fn is_unusable(error: &RedisError) -> bool {
    let is_kind = matches!(error.kind(), ErrorKind::AuthenticationFailed | ErrorKind::ClusterConnectionNotFound);
    is_kind || matches!(error.code(), Some("NOAUTH" | "WRONGPASS"))
}

fn builder(urls: &[String], authority: Option<&[u8]>) -> ClusterClientBuilder {
    let builder = ClusterClientBuilder::new(urls.iter().map(String::as_str));
    let is_encrypted = urls.iter().any(|url| url.starts_with("rediss:"));
    match authority.filter(|_| is_encrypted) {
        Some(authority) => builder.certs(trusting(authority.to_vec())),
        None => builder,
    }
}

/// Finds the hash tag that places a key in this slot, by some ten thousand trials.
pub(super) fn hash_tag(slot: u16) -> u32 {
    let mut tags = TAGS.lock().unwrap_or_else(PoisonError::into_inner);
    *tags.entry(slot).or_insert_with(|| {
        let wanted = Slot::new(slot);
        (0..u32::MAX).find(|number| Some(Slot::for_key(number.to_string())) == wanted).unwrap_or_default()
    })
}

/// Splits the URL of a cluster into the URLs of its nodes. Returns `None` if it is not the URL of a cluster.
pub(super) fn urls(url: &str) -> Option<Vec<String>> {
    let (scheme, rest) = url.split_once("+cluster://")?;
    let (hosts, tail) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, hosts) =
        hosts.rsplit_once('@').map_or((String::new(), hosts), |(user, hosts)| (format!("{user}@"), hosts));
    Some(hosts.split(',').map(|host| format!("{scheme}://{user}{}{tail}", host.trim())).collect())
}

/// Returns the first slot of each node from the output of `CLUSTER NODES`: `id address flags … slot-slot slot …`.
fn first_slots(nodes: &str) -> Vec<u16> {
    let first = |line: &str| {
        let mut fields = line.split(' ');
        let is_master = fields.nth(2)?.split(',').any(|flag| flag == "master");
        // A migrating slot is in brackets.
        let slot = fields.skip(5).find(|field| !field.starts_with('['))?;
        is_master.then(|| slot.split('-').next()?.parse().ok()).flatten()
    };
    let mut slots: Vec<u16> = nodes.lines().filter_map(first).collect();
    slots.sort_unstable();
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_of_a_cluster_has_an_address_for_each_node() {
        let expected = ["redis://ada:p@ss@a:1", "redis://ada:p@ss@b:2"].map(str::to_owned).to_vec();
        assert_eq!(urls("redis+cluster://ada:p@ss@a:1, b:2"), Some(expected));
        let expected = ["rediss://a:1/?protocol=resp2", "rediss://b:2/?protocol=resp2"].map(str::to_owned).to_vec();
        assert_eq!(urls("rediss+cluster://a:1,b:2/?protocol=resp2"), Some(expected));
        assert_eq!(urls("redis://a:1"), None);
    }

    #[test]
    fn each_node_with_keys_is_known_by_its_first_slot() {
        let nodes = "\
            0a 127.0.0.1:7001@17001 myself,master - 0 1 1 connected 0-5460 [77->-0c]\n\
            0b 127.0.0.1:7002@17002,host master - 0 1 2 connected 5461 5463-10922\n\
            0c 127.0.0.1:7003@17003 slave 0a 0 1 1 connected\n\
            0d 127.0.0.1:7004@17004 master,fail - 0 1 1 disconnected\n\
            0e 127.0.0.1:7005@17005 master - 0 1 3 connected [93-<-0a] 10923-16383\n";
        assert_eq!(first_slots(nodes), [0, 5461, 10923]);
        for slot in [0, 5461, 10923, 16383] {
            assert_eq!(Some(Slot::for_key(format!("svc:ai:epoch:{{{}}}", hash_tag(slot)))), Slot::new(slot));
        }
    }
}
