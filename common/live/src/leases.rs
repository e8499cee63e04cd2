//! Who lives: an edge says so every moment, and a Redis that has lost its memory is recognized.

use std::{sync::LazyLock, time::Duration};

use domain::{Timestamp, usage::UsageRow};
use redis::{AsyncCommands as _, RedisError, Script};
use sha2::{Digest as _, Sha256};

use super::Redis;

/// Interval at which an edge looks whether Redis has lost its memory. Every second look extends its lease, five times in the life of one.
pub const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Life of a lease.
const LEASE: Duration = Duration::from_secs(5);
/// How long an edge must have been without a lease, as seen by whoever settles its accounts. Redis may have been away
/// and just come back; the edge gets time to say so.
const GONE: Duration = Duration::from_secs(5);
/// How long it is remembered since when.
const GONE_KEPT: Duration = Duration::from_hours(24);

/// Time for which it is remembered what was settled without its edge. Shorter than [`GONE_KEPT`], which bounds how long it is
/// known that an edge's journal has gaps: whoever takes something back has to know that.
const SETTLED_KEPT: Duration = Duration::from_hours(12);

/// The longest time between two looks at every completion that is open.
const SWEEP_EVERY: Duration = Duration::from_hours(1);

const EPOCH: &str = "svc:ai:epoch";
/// The edges that may have open completions. Each adds itself; whoever has settled all that it left open removes it.
const EDGES: &str = "svc:ai:edges";
/// The memory in which every open completion was last looked at; gone after [`SWEEP_EVERY`].
const SWEPT: &str = "svc:ai:swept";
/// The name in the place of the edge's on completions that are settled without it. It has no lease, so what is left so for
/// long is settled again.
pub(super) const SWEEPER: &str = "sweeper";

/// Says which run of which Redis this is, and since when its memory is what it is. The first to come to a Redis that has
/// begun anew, empty or with what it had saved, writes down when that was.
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

/// Says for how long an edge has had no lease, as far as anybody looked; nothing while it has one.
static GONE_FOR: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "if redis.call('EXISTS', KEYS[1]) == 1 then return false end
         local time = redis.call('TIME')
         local now = time[1] * 1000 + math.floor(time[2] / 1000)
         redis.call('SET', KEYS[2], string.format('%.0f', now), 'NX', 'PX', ARGV[1])
         return math.max(now - tonumber(redis.call('GET', KEYS[2])), 0)",
    )
});

/// The identity of Redis's memory. It changes with a restart or a flush, or when other nodes of a cluster have the
/// keys: some of what was written before may then be gone, and some of what was deleted may be back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Names it, in letters and digits.
    pub(super) id: String,
    /// Time since this memory was found to have begun.
    pub age: Duration,
    /// The time by Redis's clock; by the latest of those of a cluster.
    pub now: Timestamp,
}

impl Epoch {
    /// Whether both are the same memory, so that nothing was lost between the two.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

impl Redis {
    /// Renews the lease of `edge`, and returns the memory of Redis that holds it.
    pub async fn renew_lease(&self, edge: &str) -> Result<Epoch, RedisError> {
        let mut pipe = redis::pipe();
        pipe.cmd("SET").arg(lease_key(edge)).arg(1).arg("PX").arg(whole(LEASE)).ignore();
        pipe.cmd("DEL").arg(gone_key(edge)).ignore();
        pipe.query_async::<()>(&mut self.commands()).await?;
        self.note_edge(edge).await?;
        self.epoch().await
    }

    /// Extends the lease of `edge`, and returns the memory of Redis that holds it. Renews it as [`Self::renew_lease`] does where it is
    /// gone.
    pub async fn extend_lease(&self, edge: &str) -> Result<Epoch, RedisError> {
        let mut extend = redis::cmd("SET");
        extend.arg(lease_key(edge)).arg(1).arg("PX").arg(whole(LEASE)).arg("XX");
        let extended: Option<String> = extend.query_async(&mut self.commands()).await?;
        if extended.is_some() { self.epoch().await } else { self.renew_lease(edge).await }
    }

    /// Notes that `edge` may have open completions.
    pub(super) async fn note_edge(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().sadd(EDGES, edge).await
    }

    /// Notes that the journal of `edge` does not have every completion that it asked a provider for.
    pub async fn note_gaps(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().pset_ex(gaps_key(edge), 1, whole(GONE_KEPT)).await
    }

    /// Whether [`Self::note_gaps`] was called for `edge`.
    pub async fn has_gaps(&self, edge: &str) -> Result<bool, RedisError> {
        self.commands().exists(gaps_key(edge)).await
    }

    /// Notes that completions of `edge`, of which nothing but their reservations is known, are settled without it: it may not have
    /// come to ask a provider for them. To be called before they are claimed.
    pub async fn note_settled(&self, edge: &str, rows: &[&UsageRow]) -> Result<(), RedisError> {
        if edge == SWEEPER {
            return Ok(());
        }
        let row = |row: &&UsageRow| (row.id.to_string(), serde_json::to_string(row).unwrap_or_default());
        let rows: Vec<(String, String)> = rows.iter().map(row).collect();
        let mut pipe = redis::pipe();
        pipe.hset_multiple(settled_key(edge), &rows).ignore();
        pipe.pexpire(settled_key(edge), i64::try_from(whole(SETTLED_KEPT)).unwrap_or(i64::MAX)).ignore();
        pipe.query_async(&mut self.commands()).await
    }

    /// Returns the completions that [`Self::note_settled`] was called for.
    pub async fn settled_of(&self, edge: &str) -> Result<Vec<UsageRow>, RedisError> {
        let rows: Vec<String> = self.commands().hvals(settled_key(edge)).await?;
        Ok(rows.iter().filter_map(|row| serde_json::from_str(row).ok()).collect())
    }

    /// Returns the edges that are gone ([`Self::is_gone`]) and may have left completions open.
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

    /// Whether some completion may be open that [`Self::gone_edges`] leads to nobody of: every open one was last looked at
    /// in another memory of Redis, or an hour ago.
    pub async fn is_sweep_due(&self, epoch: &Epoch) -> Result<bool, RedisError> {
        let swept: Option<String> = self.commands().get(SWEPT).await?;
        Ok(swept.is_none_or(|swept| swept != epoch.id))
    }

    /// Notes that every open completion was looked at, and that these edges have none.
    pub async fn finish_sweep(&self, epoch: &Epoch, edges: &[&str]) -> Result<(), RedisError> {
        if !edges.is_empty() {
            self.commands().srem::<_, _, ()>(EDGES, edges).await?;
        }
        self.commands().pset_ex(SWEPT, &epoch.id, whole(SWEEP_EVERY)).await
    }

    /// Returns the present memory of Redis. That of a cluster is made of all nodes that have keys, and as young as the
    /// youngest.
    pub async fn epoch(&self) -> Result<Epoch, RedisError> {
        let (mut digest, mut age, mut now) = (Sha256::new(), Duration::MAX, Timestamp::from_unix_millis(0));
        for node in self.nodes().await? {
            let (id, of_node, millis): (String, u64, i64) =
                FIND_EPOCH.key(node.key(EPOCH)).invoke_async(&mut self.commands()).await?;
            digest.update(id);
            age = age.min(Duration::from_millis(of_node));
            now = now.max(Timestamp::from_unix_millis(millis));
        }
        let epoch = Epoch { id: hex::encode(&digest.finalize()[..8]), age, now };
        self.memory.is(&epoch);
        Ok(epoch)
    }

    /// Gives up the lease of an edge that stops and has recorded everything.
    pub async fn end_lease(&self, edge: &str) -> Result<(), RedisError> {
        self.commands().srem::<_, _, ()>(EDGES, edge).await?;
        self.commands().del(lease_key(edge)).await
    }

    /// Whether `edge` has been without a lease for so long that its completions are settled without it.
    pub async fn is_gone(&self, edge: &str) -> Result<bool, RedisError> {
        let mut script = GONE_FOR.key(lease_key(edge));
        let gone_for: Option<u64> =
            script.key(gone_key(edge)).arg(whole(GONE_KEPT)).invoke_async(&mut self.commands()).await?;
        Ok(gone_for.is_some_and(|millis| Duration::from_millis(millis) >= GONE))
    }
}

/// Tagged by the edge: in a cluster both keys live together.
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

pub(super) fn whole(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
