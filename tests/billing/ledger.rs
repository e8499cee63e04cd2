//! `/billing/ledger.csv`.

use crate::{billing::books::Books, world::World};

/// The cells of each row, below the headings.
fn rows(csv: &str) -> Vec<Vec<String>> {
    let mut lines = csv.strip_suffix("\r\n").unwrap().split("\r\n");
    assert_eq!(lines.next(), Some("time,kind,number,plan,net,vat,billed,paid,currency,method,id"));
    lines.map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

/// The sum of a column, in cents.
fn sum(rows: &[Vec<String>], column: usize) -> i64 {
    let cents = |cell: &String| cell.replace('.', "").parse::<i64>().unwrap_or(0);
    rows.iter().map(|row| cents(&row[column])).sum()
}

#[tokio::test]
async fn what_was_billed_and_paid_is_listed_in_the_order_of_time_and_adds_up() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let empty = ada.get("/billing/ledger.csv").await.assert_status(200);
    assert_eq!(empty.text().matches('\n').count(), 1, "{}", empty.text());
    let books = Books::of_user(&world, "ada").await;
    let first = books.pay(0, 2_000, 420, 0).await;
    books.refund(&first, 10).await;
    books.restore(&first, 20).await;
    books.pay(1, 2_000, 420, 30).await;

    let answer = ada.get("/billing/ledger.csv").await.assert_status(200);
    assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"ledger.csv\"");
    assert_eq!(answer.header("cache-control"), "private, no-store");
    let rows = rows(&answer.text());
    let told: Vec<[&str; 6]> = rows.iter().map(|row| [&*row[1], &row[2], &row[4], &row[5], &row[6], &row[7]]).collect();
    assert_eq!(
        told,
        [
            ["invoice", "2026-000001", "20.00", "4.20", "24.20", ""],
            ["payment", "2026-000001", "", "", "", "24.20"],
            ["credit_note", "CN-2026-000001", "-20.00", "-4.20", "-24.20", ""],
            ["refund", "CN-2026-000001", "", "", "", "-24.20"],
            ["invoice", "2026-900001", "20.00", "4.20", "24.20", ""],
            ["refund_returned", "2026-900001", "", "", "", "24.20"],
            ["invoice", "2026-000003", "20.00", "4.20", "24.20", ""],
            ["payment", "2026-000003", "", "", "", "24.20"],
        ]
    );
    assert!(rows.is_sorted_by_key(|row| row[0].clone()));
    assert_eq!((sum(&rows, 6), sum(&rows, 7)), (4_840, 4_840));
    assert!(rows.iter().all(|row| row[3] == "pro" && row[8] == "EUR"));
}

#[tokio::test]
async fn a_long_ledger_comes_whole_and_only_to_whom_it_belongs() {
    let world = World::start().await;
    let (org, member) = world.org_with(domain::role::Role::Member).await;
    let books = Books::of_org(&world, "acme").await;
    let of_owner = Books::of_user(&world, "owner").await;
    of_owner.pay(0, 100, 21, 0).await;
    let first = books.pay(0, 1, 0, 0).await;
    // More than are read together, many of them at the same time.
    world
        .sql(&format!(
            "INSERT INTO payments (id, account, subscription_id, sequence, period, plan, net_cents, vat_cents, total_cents,
                                   terms, state, provider, method, created_at, settled_at)
             SELECT 'pay_' || lpad(n::text, 20, '0'), account, subscription_id, 'recurring', n, 'pro', 1, 0, 1, '{{}}', 'paid',
                    'mollie', 'ideal', created_at, created_at + (n % 3) * interval '1 second'
             FROM payments, generate_series(1, 1203) AS n WHERE id = '{}'",
            first.payment
        ))
        .await;
    let answer = org.owner.get("/orgs/acme/billing/ledger.csv").await.assert_status(200);
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"acme-ledger.csv\"");
    let rows = rows(&answer.text());
    assert_eq!((rows.len(), sum(&rows, 7)), (1_205, 1_204));
    let ids: std::collections::HashSet<&String> = rows.iter().map(|row| &row[10]).collect();
    assert_eq!(ids.len(), rows.len(), "nothing twice");
    member.get("/orgs/acme/billing/ledger.csv").await.assert_error(403, "forbidden");
    assert_eq!(sum(&self::rows(&org.owner.get("/billing/ledger.csv").await.text()), 7), 121);
    world.user("eve").await.get("/orgs/acme/billing/ledger.csv").await.assert_error(404, "not_found");
    world.nobody().get("/billing/ledger.csv").await.assert_error(401, "unauthorized");
}

#[tokio::test]
async fn what_others_wrote_is_no_formula() {
    let world = World::start().await;
    let ada = world.user("ada").await;
    let books = Books::of_user(&world, "ada").await;
    books.pay_by("=HYPERLINK(\"https://evil.example\",1)", 0, 2_000, 420, 0).await;
    let csv = ada.get("/billing/ledger.csv").await.assert_status(200).text();
    assert!(csv.contains(r#","'=HYPERLINK(""https://evil.example"",1)","#), "{csv}");
}
