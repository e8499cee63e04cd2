//! Plans and credit: a change of the plan changes the credit at every edge, and a completion costs what it did when admitted.

use super::*;
use crate::billing::plans::{charge, end_subscription, person, small_and_large, subscribe};

#[tokio::test]
async fn a_change_of_plan_changes_the_credit_at_every_edge() {
    let provider = PromptedProvider::start().await;
    let builder = small_and_large(&json!({ "ai_credit_cents": 0 }), &json!({ "ai_credit_cents": 1_000 }));
    // The waits below ask often.
    let builder = builder.set("LIMITS__GATEWAY_PER_MIN", 1_000_000);
    let world = builder.set("GATEWAY__PROVIDER_URL", &provider.url).edges(2).start().await;
    let ada = world.user("ada").await;
    let key = new_key(&ada).await;
    let metered = Metered { world, provider, ada, key };
    let account = person(&metered.world, "ada").await;
    let answers = async || {
        let mut answers = Vec::new();
        for edge in 0..2 {
            let answer = metered.ask_at(edge, &metered.key, &Completion::of(1, 1)).await;
            let body: Value = serde_json::from_slice(&answer.body).unwrap();
            answers.push(body["error"]["code"].as_str().unwrap_or("served").to_owned());
        }
        answers
    };
    assert_eq!(answers().await, ["insufficient_quota"; 2]);
    subscribe(&metered.world, &account, "large").await;
    eventually(BACKGROUND, "both edges know the larger plan", async || answers().await == ["served"; 2]).await;
    // After an upgrade, as much as was paid for; all of it once it is paid.
    charge(&metered.world, &account, "free").await;
    eventually(BACKGROUND, "both edges know what was charged", async || answers().await == ["insufficient_quota"; 2])
        .await;
    charge(&metered.world, &account, "large").await;
    eventually(BACKGROUND, "both edges know that it was paid", async || answers().await == ["served"; 2]).await;
    end_subscription(&metered.world, &account).await;
    eventually(BACKGROUND, "both edges know that it ended", async || answers().await == ["insufficient_quota"; 2])
        .await;
}

#[tokio::test]
async fn people_are_told_of_used_credit_once() {
    let provider = PromptedProvider::start().await;
    let builder = small_and_large(&json!({ "ai_credit_cents": 100 }), &json!({}));
    let world = builder.set("GATEWAY__PROVIDER_URL", &provider.url).start().await;
    let ada = world.user("ada").await;
    let key = new_key(&ada).await;
    let mut metered = Metered { world, provider, ada, key };
    metered.world.sql("UPDATE users SET email = 'ada@example.com'").await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, "NOT estimated").await;
    let told = async |metered: &Metered| {
        let percents = "SELECT coalesce(string_agg(content->>'percent', ' ' ORDER BY created_at, id), '')
                        FROM letters WHERE kind = 'credit_reached'";
        metered.world.sql_text(percents).await
    };
    for (cents, wanted) in [(80_u64, "80"), (100, "80 100"), (101, "80 100")] {
        let microcents = cents * 1_000_000;
        metered.world.sql(&format!("UPDATE ai_usage_days SET cost_microcents = {microcents}")).await;
        metered.world.restart_admin_later().await;
        eventually(BACKGROUND, "the job has run", async || {
            let ran = "SELECT count(*) FROM job_leases WHERE job = 'tell of used AI credit' AND leased_until IS NULL
                       AND last_run_at > now() - interval '1 hour'";
            metered.world.sql_number(ran).await == 1 && told(&metered).await == wanted
        })
        .await;
    }
}

#[tokio::test]
async fn a_completion_costs_what_it_did_when_it_was_admitted() {
    let mut models = config::Config::default().gateway.models;
    let Some(model) = models.get("svc/gpt-oss-20b").cloned() else { panic!("the model is shipped") };
    let mut metered = Metered::start().await;
    let under_way = begin(&metered, 0, &Completion::of(10, 20).at_most(300).held()).await;
    metered.world.edges[0].process.kill();
    assert!(!under_way.await.unwrap());
    for model in models.values_mut() {
        (model.input_cents, model.output_cents) = (90_000, 90_000);
    }
    metered.world.set("GATEWAY__MODELS", serde_json::to_value(&models).unwrap());
    metered.world.restart_edge(0).await;
    let cost =
        |input: u32, output: u32| format!("cost_microcents = prompt_tokens * {input} + completion_tokens * {output}");
    let before = cost(model.input_cents, model.output_cents);
    metered.rows_become(1, &format!("estimated AND completion_tokens = 300 AND {before}")).await;
    metered.ask(&Completion::of(1, 1)).await.assert_status(200);
    metered.rows_become(1, &format!("NOT estimated AND {}", cost(90_000, 90_000))).await;
}
