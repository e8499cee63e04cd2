//! Orders in spite of what goes wrong: kills, outages, refusals, limits.

use serde_json::json;
use tempfile::TempDir;

use super::{DOMAIN, Stage};
use crate::{
    BACKGROUND,
    stubs::authority::{Authority, Mood},
    world::{
        Site, eventually,
        pebble::{Faults, Pebble},
    },
};

#[tokio::test]
async fn an_order_goes_on_after_a_kill_at_each_of_its_steps() {
    let (mut stage, proxy) = Stage::behind_proxy(|world| world).await;
    // Pebble's paths: the account, the order, its names, the challenge, the request, the certificate.
    for step in ["/sign-me-up", "/order-plz", "/authZ/", "/chalZ/", "/finalize-order/", "/certZ/"] {
        let domain = format!("www.{}.example", step.trim_matches('/').to_lowercase());
        let before = proxy.asked().held;
        proxy.set(|mood| mood.holds = Some(step));
        stage.attach(&domain).await;
        eventually(BACKGROUND, step, async || proxy.asked().held > before).await;
        stage.world.admin.kill();
        proxy.set(|mood| mood.holds = None);
        stage.world.restart_admin_later().await;
        stage.expect_live(&domain).await;
        stage.expect_nothing_left(step).await;
    }
    // Only the one whose URL nobody learned of was placed again.
    assert_eq!(proxy.asked().orders, 7);
}

#[tokio::test]
async fn a_name_that_was_one_too_many_waits_and_nobody_else_does() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| (mood.too_many, mood.too_many_under) = (Some(600), ".shop.example"));
    stage.attach(DOMAIN).await;
    stage.wait_until(DOMAIN, "ordering: The certificate authority refuses: too many new orders").await;
    let waits = format!(
        "SELECT count(*) FROM certificate_orders WHERE name = '{DOMAIN}' AND next_attempt_at > now() + interval '9 min'"
    );
    assert_eq!(stage.world.sql_number(&waits).await, 1);
    // Whoever asks again, in whichever way, and whoever has another name of the same domain.
    let refresh = format!("/projects/engine/domains/{DOMAIN}/certificate/refresh");
    for again in 0..4 {
        if again == 2 {
            stage.ada.detach("engine", DOMAIN).await;
        }
        stage.attach(DOMAIN).await;
        stage.ada.post(&refresh).await.ok();
        stage.wait_until(DOMAIN, "ordering: The certificate authority takes no more orders for this name").await;
        eventually(BACKGROUND, "it waits again", async || stage.world.sql_number(&waits).await == 1).await;
    }
    stage.attach("blog.shop.example").await;
    let waiting = "ordering: The certificate authority takes no more orders for names under shop.example";
    stage.wait_until("blog.shop.example", waiting).await;
    stage.attach("b.other.example").await;
    stage.expect_live("b.other.example").await;
    assert_eq!(proxy.asked().too_many, 1, "nothing more was asked");

    // Nor does anybody else, whatever one person's domains have used up.
    let refused = "ordering: The certificate authority refuses: too many new orders";
    proxy.set(|mood| mood.too_many_under = ".other.example");
    stage.attach("c.other.example").await;
    stage.wait_until("c.other.example", refused).await;
    stage.attach("www.third.example").await;
    stage.expect_live("www.third.example").await;
    assert_eq!(proxy.asked().too_many, 2);

    // What several people's have used up may be the account's limit.
    proxy.set(|mood| mood.too_many_under = "-people.example");
    for name in ["bob", "carol"] {
        let (person, project, domain) =
            (stage.world.user(name).await, format!("site-of-{name}"), format!("{name}-people.example"));
        person.publish(&project, &Site::page("home")).await;
        person.attach(&project, &domain).await;
        stage.wait_until(&domain, refused).await;
    }
    stage.attach("www.fourth.example").await;
    stage.wait_until("www.fourth.example", "ordering: The certificate authority takes no more orders right now").await;
    assert_eq!(proxy.asked().too_many, 4);

    proxy.set(|mood| mood.too_many = None);
    stage.world.sql("DELETE FROM acme_budgets; UPDATE certificate_orders SET next_attempt_at = now()").await;
    for domain in [DOMAIN, "blog.shop.example", "c.other.example", "www.third.example", "www.fourth.example"] {
        stage.expect_live(domain).await;
    }
}

#[tokio::test]
async fn an_authority_that_is_away_or_cut_off_is_asked_again() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    let moods = [Mood { is_cut: true, ..Mood::default() }, Mood { is_away: true, ..Mood::default() }];
    for (before, mood) in moods.into_iter().enumerate() {
        proxy.set(|now| *now = mood);
        stage.attach(DOMAIN).await;
        let failed = format!("SELECT count(*) FROM certificate_orders WHERE failures > {before}");
        eventually(BACKGROUND, "it has failed", async || stage.world.sql_number(&failed).await == 1).await;
        stage.wait_until(DOMAIN, "ordering: The certificate authority").await;
    }
    proxy.set(|now| *now = Mood::default());
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
}

#[tokio::test]
async fn a_name_that_cannot_be_verified_is_asked_about_three_times_an_hour() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    // The authority sees another address than we do.
    stage.spoil_answers().await;
    stage.attach(DOMAIN).await;
    for count in 1..=3 {
        let failed = format!("SELECT count(*) FROM certificate_orders WHERE failures = {count}");
        eventually(BACKGROUND, "the authority has refused", async || stage.world.sql_number(&failed).await == 1).await;
        assert!(stage.state(DOMAIN).await.starts_with("blocked: The certificate authority refuses"));
        stage.world.sql("UPDATE certificate_orders SET next_attempt_at = now()").await;
    }
    stage.wait_until(DOMAIN, "ordering: The certificate authority could not verify this name").await;
    assert_eq!(proxy.asked().orders, 3);
}

#[tokio::test]
async fn a_first_look_that_failed_is_not_the_authoritys_last_word() {
    let (stage, proxy) = Stage::behind_proxy(|world| world).await;
    proxy.set(|mood| mood.has_failed_first_look = true);
    stage.attach(DOMAIN).await;
    stage.expect_live(DOMAIN).await;
    let asked = proxy.asked();
    assert_eq!((asked.failed_looks, asked.orders), (1, 1), "the order went on");
}

#[tokio::test]
async fn after_three_failures_another_authority_is_asked() {
    let folder = TempDir::with_prefix("svc-fallback-").unwrap();
    let other = Pebble::prepare(folder.path(), Faults::default());
    let fallback = json!({ "directory_url": other.directory_url(), "ca_file": other.ca_file() });
    let (listener, url) = Authority::reserve().await;
    drop(listener);
    let stage =
        Stage::start(Faults::default(), |world| world.set("ACME__DIRECTORY_URL", url).set("ACME__FALLBACK", fallback))
            .await;
    let world = &stage.world;
    let _other = other.start(world.edge().http_port, world.edge().https_port, &stage.names.address()).await;
    stage.attach(DOMAIN).await;
    for count in 1..=3 {
        let failed = format!("SELECT count(*) FROM certificate_orders WHERE failures = {count}");
        eventually(BACKGROUND, "the first is away", async || world.sql_number(&failed).await == 1).await;
        world.sql("UPDATE certificate_orders SET next_attempt_at = now()").await;
    }
    stage.wait_until(DOMAIN, "live").await;
}
