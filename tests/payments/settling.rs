//! From the provider's word to the plan and its invoice: by webhook with Mollie, by a press of the button with play money.

use std::sync::Arc;

use app::App;
use config::{BillingProvider, CodeHostKind, Config};
use db::audit::Actor;
use domain::Account;
use serde_json::json;
use url::Url;

use super::scene::url;
use crate::{
    BACKGROUND,
    stubs::mollie::{API_KEY, Fault, Mollie, sign},
    world::{World, answer::Answer, eventually},
};

const PATH: &str = "/webhooks/payments";

/// A world, and an account in it that has billing details.
struct Scene {
    world: World,
    app: App,
    account: Account,
}

impl Scene {
    async fn start(world: World, change: impl FnOnce(&mut Config)) -> Self {
        world.user("ada").await;
        world
            .sql(
                "INSERT INTO billing_profiles (account, name, country, updated_at)
                 SELECT id, 'Ada', 'NL', now() FROM users WHERE vcs_login = 'ada'",
            )
            .await;
        let account = world.sql_text("SELECT id FROM users WHERE vcs_login = 'ada'").await.parse().unwrap();
        let mut config = Config::default();
        config.postgres.url = world.database.to_string();
        config.redis.url = format!("redis://127.0.0.1:{}", world.redis_port);
        config.secrets.master_key_file = World::master_key().await.to_owned();
        config.store.url = Url::from_directory_path(world.folder().join("store")).unwrap();
        config.code_host.kind = CodeHostKind::Local;
        "x".clone_into(&mut config.code_host.client_secret);
        config.site.base_url = url(&format!("https://api.svc.localhost:{}", world.public_port()));
        config.site.console_url = url(&world.console_url(""));
        config.billing.seller = serde_json::from_value(json!({
            "name": "Sites B.V.", "address": ["Keizersgracht 1"], "postcode": "1015 AA", "city": "Amsterdam",
            "vat_number": "NL123456789B01", "registration": "12345678",
        }))
        .unwrap();
        change(&mut config);
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let (app, _) = App::new(Arc::new(config)).unwrap();
        Self { world, app, account }
    }

    async fn with_mollie(mollie: &Mollie) -> Self {
        let world = World::builder().mollie(mollie).start().await;
        let set = |config: &mut Config| {
            config.billing.provider = BillingProvider::Mollie;
            config.billing.mollie_url = url(&mollie.url);
            config.billing.mollie_api_key = Some(API_KEY.to_owned());
        };
        Self::start(world, set).await
    }

    async fn with_play_money() -> Self {
        let world = World::builder().play_money().start().await;
        Self::start(world, |config| config.billing.provider = BillingProvider::Play).await
    }

    /// Begins a checkout. The page on which it is paid.
    async fn checkout(&self) -> Url {
        let payer = self.account.as_user().unwrap().clone().into();
        billing::checkout(&self.app, Actor::Platform, &payer, "pro").await.unwrap()
    }

    async fn deliver(&self, payment: &str) -> Answer {
        self.world.nobody().post(PATH).form(&[("id", payment)]).await
    }

    async fn status(&self) -> String {
        self.world.sql_text("SELECT status FROM subscriptions ORDER BY id DESC LIMIT 1").await
    }

    async fn invoices(&self, kind: &str) -> i64 {
        self.world.sql_number(&format!("SELECT count(*) FROM invoices WHERE kind = '{kind}'")).await
    }
}

#[tokio::test]
async fn a_webhook_begins_the_plan_once_however_often_it_comes() {
    let mollie = Mollie::start().await;
    let scene = Scene::with_mollie(&mollie).await;
    assert!(scene.checkout().await.as_str().starts_with("https://www.mollie.com/checkout/"));
    let payment = mollie.newest_payment();
    scene.deliver(&payment).await.ok();
    assert_eq!(scene.status().await, "pending", "a hint is not believed");
    mollie.settle(&payment, "paid");
    let deliveries = futures_util::future::join_all((0..10).map(|_| scene.deliver(&payment))).await;
    for answer in deliveries {
        drop(answer.ok());
    }
    assert_eq!((scene.status().await.as_str(), scene.invoices("invoice").await), ("active", 1));
    // Each waits for the look that follows, and changes nothing.
    for _ in 0..3 {
        scene.deliver(&payment).await.ok();
    }
    mollie.charge_back(&payment, mollie_cents(&mollie, &payment));
    mollie.send_webhooks().await;
    assert_eq!((scene.invoices("invoice").await, scene.invoices("credit_note").await), (1, 1));
}

#[tokio::test]
async fn a_signed_event_begins_the_plan_and_a_forged_one_does_not() {
    let mollie = Mollie::start().await;
    let scene = Scene::with_mollie(&mollie).await;
    scene.checkout().await;
    let payment = mollie.newest_payment();
    mollie.settle(&payment, "paid");
    let body = json!({ "resource": "event", "type": "payment.paid", "entityId": payment }).to_string();
    let post = |signature: String| {
        let request = scene.world.nobody().post(PATH).header("content-type", "application/json");
        request.header("x-mollie-signature", signature).body(body.clone())
    };
    let asked = mollie.asked().len();
    post(sign("{}")).await.assert_error(401, "unauthorized");
    assert_eq!((mollie.asked().len(), scene.status().await.as_str()), (asked, "pending"));
    post(sign(&body)).await.ok();
    assert_eq!(scene.status().await, "active");
}

#[tokio::test]
async fn what_a_webhook_could_not_learn_a_job_learns() {
    let mollie = Mollie::start().await;
    let scene = Scene::with_mollie(&mollie).await;
    scene.checkout().await;
    let payment = mollie.newest_payment();
    mollie.settle(&payment, "paid");
    mollie.next(Fault::Status(503));
    scene.deliver(&payment).await.ok();
    assert_eq!(scene.status().await, "pending");
    scene.world.sql("UPDATE payments SET next_look_at = now()").await;
    eventually(BACKGROUND, "the job has looked", async || scene.status().await == "active").await;
    assert_eq!(scene.invoices("invoice").await, 1);
}

#[tokio::test]
async fn play_money_buys_a_plan_with_its_invoice() {
    let scene = Scene::with_play_money().await;
    let person = scene.world.person();
    let page = person.visit(scene.checkout().await.as_str()).await;
    page.assert_says("This is play money").assert_says("Pro");
    person.press(&page, 0, &[], "pay").await;
    assert_eq!((scene.status().await.as_str(), scene.invoices("invoice").await), ("active", 1));
    // Once the operator sells for money, invoices begin at one.
    let number = scene.world.sql_text("SELECT number FROM invoices").await;
    assert!(number.starts_with("PLAY-") && number.ends_with("-000001"), "{number}");
    let taken = "SELECT count(*) FROM invoice_numbers WHERE kind NOT LIKE 'play_%'";
    assert_eq!(scene.world.sql_number(taken).await, 0);
}

#[tokio::test]
async fn play_money_that_fails_buys_nothing_and_can_be_tried_again() {
    let scene = Scene::with_play_money().await;
    let person = scene.world.person();
    let first = scene.checkout().await;
    assert_eq!(scene.checkout().await, first, "the same page while it can be paid");
    let page = person.visit(first.as_str()).await;
    person.press(&page, 0, &[], "fail").await;
    assert_eq!(scene.invoices("invoice").await, 0);
    let second = scene.checkout().await;
    assert_ne!(second, first);
    let page = person.visit(second.as_str()).await;
    person.press(&page, 0, &[], "once").await;
    assert_eq!((scene.status().await.as_str(), scene.invoices("invoice").await), ("active", 1));
}

#[tokio::test]
async fn the_payer_is_told_and_nobody_else() {
    let scene = Scene::with_play_money().await;
    let (ada, eve) = (scene.world.user("ada").await, scene.world.user("eve").await);
    let (mut adas, mut eves) = (ada.follow(None).await, eve.follow(None).await);
    let person = scene.world.person();
    let page = person.visit(scene.checkout().await.as_str()).await;
    person.press(&page, 0, &[], "pay").await;
    let told = [adas.until("billing").await.data, adas.until("billing").await.data];
    assert!(told.iter().all(|told| told["account"] == "ada" && told["project"].is_null()), "{told:?}");
    assert!(told.iter().any(|told| told["detail"] == json!({ "what": "payment", "state": "paid" })), "{told:?}");
    assert!(told.iter().any(|told| told["detail"] == json!({ "what": "paid", "plan": "pro" })), "{told:?}");
    eve.create_project("engine").await;
    assert_eq!(eves.next().await.unwrap().data["type"], "project.create");
}

fn mollie_cents(mollie: &Mollie, payment: &str) -> i64 {
    mollie.payment(payment)["amount"]["value"].as_str().unwrap().replace('.', "").parse().unwrap()
}
