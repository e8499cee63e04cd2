//! The world's Redis: without persistence, with an append-only file, or a cluster.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use super::{READY_WITHIN, World, edge_rights, eventually, ports, process::Process};

/// The file that sets how far a Redis's clock is ahead.
const CLOCK: &str = "clock";

/// The persistence of a Redis, or its role in a cluster.
#[derive(Debug, Clone, Copy)]
pub(super) enum RedisKind {
    /// Empty after each start.
    Forgetful,
    /// With an append-only file.
    Lasting,
    /// A cluster node; empty after each start, except for its place in the cluster.
    Node,
}

/// Starts a Redis at this port, with its own folder below `folder`.
pub(super) fn start_redis(port: u16, folder: &Path, kind: RedisKind) -> Process {
    let folder = folder.join(format!("redis-{port}"));
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--save", "", "--port"]).arg(port.to_string()).arg("--dir").arg(&folder);
    command.args(edge_rights::redis_arguments());
    match kind {
        RedisKind::Forgetful => command.args(["--appendonly", "no"]),
        RedisKind::Lasting => command.args(["--appendonly", "yes", "--appendfsync", "everysec"]),
        RedisKind::Node => {
            // The default port, 10,000 above, may be in use. The other nodes know the node by this one.
            let known = folder.join("bus-port");
            let bus = std::fs::read_to_string(&known).unwrap_or_else(|_| ports::free().to_string());
            std::fs::write(&known, &bus).unwrap();
            command.args(["--appendonly", "no", "--cluster-enabled", "yes", "--cluster-node-timeout", "2000"]);
            // Replicas synchronize without delay.
            command.args(["--repl-diskless-sync-delay", "0"]);
            command.arg("--cluster-port").arg(bus)
        }
    };
    let clock = folder.join(CLOCK);
    if clock.exists() {
        // The C library's allocator must come before Redis's own, which needs the time, for which the clock needs
        // memory.
        command.env("LD_PRELOAD", "/usr/$LIB/faketime/libfaketimeMT.so.1 libc.so.6");
        command.env("FAKETIME_TIMESTAMP_FILE", clock).env("FAKETIME_NO_CACHE", "1");
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    Process::start("redis", &folder, &command)
}

/// Sets how far the clock of the Redis at this port is ahead. It must have been started with such a clock.
pub(super) fn set_clock_ahead(port: u16, folder: &Path, by: Duration) {
    let folder = folder.join(format!("redis-{port}"));
    std::fs::create_dir_all(&folder).unwrap();
    // Atomically, because Redis reads it whenever it needs the time.
    let (new, clock) = (folder.join("clock.new"), folder.join(CLOCK));
    std::fs::write(&new, format!("+{}.{:03}\n", by.as_secs(), by.subsec_millis())).unwrap();
    std::fs::rename(new, clock).unwrap();
}

/// Forms a cluster of the nodes at these ports: the first three hold the keys, and the others are their replicas.
pub(super) async fn form_cluster(ports: impl Iterator<Item = u16>) {
    let nodes: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    let copies = (nodes.len() / 3 - 1).to_string();
    let form = || {
        let mut command = Command::new("redis-cli");
        command.args(["--cluster", "create"]).args(&nodes).args(["--cluster-replicas", &copies, "--cluster-yes"]);
        command.stdin(std::process::Stdio::null()).output().is_ok_and(|output| output.status.success())
    };
    eventually(READY_WITHIN, "the nodes form a cluster", async || {
        let listens = async |node: &String| tokio::net::TcpStream::connect(node.as_str()).await.is_ok();
        for node in &nodes {
            if !listens(node).await {
                return false;
            }
        }
        form()
    })
    .await;
    for copy in &nodes[3..] {
        let client = redis::Client::open(format!("redis://{copy}")).unwrap();
        let mut copy = client.get_multiplexed_async_connection().await.unwrap();
        eventually(READY_WITHIN, "a copy is in step", async || {
            let replication: String = redis::cmd("INFO").arg("replication").query_async(&mut copy).await.unwrap();
            replication.contains("master_link_status:up")
        })
        .await;
    }
}

/// Sends a command to the Redis at this port; returns `None` while it is unavailable.
async fn ask<T: redis::FromRedisValue>(port: u16, name: &str, arguments: &[&str]) -> Option<T> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.ok()?;
    redis::cmd(name).arg(arguments).query_async(&mut connection).await.ok()
}

impl World {
    /// Returns the number that a Redis command returns, or `None` while Redis is unavailable.
    pub async fn redis_number(&self, name: &str, arguments: &[&str]) -> Option<i64> {
        ask(self.redis_port, name, arguments).await
    }

    /// Returns the sum of the numbers that a Redis command returns at every node, or `None` while one is unavailable.
    pub async fn redis_sum(&self, name: &str, arguments: &[&str]) -> Option<i64> {
        let mut sum = 0;
        for port in self.redis_ports() {
            sum += ask::<i64>(port, name, arguments).await?;
        }
        Some(sum)
    }

    /// Returns the index of the cluster node with the keys of this tag, according to most nodes.
    pub async fn redis_node_of(&self, tag: &str) -> usize {
        let mut slot = None;
        for port in self.redis_ports() {
            slot = slot.or(ask(port, "CLUSTER", &["KEYSLOT", tag]).await);
        }
        let slot: i64 = slot.expect("Redis is away");
        let has_slot = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            first.parse().is_ok_and(|first: i64| first <= slot) && last.parse().is_ok_and(|last: i64| slot <= last)
        };
        let mut votes = vec![0; self.redis_ports().count()];
        for port in self.redis_ports() {
            let nodes: String = ask(port, "CLUSTER", &["NODES"]).await.unwrap_or_default();
            // A node that has just started may not know any.
            let Some(node) = nodes.lines().find(|node| node.split(' ').skip(8).any(has_slot)) else { continue };
            let is_it = |port: u16| node.contains(&format!("127.0.0.1:{port}@"));
            votes[self.redis_ports().position(is_it).unwrap()] += 1;
        }
        votes.iter().position(|vote| Some(vote) == votes.iter().max()).unwrap()
    }

    pub async fn redis_time(&self) -> i64 {
        self.redis_number("EVAL", &["return tonumber(redis.call('TIME')[1])", "0"]).await.expect("Redis is away")
    }

    /// Returns how often Redis has run a command, including within scripts.
    pub async fn redis_calls(&self, name: &str) -> i64 {
        let script =
            "local calls = string.match(redis.call('INFO', 'commandstats'), 'cmdstat_' .. ARGV[1] .. ':calls=(%d+)')
                      return tonumber(calls or '0')";
        self.redis_number("EVAL", &[script, "0", name]).await.expect("Redis is away")
    }

    pub async fn redis_command(&self, name: &str) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.redis_port)).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        redis::cmd(name).query_async::<redis::Value>(&mut connection).await.unwrap();
    }

    /// Sets how far the clock of a Redis created with [`Builder::redis_ahead`](super::Builder::redis_ahead) is ahead.
    pub fn set_redis_ahead(&self, by: Duration) {
        set_clock_ahead(self.redis_port, self.folder.path(), by);
    }

    /// Restarts Redis after it was killed, empty unless it has an append-only file.
    pub fn restart_redis(&mut self) {
        self.redis = start_redis(self.redis_port, self.folder.path(), self.redis_kind);
    }

    /// Returns whether a cluster node has a synchronized replica.
    pub async fn is_redis_node_copied(&self, index: usize) -> bool {
        let port = self.redis_ports().nth(index).unwrap();
        let replication: String = ask(port, "INFO", &["replication"]).await.unwrap_or_default();
        replication.contains("state=online")
    }

    /// Kills a cluster node, and restarts it empty once the others have given it up. The first node is [`Self::redis`].
    pub async fn restart_redis_node(&mut self, index: usize) {
        let ports: Vec<u16> = self.redis_ports().collect();
        let (port, process) = match index.checked_sub(1) {
            None => (self.redis_port, &mut self.redis),
            Some(index) => (self.redis_nodes[index].0, &mut self.redis_nodes[index].1),
        };
        process.kill();
        let other = redis::Client::open(format!("redis://127.0.0.1:{}", ports[usize::from(index == 0)])).unwrap();
        let mut other = other.get_multiplexed_async_connection().await.unwrap();
        let dead = format!("127.0.0.1:{port}@");
        eventually(READY_WITHIN, "the other nodes have given it up", async || {
            let nodes: String = redis::cmd("CLUSTER").arg("NODES").query_async(&mut other).await.unwrap();
            let flags = nodes.lines().find(|node| node.contains(&dead)).and_then(|node| node.split(' ').nth(2));
            flags.is_some_and(|flags| flags.split(',').any(|flag| flag == "fail"))
        })
        .await;
        *process = start_redis(port, self.folder.path(), self.redis_kind);
    }

    /// Sends a signal to a cluster node. The first node is [`Self::redis`].
    pub fn signal_redis_node(&self, index: usize, name: &str) {
        let node = index.checked_sub(1).map_or(&self.redis, |index| &self.redis_nodes[index].1);
        node.signal(name);
    }

    /// Makes the replica of a cluster node take over; the node learns of it afterwards.
    pub async fn take_redis_node_over(&self, index: usize) {
        let ports: Vec<u16> = self.redis_ports().collect();
        let node: String = ask(ports[index], "CLUSTER", &["MYID"]).await.unwrap();
        let copies: Vec<String> = ask(ports[index], "CLUSTER", &["REPLICAS", &node]).await.unwrap();
        let is_copy = |port: &&u16| copies[0].contains(&format!("127.0.0.1:{port}@"));
        let copy = ports.iter().find(is_copy).unwrap();
        ask::<String>(*copy, "CLUSTER", &["FAILOVER", "TAKEOVER"]).await.unwrap();
    }

    /// Moves the slot of the keys with this tag to another cluster node, key by key, awaiting `between` after each.
    pub async fn move_redis_slot(&self, tag: &str, to: usize, between: impl AsyncFn()) {
        let (from, ports) = (self.redis_node_of(tag).await, self.redis_ports().collect::<Vec<_>>());
        let slot: i64 = ask(ports[from], "CLUSTER", &["KEYSLOT", tag]).await.unwrap();
        let (slot, port) = (slot.to_string(), ports[to].to_string());
        let id = async |node: usize| ask::<String>(ports[node], "CLUSTER", &["MYID"]).await.unwrap();
        let (source, target) = (id(from).await, id(to).await);
        let set = async |node: usize, state: &str, id: &str| {
            ask::<String>(ports[node], "CLUSTER", &["SETSLOT", &slot, state, id]).await.unwrap();
        };
        set(to, "IMPORTING", &source).await;
        set(from, "MIGRATING", &target).await;
        loop {
            let keys: Vec<String> = ask(ports[from], "CLUSTER", &["GETKEYSINSLOT", &slot, "1"]).await.unwrap();
            let Some(key) = keys.first() else { break };
            ask::<String>(ports[from], "MIGRATE", &["127.0.0.1", &port, key, "0", "5000"]).await.unwrap();
            between().await;
        }
        set(to, "NODE", &target).await;
        for node in (0..ports.len()).filter(|node| *node != to) {
            set(node, "NODE", &target).await;
        }
    }

    pub fn redis_folder(&self) -> PathBuf {
        self.folder.path().join(format!("redis-{}", self.redis_port))
    }

    pub fn redis_ports(&self) -> impl Iterator<Item = u16> {
        std::iter::once(self.redis_port).chain(self.redis_nodes.iter().map(|(port, _)| *port))
    }
}
