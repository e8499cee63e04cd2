//! Facts about Redis for operators: its persistence and its clock.

use domain::Timestamp;
use redis::{ErrorKind, RedisError};

use super::Redis;

/// How much Redis keeps across a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Persistence {
    /// Everything but about the last second, in an append-only file.
    AppendOnly,
    /// The last snapshot.
    Snapshots,
    /// Nothing.
    None,
}

impl Redis {
    /// Returns what Redis keeps across a restart; in a cluster, what the least persistent node keeps.
    pub async fn persistence(&self) -> Result<Persistence, RedisError> {
        let mut least = Persistence::AppendOnly;
        for node in self.nodes().await? {
            let mut info = redis::cmd("INFO");
            info.arg("persistence");
            let info: String = self.query_node(node, info).await?;
            let mut save = redis::cmd("CONFIG");
            save.arg("GET").arg("save");
            // A managed Redis does not reveal its configuration.
            let save: Vec<String> = self.query_node(node, save).await.unwrap_or_default();
            least = match (least, parse_persistence(&info, save.get(1).is_some_and(|save| !save.is_empty()))) {
                (Persistence::None, _) | (_, Persistence::None) => Persistence::None,
                (Persistence::Snapshots, _) | (_, Persistence::Snapshots) => Persistence::Snapshots,
                _ => Persistence::AppendOnly,
            };
        }
        Ok(least)
    }

    /// Returns the time by Redis's clock.
    pub async fn time(&self) -> Result<Timestamp, RedisError> {
        let nodes = self.nodes().await?;
        let Some(node) = nodes.first() else {
            return Err((ErrorKind::ClusterConnectionNotFound, "no node can be asked for the time").into());
        };
        let (seconds, micros): (i64, i64) = self.query_node(*node, redis::cmd("TIME")).await?;
        Ok(Timestamp::from_unix_millis(seconds.saturating_mul(1_000).saturating_add(micros / 1_000)))
    }
}

/// Determines the persistence from the output of `INFO persistence`, and whether snapshots are scheduled.
fn parse_persistence(info: &str, saves: bool) -> Persistence {
    if info.lines().any(|line| line.trim() == "aof_enabled:1") {
        Persistence::AppendOnly
    } else if saves {
        Persistence::Snapshots
    } else {
        Persistence::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_append_only_file_counts_for_more_than_snapshots() {
        assert_eq!(parse_persistence("# Persistence\r\naof_enabled:1\r\n", true), Persistence::AppendOnly);
        assert_eq!(parse_persistence("aof_enabled:0\r\n", true), Persistence::Snapshots);
        assert_eq!(parse_persistence("aof_enabled:0\r\n", false), Persistence::None);
    }
}
