//! What becomes of the journals of dead edges: whose they are.

use domain::{
    CompletionId, Timestamp, TokenId,
    usage::{Certainty, Microcents, UsageRow},
};

use super::*;
use crate::{metrics::Page, world::ports};

/// The row of a completion of the only account, with so many tokens reserved for it.
async fn row(metered: &Metered, completion: u64) -> UsageRow {
    let at: Timestamp = domain::Clock::system().now();
    UsageRow {
        id: CompletionId::new(at),
        account: metered.world.sql_text("SELECT account_id FROM ai_usage LIMIT 1").await.parse().unwrap(),
        token: TokenId::new(at),
        model: "svc/gpt-oss-20b".into(),
        provider: "ovhcloud".into(),
        prompt: 1,
        completion,
        certainty: Certainty::Reserved,
        cost: Microcents(1),
        at,
    }
}

/// Leaves a journal, as of the edge `edge`, which is dead. Returns its path.
fn leave_journal(metered: &Metered, edge: &str, database: &str, record: &Value) -> PathBuf {
    let path = spool(metered).join(format!("{edge}-00000000.usage"));
    std::fs::write(&path, format!("{}\n{record}\n", json!({ "journal": database }))).unwrap();
    path
}

/// A world whose edge has served one completion.
async fn after_one(configure: impl FnOnce(Builder) -> Builder) -> Metered {
    let metered = Metered::start_with(configure).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    metered
}

#[tokio::test]
async fn a_journal_is_found_though_its_database_has_moved() {
    let mut metered = after_one(|builder| builder).await;
    metered.world.stop_postgres().await;
    metered.ask(&Completion::of(2, 10)).await.assert_status(200);
    metered.world.edges[0].process.kill();
    let journals = files_in(&spool(&metered));
    assert_eq!(journals.len(), 1);
    metered.world.start_postgres().await;
    let mut moved = metered.world.database.clone();
    let other = if moved.host_str() == Some("localhost") { "127.0.0.1" } else { "localhost" };
    moved.set_host(Some(other)).unwrap();
    metered.world.set("POSTGRES__URL", &moved);
    metered.world.restart_edge(0).await;
    eventually(BACKGROUND, "its journal is taken over", async || !journals[0].exists()).await;
    metered.rows_become(2, "NOT estimated").await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn a_journal_of_another_database_is_passed_over_counted_and_logged() {
    let port = ports::free();
    let metered = after_one(|builder| builder.set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{port}"))).await;
    let ended = json!({ "ended": row(&metered, 7).await });
    let foreign = leave_journal(&metered, "foreign", "another", &ended);
    let own = metered.world.sql_text("SELECT name FROM database_name").await;
    let left = leave_journal(&metered, "gone", &own, &json!({ "ended": row(&metered, 8).await }));
    eventually(BACKGROUND, "it is counted", async || {
        Page::of(port).await.sum("svc_gateway_journals_foreign") > 0.5 && !left.exists()
    })
    .await;
    metered.rows_become(1, "completion_tokens = 8").await;
    assert!(metered.world.edge().process.log().contains("of another scope"));
    assert!(foreign.exists());
    assert_eq!(metered.rows("completion_tokens = 7").await, 0);
}
