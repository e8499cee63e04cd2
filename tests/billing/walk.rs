//! From checkout to cancellation with play money, as a person goes, through the API and the client.

use serde_json::{Value, json};

use crate::{
    BACKGROUND,
    cli::Shell,
    world::{Actor, World, eventually},
};

/// Pays on the page of a checkout, and waits until the plan applies.
async fn pay(world: &World, actor: &Actor, checkout_url: &str, plan: &str) {
    let person = world.person();
    let page = person.visit(checkout_url).await;
    page.assert_says("play money");
    let back = person.press(&page, 0, &[], "pay").await;
    let bill = world.console_url(&format!("/billing?checkout={plan}"));
    assert!(back.trail.iter().any(|(url, _)| url.as_str() == bill), "the payer comes back to the bill: {back:?}");
    eventually(BACKGROUND, "the plan applies", async || actor.get("/billing").await.ok()["plan"] == plan).await;
}

async fn post(actor: &Actor, act: &str, plan: &str) -> Value {
    actor.post(&format!("/billing/{act}")).json(&json!({ "plan": plan })).await.ok()
}

#[tokio::test]
async fn a_plan_is_bought_changed_and_cancelled() {
    let world = World::builder().play_money().start().await;
    let ada = world.user("ada").await;
    let checkout = |plan: &str| ada.post("/billing/checkout").json(&json!({ "plan": plan }));
    let message = checkout("pro").await.assert_error(400, "invalid_request");
    assert!(message.contains("billing details"), "{message}");
    ada.put("/billing/profile").json(&json!({ "name": "Ada", "country": "NL" })).await.ok();
    for nothing in ["gold", "free", ""] {
        checkout(nothing).await.assert_error(400, "invalid_request");
    }
    let url = post(&ada, "checkout", "pro").await["checkout_url"].as_str().unwrap().to_owned();
    assert_eq!(post(&ada, "checkout", "pro").await["checkout_url"], url, "asked again, the same page");
    let overview = ada.get("/billing").await.ok();
    assert_eq!((&overview["plan"], &overview["subscription"]["status"]), (&json!("free"), &json!("pending")));
    assert_eq!(overview["next_invoice"], Value::Null);
    pay(&world, &ada, &url, "pro").await;

    let overview = ada.get("/billing").await.ok();
    assert_eq!(overview["subscription"]["status"], "active");
    assert_eq!(overview["profile"]["name"], "Ada");
    let next = &overview["next_invoice"];
    assert_eq!((&next["plan"], &next["currency"]), (&json!("pro"), &json!("EUR")));
    assert_eq!(
        (&next["net_cents"], &next["vat_cents"], &next["total_cents"]),
        (&json!(2_000), &json!(420), &json!(2_420))
    );
    assert_eq!(next["charged_at"], overview["subscription"]["renews_at"]);
    let invoice = &overview["invoices"][0];
    assert_eq!((&invoice["total_cents"], &invoice["status"]), (&json!(2_420), &json!("paid")));
    checkout("business").await.assert_error(409, "subscription_active");
    ada.post("/billing/change-plan").json(&json!({ "plan": "gold" })).await.assert_error(400, "invalid_request");

    let changed = post(&ada, "change-plan", "business").await;
    assert_eq!((&changed["ok"], &changed["takes_effect"]), (&json!(true), &json!("immediately")));
    let overview = ada.get("/billing").await.ok();
    assert_eq!((&overview["plan"], &overview["next_invoice"]["total_cents"]), (&json!("business"), &json!(12_100)));
    assert_eq!(overview["invoices"].as_array().unwrap().len(), 1, "nothing is charged before the renewal");

    let changed = post(&ada, "change-plan", "pro").await;
    assert_eq!((&changed["plan"], &changed["takes_effect"]), (&json!("pro"), &json!("at_renewal")));
    // Business is paid for one month first.
    let renews_at = overview["subscription"]["renews_at"].as_str().unwrap();
    assert!(changed["applies_at"].as_str().unwrap() > renews_at, "{changed}");
    let overview = ada.get("/billing").await.ok();
    assert_eq!((&overview["plan"], &overview["next_invoice"]["plan"]), (&json!("business"), &json!("business")));

    let cancelled = ada.post("/billing/cancel").await.ok();
    assert_eq!((&cancelled["status"], &cancelled["cancel_at_period_end"]), (&json!("active"), &json!(true)));
    assert_eq!(ada.get("/billing").await.ok()["next_invoice"], Value::Null);
    assert_eq!(ada.post("/billing/resume").await.ok()["cancel_at_period_end"], false);
    let ledger = ada.get("/billing/ledger.csv").await.assert_status(200).text();
    assert_eq!(ledger.matches("24.20").count(), 2, "{ledger}");
}

#[tokio::test]
async fn the_credit_of_an_upgrade_is_had_once_it_is_paid() {
    let world = World::builder().play_money().start().await;
    let ada = world.user("ada").await;
    for org in ["one", "two"] {
        ada.create_org(org).await;
    }
    // From account to account, each pays for the cheaper plan.
    for path in ["/billing", "/orgs/one/billing", "/orgs/two/billing"] {
        let post =
            async |act: &str, plan: &str| ada.post(&format!("{path}/{act}")).json(&json!({ "plan": plan })).await.ok();
        ada.put(&format!("{path}/profile")).json(&json!({ "name": "Ada", "country": "NL" })).await.ok();
        let url = post("checkout", "pro").await["checkout_url"].as_str().unwrap().to_owned();
        let person = world.person();
        let page = person.visit(&url).await;
        person.press(&page, 0, &[], "pay").await;
        let limits = async || ada.get(path).await.ok()["limits"].clone();
        let pro = async || limits().await["ai_credit_cents"] == 3_000;
        eventually(BACKGROUND, "the plan applies", pro).await;
        assert_eq!(post("change-plan", "business").await["takes_effect"], "immediately");
        let upgraded = limits().await;
        assert_eq!((&upgraded["projects"], &upgraded["ai_credit_cents"]), (&json!(2_500), &json!(3_000)), "{path}");
        ada.post(&format!("{path}/cancel")).await.ok();
        assert_eq!(limits().await, upgraded, "{path}");
    }
}

#[tokio::test]
async fn the_client_leads_from_plan_to_plan() {
    let world = World::builder().play_money().start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, ada.token.clone());
    let refused = shell.run(&["billing", "checkout", "pro"]).await;
    assert!(refused.code == 1 && refused.err.contains("svc billing details --name"), "{}", refused.err);
    let missing = shell.run(&["billing", "details", "--name", "Ada"]).await;
    assert!(missing.code == 2 && missing.err.contains("--country"), "{}", missing.err);
    let details = ["billing", "details", "--name", "Ada Lovelace", "--country", "nl"];
    shell.text(&[&details[..], &["--address", "Dorpsstraat 1", "--city", "Delft"]].concat()).await;
    shell.text(&["billing", "details", "--postcode", "2611 AA"]).await;
    let shown = shell.text(&["billing", "details"]).await;
    assert!(shown.contains("Ada Lovelace") && shown.contains("Dorpsstraat 1, 2611 AA Delft"), "{shown}");
    assert_eq!(shell.json(&["billing", "details"]).await["country"], "NL");

    let unknown = shell.run(&["billing", "checkout", "gold"]).await;
    assert!(unknown.code == 1 && unknown.err.contains("svc billing plans"), "{}", unknown.err);
    let url = shell.text(&["billing", "checkout", "pro"]).await;
    assert!(shell.text(&["billing"]).await.contains("Pro awaits its first payment"));
    pay(&world, &ada, url.trim(), "pro").await;
    let shown = shell.text(&["billing"]).await;
    for part in ["Pro: €20.00 a month, renews in", "Next invoice: €24.20 for Pro in", "€20.00 and €4.20 VAT"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let again = shell.run(&["billing", "checkout", "business"]).await;
    assert!(again.code == 5 && again.err.contains("svc billing change"), "{}", again.err);
    let changed = shell.run(&["billing", "change", "business"]).await;
    assert!(changed.code == 0 && changed.err.contains("The plan is business now"), "{}", changed.err);
    let changed = shell.run(&["billing", "change", "pro"]).await;
    assert!(changed.code == 0 && changed.err.contains("when the subscription renews, in"), "{}", changed.err);
    shell.text(&["billing", "cancel"]).await;
    let resumed = shell.run(&["billing", "resume"]).await;
    assert!(resumed.code == 0 && resumed.err.contains("goes on"), "{}", resumed.err);
}
