//! Usage that is sent to an operator's own system.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use reqwest::StatusCode;
use sha2::Sha256;

use super::*;
use crate::{BACKGROUND, stubs::listener::Listener, world::answer::assert_keys};

const SECRET: &[u8] = b"a secret of twenty-four bytes and more";

/// The rows of all that was taken, by their ids, each as it came last.
fn taken(listener: &Listener) -> BTreeMap<String, Value> {
    let mut rows = BTreeMap::new();
    for posted in listener.posted().iter().filter(|posted| posted.status.is_success()) {
        let body: Value = serde_json::from_str(&posted.body).unwrap();
        assert_eq!(body["type"], "ai.usage");
        for row in body["data"]["usage"].as_array().unwrap() {
            assert_keys(
                row,
                "id account token model provider prompt_tokens completion_tokens cached_tokens cache_write_tokens \
                 reasoning_tokens images cost_microcents assumed estimated ended created_at",
            );
            rows.insert(row["id"].as_str().unwrap().to_owned(), row.clone());
        }
    }
    rows
}

#[tokio::test]
async fn each_completion_is_sent_signed_until_it_is_taken() {
    let (listener, folder) = (Listener::start().await, tempfile::tempdir().unwrap());
    let file = folder.path().join("secret");
    std::fs::write(&file, format!("whsec_{}\n", STANDARD.encode(SECRET))).unwrap();
    listener.next(StatusCode::INTERNAL_SERVER_ERROR);
    let metered = Metered::start_with(|builder| {
        builder
            .set("TELEMETRY__USAGE_URL", &listener.url)
            .set("TELEMETRY__USAGE_SECRET_FILE", file.display())
            .set("TELEMETRY__USAGE_SECONDS", 1)
    })
    .await;
    let is_on = "SELECT count(*) FROM usage_export";
    eventually(BACKGROUND, "usage is queued", async || metered.world.sql_number(is_on).await == 1).await;
    for number in 1..=5 {
        metered.ask(&Completion::of(10 * number, number)).await.assert_status(200);
    }
    metered.rows_become(5, "certainty = 2").await;
    // It failed once; the pause until the next try passes.
    eventually(BACKGROUND, "it is sent", async || !listener.posted().is_empty()).await;
    eventually(BACKGROUND, "the failure is noted", async || {
        metered.world.sql_number("SELECT failures::bigint FROM usage_export").await == 1
    })
    .await;
    let doctor = String::from_utf8(metered.world.operate(&["doctor"]).await.stdout).unwrap();
    assert!(doctor.contains("failures in a row: 1, completions that wait: 5"), "{doctor}");
    assert!(doctor.contains("telemetry.usage_url answered 500"), "{doctor}");
    metered.world.sql("UPDATE usage_export SET due_at = since").await;
    eventually(BACKGROUND, "all is taken", async || taken(&listener).len() == 5).await;
    // What is recorded anew is sent again.
    metered.world.sql("UPDATE ai_usage SET completion_tokens = 77 WHERE completion_tokens = 5").await;
    eventually(BACKGROUND, "the change is taken", async || {
        taken(&listener).values().any(|row| row["completion_tokens"] == 77)
    })
    .await;
    let rows = taken(&listener);
    let sums = |field: &str| rows.values().map(|row| row[field].as_i64().unwrap()).sum::<i64>();
    assert_eq!((rows.len(), sums("prompt_tokens"), sums("completion_tokens")), (5, 150, 87));
    // The provider has said nothing of kinds, and these have no price of their own.
    for row in rows.values() {
        let said = (&row["cached_tokens"], &row["images"], &row["assumed"], &row["ended"]);
        assert_eq!(said, (&Value::Null, &json!(0), &json!([]), &json!("stop")), "{row}");
    }
    let waiting = "SELECT count(*) FROM usage_export_queue";
    eventually(BACKGROUND, "nothing waits", async || metered.world.sql_number(waiting).await == 0).await;
    for posted in listener.posted() {
        let header = |name: &str| posted.headers[name].to_str().unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(SECRET).unwrap();
        mac.update(format!("{}.{}.{}", header("webhook-id"), header("webhook-timestamp"), posted.body).as_bytes());
        assert_eq!(header("webhook-signature"), format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())));
    }
}

#[tokio::test]
async fn without_an_address_nothing_is_queued() {
    let metered = Metered::start().await;
    metered.ask(&Completion::of(10, 5)).await.assert_status(200);
    metered.rows_become(1, "certainty = 2").await;
    assert_eq!(metered.world.sql_number("SELECT count(*) FROM usage_export_queue").await, 0);
}
