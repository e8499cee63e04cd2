//! Prompts and completions are not logged or stored: not in a log, a metric, a Redis key, a database row or a file.

use std::path::Path;

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _};

use super::Gateway;
use crate::{
    BACKGROUND,
    metrics::Page,
    stubs::provider::{Act, Script, choice, completion, event},
    world::{eventually, ports},
};

/// A text in every prompt and in every completion.
const MARKER: &str = "xyzzy-plugh-4711";

#[tokio::test]
async fn prompts_and_completions_leave_no_trace() {
    let (edge_metrics, admin_metrics) = (ports::free(), ports::free());
    let gateway = Gateway::start_with(|world| {
        world
            .set("GATEWAY__IDLE_SECONDS", 1)
            .set("GATEWAY__FIRST_BYTE_SECONDS", 2)
            .set("EDGE__METRICS_LISTEN", format!("127.0.0.1:{edge_metrics}"))
            .set("ADMIN__METRICS_LISTEN", format!("127.0.0.1:{admin_metrics}"))
    })
    .await;
    let words =
        |count: usize| (0..count).map(|_| event(&json!([choice(&json!({ "content": MARKER }), None)]), &json!(null)));
    let ends = [
        event(&json!([choice(&json!({}), Some("stop"))]), &json!({ "prompt_tokens": 1, "completion_tokens": 2 })),
        "data: [DONE]".to_owned(),
    ];
    let whole: Vec<_> = words(5).chain(ends.clone()).collect();
    let bytes = |events: Vec<String>| events.into_iter().map(|event| format!("{event}\n\n").into_bytes());
    let error = format!("data: {{\"error\":\"{MARKER}\"}}");
    let scripts = [
        (false, Script::json(&completion(MARKER))),
        (false, Script::answer(400, &[("x-said", MARKER)], MARKER.as_bytes())),
        (false, Script::answer(500, &[("content-type", MARKER)], MARKER.as_bytes())),
        (false, Script::answer(200, &[], MARKER.as_bytes())),
        (false, Script(vec![Act::Send(format!("{MARKER}\r\n\r\n").into_bytes()), Act::Close])),
        (false, Script(vec![Act::Hang])),
        (true, Script::events(&whole)),
        (true, Script::events(&words(3).chain([error]).collect::<Vec<_>>())),
        (true, Script::events(&words(3).chain([MARKER.to_owned(), format!("data: {MARKER}")]).collect::<Vec<_>>())),
        (true, Script::stream(bytes(words(3).collect()), false).then(Act::Close)),
        (true, Script::stream(bytes(words(3).collect()), false).then(Act::Hang)),
        // Without a usage report, so that it is estimated.
        (true, Script::events(&words(3).chain(["data: [DONE]".to_owned()]).collect::<Vec<_>>())),
    ];
    let count = scripts.len();
    for (stream, script) in scripts {
        gateway.provider.next(script);
        ask(&gateway, stream, false).await;
    }
    for stream in [true, false] {
        let script = if stream { Script::events(&whole) } else { Script::json(&completion(MARKER)).cut(50) };
        gateway.provider.next(script.held_after(2));
        ask(&gateway, stream, true).await;
        eventually(BACKGROUND, "the edge knows that the client has gone", async || {
            (Page::of(edge_metrics).await.sum("svc_gateway_drains") - 1.0).abs() < f64::EPSILON
        })
        .await;
        gateway.provider.go_on();
    }
    // Requests that are refused before a provider is asked.
    for body in
        [format!("{{\"{MARKER}\""), MARKER.to_owned(), super::request(&json!({ "max_tokens": MARKER })).to_string()]
    {
        gateway.post(body).await.assert_status(400);
    }
    gateway.complete(&json!({ "user": MARKER.repeat(10_000) })).await.assert_status(413);
    assert_eq!(gateway.provider.asked().len(), count + 2);
    let all = "SELECT count(*) FROM ai_usage";
    eventually(BACKGROUND, "everything is counted", async || gateway.world.sql_number(all).await >= 6).await;
    assert!(gateway.provider.asked().iter().all(|asked| asked.text.contains(MARKER)));

    let world = &gateway.world;
    for edge in &world.edges {
        assert!(!edge.process.log().contains(MARKER), "the edge's log: {}", edge.process.log());
    }
    assert!(!world.admin.log().contains(MARKER), "admin's log");
    for port in [edge_metrics, admin_metrics] {
        let page = Page::of(port).await;
        assert!(page.text.contains("svc_build_info") && !page.text.contains(MARKER), "{}", page.text);
    }
    assert_no_row(world.database.as_str()).await;
    assert_no_key(world.redis_port).await;
    assert_no_file(world.folder());
}

/// Asks with the marker, and reads the whole answer or disconnects in its middle.
async fn ask(gateway: &Gateway, stream: bool, disconnects: bool) {
    let url = gateway.world.edge().address(&gateway.url("/v1/chat/completions"));
    let client = gateway.world.edge().another_browser(false);
    let messages = json!([{ "role": "system", "content": MARKER }, { "role": "user", "content": MARKER }]);
    let body = super::request(&json!({ "stream": stream, "messages": messages, "user": MARKER }));
    let asked = gateway.provider.asked().len();
    let sending = client.post(url).bearer_auth(&gateway.key).json(&body).send();
    if disconnects {
        let asking = tokio::spawn(async move { sending.await.unwrap().chunk().await });
        eventually(BACKGROUND, "the provider is asked", async || gateway.provider.asked().len() > asked).await;
        asking.abort();
    } else {
        let _ = sending.await.unwrap().bytes().await;
    }
}

/// Checks every row of every table, as text.
async fn assert_no_row(url: &str) {
    let mut db = PgConnection::connect(url).await.unwrap();
    let tables =
        sqlx::query("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetch_all(&mut db).await.unwrap();
    assert!(tables.len() > 5);
    for table in tables {
        let table: String = table.get(0);
        let sql = format!("SELECT count(*) FROM \"{table}\" t WHERE t::text LIKE '%{MARKER}%'");
        let found: i64 = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut db).await.unwrap();
        assert_eq!(found, 0, "{table}");
    }
}

/// Checks every key of Redis, and its value.
async fn assert_no_key(port: u16) {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).unwrap();
    let mut redis = client.get_multiplexed_async_connection().await.unwrap();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query_async(&mut redis).await.unwrap();
    assert!(!keys.is_empty(), "the meter has no key in Redis: does this test look at the right one?");
    for key in keys {
        let held: Option<Vec<u8>> = redis::cmd("DUMP").arg(&key).query_async(&mut redis).await.unwrap();
        for bytes in [key, held.unwrap_or_default()] {
            assert!(!has_marker(&bytes), "{}", String::from_utf8_lossy(&bytes));
        }
    }
}

/// Checks every file in the world's folder: the store, the logs, the journals.
fn assert_no_file(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_no_file(&path);
        } else if let Ok(bytes) = std::fs::read(&path) {
            assert!(!has_marker(&bytes), "{}", path.display());
        }
    }
}

fn has_marker(bytes: &[u8]) -> bool {
    bytes.windows(MARKER.len()).any(|window| window == MARKER.as_bytes())
}
