//! The overview, subscriptions, and what an organization's end waits for.

use domain::role::Role;
use serde_json::{Value, json};

use crate::{
    billing::books::Books,
    world::{
        World,
        answer::{assert_keys, parse_id, parse_timestamp},
    },
};

const OVERVIEW: &str = "plan limits usage catalog subscription next_invoice profile invoices";

#[tokio::test]
async fn an_account_without_a_subscription_has_the_cheapest_plan() {
    let world = World::start().await;
    let (org, member) = world.org_with(Role::Member).await;
    let overview = member.get("/billing").await.ok();
    assert_keys(&overview, OVERVIEW);
    assert_eq!(overview["plan"], "free");
    for absent in ["subscription", "next_invoice", "profile"] {
        assert_eq!(overview[absent], Value::Null, "{absent}");
    }
    assert_eq!(overview["invoices"], json!([]));
    let catalog = overview["catalog"].as_array().unwrap();
    let prices: Vec<_> =
        catalog.iter().map(|plan| (plan["id"].as_str().unwrap(), plan["price_cents"].clone())).collect();
    assert_eq!(prices, [("free", json!(0)), ("pro", json!(2_000)), ("business", json!(10_000))]);
    for plan in catalog {
        assert_keys(plan, "id name price_cents limits");
    }
    assert_eq!(catalog[0]["limits"], overview["limits"]);

    // What is an organization's counts there, and against nobody in it.
    member.create_project_in(&org, "engine").await;
    member.create_project_in(&org, "website").await;
    let domain = json!({ "domain": "www.acme.example" });
    member.post("/projects/engine/domains").json(&domain).await.created();
    member.create_project("own").await;
    let with = |projects: u32, domains: u32, orgs: Option<u64>| {
        json!({ "projects": projects, "domains": domains, "ready_apps": 0, "bandwidth_bytes": 0, "ai_credit_cents": 0,
                "storage_bytes": 0, "orgs": orgs })
    };
    assert_eq!(org.owner.get("/orgs/acme/billing").await.ok()["usage"], with(2, 1, None));
    assert_eq!(member.get("/billing").await.ok()["usage"], with(1, 0, Some(0)));
    assert_eq!(org.owner.get("/billing").await.ok()["usage"], with(0, 0, Some(1)));
    // What is kept counts in the store of whoever owns it.
    member.deploy("own", &crate::world::Site::page("kept")).await;
    assert!(member.get("/billing").await.ok()["usage"]["storage_bytes"].as_u64() > Some(0));
}

#[tokio::test]
async fn use_of_the_month_counts_in_whole_cents_and_bytes_to_people() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    ada.create_project("engine").await;
    world
        .sql(
            "INSERT INTO bandwidth_months (month, account, people_bytes)
                 SELECT date_trunc('month', now() AT TIME ZONE 'UTC')::date, user_id, 700 FROM projects;
             INSERT INTO ai_usage_days (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
                 SELECT id, (now() AT TIME ZONE 'UTC')::date, 'svc/a', 1, 1, 1, 12900000 FROM users;
             INSERT INTO ai_usage_days (account_id, day, model, requests, prompt_tokens, completion_tokens, cost_microcents)
                 SELECT id, (now() AT TIME ZONE 'UTC')::date - 40, 'svc/a', 1, 1, 1, 99000000 FROM users",
        )
        .await;
    let usage = ada.get("/billing").await.ok()["usage"].clone();
    assert_eq!((&usage["bandwidth_bytes"], &usage["ai_credit_cents"]), (&json!(700), &json!(12)));
}

#[tokio::test]
async fn a_subscription_and_its_invoices_are_shown() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let books = Books::of_user(&world, "ada").await;
    for month in 0..23 {
        books.pay(month, 2_000, 420, month).await;
    }
    let last = books.pay(23, 2_000, 420, 23).await;
    books.refund(&last, 24).await;
    let overview = ada.get("/billing").await.ok();
    assert_keys(&overview, OVERVIEW);
    assert_eq!(overview["plan"], "pro");
    let subscription = &overview["subscription"];
    assert_keys(subscription, "status plan renews_at cancel_at_period_end");
    assert_eq!((&subscription["status"], &subscription["plan"]), (&json!("active"), &json!("pro")));
    parse_timestamp(&subscription["renews_at"]);

    let invoices = overview["invoices"].as_array().unwrap();
    assert_eq!(invoices.len(), 20, "the newest");
    for invoice in invoices {
        assert_keys(invoice, "id kind number issued_at net_cents vat_cents total_cents currency status has_document");
        parse_id(&invoice["id"], "ivc_");
        parse_timestamp(&invoice["issued_at"]);
    }
    let [note, refunded, ..] = &invoices[..] else { panic!() };
    assert_eq!((&note["kind"], &note["number"]), (&json!("credit_note"), &json!("CN-2026-000024")));
    assert_eq!((&note["net_cents"], &note["total_cents"]), (&json!(-2_000), &json!(-2_420)));
    assert_eq!((&refunded["kind"], &refunded["status"]), (&json!("invoice"), &json!("refunded")));
    assert_eq!((&refunded["total_cents"], &refunded["currency"]), (&json!(2_420), &json!("EUR")));

    let (mut seen, mut path) = (Vec::new(), "/billing/invoices?limit=10".to_owned());
    loop {
        let page = ada.get(&path).await.ok();
        assert_keys(&page, "invoices next_cursor");
        seen.extend(page["invoices"].as_array().unwrap().iter().map(|one| one["number"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/billing/invoices?limit=10&cursor={cursor}");
    }
    assert_eq!((seen.len(), &*seen[24]), (25, "2026-000001"));
    for query in ["limit=0", "cursor=x", "cursor=tok_00000000000000000000"] {
        ada.get(&format!("/billing/invoices?{query}")).await.assert_error(400, "invalid_request");
    }
    assert_eq!(world.user("eve").await.get("/billing/invoices").await.ok()["invoices"], json!([]));
}

#[tokio::test]
async fn without_a_provider_no_money_moves_and_everything_else_works() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    for (path, plan) in [("/billing/checkout", "pro"), ("/orgs/acme/billing/checkout", "business")] {
        org.owner.post(path).json(&json!({ "plan": plan })).await.assert_error(503, "billing_unavailable");
    }
    admin.get("/orgs/acme/billing").await.ok();
    for act in ["checkout", "change-plan", "cancel", "resume"] {
        let path = format!("/orgs/acme/billing/{act}");
        admin.post(&path).json(&json!({ "plan": "pro" })).await.assert_error(403, "forbidden");
    }
    for body in [json!({}), json!({ "plan": 5 }), json!([])] {
        org.owner.post("/billing/checkout").json(&body).await.assert_error(400, "invalid_request");
    }
    Books::of_org(&world, "acme").await;
    let cancelled = org.owner.post("/orgs/acme/billing/cancel").await.ok();
    assert_keys(&cancelled, "status plan renews_at cancel_at_period_end");
    assert_eq!(cancelled["cancel_at_period_end"], true);
    assert_eq!(org.owner.post("/orgs/acme/billing/cancel").await.ok()["cancel_at_period_end"], true, "again");
    assert_eq!(admin.get("/orgs/acme/billing").await.ok()["subscription"], cancelled);
    let log = admin.get("/orgs/acme/audit").await.ok();
    assert_eq!(log["entries"][0]["action"], "billing.renewal");
    assert_eq!(org.owner.get("/billing").await.ok()["plan"], "free", "the organization's plan is its own");
}

#[tokio::test]
async fn an_organization_outlives_its_subscription() {
    let world = World::start().await;
    let org = world.acme().await;
    let books = Books::of_org(&world, "acme").await;
    let paid = books.pay(0, 2_000, 420, 0).await;
    for state in ["status = 'active'", "cancel_at_period_end = true", "status = 'past_due'"] {
        books.set(state).await;
        let message = org.owner.delete("/orgs/acme").await.assert_error(409, "subscription_active");
        assert!(message.contains("cancel"), "{message}");
    }
    books.set("status = 'ended', ended_at = now(), end_reason = 'canceled', next_attempt_at = NULL").await;
    org.owner.delete("/orgs/acme").await.ok();
    let kept = world.sql_text(&format!("SELECT number FROM invoices WHERE id = '{}'", paid.invoice)).await;
    assert_eq!(kept, paid.number, "the books stay");
}

#[tokio::test]
async fn a_checkout_that_nobody_paid_ends_with_its_organization() {
    let world = World::start().await;
    let org = world.acme().await;
    let books = Books::of_org(&world, "acme").await;
    books.set("status = 'pending', anchored_at = NULL, period_start = NULL, period_end = NULL, due_period = 0").await;
    let overview = org.owner.get("/orgs/acme/billing").await.ok();
    assert_eq!((&overview["plan"], &overview["subscription"]["status"]), (&json!("free"), &json!("pending")));
    assert_eq!(overview["subscription"]["renews_at"], Value::Null);
    org.owner.delete("/orgs/acme").await.ok();
    let ended = "SELECT status || ' ' || end_reason FROM subscriptions";
    assert_eq!(world.sql_text(ended).await, "ended canceled");
}
