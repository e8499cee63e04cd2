//! Syncs the journal to disk while Postgres accepts no usage.

use tokio::time::{MissedTickBehavior, interval};

use super::MeterTasks;

impl MeterTasks {
    /// Syncs the journal to disk at short intervals while Postgres refuses usage or does not respond.
    pub(super) async fn sync_while_behind(&self) {
        let mut beat = interval(limits::JOURNAL_SYNC);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut taken = None;
        loop {
            beat.tick().await;
            let last = std::mem::replace(&mut taken, self.ledger.rows_written_if_waiting());
            if taken.is_some() && taken == last {
                let ledger = self.ledger.clone();
                let _ = tokio::task::spawn_blocking(move || ledger.journal.sync()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use domain::Clock;
    use live::Redis;
    use sqlx::postgres::PgPoolOptions;
    use tokio::{
        net::TcpListener,
        time::{sleep, timeout},
    };
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::{fixtures::row, journal, ledger::CompletionLedger, redis_clock::RedisClock, spares::SparePool};

    #[tokio::test]
    async fn the_journal_is_synced_while_postgres_does_not_answer() {
        let folder = tempfile::tempdir().unwrap();
        // Accepts connections but never responds.
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("postgres://127.0.0.1:{}/svc", silent.local_addr().unwrap().port());
        let journal = journal::open(folder.path().to_owned(), "edge", &url);
        journal.set_scope("this".to_owned());
        let ledger = Arc::new(CompletionLedger::new(journal));
        let spares = Arc::new(SparePool::new(ledger.clone()));
        let (redis, clock) = (Redis::connect("redis://127.0.0.1:1").unwrap(), RedisClock::new(Clock::system()));
        let db = PgPoolOptions::new().connect_lazy(&url).unwrap();
        let tasks = MeterTasks::new(ledger.clone(), "edge".to_owned(), redis, db, Arc::new(clock), spares);
        let stop = CancellationToken::new();
        let running = tokio::spawn(tasks.run(stop.clone()));
        for _ in 0..3 {
            let row = row(300);
            ledger.enter(row.clone());
            ledger.end(&row.id, |_| {});
            assert!(!ledger.journal.is_synced());
            let is_synced = async {
                while !ledger.journal.is_synced() {
                    sleep(Duration::from_millis(10)).await;
                }
            };
            timeout(3 * limits::JOURNAL_SYNC, is_synced).await.expect("the journal is not synced");
        }
        stop.cancel();
        running.await.unwrap();
    }
}
