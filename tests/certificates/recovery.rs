//! Nothing keeps a name from its certificate for good: not an authority that is gone, nor a program that hangs, nor a clock that
//! was wrong.

use std::{os::unix::fs::PermissionsExt as _, path::Path, time::Duration};

use db::certificates::{
    orders::{self, NextAttempt, OrderClaim, RenewalTimes},
    renewals::{self, SuggestedWindow},
};
use domain::{AcmeAccountId, Clock, Timestamp, certificates::DomainState};
use serde_json::{Value, json};
use sqlx::PgPool;
use tempfile::TempDir;

use super::{DOMAIN, Stage};
use crate::{
    BACKGROUND,
    stubs::authority::Authority,
    world::{
        World, eventually,
        pebble::{Faults, Pebble},
    },
};

#[tokio::test]
async fn an_order_whose_authority_left_the_configuration_is_placed_elsewhere() {
    let (mut stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.holds = Some("/finalize-order/"));
    stage.attach(DOMAIN).await;
    eventually(BACKGROUND, "the request is out", async || proxy.asked().held > 0).await;
    stage.world.admin.kill();
    let elsewhere = stage.pebble.directory_url();
    stage.world.set("ACME__DIRECTORY_URL", elsewhere);
    stage.world.restart_admin_later().await;
    stage.expect_live(DOMAIN).await;
}

#[tokio::test]
async fn an_order_whose_authority_is_gone_is_placed_at_the_other() {
    let folder = TempDir::with_prefix("svc-fallback-").unwrap();
    let other = Pebble::prepare(folder.path(), Faults::default());
    let fallback = json!({ "directory_url": other.directory_url(), "ca_file": other.ca_file() });
    let (mut stage, proxy) = Stage::behind_proxy(|world| world.set("ACME__FALLBACK", fallback)).await;
    let (http_port, https_port) = (stage.world.edge().http_port, stage.world.edge().https_port);
    let _other = other.start(http_port, https_port, &stage.names.address()).await;
    proxy.set(|mood| mood.holds = Some("/chalZ/"));
    stage.attach(DOMAIN).await;
    eventually(BACKGROUND, "the order is under way", async || proxy.asked().held > 0).await;
    stage.world.admin.kill();
    proxy.set(|mood| (mood.is_away, mood.holds) = (true, None));
    stage.world.restart_admin_later().await;
    for count in 1..=3 {
        stage.wait_for_failures(DOMAIN, count).await;
        stage.try_now(DOMAIN).await;
    }
    stage.wait_until(DOMAIN, "live").await;
}

#[tokio::test]
async fn an_authority_that_never_answers_is_waited_for_by_all_names_together() {
    // Connections to it are made, and nobody takes them.
    let (_listener, url) = Authority::reserve().await;
    let stage = Stage::start(Faults::default(), |world| world.set("ACME__DIRECTORY_URL", url)).await;
    for number in 0..30 {
        stage.attach(&format!("www{number}.shop.example")).await;
    }
    let failed = "SELECT count(*) FROM certificate_orders
                  WHERE failures > 0 AND message LIKE 'The certificate authority cannot be reached%'";
    eventually(BACKGROUND * 3, "all have failed", async || stage.world.sql_number(failed).await == 30).await;
}

/// The lease of a row of this test's own, in a world where nobody issues.
async fn claimed(world: &World, now: Timestamp) -> (PgPool, OrderClaim) {
    let settings = config::Postgres { max_connections: 1, ..config::Postgres::default() };
    let pool = db::connect(&settings, world.database.as_str()).unwrap();
    orders::watch_own(&pool, &[DOMAIN.to_owned()], now).await.unwrap();
    let claims = orders::claim(&pool, now, now + BACKGROUND, 1, 1).await.unwrap();
    (pool, claims.into_iter().next().unwrap())
}

/// Ends the work on a row: some certificate serves its name, and is renewed in an hour.
async fn finish(world: &World, pool: &PgPool, claim: &OrderClaim, now: Timestamp) {
    let certificate = world.sql_text("SELECT id FROM certificates LIMIT 1").await.parse().unwrap();
    let renew_at = now + Duration::from_hours(1);
    let times = RenewalTimes { renew_at, due_by: renew_at, ask_at: Some(now) };
    let mut connection = pool.acquire().await.unwrap();
    let live = NextAttempt { state: DomainState::Live, message: None, at: None, failures: 0 };
    assert!(orders::finish(&mut connection, claim, &certificate, &times, &live, now).await.unwrap());
}

#[tokio::test]
async fn nothing_is_written_to_a_row_whose_work_is_done() {
    let (world, now) = (World::start().await, Clock::system().now());
    let (pool, claim) = claimed(&world, now).await;
    finish(&world, &pool, &claim, now).await;
    // What was left over took too long, or the answer to the commit was lost.
    assert!(orders::extend_lease(&pool, &claim, now + BACKGROUND).await.unwrap(), "nobody else has it");
    let again = NextAttempt { state: DomainState::Ordering, message: None, at: Some(now), failures: 1 };
    assert!(!orders::postpone(&pool, &claim, &again, now).await.unwrap());
    let row = "SELECT concat_ws(' ', state, failures, next_attempt_at, leased_until) FROM certificate_orders";
    assert_eq!(world.sql_text(row).await, "live 0");
}

#[tokio::test]
async fn a_demand_is_not_lost_to_a_window_that_was_asked_for_before() {
    let (world, now) = (World::start().await, Clock::system().now());
    let (pool, claim) = claimed(&world, now).await;
    finish(&world, &pool, &claim, now).await;
    let account = AcmeAccountId::new(now);
    world
        .sql(&format!(
            "INSERT INTO acme_accounts (id, directory_url, url, sealed_credentials, created_at)
             VALUES ('{account}', 'https://ca.example/dir', 'https://ca.example/1', '', now());
             UPDATE certificates SET account_id = '{account}'"
        ))
        .await;
    let asked = renewals::take_due_windows(&pool, now, now + BACKGROUND, 1).await.unwrap();
    let [asked] = asked.as_slice() else { panic!("{asked:?}") };
    assert!(renewals::renew_now(&pool, DOMAIN, now).await.unwrap());
    let later = now + Duration::from_hours(9);
    let window = SuggestedWindow { starts_at: later, renew_at: later, due_by: later, ask_at: later };
    renewals::record_window(&pool, asked, &window).await.unwrap();
    let due = "SELECT count(*) FROM certificate_orders WHERE renew_at <= now()";
    assert_eq!(world.sql_number(due).await, 1);
}

/// A program that never ends with a record, and notes that it was called.
fn hanging_program(folder: &Path) -> Value {
    let program = folder.join("hook");
    std::fs::write(&program, format!("#!/bin/sh\necho \"$*\" >> {}/called\nexec sleep 600\n", folder.display()))
        .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    json!({ "command": program })
}

/// Notes records as those that still stand, until so long after now.
async fn leave_standing(stage: &Stage, name: &str, count: usize, until: &str) {
    let sql = format!(
        "INSERT INTO acme_challenges (kind, name, token, answer, expires_at)
         SELECT 'dns-01', '{name}', 'token' || number, 'answer', now() + interval '{until}'
           FROM generate_series(1, {count}) AS number"
    );
    stage.world.sql(&sql).await;
}

#[tokio::test]
async fn a_program_that_hangs_keeps_no_certificate_under_way() {
    let folder = TempDir::with_prefix("svc-hook-").unwrap();
    let hook = hanging_program(folder.path());
    let stage =
        Stage::start(Faults::default(), |world| world.set("ACME__DNS", hook).set("ACME__CHALLENGES", "http-01")).await;
    leave_standing(&stage, &format!("_acme-challenge.{DOMAIN}"), 3, "1 hour").await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let left = format!("SELECT count(*) FROM acme_challenges WHERE name LIKE '%{DOMAIN}' AND expires_at > now()");
    eventually(BACKGROUND, "the rest is left to the job", async || stage.world.sql_number(&left).await == 0).await;
    assert_eq!(stage.world.sql_number("SELECT count(*) FROM certificates WHERE source = 'acme'").await, 1);
    assert!(stage.state(DOMAIN).await.starts_with("live"));
}

#[tokio::test]
async fn a_program_that_hangs_does_not_keep_names_from_being_looked_after() {
    let folder = TempDir::with_prefix("svc-hook-").unwrap();
    let hook = hanging_program(folder.path());
    let stage =
        Stage::start(Faults::default(), |world| world.set("ACME__DNS", hook).set("ACME__CHALLENGES", "http-01")).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    leave_standing(&stage, "_acme-challenge.old.example", 5, "-1 hour").await;
    let called = folder.path().join("called");
    eventually(BACKGROUND * 2, "the program hangs", async || called.exists()).await;
    stage.world.sql(&format!("DELETE FROM certificate_orders WHERE name = '{DOMAIN}'")).await;
    eventually(BACKGROUND * 2, "it is looked after again", async || stage.state(DOMAIN).await != "nothing").await;
}

#[tokio::test]
async fn a_name_that_is_attached_again_has_none_of_the_work_from_before() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.holds = Some("/order-plz"));
    stage.attach(DOMAIN).await;
    eventually(BACKGROUND, "it is ordered", async || proxy.asked().held > 0).await;
    stage.ada.detach("engine", DOMAIN).await;
    proxy.set(|mood| mood.holds = None);
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let notices = "the work on a certificate has gone to another admin, or the name is gone";
    eventually(BACKGROUND, "the first attempt notices", async || stage.world.admin.log().contains(notices)).await;
    stage.expect_live(DOMAIN).await;
}

#[tokio::test]
async fn what_a_clock_noted_that_was_a_year_ahead_counts_for_nothing() {
    let stage = Stage::start(Faults::default(), |world| world).await;
    stage.attach("first.shop.example").await;
    stage.expect_live("first.shop.example").await;
    stage
        .world
        .sql(&format!(
            "UPDATE acme_accounts SET held_until = now() + interval '1 year';
             INSERT INTO acme_budgets SELECT id, 'failures:{DOMAIN}', now() + interval '1 year' FROM acme_accounts"
        ))
        .await;
    stage.names.a(DOMAIN, &["203.0.113.9"]).await;
    stage.attach(DOMAIN).await;
    eventually(BACKGROUND, "it waits", async || stage.state(DOMAIN).await.contains("203.0.113.9")).await;
    let ahead =
        format!("UPDATE certificate_orders SET next_attempt_at = now() + interval '1 year' WHERE name = '{DOMAIN}'");
    stage.world.sql(&ahead).await;
    stage.names.a(DOMAIN, &["127.0.0.1"]).await;
    stage.expect_live(DOMAIN).await;
}

#[tokio::test]
async fn a_certificate_that_was_revoked_serves_no_name_again() {
    let stage = Stage::start(Faults::default(), |world| world).await;
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let before = stage.certificate(DOMAIN).await;
    stage.ada.detach("engine", DOMAIN).await;
    let revoked = stage.world.certs(&["revoke", DOMAIN, "--reason", "key-compromise"]).await;
    assert!(revoked.status.success(), "{revoked:?}");
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    assert_ne!(stage.certificate(DOMAIN).await, before);
}
