//! The leases of live edges, and the detection of a Redis that has lost its memory.

use std::{sync::LazyLock, time::Duration};

use domain::{Timestamp, usage::UsageRow};
use redis::{AsyncCommands as _, RedisError, Script};
use sha2::{Digest as _, Sha256};

use super::Redis;

/// How often an edge checks whether Redis lost its memory. Every second check extends its lease, five times per lease.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(5);
/// How long a process that settles an edge's completions must have seen the edge without a lease. If Redis was
/// unavailable and has just come back, this gives the edge time to renew it.
const GONE: Duration = Duration::from_secs(5);
/// How long the beginning of that time is remembered.
const GONE_KEPT: Duration = Duration::from_hours(24);

/// How long completions settled without their edge are remembered. Shorter than [`GONE_KEPT`], which limits how long
/// gaps in an edge's journal are known: a process that takes a settlement back has to know of them.
const SETTLED_KEPT: Duration = Duration::from_hours(12);

/// The longest time between two checks of all open completions.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

const EPOCH: &str = "svc:ai:epoch";
/// The edges that may have open completions. Each adds itself; the process that settles its open ones removes it.
const EDGES: &str = "svc:ai:edges";
/// The memory in which all open completions were last checked; expires after [`SWEEP_EVERY`].
const SWEPT: &str = "svc:ai:swept";
/// Replaces the edge's name in completions that are settled without it. It has no lease, so that completions that keep
/// it for long are settled again.
pub(super) const SWEEPER: &str = "sweeper";

/// Returns which run of which Redis this is, and since when it has its present memory. The first caller after a
/// restart, with empty or persisted memory, records the time.
static FIND_EPOCH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local info = redis.call('INFO', 'server')
         local run = string.match(info, 'run_id:(%w+)') or '-'
         local micros = string.match(info, 'server_time_usec:(%d+)')
         if not micros then
           local time = redis.call('TIME')
           micros = time[1] * 1000000 + time[2]
         end
         local now = math.floor(micros / 1000)
         local known, since = string.match(redis.call('GET', KEYS[1]) or '', '^(%w+) (%d+)$')
         if known ~= run then
           since = string.format('%.0f', now)
           redis.call('SET', KEYS[1], run .. ' ' .. since)
         end
         return {run .. ' ' .. since, math.max(now - tonumber(since), 0), now}",
    )
});

/// Returns how long an edge has been without a lease, as far as observed; nothing if it has one.
static GONE_FOR: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 then return false end
         local time = redis.call('TIME')
         local now = time[1] * 1000 + math.floor(time[2] / 1000)
         redis.call('SET', KEYS[2], string.format('%.0f', now), 'NX', 'PX', ARGV[1])
         return math.max(now - tonumber(redis.call('GET', KEYS[2])), 0)",
    )
});

/// The identity of Redis's memory. It changes with a restart or a flush, or when other nodes of a cluster take over
/// keys: earlier writes may then be lost, and deletions undone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryEpoch {
    /// Identifies it, in letters and digits.
    pub(super) id: String,
    /// The time since this memory was first seen.
    pub age: Duration,
    /// The time by Redis's clock; in a cluster, by the latest clock.
    pub now: Timestamp,
}

impl MemoryEpoch {
    /// Returns whether both are the same memory, so that nothing was lost in between.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Redis {
    /// Renews the lease of `edge`, and returns the memory of Redis that has it.
    pub async fn renew_lease(&self, edge: &str) -> Result<MemoryEpoch, RedisError> {
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(lease_key(edge)).arg(1).arg("PX").arg(as_millis(LEASE)).ignore();
        pipe.cmd("DEL").arg(gone_key(edge)).ignore();
        pipe.query_async::<()>(&mut self.commands()).await?;
        self.note_edge(edge).await?;
        self.epoch().await
    }

    /// Extends the lease of `edge`, or [renews](Self::renew_lease) an expired one. Returns the memory that has it.
    pub async fn extend_lease(&self, edge: &str) -> Result<MemoryEpoch, RedisError> {
        let mut extend = redis::cmd("SET");
        extend.arg(lease_key(edge)).arg(1).arg("PX").arg(as_millis(LEASE)).arg("XX");
        let extended: Option<String> = extend.query_async(&mut self.commands()).await?;
        if extended.is_some() { self.epoch().await } else { self.renew_lease(edge).await }
    }

    pub(super) async fn note_edge(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().sadd(EDGES, edge).await
    }

    /// Notes that the journal of `edge` lacks some completions that it sent to a provider.
    pub async fn note_gaps(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().pset_ex(gaps_key(edge), 1, as_millis(GONE_KEPT)).await
    }

    /// Returns whether [`Self::note_gaps`] was called for `edge`.
    pub async fn has_gaps(&self, edge: &str) -> Result<bool, RedisError> {
        self.commands().exists(gaps_key(edge)).await
    }

    /// Notes that completions of `edge` are settled without it, of which only the reservations are known: it may never
    /// have sent them to a provider. Call this before they are claimed.
    pub async fn note_settled(&self, edge: &str, rows: &[&UsageRow]) -> Result<(), RedisError> {
        if edge == SWEEPER {
            return Ok(());
        }
        let row = |row: &&UsageRow| (row.id.to_string(), serde_json::to_string(row).unwrap_or_default());
        let rows: Vec<(String, String)> = rows.iter().map(row).collect();
        let mut pipe = redis::pipe();
        pipe.hset_multiple(settled_key(edge), &rows).ignore();
        pipe.pexpire(settled_key(edge), i64::try_from(as_millis(SETTLED_KEPT)).unwrap_or(i64::MAX)).ignore();
        pipe.query_async(&mut self.commands()).await
    }

    /// Returns the completions that [`Self::note_settled`] was called for.
    pub async fn settled_completions(&self, edge: &str) -> Result<Vec<UsageRow>, RedisError> {
        let rows: Vec<String> = self.commands().hvals(settled_key(edge)).await?;
        Ok(rows.iter().filter_map(|row| serde_json::from_str(row).ok()).collect())
    }

    /// Returns the dead edges ([`Self::is_gone`]) that may have left completions open.
    pub async fn gone_edges(&self) -> Result<Vec<String>, RedisError> {
        let mut gone = Vec::new();
        let edges: Vec<String> = self.commands().smembers(EDGES).await?;
        for edge in edges {
            if self.is_gone(&edge).await? {
                gone.push(edge);
            }
        }
        Ok(gone)
    }

    /// Returns whether completions may be open that [`Self::gone_edges`] does not lead to: the last check of all open
    /// ones was in another memory of Redis, or an hour ago.
    pub async fn is_sweep_due(&self, epoch: &MemoryEpoch) -> Result<bool, RedisError> {
        let swept: Option<String> = self.commands().get(SWEPT).await?;
        Ok(swept.is_none_or(|swept| swept != epoch.id))
    }

    /// Notes that all open completions were checked, and that these edges have none.
    pub async fn finish_sweep(&self, epoch: &MemoryEpoch, edges: &[&str]) -> Result<(), RedisError> {
        if !edges.is_empty() {
            self.commands().srem::<_, _, ()>(EDGES, edges).await?;
        }
        self.commands().pset_ex(SWEPT, &epoch.id, as_millis(SWEEP_EVERY)).await
    }

    /// Returns the current memory of Redis. In a cluster, it combines all nodes that have keys, as old as the youngest.
    pub async fn epoch(&self) -> Result<MemoryEpoch, RedisError> {
        let (mut digest, mut age, mut now) = (Sha256::new(), Duration::MAX, Timestamp::from_unix_millis(0));
        for node in self.nodes().await? {
            let (id, of_node, millis): (String, u64, i64) =
                FIND_EPOCH.key(node.key(EPOCH)).invoke_async(&mut self.commands()).await?;
            digest.update(id);
            age = age.min(Duration::from_millis(of_node));
            now = now.max(Timestamp::from_unix_millis(millis));
        }
        let epoch = MemoryEpoch { id: hex::encode(&digest.finalize()[..8]), age, now };
        self.memory.update(&epoch);
        Ok(epoch)
    }

    /// Gives up the lease of an edge that stops and has recorded everything.
    pub async fn end_lease(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().srem::<_, _, ()>(EDGES, edge).await?;
        self.commands().del(lease_key(edge)).await
    }

    /// Returns whether `edge` has been without a lease for so long that its completions are settled without it.
    pub async fn is_gone(&self, edge: &str) -> Result<bool, RedisError> {
        let mut script = GONE_FOR.key(lease_key(edge));
        let gone_for: Option<u64> =
            script.key(gone_key(edge)).arg(as_millis(GONE_KEPT)).invoke_async(&mut self.commands()).await?;
        Ok(gone_for.is_some_and(|millis| Duration::from_millis(millis) >= GONE))
    }
}

/// Hash-tagged by edge, so that in a cluster both keys are on one node.
fn lease_key(edge: &str) -> String {
    format!("svc:ai:edge:{{{edge}}}")
}

fn gone_key(edge: &str) -> String {
    format!("svc:ai:gone:{{{edge}}}")
}

fn gaps_key(edge: &str) -> String {
    format!("svc:ai:gaps:{{{edge}}}")
}

fn settled_key(edge: &str) -> String {
    format!("svc:ai:settled:{{{edge}}}")
}

pub(super) fn as_millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
