//! `GET /usage/ai`, and the command line's view of it.

use super::*;

#[tokio::test]
async fn usage_by_model_is_visible_within_seconds() {
    let metered = Metered::start().await;
    let empty = metered.ada.get("/usage/ai").await.ok();
    // The requests, the tokens read and written, and the cost in millionths of a cent.
    let used = |[requests, prompt, completion, cost]: [u64; 4]| {
        json!({
            "requests": requests, "prompt_tokens": prompt, "completion_tokens": completion, "cost_microcents": cost,
            "cached_tokens": 0, "cache_write_tokens": 0, "reasoning_tokens": 0, "images": 0,
        })
    };
    let of_model = |model: &str, numbers: [u64; 4]| {
        let mut used = used(numbers);
        used["model"] = model.into();
        used
    };
    let nothing = used([0; 4]);
    assert_eq!(empty, json!({ "usage": [], "totals": nothing }));
    metered.ask(&Completion::of(10, 5).by("svc/qwen3-32b")).await.assert_status(200);
    metered.ask(&Completion::of(20, 6).by("svc/gpt-oss-20b").streamed()).await.assert_status(200);
    metered.ask(&Completion::of(30, 7).by("svc/qwen3-32b").streamed()).await.assert_status(200);
    let expected = json!({
        "usage": [
            of_model("svc/gpt-oss-20b", [1, 20, 6, 20 * 10 + 6 * 40]),
            of_model("svc/qwen3-32b", [2, 40, 12, 40 * 15 + 12 * 45]),
        ],
        "totals": used([3, 60, 18, 440 + 1_140]),
    });
    eventually(SEEN_WITHIN, "all usage is visible", async || metered.ada.get("/usage/ai").await.ok() == expected).await;

    let month = domain::month::Month::from_timestamp(domain::Clock::system().now());
    assert_eq!(metered.ada.get(&format!("/usage/ai?month={month}")).await.ok(), expected);
    assert_eq!(metered.ada.get("/usage/ai?month=2020-02").await.ok(), empty);
    for bad in ["2026-13", "2026-1", "november", "", "2026-11-01"] {
        let message = metered.ada.get(&format!("/usage/ai?month={bad}")).await.assert_error(400, "invalid_request");
        assert!(message.contains("YYYY-MM"), "{message}");
    }
    // The same by day.
    let days = metered.ada.get("/usage/ai/days").await.ok();
    let today = domain::Clock::system().now().as_datetime().date().to_string();
    assert_eq!(days, json!({ "days": [{ "day": today, "usage": expected["usage"] }] }));
    assert_eq!(metered.ada.get("/usage/ai/days?month=2020-02").await.ok(), json!({ "days": [] }));
    metered.ada.get("/usage/ai/days?month=soon").await.assert_error(400, "invalid_request");
    assert_eq!(metered.world.user("eve").await.get("/usage/ai/days").await.ok(), json!({ "days": [] }));

    // Another account sees only its own usage.
    assert_eq!(metered.world.user("eve").await.get("/usage/ai").await.ok(), empty);
    metered.world.nobody().get("/usage/ai").await.assert_error(401, "unauthorized");

    // The row of a completion.
    metered.rows_become(3, "NOT estimated AND account_id LIKE 'usr_%' AND token_id LIKE 'tok_%'").await;
    metered
        .rows_become(2, "provider = 'ovhcloud' AND cost_microcents = prompt_tokens * 15 + completion_tokens * 45")
        .await;
    metered.assert_sums().await;
}

#[tokio::test]
async fn the_command_line_shows_models_usage_and_a_chat() {
    let metered = Metered::start().await;
    let shell = crate::cli::Shell::new(&metered.world, metered.ada.token.clone());
    let created = shell.json(&["ai", "key", "create", "--label", "bot"]).await;
    assert_eq!(created["kind"], "ai");
    assert_eq!(created["label"], "bot");
    metered.ask_at(0, created["token"].as_str().unwrap(), &Completion::of(5, 5)).await.assert_status(200);

    let models = shell.text(&["ai", "models"]).await;
    assert_eq!(models.lines().count(), 9, "{models}");
    assert!(models.contains("svc/mistral-large") && models.contains("9.00 EUR"), "{models}");
    let chat = shell.text(&["ai", "chat", "[40,60,0,0]"]).await;
    assert_eq!(chat, "word word word word word \n");
    let chat = shell.json(&["ai", "chat", "--model", "svc/qwen3-32b", "--max-tokens", "7", "[40,60,0,0]"]).await;
    assert_eq!(chat["usage"], json!({ "prompt_tokens": 40, "completion_tokens": 60 }));
    // The command line has created one key, and uses it again.
    let tokens = metered.ada.get("/tokens").await.ok();
    let own = tokens["tokens"].as_array().unwrap().iter().filter(|token| token["label"] == "svc ai").count();
    assert_eq!(own, 1);

    eventually(SEEN_WITHIN, "usage is shown", async || {
        let usage = shell.text(&["ai", "usage"]).await;
        usage.contains("svc/gpt-oss-20b") && usage.contains("svc/qwen3-32b") && usage.contains('█')
    })
    .await;
    // Costs have all their digits, wherever they are shown.
    let bot = |text: &str| text.lines().find(|line| line.contains("bot")).unwrap().to_owned();
    eventually(SEEN_WITHIN, "the key's cost is shown", async || {
        bot(&shell.text(&["ai", "keys"]).await).contains("€0.000")
    })
    .await;
    assert!(bot(&shell.text(&["tokens"]).await).contains("€0.000"));
    let requests = shell.text(&["ai", "requests"]).await;
    assert!(requests.contains(" 0.000") && !requests.contains(" 0.01"), "{requests}");
    let days = shell.text(&["ai", "usage", "--days"]).await;
    let today = domain::Clock::system().now().as_datetime().date().to_string();
    assert!(days.lines().any(|line| line.starts_with(&today) && line.contains("svc/qwen3-32b")), "{days}");
    let usage = shell.json(&["ai", "usage", "--month", "2020-01"]).await;
    assert_eq!(usage["totals"]["requests"], 0);
    assert_eq!(shell.run(&["ai", "usage", "--month", "soon"]).await.code, 2);
    assert_eq!(shell.run(&["ai", "usage", "--org", "nobodys"]).await.code, 4);
    let refused = shell.run(&["ai", "chat", "--model", "svc/none", "hello"]).await;
    assert_eq!(refused.code, 4, "{}", refused.err);

    metered.ada.create_org("analytical").await;
    let created = shell.json(&["ai", "key", "create", "--org", "analytical"]).await;
    metered.ask_at(0, created["token"].as_str().unwrap(), &Completion::of(5, 6)).await.assert_status(200);
    eventually(SEEN_WITHIN, "the org's usage is shown", async || {
        shell.json(&["ai", "usage", "--org", "analytical"]).await["totals"]["completion_tokens"] == 6
    })
    .await;
    let days = shell.json(&["ai", "usage", "--days", "--org", "analytical"]).await;
    assert_eq!(days["days"][0]["usage"][0]["completion_tokens"], 6);
}

/// A copy has seen fewer writes than Redis, which must not take its totals for older ones.
#[tokio::test]
async fn versions_go_on_growing_at_a_copy_that_has_seen_fewer_writes() {
    let metered = Metered::start().await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "true").await;
    let version = async || metered.world.sql_number("SELECT version FROM ai_usage_versions").await;
    let before = version().await;
    metered.world.sql("DELETE FROM ai_usage_versions").await;
    metered.ask(&Completion::of(2, 2)).await.assert_status(200);
    metered.rows_become(2, "true").await;
    assert!(version().await > before, "it has begun anew");
}
