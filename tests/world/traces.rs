//! Searches everything that a world stores (rows, keys, files, logs), for tests of what it must not store.

use std::path::Path;

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::World;

impl World {
    /// Asserts that no row, Redis key, file or log contains any of `markers`.
    pub async fn assert_no_trace(&self, markers: &[&str]) {
        self.assert_no_row(markers).await;
        self.assert_no_key(markers).await;
        assert_no_file(self.folder(), markers);
    }

    /// Checks every row of every table, as text.
    async fn assert_no_row(&self, markers: &[&str]) {
        let mut db = PgConnection::connect(self.database.as_str()).await.unwrap();
        let tables = sqlx::query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'");
        let tables = tables.fetch_all(&mut db).await.unwrap();
        assert!(tables.len() > 5);
        for table in tables {
            let table: String = table.get(0);
            for marker in markers {
                let sql = format!("SELECT count(*) FROM \"{table}\" t WHERE position('{marker}' in t::text) > 0");
                let found: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut db).await.unwrap();
                assert_eq!(found, 0, "{marker} in {table}");
            }
        }
    }

    /// Checks every key of Redis, and its value.
    async fn assert_no_key(&self, markers: &[&str]) {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.redis_port)).unwrap();
        let mut redis = client.get_multiplexed_async_connection().await.unwrap();
        let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
        assert!(!keys.is_empty(), "Redis has no key: does this test look at the right one?");
        for key in keys {
            let held: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.unwrap();
            for bytes in [key, held.unwrap_or_default()] {
                assert_none(&bytes, markers, &String::from_utf8_lossy(&bytes));
            }
        }
    }
}

/// Checks every file in the world's folder: the store, the logs, the journals.
fn assert_no_file(folder: &Path, markers: &[&str]) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_file(&path, markers);
        } else if let Ok(bytes) = std::fs::read(&path) {
            assert_none(&bytes, markers, &path.display().to_string());
        }
    }
}

fn assert_none(bytes: &[u8], markers: &[&str], place: &str) {
    for marker in markers {
        let is_there = bytes.windows(marker.len()).any(|window| window == marker.as_bytes());
        assert!(!is_there, "{marker} in {place}");
    }
}
