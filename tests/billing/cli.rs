//! `svc billing`.

use domain::role::Role;
use serde_json::json;

use crate::{billing::books::Books, cli::Shell, world::World};

#[tokio::test]
async fn the_plan_is_shown_with_its_use_and_its_bill() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    admin.create_project_in(&org, "engine").await;
    let shell = Shell::new(&world, admin.token.clone());
    let shown = shell.text(&["billing"]).await;
    for part in ["Free: free.", "projects", "100 GB", "Larger plans: svc billing plans"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    let books = Books::of_org(&world, "acme").await;
    books.pay(0, 2_000, 420, 0).await;
    let shown = shell.text(&["billing", "--org", "acme"]).await;
    for part in ["Pro of acme: €20.00 a month, renews in", "projects", "▏", "2026-000001", "€24.20", "paid"] {
        assert!(shown.contains(part), "{part} in\n{shown}");
    }
    assert!(!shown.contains('\x1b'), "{shown}");
    assert_eq!(shell.json(&["billing", "show", "--org", "acme"]).await["plan"], "pro");
    let plans = shell.text(&["billing", "plans", "--org", "acme"]).await;
    for part in ["free", "Business", "€100.00 a month", "1000 GB", "yours"] {
        assert!(plans.contains(part), "{part} in\n{plans}");
    }
    assert_eq!(shell.json(&["billing", "plans"]).await["plans"][1]["id"], "pro");
    let unknown = shell.run(&["billing", "--org", "nowhere"]).await;
    assert_eq!(unknown.code, 4);
    assert!(unknown.err.contains("nowhere") && unknown.err.contains("svc orgs"), "{}", unknown.err);
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let world = World::start().await;
    let (org, admin) = world.org_with(Role::Admin).await;
    let (owner, admin) = (Shell::new(&world, org.owner.token.clone()), Shell::new(&world, admin.token.clone()));
    let refused = owner.run(&["billing", "checkout", "pro"]).await;
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("svc billing") && !refused.err.contains("try again"), "{}", refused.err);
    let refused = admin.run(&["billing", "cancel", "--org", "acme"]).await;
    assert!(refused.code == 1 && refused.err.contains("owner"), "{}", refused.err);
    Books::of_org(&world, "acme").await;
    let refused = owner.run(&["orgs", "delete", "acme", "--yes"]).await;
    assert_eq!(refused.code, 5, "{}", refused.err);
    assert!(refused.err.contains("svc billing cancel --org acme"), "{}", refused.err);
    let cancelled = owner.run(&["billing", "cancel", "--org", "acme"]).await;
    assert!(cancelled.code == 0 && cancelled.err.contains("it ends in"), "{}", cancelled.err);
    assert!(cancelled.err.contains("svc billing resume --org acme"), "{}", cancelled.err);
    assert!(owner.text(&["billing", "--org", "acme"]).await.contains("cancelled, ends in"));
}

#[tokio::test]
async fn invoices_and_the_ledger_are_listed_and_saved() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let shell = Shell::new(&world, ada.token.clone());
    assert_eq!(shell.text(&["billing", "invoices"]).await.trim(), "No invoices yet.");
    assert_eq!(shell.text(&["billing", "ledger"]).await.trim(), "Nothing was billed or paid yet.");
    let books = Books::of_user(&world, "ada").await;
    let paid = books.pay_by("=1+1", 0, 2_000, 420, 0).await;
    let save = ["billing", "invoice", "2026-000001", "--pdf", "a.pdf", "--xml", "a.xml", "--ubl", "ubl.xml"];
    let early = shell.run(&save).await;
    assert_eq!((early.code, early.err.contains("still being made")), (4, true), "{}", early.err);
    books.render(&paid.invoice).await;
    books.refund(&paid, 1).await;
    let listed = shell.text(&["billing", "invoices"]).await;
    for part in ["2026-000001", "refunded", "CN-2026-000001", "-€24.20", "credit note"] {
        assert!(listed.contains(part), "{part} in\n{listed}");
    }
    assert_eq!(shell.json(&["billing", "invoices"]).await["invoices"].as_array().unwrap().len(), 2);
    let shown = shell.text(&save).await;
    assert!(shown.contains("Invoice 2026-000001: €24.20 (€20.00 and €4.20 VAT)"), "{shown}");
    let saved = |name: &str| std::fs::read_to_string(shell.folder().join(name)).unwrap();
    assert_eq!(saved("a.pdf"), format!("%PDF-1.7 {}", paid.invoice));
    assert_eq!((&*saved("a.xml"), &*saved("ubl.xml")), ("<cii>é</cii>", "<ubl/>"));
    shell.text(&["billing", "invoice", "2026-000001", "--pdf", "--xml", "--ubl"]).await;
    assert_eq!(saved("2026-000001.pdf"), saved("a.pdf"));
    assert_eq!((&*saved("2026-000001.xml"), &*saved("2026-000001-ubl.xml")), ("<cii>é</cii>", "<ubl/>"));
    let unknown = shell.run(&["billing", "invoice", "2026-000009"]).await;
    assert_eq!((unknown.code, unknown.err.contains("svc billing invoices")), (4, true), "{}", unknown.err);

    let ledger = shell.text(&["billing", "ledger"]).await;
    for part in ["KIND", "BILLED", "payment", "credit_note", "-24.20"] {
        assert!(ledger.contains(part), "{part} in\n{ledger}");
    }
    shell.text(&["billing", "ledger", "--csv", "ledger.csv"]).await;
    assert!(saved("ledger.csv").contains(",'=1+1,"), "{}", saved("ledger.csv"));
    let entries = shell.json(&["billing", "ledger"]).await["entries"].clone();
    assert_eq!((entries.as_array().unwrap().len(), &entries[1]["paid"]), (4, &json!("24.20")));
}
