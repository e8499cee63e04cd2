//! Checks whether Redis evicts keys when its memory is full, which would silently lose counts.

use redis::RedisError;

use super::Redis;

impl Redis {
    /// Returns the policy by which Redis, or some node of a cluster, evicts keys, or `None` if it evicts none.
    pub async fn eviction_policy(&self) -> Result<Option<String>, RedisError> {
        for node in self.nodes().await? {
            let mut info = redis::cmd("INFO");
            info.arg("memory");
            let info: String = self.query_node(node, info).await?;
            if let Some(policy) = evicting(&info) {
                return Ok(Some(policy.to_owned()));
            }
        }
        Ok(None)
    }
}

fn evicting(info: &str) -> Option<&str> {
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim);
    // Without a memory limit nothing is evicted, whatever the policy.
    let is_limited = field("maxmemory").is_some_and(|bytes| bytes != "0");
    field("maxmemory_policy").filter(|policy| is_limited && *policy != "noeviction")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_matters_where_memory_is_limited() {
        let info = |bytes: &str, policy: &str| {
            format!("# Memory\r\nused_memory:1\r\nmaxmemory:{bytes}\r\nmaxmemory_policy:{policy}\r\nallocator:x\r\n")
        };
        assert_eq!(evicting(&info("1048576", "allkeys-lru")), Some("allkeys-lru"));
        assert_eq!(evicting(&info("1048576", "noeviction")), None);
        assert_eq!(evicting(&info("0", "allkeys-lru")), None);
        assert_eq!(evicting(""), None);
    }
}
